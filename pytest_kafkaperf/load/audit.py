"""Audit: a record-by-record comparison of the log with the sent records, used if a round's counts disagree.

Each record in the topic carries its producer and index (see `identity`), so the audit counts lost, duplicated and
reordered records exactly, regardless of what happened to requests and responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.load.identity import Int64s, Nonce, ReceivedBatch, RecordSet, names_of, origin
from pytest_kafkaperf.load.messages import Audit, Consumed
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

MAX_RECORDS = 20_000_000
"""Maximum number of records in an audit. Each record needs about 40 B of memory."""
TIMEOUT_S = 120
"""Time limit for an audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """Input to an audit, as a plain picklable value."""

    bootstrap_servers: str
    access: Access
    topic: str
    scenario: Scenario
    offsets: Mapping[int, tuple[int, int]]
    """Range of the round's offsets (end excluded), by partition."""
    failed: Sequence[tuple[int, Int64s]]
    """Indexes of unacknowledged records, by producer."""
    acknowledged: int
    """Number of records that must be in the log."""
    span_ns: tuple[int, int] | None = None
    """Start of the window and latest send time on the tags' clock, for topics that other programs also write to."""
    nonce: Nonce


def refuse_compacted(found: Audit, gaps: int) -> None:
    """Raise a LoadError if compaction may have removed the missing records.

    Compaction leaves gaps in the offsets, whereas lost records do not. Transaction markers are not gaps.
    """
    if 0 < found.lost <= gaps:
        removed = counted(gaps, "record")
        lost = f"{found.lost} of them possibly from this round"
        raise LoadError(f"compaction has removed {removed} from the topic, {lost}")


def compare(by_partition: Sequence[tuple[Int64s, Int64s]], failed: Sequence[tuple[int, Int64s]], acked: int) -> Audit:
    """Compare the producers and indexes in each partition, in log order, with the acknowledged records.

    A record is reordered if a later record from the same producer precedes it. Only the first copy of a record counts
    toward the order.
    """
    names = [names_of(producers, indexes) for producers, indexes in by_partition]
    everything = np.concatenate(names) if names else np.empty(0, dtype=np.int64)
    distinct = np.unique(everything)
    return Audit(
        lost=max(0, acked - np.setdiff1d(distinct, _names_of_failed(failed), assume_unique=True).size),
        duplicated=everything.size - distinct.size,
        reordered=sum(_reordered(one) for one in names),
    )


def outcome(consumed: Sequence[Consumed], failed: Sequence[tuple[int, Int64s]], acked: int) -> Audit:
    """Compare an application's output with the acknowledged records, for the group that received the fewest of them."""
    groups: dict[int, list[Consumed]] = {}
    for part in consumed:
        groups.setdefault(part.group, []).append(part)
    found = []
    for parts in groups.values():
        came_out = RecordSet.union(part.came_out for part in parts)
        count = came_out.measured()
        repeated = sum(part.repeated + part.came_out.measured() for part in parts) - count
        missed = sum(map(came_out.has_measured, _names_of_failed(failed).tolist()))
        found.append(Audit(lost=max(0, acked - (count - missed)), duplicated=repeated, reordered=0))
    return max(found, key=lambda one: (one.lost, one.duplicated))


def _names_of_failed(failed: Sequence[tuple[int, Int64s]]) -> Int64s:
    """Return the names of failed records, which must not make up for acknowledged records missing from the log."""
    names = [names_of(np.full(indexes.size, producer), indexes) for producer, indexes in failed]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *names]))


def _reordered(names: Int64s) -> int:
    """Count the records in one partition, in log order, that follow a later record from the same producer."""
    _, firsts = np.unique(names, return_index=True)
    distinct = names[np.sort(firsts)]
    producers = (distinct + (1 << 47)) >> 48
    reordered = 0
    for producer in np.unique(producers).tolist():
        sent = distinct[producers == producer]
        reordered += int((sent < np.maximum.accumulate(sent)).sum())
    return reordered


def named_records(batch: ReceivedBatch, *, every: bool, is_generated: bool = False) -> tuple[Int64s, Int64s]:
    """Return the producers and indexes of a batch's records, using each record's tag or only the first tag.

    Generated records carry tags in headers. A payload function's records have one each, and a pool's records have one
    in each batch.
    """
    has_all = len(batch.tags) == batch.count
    if not has_all and (every or not is_generated or len(batch.tags) != 1):
        raise LoadError(f"the log contains records smaller than {TAG_BYTES} B, which have no tag")
    every = every or (is_generated and has_all)
    producers, indexes = origin(batch.tags[:, 1] if every else batch.tags[:1, 1])
    if every:
        return producers, indexes
    return np.repeat(producers, batch.count), indexes + np.arange(batch.count)

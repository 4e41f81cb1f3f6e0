"""The audit: a comparison of the log with the sent records, record by record, for rounds whose counts disagree.

Each record of the topic carries its producer and index (see `payload`). Therefore the audit counts lost, duplicated and
reordered records exactly, whatever happened to requests and responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.connection import Notes, close
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.load.engines.aiokafka.clients import adapt, make_reader
from pytest_kafkaperf.load.engines.aiokafka.decoder import ReceivedBatch, RecordSet
from pytest_kafkaperf.load.messages import Audit, Consumed
from pytest_kafkaperf.load.payload import Int64s, Nonce, Payload, RecordFilter, names_of, origin, tags_every_record
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

MAX_RECORDS = 20_000_000
"""Limit of records in an audit; each needs about 40 B of memory."""
TIMEOUT_S = 120
"""Time limit of an audit."""
_POLL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """The input of an audit, as a plain picklable value."""

    bootstrap_servers: str
    access: Access
    topic: str
    scenario: Scenario
    offsets: Mapping[int, tuple[int, int]]
    """First and past-the-end offset of the round, by partition."""
    failed: Sequence[tuple[int, Int64s]]
    """Producer, and indexes of its records that were not acknowledged."""
    acknowledged: int
    """Number of records that must be in the log."""
    span_ns: tuple[int, int] | None = None
    """For a topic that others write to: the start of the window and the latest send time, by the clock of tags."""
    nonce: Nonce


def audit(task: AuditTask) -> Audit:
    """Read the round's part of the log and compare it with the acknowledged records.

    Raises:
        LoadError: the log could not be read to its end, the records carry no tag, or compaction has removed some.

    """
    if not Payload(task.scenario, seed=0).tagged:
        raise LoadError(f"records smaller than {TAG_BYTES} B carry no tag, so an audit cannot identify them")
    adapt(task.scenario)
    try:
        with Notes():
            by_partition, gaps = asyncio.run(_read(task))
    except TimeoutError:
        raise LoadError(
            f"the plugin could not read the log of topic {task.topic!r} back within {TIMEOUT_S} s"
        ) from None
    except KafkaError as error:
        raise LoadError(f"the plugin could not read the log of topic {task.topic!r} back: {error!r}") from None
    found = compare(by_partition, task.failed, task.acknowledged)
    refuse_compacted(found, gaps, task.scenario)
    return found


def refuse_compacted(found: Audit, gaps: int, scenario: Scenario) -> None:
    """Raise a LoadError if compaction may have removed what is missing: that leaves gaps, and what was lost does not.

    Transactions leave gaps, too: the offsets of their markers.
    """
    if scenario.key is not None and scenario.transaction_size is None and 0 < found.lost <= gaps:
        removed = counted(gaps, "record")
        raise LoadError(f"compaction has removed {removed} of the topic, {found.lost} of them perhaps of this round")


def compare(by_partition: Sequence[tuple[Int64s, Int64s]], failed: Sequence[tuple[int, Int64s]], acked: int) -> Audit:
    """Compare producers and indexes of each partition, in the order of the log, with the acknowledged records.

    A record is reordered if a later record of the same producer precedes it. Of duplicated records only the first
    counts for the order.
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
    """Compare an application's output with the acknowledged records, for the group that received least of it."""
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
    """Return the names of failed records, which do not make up for acknowledged ones that are not in the log."""
    names = [names_of(np.full(indexes.size, producer), indexes) for producer, indexes in failed]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *names]))


def _reordered(names: Int64s) -> int:
    """Count the records of one partition, in the order of the log, that follow a later one of their producer."""
    _, firsts = np.unique(names, return_index=True)
    distinct = names[np.sort(firsts)]
    producers = (distinct + (1 << 47)) >> 48
    reordered = 0
    for producer in np.unique(producers).tolist():
        sent = distinct[producers == producer]
        reordered += int((sent < np.maximum.accumulate(sent)).sum())
    return reordered


async def _read(task: AuditTask) -> tuple[list[tuple[Int64s, Int64s]], int]:
    """Return the names of the records by partition, and the number of offsets without a record."""
    gaps = sum(end - begin for begin, end in task.offsets.values())
    found: dict[int, list[tuple[Int64s, Int64s]]] = {partition: [] for partition in task.offsets}
    ends = {TopicPartition(task.topic, partition): end for partition, (_, end) in task.offsets.items()}
    client = make_reader(task.bootstrap_servers, task.access.arguments())
    async with asyncio.timeout(TIMEOUT_S):
        try:
            await client.start()
            client.assign(list(ends))
            for number, (begin, _) in task.offsets.items():
                client.seek(TopicPartition(task.topic, number), begin)
            every = tags_every_record(task.scenario)
            record_filter = None if task.scenario.topic is None else RecordFilter(task.scenario, task.nonce)
            start_ns, end_ns = task.span_ns or (0, 0)
            while [partition for partition, end in ends.items() if await client.position(partition) < end]:
                for partition, batches in (await client.getmany(timeout_ms=_POLL_MS)).items():
                    gaps -= sum(batch.count for batch in batches)
                    found[partition.partition] += [
                        named_records(part, every=every)
                        for batch in batches
                        if (
                            part := batch
                            if record_filter is None
                            else record_filter.part(batch, start_ns=start_ns, now_ns=end_ns, every=every)
                        )
                    ]
        finally:
            await close(client)
    joined = (zip(*parts, strict=True) for parts in found.values() if parts)
    return [(np.concatenate(producers), np.concatenate(indexes)) for producers, indexes in joined], gaps


def named_records(batch: ReceivedBatch, *, every: bool) -> tuple[Int64s, Int64s]:
    """Return the producers and indexes of a batch's records, from each record's tag or from the first one's."""
    if len(batch.tags) < batch.count:
        raise LoadError(f"the log holds records smaller than {TAG_BYTES} B, which carry no tag")
    producers, indexes = origin(batch.tags[:, 1] if every else batch.tags[:1, 1])
    if every:
        return producers, indexes
    return np.repeat(producers, batch.count), indexes + np.arange(batch.count)

"""The audit: what really stands in the log, record by record, where counts leave a doubt.

Each record of the topic is known by its producer and index (see `payload`). So what is in the log twice, behind a
later record, or not at all although it was acknowledged can be told exactly, whatever became of requests and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import Notes, close
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.aiokafka_hooks import adapt
from pytest_kafkaperf.load.batch_decoder import BatchedRecords, ReceivedBatch
from pytest_kafkaperf.load.clients import make_reader
from pytest_kafkaperf.load.messages import Audit, Consumed
from pytest_kafkaperf.load.payload import Int64s, Payload, RecordFilter, names_of, origin, tags_every_record
from pytest_kafkaperf.scenario.scenario import TAG_BYTES, Scenario

MAX_RECORDS = 20_000_000
"""Records that are looked at one by one: they need some 40 B of memory each."""
TIMEOUT_S = 120
"""Bound of an audit."""
_POLL_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """What to look at. A plain picklable value."""

    bootstrap_servers: str
    access: Access
    topic: str
    scenario: Scenario
    offsets: Mapping[int, tuple[int, int]]
    """First and last (exclusive) offset of the round, by partition."""
    failed: Sequence[tuple[int, Int64s]]
    """Producer, and indexes of its records that were not acknowledged."""
    acknowledged: int
    """Records that must stand in the log."""
    span_ns: tuple[int, int] | None = None
    """On a topic that others write to: when the round's window opened, and when its last record was sent at the
    latest, by the clock of tags."""


def audit(task: AuditTask) -> Audit:
    """Read the round's part of the log and compare it with what was acknowledged.

    Raises:
        LoadError: the log could not be read to its end, or holds records without a tag.

    """
    if task.span_ns is not None and not Payload(task.scenario, seed=0).tagged:
        raise LoadError(f"records of less than {TAG_BYTES} B carry no tag that would tell them from those of others")
    adapt(task.scenario, BatchedRecords)
    try:
        with Notes():
            by_partition = asyncio.run(_read(task))
    except TimeoutError:
        raise LoadError(f"the log could not be read within {TIMEOUT_S} s") from None
    except KafkaError as error:
        raise LoadError(f"the log could not be read: {error!r}") from None
    return compare(by_partition, task.failed, task.acknowledged)


def compare(by_partition: Sequence[tuple[Int64s, Int64s]], failed: Sequence[tuple[int, Int64s]], acked: int) -> Audit:
    """Compare producers and indexes of each partition, in the order of the log, with what was acknowledged.

    A record is reordered when one of the same producer that is later stands before it; of records that stand there
    twice the first counts.
    """
    names = [names_of(producers, indexes) for producers, indexes in by_partition]
    everything = np.concatenate(names) if names else np.empty(0, dtype=np.int64)
    distinct = np.unique(everything)
    return Audit(
        lost=_lost(distinct, failed, acked),
        duplicated=everything.size - distinct.size,
        reordered=sum(_reordered(one) for one in names),
    )


def outcome(consumed: Sequence[Consumed], failed: Sequence[tuple[int, Int64s]], acked: int) -> Audit:
    """Compare what an application put out with what was acknowledged, of the group that got least of it."""
    groups: dict[int, list[Consumed]] = {}
    for part in consumed:
        groups.setdefault(part.group, []).append(part)
    found = []
    for parts in groups.values():
        names = np.concatenate([np.empty(0, dtype=np.int64), *(one for part in parts for one in part.names)])
        distinct = np.unique(names)
        repeated = sum(part.repeated for part in parts) + names.size - distinct.size
        found.append(Audit(lost=_lost(distinct, failed, acked), duplicated=repeated, reordered=0))
    return max(found, key=lambda one: (one.lost, one.duplicated))


def _lost(distinct: Int64s, failed: Sequence[tuple[int, Int64s]], acked: int) -> int:
    """Records that were acknowledged and are not there; such as failed and are there all the same do not make up."""
    missed = np.concatenate([distinct[:0], *(names_of(np.full(indexes.size, one), indexes) for one, indexes in failed)])
    return max(0, acked - (distinct.size - int(np.isin(distinct, missed).sum())))


def _reordered(names: Int64s) -> int:
    """Records of one partition, in the order of the log, that stand behind a later one of their producer."""
    _, firsts = np.unique(names, return_index=True)
    there = names[np.sort(firsts)]
    producers = (there + (1 << 47)) >> 48
    behind = 0
    for producer in np.unique(producers).tolist():
        own = there[producers == producer]
        behind += int((own < np.maximum.accumulate(own)).sum())
    return behind


async def _read(task: AuditTask) -> list[tuple[Int64s, Int64s]]:
    found: dict[int, list[tuple[Int64s, Int64s]]] = {partition: [] for partition in task.offsets}
    ends = {TopicPartition(task.topic, partition): end for partition, (_, end) in task.offsets.items()}
    client = make_reader(task.bootstrap_servers, task.access.arguments())
    async with asyncio.timeout(TIMEOUT_S):
        try:
            await client.start()
            client.assign(list(ends))
            for partition, (begin, _) in task.offsets.items():
                client.seek(TopicPartition(task.topic, partition), begin)
            every, own = tags_every_record(task.scenario), RecordFilter.of(task.scenario)
            start_ns, end_ns = task.span_ns or (0, 0)
            while [where for where, end in ends.items() if await client.position(where) < end]:
                for where, batches in (await client.getmany(timeout_ms=_POLL_MS)).items():
                    found[where.partition] += [
                        named_records(batch, every=every)
                        for batch in batches
                        if own is None or own.holds(batch, start_ns=start_ns, now_ns=end_ns, every=every)
                    ]
        finally:
            await close(client)
    joined = (zip(*parts, strict=True) for parts in found.values() if parts)
    return [(np.concatenate(producers), np.concatenate(indexes)) for producers, indexes in joined]


def named_records(batch: ReceivedBatch, *, every: bool) -> tuple[Int64s, Int64s]:
    """Producers and indexes of a batch's records: from each of their tags, or from the first one's."""
    if len(batch.tags) < batch.count:
        raise LoadError(f"the log holds records of less than {TAG_BYTES} B, which carry no tag")
    producers, indexes = origin(batch.tags[:, 1] if every else batch.tags[:1, 1])
    if every:
        return producers, indexes
    return np.repeat(producers, batch.count), indexes + np.arange(batch.count)

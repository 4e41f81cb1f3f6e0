"""Log reader for audits."""

from __future__ import annotations

import asyncio

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.admin.connection import Notes, close
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.audit import TIMEOUT_S, AuditTask, compare, named_records, refuse_compacted
from pytest_kafkaperf.load.engines.aiokafka.clients import adapt, make_reader
from pytest_kafkaperf.load.engines.aiokafka.decoder import BatchedRecords
from pytest_kafkaperf.load.identity import Int64s, RecordFilter, tags_every_record
from pytest_kafkaperf.load.messages import Audit
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES

_POLL_MS = 500


def audit(task: AuditTask) -> Audit:
    """Read the round's part of the log and compare it with the acknowledged records.

    Raises:
        LoadError: the log could not be read to its end, the records carry no tags, or compaction has removed records.

    """
    if not Payload(task.scenario, seed=0).tagged:
        raise LoadError(f"records smaller than {TAG_BYTES} B carry no tag, so an audit cannot identify them")
    adapt(task.scenario)
    try:
        with Notes():
            BatchedRecords.gaps = 0
            by_partition = asyncio.run(_read(task))
    except TimeoutError:
        raise LoadError(
            f"the plugin could not read the log of topic {task.topic!r} back within {TIMEOUT_S} s"
        ) from None
    except KafkaError as error:
        raise LoadError(f"the plugin could not read the log of topic {task.topic!r} back: {error!r}") from None
    found = compare(by_partition, task.failed, task.acknowledged)
    refuse_compacted(found, BatchedRecords.gaps)
    return found


async def _read(task: AuditTask) -> list[tuple[Int64s, Int64s]]:
    """Return the record names by partition."""
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
            is_generated = isinstance(task.scenario.payload, Generated)
            record_filter = None if task.scenario.topic is None else RecordFilter(task.scenario, task.nonce)
            start_ns, end_ns = task.span_ns or (0, 0)
            while [partition for partition, end in ends.items() if await client.position(partition) < end]:
                for partition, batches in (await client.getmany(timeout_ms=_POLL_MS)).items():
                    found[partition.partition] += [
                        named_records(part, every=every, is_generated=is_generated)
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
    return [(np.concatenate(producers), np.concatenate(indexes)) for producers, indexes in joined]

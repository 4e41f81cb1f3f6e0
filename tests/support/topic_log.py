"""A topic's log as an independent reader finds it: every batch and every record, the ends of transactions included.

Batches are fetched as they stand in the log and taken apart by aiokafka's own parser, which the engine does not use
for reading; keys, tags and transactions are told apart by code that is slow and obvious.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from tests.support.patience import PATIENCE_S

_FETCH_BYTES = 64 << 20
_CODECS = (None, "gzip", "snappy", "lz4", "zstd")
_COMMIT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def due_ns(self) -> int:
        """As its tag has it."""
        return int.from_bytes(self.value[:8])

    @property
    def producer(self) -> int:
        """As its tag has it."""
        return int.from_bytes(self.value[8:10])

    @property
    def index(self) -> int:
        """As its tag has it: below zero in an open loop's warm-up."""
        return int.from_bytes(self.value[10:16], signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch."""

    partition: int
    producer_id: int
    base_sequence: int
    codec: str | None
    transactional: bool
    committed: bool | None
    """How it ends a transaction; None: it does not, it holds records."""
    records: tuple[Record, ...]


@dataclass(slots=True)
class Log:
    """All batches of a topic, partition by partition, in order."""

    batches: list[Batch] = field(default_factory=list)

    @property
    def records(self) -> list[Record]:
        """Of all batches, whatever became of their transactions."""
        return [record for batch in self.batches for record in batch.records]

    @property
    def committed(self) -> list[Record]:
        """What a reader of committed records gets."""
        return [record for record, committed in self._fates() if committed]

    @property
    def aborted(self) -> list[Record]:
        """What such a reader does not get."""
        return [record for record, committed in self._fates() if not committed]

    def of(self, partition: int) -> list[Record]:
        """Of one partition."""
        return [record for record in self.records if record.partition == partition]

    def _fates(self) -> Iterator[tuple[Record, bool]]:
        pending: dict[tuple[int, int], list[Record]] = {}
        for batch in self.batches:
            whose = (batch.partition, batch.producer_id)
            if batch.committed is not None:
                yield from ((record, batch.committed) for record in pending.pop(whose, []))
            elif batch.transactional:
                pending.setdefault(whose, []).extend(batch.records)
            else:
                yield from ((record, True) for record in batch.records)
        assert not pending, "transactions that nobody ended"


def read_log(bootstrap_servers: str, topic: str) -> Log:
    """Read all of a topic, in a thread: the caller may have a running loop."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return Log(thread.submit(asyncio.run, _read(bootstrap_servers, topic)).result())


async def _read(bootstrap_servers: str, topic: str) -> list[Batch]:
    client = AIOKafkaClient(bootstrap_servers=bootstrap_servers)
    batches = []
    async with asyncio.timeout(PATIENCE_S):
        await client.bootstrap()
        try:
            for partition in sorted(await client._wait_on_metadata(topic)):  # noqa: SLF001 - aiokafka has no public way
                batches += await _read_partition(client, topic, partition)
        finally:
            await client.close()
    return batches


async def _read_partition(client: AIOKafkaClient, topic: str, partition: int) -> list[Batch]:
    node = client.cluster.leader_for_partition(TopicPartition(topic, partition))
    batches: list[Batch] = []
    offset, end = 0, 1
    while offset < end:
        where = [(topic, [(partition, offset, _FETCH_BYTES)])]
        answer = await client.send(node, FetchRequest(500, 0, _FETCH_BYTES, 0, where))
        ((_, ((_, error, end, *_, encoded),)),) = answer.topics
        assert error == 0, error
        found = MemoryRecords(encoded)
        while found.has_next():
            batch = found.next_batch()
            assert batch.validate_crc()
            batches.append(_batch(partition, batch))
            offset = batch.next_offset
    return batches


def _batch(partition: int, batch: Any) -> Batch:
    header = {
        "partition": partition,
        "producer_id": batch.producer_id,
        "base_sequence": batch.base_sequence,
        "codec": _CODECS[batch.compression_type],
        "transactional": batch.is_transactional,
    }
    if batch.is_control_batch:
        (marker,) = batch
        return Batch(**header, committed=ControlRecord.parse(marker.key).type_ == _COMMIT, records=())
    return Batch(**header, committed=None, records=tuple(_record(partition, record) for record in batch))


def _record(partition: int, record: Any) -> Record:
    return Record(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )

"""The one module that touches aiokafka's less public names; others that need one take it from here.

These are taken from inside aiokafka 0.14, each held by a test that fails when a release moves them.

For speed:

- `AIOKafkaProducer._message_accumulator._append_batch`: queues a batch without awaiting. The public `send_batch`
  waits on one partition while others have room.
- What the accumulator asks of a `BatchBuilder`: `RecordBatch` stands in its place, with records encoded ahead.
- `Sender._in_flight`, `Sender._muted_partitions`, `MessageAccumulator.drain_by_nodes`: several requests on their way.
- `aiokafka.consumer.fetcher.PartitionRecords._unpack_records`: one value a batch instead of one `ConsumerRecord` a
  record. Used in worker processes only.
- `aiokafka.conn.READER_LIMIT`: answers to fetches are large.
- `aiokafka.util.get_running_loop`: asyncio's own is much cheaper, and is called for every future.
- `aiokafka.record` and `aiokafka.codec`: encoding, CRC, compression; for `reading`, too.

For robustness:

- `aiokafka.conn.AIOKafkaConnection.send`: broken connections are told as what clients recover from. Used in worker
  processes only.
- `aiokafka.client.MetadataRequest`: asking about a topic that is gone would create it. Used in worker processes only.
- `MessageAccumulator.reenqueue`: batches that failed together keep their order.
- `AIOKafkaClient`, `aiokafka.protocol`: requests that aiokafka's public clients do not make.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import struct
from typing import TYPE_CHECKING, Any

import aiokafka
import google_crc32c
from aiokafka import client, codec, conn, util
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.producer import message_accumulator, producer, sender
from aiokafka.protocol import admin, api, coordination, group, metadata, transaction, types
from aiokafka.record import control_record, default_records
from aiokafka.record.util import calc_crc32c, decode_varint, encode_varint
from aiokafka.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from aiokafka.structs import RecordMetadata

    from pytest_kafkaperf.access import Access
    from pytest_kafkaperf.scenario import Scenario

    Headers = Sequence[tuple[str, bytes | None]]

__all__ = [
    "CODECS",
    "DECODERS",
    "AIOKafkaClient",
    "Accumulator",
    "Connection",
    "RecordBatch",
    "Sender",
    "adapt",
    "admin",
    "allow_in_flight",
    "api",
    "ask_for_topics",
    "close",
    "connected",
    "control_record",
    "coordination",
    "crc32c",
    "decode_varint",
    "default_records",
    "encode",
    "encode_varint",
    "fetcher",
    "group",
    "make_batch",
    "metadata",
    "submit",
    "transaction",
    "types",
]

_CLOSE_TIMEOUT_S = 2
"""Bound of the end of a client: its broker may be gone, and nothing depends on it any more."""
_READER_LIMIT = 8 << 20
"""Bytes that a connection buffers: a fetch is read in few pieces. With aiokafka's 64 KiB it costs a third more CPU."""


class Connection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """Tells every failure to write as a `KafkaConnectionError`: then the clients connect again.

    Writing to a closed transport is a RuntimeError with uvloop (https://github.com/aio-libs/aiokafka/issues/1038),
    and `drain`, which takes the place of an answer with acks=0, raises an OSError. Both would end aiokafka's tasks.
    """

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: FBT001, FBT002 - aiokafka's signature
        """As aiokafka's own."""
        try:
            answer = super().send(request, expect_response)
        except RuntimeError as error:
            if self._writer is None or not self._writer.transport.is_closing():
                raise
            raise self._broken(error) from error
        return answer if expect_response else self._drained(answer)

    async def _drained(self, answer: Any) -> None:
        try:
            await answer
        except (OSError, RuntimeError) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> KafkaConnectionError:
        self.close(reason=conn.CloseReason.CONNECTION_BROKEN)
        return KafkaConnectionError(f"Connection at {self._host}:{self._port} broken: {error}")


class Sender(sender.Sender):  # type: ignore[misc]
    """Keeps several produce requests a broker on their way, as Kafka's own producer does; aiokafka keeps one.

    Without idempotence a batch that is sent again may come after later ones of its partition, in Kafka's own
    producer as here. With idempotence a partition has one batch on its way, so that its sequence holds.
    """

    def allow(self, in_flight: int) -> None:
        """Bound the requests a broker; to be called before the sender is started."""
        self._in_flight = _InFlight(in_flight)
        if self._txn_manager is None and in_flight > 1:
            self._muted_partitions = _NeverMuted()


class _InFlight:
    """Stands in for the set of brokers with a request on its way: a broker is in it when it has enough of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: collections.Counter[int] = collections.Counter()

    def add(self, node: int) -> None:
        self._counts[node] += 1

    def remove(self, node: int) -> None:
        self._counts[node] -= 1

    def __contains__(self, node: int) -> bool:
        return self._counts[node] >= self._limit


class _NeverMuted(frozenset[TopicPartition]):
    """Stands in for the set of partitions with a batch on its way, where that is no reason to wait."""

    def add(self, _: TopicPartition) -> None:
        pass

    def remove(self, _: TopicPartition) -> None:
        pass


class Accumulator(message_accumulator.MessageAccumulator):  # type: ignore[misc]
    """Lets its sender drain again as long as it gives batches: one drain takes one batch a partition."""

    def drain_by_nodes(self, *args: Any, **kwargs: Any) -> Any:
        """As aiokafka's own."""
        drained = super().drain_by_nodes(*args, **kwargs)
        if drained[0] and self._batches and not self._waiter_future.done():
            self._waiter_future.set_result(None)
        return drained

    def reenqueue(self, batch: Any) -> None:
        """As aiokafka's own, but batches that failed together are sent again in their order."""
        super().reenqueue(batch)
        queue = self._batches[batch.tp]
        queue.popleft()
        later = (place for place, other in enumerate(queue) if other._ctime > batch._ctime)  # noqa: SLF001
        queue.insert(next(later, len(queue)), batch)


class RecordBatch:
    """A record batch of encoded records, in the place of aiokafka's `BatchBuilder`.

    The format is magic 2 (KIP-98; https://kafka.apache.org/documentation/#recordbatch).
    """

    _HEADER = struct.Struct(">qiibI")
    """Base offset, length, partition leader epoch, magic, CRC."""
    _REST = struct.Struct(">hiqqqhii")
    """Attributes, last offset delta, first and maximal timestamp, producer id, epoch, base sequence, count."""
    _BEFORE_LENGTH_ENDS = 12
    _TRANSACTIONAL = 0x10

    __slots__ = ("_attributes", "_body", "_built", "_count", "_origin", "_timestamp_ms")

    def __init__(
        self, body: bytes | bytearray, count: int, *, timestamp_ms: int, codec: int = 0, transactional: bool = False
    ) -> None:
        self._body = body
        self._count = count
        self._timestamp_ms = timestamp_ms
        self._attributes = codec | (self._TRANSACTIONAL if transactional else 0)
        self._origin = (-1, -1, -1)
        self._built: bytes | None = None

    def record_count(self) -> int:
        """How many records it holds."""
        return self._count

    def size(self) -> int:
        """Bytes, before compression."""
        return self._HEADER.size + self._REST.size + len(self._body)

    def closed(self) -> bool:
        """It takes no more records."""
        return True

    def close(self) -> None:
        """It is closed."""

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._origin = (producer_id, producer_epoch, base_sequence)

    def _build(self) -> bytes:
        if self._built is None:
            attributes, body = self._attributes, self._body
            if codec := attributes & _CODEC_MASK:  # as with Kafka's own producer even where it makes them larger
                body = _ENCODERS[codec](bytes(body))
            rest = self._REST.pack(
                attributes, self._count - 1, self._timestamp_ms, self._timestamp_ms, *self._origin, self._count
            )
            checked = rest + body
            length = self._HEADER.size - self._BEFORE_LENGTH_ENDS + len(checked)
            self._built = self._HEADER.pack(0, length, -1, 2, crc32c(checked)) + checked
            self._body = b""
        return self._built


_CODEC_MASK = 0x07
CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
DECODERS = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}
_ENCODERS = {1: codec.gzip_encode, 2: codec.snappy_encode, 3: codec.lz4_encode, 4: codec.zstd_encode}


def crc32c(data: bytes) -> int:
    """The CRC-32C of a batch: by the processor's instruction where there is one."""
    crc: int = google_crc32c.value(data) if _FAST_CRC else calc_crc32c(data)
    return crc


_FAST_CRC = google_crc32c.implementation == "c"


def encode(records: Iterable[tuple[bytes | None, bytes]], headers: Headers, batch_size: int) -> tuple[bytes, list[int]]:
    """Encode keys and values as the body of one uncompressed batch: as many as fit, one at least.

    Returns the body and where each record in it ends. All timestamps are the batch's.
    """
    builder = default_records.DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=batch_size
    )
    ends: list[int] = []
    end = 0
    for key, value in records:
        taken = builder.append(len(ends), 0, key, value, headers)
        if taken is None:
            break
        end += taken.size
        ends.append(end)
    return bytes(builder.build())[-end:], ends


_GET_RUNNING_LOOP = util.get_running_loop
ask_for_topics = functools.partial(metadata.MetadataRequest, allow_auto_topic_creation=False)
"""A request for metadata; no topic is created by being asked about."""


def adapt(scenario: Scenario, partition_records: type[fetcher.PartitionRecords]) -> None:
    """Make every consumer of this process read by `partition_records`, and every client survive a lost connection.

    No client creates a topic by asking about it.

    Producers of explicit batches keep several requests on their way; those of single records stay as aiokafka makes
    them, for they are there to measure what an application gets.

    For worker processes only: it changes aiokafka for whoever uses it in this process.
    """
    fetcher.PartitionRecords = partition_records
    fetcher.MemoryRecords = partition_records.reader
    conn.AIOKafkaConnection = Connection
    conn.READER_LIMIT = _READER_LIMIT
    client.MetadataRequest = ask_for_topics
    batches = scenario.client == "batch"
    util.get_running_loop = asyncio.get_running_loop if batches else _GET_RUNNING_LOOP
    producer.Sender = Sender if batches else sender.Sender
    producer.MessageAccumulator = Accumulator if batches else message_accumulator.MessageAccumulator


@contextlib.asynccontextmanager
async def connected(bootstrap_servers: str, access: Access) -> AsyncIterator[Any]:
    """A bare client, for requests of one's own."""
    client = AIOKafkaClient(**{**access.arguments(), "bootstrap_servers": bootstrap_servers})
    try:
        await client.bootstrap()
        yield client
    finally:
        await close(client)


async def close(client: Any) -> None:
    """End any of aiokafka's clients; one that does not come to its end in time is left as it is."""
    with contextlib.suppress(KafkaError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await (client.close if hasattr(client, "close") else client.stop)()


def allow_in_flight(producer: aiokafka.AIOKafkaProducer, in_flight: int) -> None:
    """Bound the requests a broker of a producer of explicit batches, before it is started."""
    producer._sender.allow(in_flight)  # noqa: SLF001


def make_batch(
    producer: aiokafka.AIOKafkaProducer, body: bytes | bytearray, count: int, *, timestamp_ms: int
) -> RecordBatch:
    """A batch of encoded records, compressed and marked as this producer does."""
    transactions = producer._txn_manager  # noqa: SLF001
    return RecordBatch(
        body,
        count,
        timestamp_ms=timestamp_ms,
        codec=CODECS[producer._compression_type],  # noqa: SLF001
        transactional=transactions is not None and transactions.transactional_id is not None,
    )


def submit(
    producer: aiokafka.AIOKafkaProducer, batch: RecordBatch, partition: TopicPartition
) -> asyncio.Future[RecordMetadata | None]:
    """Queue a batch for a partition; the future ends with its acknowledgement (None with acks=0) or its error.

    Raises:
        aiokafka.errors.KafkaError: the producer has failed for good.

    """
    accumulator = producer._message_accumulator  # noqa: SLF001
    if accumulator._exception is not None:  # noqa: SLF001
        raise accumulator._exception  # noqa: SLF001
    future: asyncio.Future[RecordMetadata | None] = accumulator._append_batch(batch, partition).future  # noqa: SLF001
    return future

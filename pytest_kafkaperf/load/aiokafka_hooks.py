"""The names inside aiokafka that the load generator replaces, for speed and for robustness.

These names are private or may move. Therefore `pyproject.toml` caps aiokafka's version, `check_aiokafka` checks before
a load that each name exists, and `tests/unit/load/test_kafka.py` checks the behaviour expected of each.

For speed:

- `AIOKafkaProducer._message_accumulator._append_batch` queues a batch without awaiting. The public `send_batch`
  waits for one partition even if others accept batches.
- `EncodedBatch`, whose records are already encoded, takes the place of `BatchBuilder` in the accumulator.
- `Sender._in_flight`, `Sender._muted_partitions` and `MessageAccumulator.drain_by_nodes` allow several requests in
  flight.
- `aiokafka.consumer.fetcher.PartitionRecords._unpack_records` yields one value per batch instead of one
  `ConsumerRecord` per record. Used in worker processes only.
- `aiokafka.conn.READER_LIMIT` is raised because fetch responses are large.
- `aiokafka.util.get_running_loop` is called for every future; asyncio's own function is much cheaper.

For robustness:

- `aiokafka.conn.AIOKafkaConnection.send` reports broken connections as an error from which clients recover. Used in
  worker processes only.
- `aiokafka.client.MetadataRequest` would create a deleted topic when a client asks for it. Used in worker processes
  only.
- `MessageAccumulator.reenqueue` keeps the order of batches that failed together.

`batch_encoder` and `batch_decoder` use `aiokafka.record` and `aiokafka.codec`; `clusters.client` uses
`aiokafka.protocol`.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka import client, conn, util
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError
from aiokafka.producer import message_accumulator, producer, sender
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.client.connection import ask_for_topics
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.batch_encoder import EncodedBatch

if TYPE_CHECKING:
    from aiokafka.structs import RecordMetadata

    from pytest_kafkaperf.scenario.scenario import Scenario


_READER_LIMIT = 8 << 20
"""Bytes that a connection buffers, so that it reads a fetch response in few pieces. aiokafka's 64 KiB costs a third
more CPU."""


class Connection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """A connection that raises `KafkaConnectionError` for every failed write, so that clients connect again.

    With uvloop, writing to a closed transport raises a RuntimeError (https://github.com/aio-libs/aiokafka/issues/1038).
    With acks=0, `drain` takes the place of a response and raises an OSError. Either error would end aiokafka's tasks.
    """

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: FBT001, FBT002 - aiokafka's signature
        """Send a request like aiokafka's own method."""
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
    """A sender with several produce requests per broker in flight, as in Kafka's own producer; aiokafka allows one.

    Without idempotence, a batch that is sent again may follow later batches of its partition, as in Kafka's own
    producer. With idempotence, each partition has one batch in flight, which keeps its sequence numbers in order.
    """

    def allow(self, in_flight: int) -> None:
        """Set the in-flight limit per broker; call this before the sender starts."""
        self._in_flight = _InFlight(in_flight)
        if self._txn_manager is None and in_flight > 1:
            self._muted_partitions = _NeverMuted()


class _InFlight:
    """Replacement for the set of brokers with a request in flight: contains a broker once it reaches the limit."""

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
    """Replacement for the set of partitions with a batch in flight; always empty, so that no partition has to wait."""

    def add(self, _: TopicPartition) -> None:
        pass

    def remove(self, _: TopicPartition) -> None:
        pass


class Accumulator(message_accumulator.MessageAccumulator):  # type: ignore[misc]
    """An accumulator that wakes its sender while it has batches; one drain takes only one per partition."""

    def drain_by_nodes(self, *args: Any, **kwargs: Any) -> Any:
        """Drain like aiokafka's own method, and wake the sender again if batches remain."""
        drained = super().drain_by_nodes(*args, **kwargs)
        if drained[0] and self._batches and not self._waiter_future.done():
            self._waiter_future.set_result(None)
        return drained

    def reenqueue(self, batch: Any) -> None:
        """Queue a failed batch again like aiokafka's own method, but keep the order of batches that failed together."""
        super().reenqueue(batch)
        queue = self._batches[batch.tp]
        queue.popleft()
        later = (position for position, other in enumerate(queue) if other._ctime > batch._ctime)  # noqa: SLF001
        queue.insert(next(later, len(queue)), batch)


_GET_RUNNING_LOOP = util.get_running_loop
_REPLACED = (
    (client, "MetadataRequest"),
    (conn, "AIOKafkaConnection"),
    (conn, "READER_LIMIT"),
    (fetcher, "MemoryRecords"),
    (fetcher, "PartitionRecords"),
    (fetcher.PartitionRecords, "_unpack_records"),
    (message_accumulator.MessageAccumulator, "_append_batch"),
    (message_accumulator.MessageAccumulator, "drain_by_nodes"),
    (message_accumulator.MessageAccumulator, "reenqueue"),
    (producer, "MessageAccumulator"),
    (producer, "Sender"),
    (util, "get_running_loop"),
)
"""Every replaced name. Assigning to a name that has moved would have no effect and raise no error."""


def check_aiokafka() -> None:
    """Check that aiokafka has every name that `adapt` replaces.

    Raises:
        LoadError: a name is missing; the text lists the missing names and the version to install.

    """
    missing = [f"{getattr(owner, '__name__', owner)}.{name}" for owner, name in _REPLACED if not hasattr(owner, name)]
    if missing:
        raise LoadError(
            f"aiokafka {aiokafka.__version__} lacks {', '.join(missing)}, which the load generator needs; install "
            "a supported version: pip install 'aiokafka>=0.14,<0.15'"
        )


def adapt(scenario: Scenario, partition_records: type[fetcher.PartitionRecords]) -> None:
    """Replace names inside aiokafka for the load of this scenario. Call it in worker processes only.

    The replacements apply to all code that uses aiokafka in this process:

    - Consumers decode fetched data with `partition_records`.
    - Clients recover from lost connections, and never create a topic by asking for its metadata.
    - Producers of explicit batches keep several requests in flight. Producers of single records stay as aiokafka makes
      them, because they measure what an application gets.
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


def allow_in_flight(producer: aiokafka.AIOKafkaProducer, in_flight: int) -> None:
    """Set the in-flight limit per broker for a producer of explicit batches; call this before it starts."""
    producer._sender.allow(in_flight)  # noqa: SLF001


def submit(
    producer: aiokafka.AIOKafkaProducer, batch: EncodedBatch, partition: TopicPartition
) -> asyncio.Future[RecordMetadata | None]:
    """Queue a batch for a partition; the future resolves to its acknowledgement (None with acks=0) or raises its error.

    Raises:
        aiokafka.errors.KafkaError: the producer has failed permanently.

    """
    accumulator = producer._message_accumulator  # noqa: SLF001
    if accumulator._exception is not None:  # noqa: SLF001
        raise accumulator._exception  # noqa: SLF001
    future: asyncio.Future[RecordMetadata | None] = accumulator._append_batch(batch, partition).future  # noqa: SLF001
    return future

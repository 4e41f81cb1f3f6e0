"""What the load engine replaces inside aiokafka, for speed and for robustness.

These names are private, or may move: `pyproject.toml` caps aiokafka, `check_aiokafka` sees before load that each is
there, and a test holds what is expected of each.

For speed:

- `AIOKafkaProducer._message_accumulator._append_batch`: queues a batch without awaiting. The public `send_batch`
  waits on one partition while others have room.
- What the accumulator asks of a `BatchBuilder`: `EncodedBatch` stands in its place, with records encoded ahead.
- `Sender._in_flight`, `Sender._muted_partitions`, `MessageAccumulator.drain_by_nodes`: several requests in flight.
- `aiokafka.consumer.fetcher.PartitionRecords._unpack_records`: one value a batch instead of one `ConsumerRecord` a
  record. Used in worker processes only.
- `aiokafka.conn.READER_LIMIT`: answers to fetches are large.
- `aiokafka.util.get_running_loop`: asyncio's own is much cheaper, and is called for every future.

For robustness:

- `aiokafka.conn.AIOKafkaConnection.send`: broken connections are reported as what clients recover from. Used in worker
  processes only.
- `aiokafka.client.MetadataRequest`: asking about a topic that is gone would create it. Used in worker processes only.
- `MessageAccumulator.reenqueue`: batches that failed together keep their order.

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
"""Assigning to a name that has moved would change nothing, and nobody would notice."""


def check_aiokafka() -> None:
    """See that aiokafka has every name that `adapt` replaces.

    Raises:
        LoadError: it has not; names what is missing and the version to install.

    """
    missing = [f"{getattr(owner, '__name__', owner)}.{name}" for owner, name in _REPLACED if not hasattr(owner, name)]
    if missing:
        raise LoadError(
            f"aiokafka {aiokafka.__version__} has no {', '.join(missing)}, which the load engine needs; install a "
            "version that this plugin supports: pip install 'aiokafka>=0.14,<0.15'"
        )


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


def allow_in_flight(producer: aiokafka.AIOKafkaProducer, in_flight: int) -> None:
    """Bound the requests a broker of a producer of explicit batches, before it is started."""
    producer._sender.allow(in_flight)  # noqa: SLF001


def submit(
    producer: aiokafka.AIOKafkaProducer, batch: EncodedBatch, partition: TopicPartition
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

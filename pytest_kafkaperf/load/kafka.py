"""The one module that touches aiokafka's less public names.

These are taken from inside aiokafka 0.14, each held by a test that fails when a release moves them; the first two
for speed:

- `AIOKafkaProducer._message_accumulator._append_batch`: queues a batch without awaiting. The public `send_batch`
  waits on one partition while others have room.
- `aiokafka.consumer.fetcher.PartitionRecords._unpack_records`: one value a batch instead of one `ConsumerRecord` a
  record. Used in worker processes only.
- `aiokafka.conn.AIOKafkaConnection.send`: broken connections are told as what clients recover from. Used in worker
  processes only.
- `AIOKafkaClient.cluster` and `AIOKafkaConsumer._fetcher`: through the two above.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiokafka
import numpy as np
import numpy.typing as npt
from aiokafka import conn
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, KafkaConnectionError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.scenario import TAG_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_kafkaperf.scenario import Scenario

REQUEST_TIMEOUT_S = 30
"""Kafka's own default (`request.timeout.ms`); a batch that is older and not acknowledged has failed."""

_MAX_REQUEST_BYTES = 1 << 20
_HEARTBEAT_MS = 300
"""Members learn of another that joins by a heartbeat: with Kafka's 3 s each round would begin that much later."""


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """One record batch as a consumer got it."""

    tags: npt.NDArray[np.int64]
    """Due time and origin of each record, shape `(records, 2)`."""
    size_bytes: int
    """Keys and values."""


class BatchedRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """Unpacks fetched data to one `ReceivedBatch` a record batch."""

    def _unpack_records(self) -> Iterator[ReceivedBatch]:
        records = self._records
        while records.has_next():
            batch = records.next_batch()
            if not batch.validate_crc():
                raise CorruptRecordException(f"wrong CRC in {self._tp} at offset {batch.base_offset}")
            if not batch.is_control_batch:
                yield self._summary(batch)
            self.next_fetch_offset = batch.next_offset

    def _summary(self, batch: Any) -> ReceivedBatch:
        # A fetch may begin inside a compressed batch, with records that were consumed before.
        values = [record.value or b"" for record in batch if record.offset >= self.next_fetch_offset]
        heads = [value[:TAG_BYTES] for value in values if len(value) >= TAG_BYTES]
        tags = np.frombuffer(b"".join(heads), dtype=">i8").astype(np.int64).reshape(-1, 2)
        return ReceivedBatch(tags, sum(map(len, values)))


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


def adapt() -> None:
    """Make every consumer of this process yield batches, and every client survive a lost connection.

    For worker processes only: it changes aiokafka for whoever uses it in this process.
    """
    fetcher.PartitionRecords = BatchedRecords
    conn.AIOKafkaConnection = Connection


def make_producer(
    scenario: Scenario, bootstrap_servers: str, client_config: Mapping[str, Any]
) -> aiokafka.AIOKafkaProducer:
    """A producer for explicit batches; not started.

    Lingering is the schedule's work: a batch that gets here is closed and leaves as soon as it can.
    """
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers,
        acks=scenario.acks,
        compression_type=scenario.compression,
        max_batch_size=scenario.batch_size,
        max_request_size=max(_MAX_REQUEST_BYTES, 2 * (scenario.record_size + scenario.batch_size)),
        request_timeout_ms=REQUEST_TIMEOUT_S * 1000,
        **client_config,
    )


def make_consumer(
    topic: str, group: str, bootstrap_servers: str, client_config: Mapping[str, Any]
) -> aiokafka.AIOKafkaConsumer:
    """A member of a consumer group that reads what comes from now on; not started."""
    return aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="latest",
        enable_auto_commit=False,
        heartbeat_interval_ms=_HEARTBEAT_MS,
        request_timeout_ms=REQUEST_TIMEOUT_S * 1000,
        **client_config,
    )


def submit(producer: aiokafka.AIOKafkaProducer, builder: Any, partition: TopicPartition) -> asyncio.Future[Any]:
    """Queue a batch for a partition; the future ends with its acknowledgement or its error.

    Raises:
        aiokafka.errors.KafkaError: the producer has failed for good.

    """
    accumulator = producer._message_accumulator  # noqa: SLF001
    if accumulator._exception is not None:  # noqa: SLF001
        raise accumulator._exception  # noqa: SLF001
    builder.close()
    future: asyncio.Future[Any] = accumulator._append_batch(builder, partition).future  # noqa: SLF001
    return future

"""The names inside aiokafka that the load generator replaces, for speed and for robustness.

These names are private or may move. Therefore `pyproject.toml` caps aiokafka's version, `check_aiokafka` checks it
before a load, and `tests/unit/load/test_kafka.py` checks that each name exists and behaves as expected.

For speed:

- `AIOKafkaProducer._message_accumulator._append_batch` queues a batch without awaiting. The public `send_batch`
  waits for one partition even if others accept batches.
- `EncodedBatch`, whose records are already encoded, takes the place of `BatchBuilder` in the accumulator.
- `batch_sender` replaces the accumulator and the sender, and calls their inner parts; `Connection.produce` writes their
  requests, with `produce_request`.
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
- `aiokafka.producer.sender.SendProduceReqHandler._can_retry` counts batches that are sent again and may be in the log
  twice. Used in worker processes only.

Only read: `AIOKafkaConsumer._coordinator.generation`, a number that each rebalance of the consumer's group changes.

`batch_encoder` and `batch_decoder` use `aiokafka.record` and `aiokafka.codec`; `clusters.client` uses
`aiokafka.protocol`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import aiokafka
from aiokafka import client, conn, util
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, RequestTimedOutError
from aiokafka.producer import message_accumulator, producer, sender
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.client.connection import ask_for_topics
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.batch_decoder import FetchedBatches, reader_of
from pytest_kafkaperf.load.batch_encoder import EncodedBatch
from pytest_kafkaperf.load.batch_sender import Accumulator, OnEnded, QueuedBatch, RequestHandler, Sender
from pytest_kafkaperf.load.produce_request import API_KEY, Response, correlation_id_of, encode_request, version_for
from pytest_kafkaperf.scenarios.scenario import Scenario

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

    def produce(
        self, batches: Mapping[TopicPartition, QueuedBatch], *, acks: int, timeout_ms: int
    ) -> asyncio.Future[Response] | None:
        """Write a produce request, and return the future of its response; None if the broker needs another version."""
        version = version_for(self._versions[API_KEY])
        if version is None:
            return None
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for (topic, partition), batch in batches.items():
            topics.setdefault(topic, []).append((partition, batch.get_data_buffer()))
        number = self._next_correlation_id()
        answer: asyncio.Future[Response] = self._loop.create_future()
        request = encode_request(
            topics, version=version, correlation_id=number, client_id=self._client_id, acks=acks, timeout_ms=timeout_ms
        )
        try:
            self._writer.write(request)
        except (OSError, RuntimeError) as error:
            answer.set_exception(self._broken(error))
            return answer
        self._requests.append((number, None, answer))
        timer = self._loop.call_later(self._request_timeout, self._time_out, answer)
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    def _handle_frame(self, resp: bytes) -> None:
        """Handle a response like aiokafka's own method; that to `produce` in fewer calls."""
        correlation_id, request, answer = self._requests[0]
        if request is not None or correlation_id is None:
            super()._handle_frame(resp)
            return
        if correlation_id_of(resp) != correlation_id:
            self.close(reason=conn.CloseReason.OUT_OF_SYNC)  # ends all requests with an error
            return
        if not answer.done():
            answer.set_result(Response.decode(resp))
        self._last_action = time.monotonic()
        self._requests.popleft()

    def _time_out(self, answer: asyncio.Future[Response]) -> None:
        if not answer.done():
            answer.set_exception(RequestTimedOutError())
            self.close(reason=conn.CloseReason.CONNECTION_TIMEOUT)

    def _broken(self, error: Exception) -> KafkaConnectionError:
        self.close(reason=conn.CloseReason.CONNECTION_BROKEN)
        return KafkaConnectionError(f"Connection at {self._host}:{self._port} broken: {error}")


_GET_RUNNING_LOOP = util.get_running_loop


def check_aiokafka() -> None:
    """Check the version of aiokafka; assigning to a name that has moved would have no effect and raise no error.

    Raises:
        LoadError: another version is installed.

    """
    if not aiokafka.__version__.startswith("0.14."):
        raise LoadError(
            f"aiokafka {aiokafka.__version__} is installed, but the load generator replaces inner parts of aiokafka "
            "0.14; install it: pip install 'aiokafka>=0.14,<0.15'"
        )


def adapt(scenario: Scenario) -> None:
    """Replace names inside aiokafka for the load of this scenario. Call it in worker processes only.

    The replacements apply to all code that uses aiokafka in this process:

    - Consumers decode fetched data to batches.
    - Clients recover from lost connections, and never create a topic by asking for its metadata.
    - Producers count the batches that they send again.
    - Producers of explicit batches keep several requests in flight. Producers of single records stay as aiokafka makes
      them, because they measure what an application gets.
    """
    fetcher.PartitionRecords, fetcher.MemoryRecords = reader_of(scenario), FetchedBatches
    conn.AIOKafkaConnection = Connection
    conn.READER_LIMIT = _READER_LIMIT
    client.MetadataRequest = ask_for_topics
    sender.SendProduceReqHandler = RequestHandler
    batches = scenario.client == "batch"
    util.get_running_loop = asyncio.get_running_loop if batches else _GET_RUNNING_LOOP
    producer.Sender = Sender if batches else sender.Sender
    producer.MessageAccumulator = Accumulator if batches else message_accumulator.MessageAccumulator


def submit(
    producer: aiokafka.AIOKafkaProducer, batch: EncodedBatch, partition: TopicPartition, on_ended: OnEnded
) -> None:
    """Queue a batch for a partition; `on_ended` learns of its acknowledgement or its error.

    Raises:
        aiokafka.errors.KafkaError: the producer has failed permanently.

    """
    accumulator = producer._message_accumulator  # noqa: SLF001
    if accumulator._exception is not None:  # noqa: SLF001
        raise accumulator._exception  # noqa: SLF001
    accumulator._append_batch(batch, partition).on_ended = on_ended  # noqa: SLF001

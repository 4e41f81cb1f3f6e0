"""aiokafka clients for a load, created from a scenario, and the aiokafka internals that the load replaces.

The replaced names are private or may move. Therefore, `pyproject.toml` caps aiokafka's version, `check_aiokafka` checks
the version before a load, and `tests/unit/load/engines/aiokafka/test_clients.py` checks that each name exists and
behaves as expected.

For speed:

- `AIOKafkaProducer._message_accumulator._append_batch` queues a batch without awaiting. The public `send_batch`
  waits for one partition even if other partitions accept batches.
- `EncodedBatch`, whose records are already encoded, takes the place of `BatchBuilder` in the accumulator.
- `sender` replaces the accumulator and the sender, and calls their internals. `Connection.produce` writes their
  requests, using `encoder`.
- `aiokafka.consumer.fetcher.PartitionRecords._unpack_records` yields one value per batch instead of one
  `ConsumerRecord` per record. The replacement is used only in worker processes.
- `aiokafka.conn.READER_LIMIT` is raised because fetch responses are large.
- `aiokafka.util.get_running_loop` is called for every future; asyncio's own function is much cheaper.

For robustness:

- `aiokafka.conn.AIOKafkaConnection.send` reports broken connections as an error from which clients recover. The
  replacement is used only in worker processes.
- `aiokafka.conn.AIOKafkaConnection` logs in again before a login expires (`clusters.admin.relogin`).
- `aiokafka.client.MetadataRequest` would create a deleted topic when a client requests its metadata. The replacement is
  used only in worker processes.
- `MessageAccumulator.reenqueue` keeps the order of batches that failed together.
- `aiokafka.producer.sender.SendProduceReqHandler._can_retry` counts batches that are resent and may be in the log
  twice. The replacement is used only in worker processes.

`AIOKafkaConsumer._coordinator.generation` is only read. Each rebalance of the consumer group changes this number.

`encoder` and `decoder` use `aiokafka.record` and `aiokafka.codec`; `clusters.admin` uses `aiokafka.protocol`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import aiokafka
from aiokafka import client, conn, util
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaConnectionError, RequestTimedOutError
from aiokafka.producer import message_accumulator, producer, sender
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.admin.connection import bootstrap
from pytest_kafkaperf.clusters.admin.relogin import ReloginConnection
from pytest_kafkaperf.clusters.admin.wire import ask_for_topics
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.engines.aiokafka.client_config import IN_FLIGHT
from pytest_kafkaperf.load.engines.aiokafka.decoder import FetchedBatches, reader_of
from pytest_kafkaperf.load.engines.aiokafka.encoder import (
    API_KEY,
    EncodedBatch,
    Response,
    correlation_id_of,
    encode_request,
    version_for,
)
from pytest_kafkaperf.load.engines.aiokafka.group_member import GroupMember
from pytest_kafkaperf.load.engines.aiokafka.sender import Accumulator, OnEnded, QueuedBatch, RequestHandler, Sender
from pytest_kafkaperf.load.identity import NO_NONCE, Nonce
from pytest_kafkaperf.load.schedule import REQUEST_TIMEOUT_S
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, Scenario

_IN_FLIGHT = 5
"""Maximum number of in-flight produce requests per broker: the default of Kafka's own producer."""
_MAX_REQUEST_BYTES = 1 << 20
_FETCH_WAIT_MS = 100
"""Maximum time that a fetch waits for new records. The wait delays the next request on the same connection, such as the
request for end offsets after the load. With Kafka's default of 500 ms, each round with consumers took 0.4 s longer."""
_HEARTBEAT_MS = 300
"""Heartbeat interval. Members learn of rebalances from heartbeats, so Kafka's 3 s could delay rounds by up to 3 s."""


def make_producer(
    scenario: Scenario, bootstrap_servers: str, client_config: dict[str, Any], *, transactional_id: str, largest: int
) -> aiokafka.AIOKafkaProducer:
    """Create, but do not start, a producer for values of up to `largest` bytes.

    With explicit batches, the schedule applies the linger time. The client receives closed batches and sends them
    immediately.
    """
    batches = scenario.client == "batch"
    config = dict(scenario.producer_config)
    in_flight = config.pop(IN_FLIGHT, _IN_FLIGHT)
    request_bytes = max(_MAX_REQUEST_BYTES, 2 * (largest + scenario.batch_size))
    producer = aiokafka.AIOKafkaProducer(
        **{"request_timeout_ms": REQUEST_TIMEOUT_S * 1000, "max_request_size": request_bytes} | client_config | config,
        bootstrap_servers=bootstrap_servers,
        acks=scenario.acks,
        compression_type=scenario.compression,
        max_batch_size=scenario.batch_size,
        linger_ms=0 if batches else round(scenario.linger * 1000),
        enable_idempotence=scenario.idempotence,
        transactional_id=transactional_id if scenario.transaction_size else None,
    )
    if batches:
        producer._sender.allow(in_flight)  # noqa: SLF001 - it is `sender.Sender`
    return producer


def make_consumer(
    scenario: Scenario, topic: str, group: str, bootstrap_servers: str, client_config: dict[str, Any]
) -> GroupMember:
    """Create, but do not start, a consumer group member that reads new records and, optionally, existing ones."""
    defaults = {
        "heartbeat_interval_ms": _HEARTBEAT_MS,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "request_timeout_ms": REQUEST_TIMEOUT_S * 1000,
        "max_poll_interval_ms": RECORDS_TIMEOUT_S * 1000,  # it may have to wait for the other members
    }
    consumer = aiokafka.AIOKafkaConsumer(
        **defaults | client_config | dict(scenario.consumer_config),
        bootstrap_servers=bootstrap_servers,
        group_id=group,
        auto_offset_reset="latest" if scenario.producers and not scenario.catches_up else "earliest",
        enable_auto_commit=False,
        isolation_level=scenario.isolation_level,
    )
    member = GroupMember(consumer)
    member.subscribe(topic)
    return member


def make_reader(bootstrap_servers: str, client_config: dict[str, Any]) -> aiokafka.AIOKafkaConsumer:
    """Create, but do not start, a consumer without a group, which reads from given positions."""
    return aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="none",
        enable_auto_commit=False,
        **{"request_timeout_ms": REQUEST_TIMEOUT_S * 1000} | client_config,
    )


def batches_in_flight(scenario: Scenario) -> int:
    """Return the limit on in-flight batches per partition."""
    in_flight: int = scenario.producer_config.get(IN_FLIGHT, _IN_FLIGHT)
    return 1 if scenario.idempotence else in_flight


_READER_LIMIT = 8 << 20
"""Buffer size per connection in bytes, large enough to read a fetch response in a few pieces. With aiokafka's 64 KiB,
CPU time is a third higher."""


class Connection(ReloginConnection):
    """Connection that raises `KafkaConnectionError` for every failed write, so that clients reconnect.

    With uvloop, writing to a closed transport raises a RuntimeError (https://github.com/aio-libs/aiokafka/issues/1038).
    With acks=0, `drain` is awaited instead of a response and raises an OSError. Either error would stop aiokafka's
    tasks.
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
        """Write a produce request and return the future for its response; None if the broker needs another version."""
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
        """Handle a response like aiokafka's own method, but handle responses to `produce` in fewer calls."""
        correlation_id, request, answer = self._requests[0]
        if request is not None or correlation_id is None:
            super()._handle_frame(resp)
            return
        if correlation_id_of(resp) != correlation_id:
            self.close(reason=conn.CloseReason.OUT_OF_SYNC)  # fails all requests
            return
        if not answer.done():
            answer.set_result(Response.decode(resp))
        self._last_action = time.monotonic()
        self._requests.popleft()
        self._count_answer()

    def _time_out(self, answer: asyncio.Future[Response]) -> None:
        if not answer.done():
            answer.set_exception(RequestTimedOutError())
            self.close(reason=conn.CloseReason.CONNECTION_TIMEOUT)

    def _broken(self, error: Exception) -> KafkaConnectionError:
        self.close(reason=conn.CloseReason.CONNECTION_BROKEN)
        return KafkaConnectionError(f"Connection at {self._host}:{self._port} broken: {error}")


_GET_RUNNING_LOOP = util.get_running_loop


def check_aiokafka() -> None:
    """Check the aiokafka version, because assigning to a name that has moved would silently have no effect.

    Raises:
        LoadError: the installed version is not supported.

    """
    if not aiokafka.__version__.startswith("0.14."):
        raise LoadError(
            f"aiokafka {aiokafka.__version__} is installed, but the load generator replaces internals of aiokafka 0.14 "
            "and works only with that version; run: pip install 'aiokafka>=0.14,<0.15'"
        )


def adapt(scenario: Scenario, nonce: Nonce = NO_NONCE) -> None:
    """Replace aiokafka internals for this scenario's load. Call this function only in worker processes.

    The replacements apply to all code that uses aiokafka in this process:

    - Consumers decode fetched data into batches.
    - Clients recover from lost connections, do not wait long for a server while others may answer, and never create a
      topic by requesting its metadata.
    - Producers count the batches that they resend.
    - Producers of explicit batches keep several requests in flight. Producers of single records use unmodified aiokafka
      producers, because they measure what an application would get.
    """
    fetcher.PartitionRecords, fetcher.MemoryRecords = reader_of(scenario, nonce), FetchedBatches
    conn.AIOKafkaConnection = Connection
    conn.READER_LIMIT = _READER_LIMIT
    client.MetadataRequest = ask_for_topics
    AIOKafkaClient.bootstrap = bootstrap
    sender.SendProduceReqHandler = RequestHandler
    batches = scenario.client == "batch"
    util.get_running_loop = asyncio.get_running_loop if batches else _GET_RUNNING_LOOP
    producer.Sender = Sender if batches else sender.Sender
    producer.MessageAccumulator = Accumulator if batches else message_accumulator.MessageAccumulator


def submit(
    producer: aiokafka.AIOKafkaProducer, batch: EncodedBatch, partition: TopicPartition, on_ended: OnEnded
) -> None:
    """Queue a batch for a partition; `on_ended` is called with its acknowledgement or its error.

    Raises:
        aiokafka.errors.KafkaError: the producer has failed permanently.

    """
    accumulator = producer._message_accumulator  # noqa: SLF001
    if accumulator._exception is not None:  # noqa: SLF001
        raise accumulator._exception  # noqa: SLF001
    accumulator._append_batch(batch, partition).on_ended = on_ended  # noqa: SLF001

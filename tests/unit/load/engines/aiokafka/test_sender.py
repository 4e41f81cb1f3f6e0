"""The sender of encoded batches, on a connection to a server that answers as the test says."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaConnectionError, KafkaError, MessageSizeTooLargeError, RequestTimedOutError
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.protocol.produce import ProduceRequest_v7, ProduceResponse_v7
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.engines.aiokafka.clients import Connection, adapt, make_producer, submit
from pytest_kafkaperf.load.engines.aiokafka.encoder import EncodedBatch, encode_records
from pytest_kafkaperf.load.engines.aiokafka.sender import Accumulator, QueuedBatch
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.simulation import adapt_here

PARTITIONS = [TopicPartition("topic", number) for number in range(3)]
TOO_LARGE, TIMED_OUT = 10, 7
Outcome = int | str
"""The offset of the first record, or the name of the error's class."""
Answer = Callable[[int, int], int | None]
"""Takes the number of the request and a partition; returns an error code, or None to say nothing at all."""


@pytest.fixture(autouse=True)
def aiokafka_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `adapt` changes is changed back after each test."""
    adapt_here(monkeypatch, Scenario.of({}))


class Broker:
    """A server that takes produce requests."""

    def __init__(self, answer: Answer, *, confused: bool = False) -> None:
        self._answer = answer
        self._confused = confused
        """True if its responses are to other requests."""
        self.requests: list[list[tuple[int, bytes]]] = []
        """Partitions and batches of each request."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                stream = io.BytesIO(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
                _, correlation_id, client_size = stream.read(4), stream.read(4), stream.read(2)
                stream.read(int.from_bytes(client_size, "big"))
                ((topic, batches),) = ProduceRequest_v7.decode(stream).topics
                number = len(self.requests)
                self.requests.append(batches)
                codes = [(partition, self._answer(number, partition)) for partition, _ in batches]
                if None not in [code for _, code in codes]:
                    rows = [(partition, code, 100 * number + partition, -1, 0) for partition, code in codes]
                    to = bytes(4) if self._confused else correlation_id
                    body = to + ProduceResponse_v7([(topic, rows)], 0).encode()
                    writer.write(len(body).to_bytes(4, "big") + body)
        writer.close()


@contextlib.asynccontextmanager
async def connected(broker: Broker, **fields: Any) -> AsyncIterator[Any]:
    """A client whose sender runs, on one connection that is open already."""
    scenario = Scenario.of(fields)
    adapt(scenario)
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        client = make_producer(scenario, f"{host}:{port}", {}, transactional_id="", largest=100)
        leaders = [(0, partition, 0, [0], [0]) for _, partition in PARTITIONS]
        client.client.cluster.update_metadata(
            MetadataResponse_v1([(0, host, port, None)], 0, [(0, "topic", False, leaders)])
        )
        connection = Connection(host, port, request_timeout_ms=scenario.producer_config.get("request_timeout_ms", 9000))
        connection._do_version_lookup = no_lookup
        connection._versions = {0: (3, 12)}
        await connection.connect()
        client.client._conns[0, ConnectionGroup.DEFAULT] = connection
        if client._txn_manager is not None:
            client._txn_manager.set_pid_and_epoch(5, 0)
        sending = asyncio.ensure_future(client._sender._sender_routine())
        try:
            yield client
        finally:
            sending.cancel()
            await sending
            connection.close()
            client._closed = True


async def no_lookup() -> None:
    """The versions are known."""


def outcomes_of(answer: Answer, *, batches: int = 1, **fields: Any) -> tuple[list[list[Outcome]], Broker]:
    """Send batches to each partition; return their outcomes by partition, and the broker."""
    broker = Broker(answer)

    async def send() -> list[list[Outcome]]:
        async with asyncio.timeout(20), connected(broker, **fields) as client:
            waiting: list[list[Awaitable[Outcome]]] = [
                [queued(client, partition, number) for number in range(batches)] for partition in PARTITIONS
            ]
            return [[await one for one in each] for each in waiting]

    return asyncio.run(send()), broker


def queued(client: Any, partition: TopicPartition, number: int) -> asyncio.Future[Outcome]:
    ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def on_ended(offset: int | None, error: BaseException | None) -> None:
        ended.set_result(type(error).__name__ if error is not None or offset is None else offset)  # raises if twice

    body, _ = encode_records([(None, b"%d" % number, [])])
    submit(client, EncodedBatch(body, 1, timestamp_ms=0), partition, on_ended)
    return ended


def in_queue(batch: EncodedBatch) -> QueuedBatch:
    """The batch as one of the first partition's queue."""
    return QueuedBatch(PARTITIONS[0], batch, 1.0, Accumulator(None, 1, 0, 1.0))


def test_a_queued_batch_has_whatever_the_methods_of_aiokafkas_own_read() -> None:
    """It is made without the constructor of the class that it takes these methods from."""

    async def made() -> QueuedBatch:
        return in_queue(EncodedBatch(b"", 0, timestamp_ms=0))

    batch = asyncio.run(made())
    uncalled = {"append", "wait_drain", "remaining_linger", "reset_drain"}
    inherited = [
        getattr(member, "fget", member)
        for name, member in vars(MessageBatch).items()
        if name not in vars(QueuedBatch) and name not in uncalled and not name.startswith("__")
    ]
    read = {name for method in inherited for name in re.findall(r"self\.(\w+)", inspect.getsource(method))}

    assert len(inherited) > 4
    assert [name for name in read if not hasattr(batch, name)] == []
    for name in ("done", "done_noack", "failure", "drain_ready", "set_producer_state"):
        ours, theirs = (list(inspect.signature(getattr(one, name)).parameters) for one in (QueuedBatch, MessageBatch))
        assert ours == [parameter for parameter in theirs if not parameter.startswith("_")]


def test_each_batch_learns_its_own_offset() -> None:
    """One batch of each partition makes a request, in the order in which they were queued."""
    outcomes, broker = outcomes_of(lambda *_: 0, batches=3)

    assert outcomes == [[0, 100, 200], [1, 101, 201], [2, 102, 202]]
    assert [[partition for partition, _ in request] for request in broker.requests] == [[0, 1, 2]] * 3


@pytest.mark.parametrize(
    "fields", [{"idempotence": True}, {"producer_config": {"max_in_flight_requests_per_connection": 1}}], ids=str
)
def test_a_partition_with_one_batch_in_flight_sends_the_next_one_after_its_answer(fields: dict[str, Any]) -> None:
    """Otherwise a batch that is sent again would follow the next one."""
    seen: list[int] = []

    def answer(number: int, partition: int) -> int:
        seen.append(number)
        return TIMED_OUT if number == 0 and partition == 1 else 0

    outcomes, broker = outcomes_of(answer, batches=2, **fields)
    of_partition = [batch for request in broker.requests for partition, batch in request if partition == 1]

    assert of_partition[0] == of_partition[1] != of_partition[2]
    assert all(isinstance(outcome, int) for each in outcomes for outcome in each)


def test_a_batch_that_is_refused_fails_alone() -> None:
    """Its error is told by name in the report."""
    outcomes, broker = outcomes_of(lambda _, partition: TOO_LARGE if partition == 1 else 0)

    assert outcomes == [[0], [MessageSizeTooLargeError.__name__], [2]]
    assert len(broker.requests) == 1


def test_a_batch_that_may_be_sent_again_is_sent_again_unchanged() -> None:
    """Only that one: the others are in the log."""
    outcomes, broker = outcomes_of(lambda number, partition: TIMED_OUT if (number, partition) == (0, 2) else 0)

    assert outcomes == [[0], [1], [102]]
    assert broker.requests[1] == [broker.requests[0][2]]


def test_batches_without_an_answer_fail_after_the_timeout_of_a_request() -> None:
    """They may be in the log; a load that waited for ever would tell nothing."""
    outcomes, _ = outcomes_of(lambda *_: None, producer_config={"request_timeout_ms": 300})

    assert outcomes == [[RequestTimedOutError.__name__]] * 3


def test_a_response_to_another_request_ends_the_connection() -> None:
    """Offsets and errors of other batches would be taken for those of these."""

    async def send() -> tuple[str, bool]:
        async with asyncio.timeout(20), connected(Broker(lambda *_: 0, confused=True)) as client:
            connection = client.client._conns[0, ConnectionGroup.DEFAULT]
            batch = EncodedBatch(b"", 0, timestamp_ms=0)
            batches = {PARTITIONS[0]: in_queue(batch)}
            with pytest.raises(KafkaConnectionError) as told:
                await connection.produce(batches, acks=1, timeout_ms=1000)
            return str(told.value), connection.connected()

    told, is_connected = asyncio.run(send())
    assert (told.endswith(" closed"), is_connected) == (True, False)


def test_all_batches_end_once_when_the_sender_fails() -> None:
    """Those in flight and those that are queued; a second end would be counted twice."""

    async def fail() -> list[Outcome]:
        async with connected(Broker(lambda *_: None), producer_config={"request_timeout_ms": 300}) as client:
            ended = [queued(client, PARTITIONS[0], number) for number in range(9)]
            await asyncio.sleep(0)
            client._message_accumulator.fail_all(KafkaError("gone"))
            client._message_accumulator._batches.clear()
            return [await one for one in ended]

    assert asyncio.run(fail()) == [KafkaError.__name__] * 9

"""The seam to aiokafka: fails loudly when a release moves what is taken from its inside."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import pytest
import uvloop
from aiokafka import client as aiokafka_client
from aiokafka import conn, util
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer import fetcher
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    RequestTimedOutError,
)
from aiokafka.producer import message_accumulator, sender
from aiokafka.producer import producer as aiokafka_producer
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.protocol.metadata import MetadataRequest, MetadataResponse_v1
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.admin import connection
from pytest_kafkaperf.clusters.admin.relogin import ReloginConnection
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.engines.aiokafka.clients import (
    Connection,
    adapt,
    batches_in_flight,
    check_aiokafka,
    make_consumer,
    make_producer,
    make_reader,
    submit,
)
from pytest_kafkaperf.load.engines.aiokafka.decoder import BatchedRecords, FetchedBatches
from pytest_kafkaperf.load.engines.aiokafka.encoder import CODECS, EncodedBatch, crc32c, encode_records
from pytest_kafkaperf.load.engines.aiokafka.sender import Accumulator, QueuedBatch, Sender, repeated_batches
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.simulation import adapt_here

NOWHERE = "127.0.0.1:9"
PARTITION = TopicPartition("topic", 0)
TIMESTAMP_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def aiokafka_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `adapt` changes is changed back after each test."""
    adapt_here(monkeypatch, Scenario.of({}))


def in_loop(test: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await test()

    return asyncio.run(bounded())


def producer_of(**fields: Any) -> Any:
    """Not connected."""
    scenario = Scenario.of(fields)
    adapt(scenario)
    return make_producer(scenario, NOWHERE, {}, transactional_id="group-3", largest=100)


def record_batch(count: int = 1) -> EncodedBatch:
    body, ends = encode_records([(None, b"value", [])] * count)
    return EncodedBatch(body, len(ends), timestamp_ms=TIMESTAMP_MS)


def queue_batch(client: Any, batch: EncodedBatch, partition: TopicPartition) -> asyncio.Future[int | None]:
    """Submit a batch; the future has its offset or its error."""
    ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def on_ended(offset: int | None, error: BaseException | None) -> None:
        ended.set_result(offset) if error is None else ended.set_exception(error)

    submit(client, batch, partition, on_ended)
    return ended


# A batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a batch is made of."""

    rows: list[tuple[bytes | None, bytes]]
    """Keys and values."""
    headers: list[tuple[str, bytes | None]]
    codec: int
    transactional: bool
    state: tuple[int, int, int] | None
    """Producer, its epoch, its first sequence number."""
    batch_size: int
    timestamp_ms: int


givens = st.builds(
    Given,
    rows=st.lists(
        st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=200) | st.just(bytes(500))),
        min_size=1,
        max_size=80,
    ),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    codec=st.sampled_from(list(CODECS.values())),
    transactional=st.booleans(),
    state=st.none() | st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)),
    batch_size=st.sampled_from([1, 100, 1000, 1 << 20]),
    timestamp_ms=st.integers(0, 2**45),
)


@given(one=givens)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_is_byte_for_byte_aiokafkas_own(one: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, headers, compression, transaction, the producer's state: nothing but the way to make it differs."""
    monkeypatch.setattr(time, "time", lambda: 7.0)  # gzip writes it into its header
    theirs = BatchBuilder(one.batch_size, one.codec, is_transactional=one.transactional)
    taken = [
        theirs.append(timestamp=one.timestamp_ms, key=key, value=value, headers=one.headers) for key, value in one.rows
    ]
    theirs._set_producer_state(*(one.state or (-1, -1, -1)))
    body, ends = encode_records([(key, value, one.headers) for key, value in one.rows], one.batch_size)
    ours = EncodedBatch(
        body, len(ends), timestamp_ms=one.timestamp_ms, codec=one.codec, transactional=one.transactional
    )
    if one.state is not None:
        ours._set_producer_state(*one.state)

    assert len(ends) == sum(metadata is not None for metadata in taken)
    assert ours.record_count() == theirs.record_count()
    assert ours._build() == bytes(theirs._build())
    assert ours._build() is ours._build()  # again and again, when it is sent again


@given(st.binary(max_size=300))
def test_the_fast_crc_is_the_slow_one(data: bytes) -> None:
    """A broker refuses a batch with any other."""
    assert crc32c(data) == calc_crc32c(data)


def test_a_batch_answers_whatever_it_is_asked() -> None:
    """It stands in for a `BatchBuilder`, in the accumulator and in the batches that are sent."""
    source = inspect.getsource(MessageBatch) + inspect.getsource(MessageAccumulator)
    for uncalled in (MessageBatch.remaining_linger, MessageAccumulator.drain_by_nodes):  # the first is for the second
        source = source.replace(inspect.getsource(uncalled), "")
    asked = set(re.findall(r"_builder\.(\w+)", source))

    assert asked == {"append", "record_count", "close", "_set_producer_state", "_build"}
    assert "remaining_linger()" not in source + inspect.getsource(sender)
    assert "drain_by_nodes" in vars(Accumulator)
    for name in asked - {"append"}:  # of `send()`, which is not for closed batches
        ours, theirs = inspect.signature(getattr(EncodedBatch, name)), inspect.signature(getattr(BatchBuilder, name))
        assert list(ours.parameters) == list(theirs.parameters)
    assert "builder" not in inspect.getsource(sender)


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("fields", [{}, {"idempotence": True}, {"transaction_size": 5}], ids=str)
def test_a_producers_batches_are_marked_as_its_own_would_be(
    monkeypatch: pytest.MonkeyPatch, compression: str | None, fields: dict[str, Any]
) -> None:
    """Compressed by the scenario's codec, and part of a transaction where there are some."""
    monkeypatch.setattr(time, "time", lambda: 7.0)

    async def build() -> tuple[bytes, bytes]:
        client = producer_of(compression=compression, **fields)
        theirs = client.create_batch()
        theirs.append(timestamp=TIMESTAMP_MS, key=None, value=bytes(1000))
        body, _ = encode_records([(None, bytes(1000), [])])
        transactional = "transaction_size" in fields
        ours = EncodedBatch(body, 1, timestamp_ms=TIMESTAMP_MS, codec=CODECS[compression], transactional=transactional)
        for one in (ours, theirs):
            one._set_producer_state(5, 6, 7)
        await client.stop()
        return ours._build(), bytes(theirs._build())

    ours, theirs = in_loop(build)
    assert ours == theirs


# Queueing


def test_batches_are_queued_by_a_plain_function() -> None:
    """`submit` relies on queueing without awaiting."""
    assert list(inspect.signature(MessageAccumulator._append_batch).parameters) == ["self", "builder", "tp"]
    assert not inspect.iscoroutinefunction(MessageAccumulator._append_batch)


def test_the_public_way_queues_as_submit_does() -> None:
    """What `add_batch` checks before it queues is what `submit` has to check; the closed are not submitted to."""
    source = inspect.getsource(MessageAccumulator.add_batch)

    assert re.findall(r"if (self\.\w+)", source) == ["self._closed", "self._exception"]
    assert "raise copy.copy(self._exception)" in source
    assert "batch = self._append_batch(builder, tp)" in source
    assert "batch.future" in source


@pytest.mark.parametrize("how", ["acknowledged", "acks=0", "failed"])
def test_a_batch_that_was_queued_tells_its_end(how: str) -> None:
    """Where it stands in the log, nothing, or its error."""

    async def queue() -> Any:
        client = producer_of(acks=0 if how == "acks=0" else "all")
        future = queue_batch(client, record_batch(3), PARTITION)
        (batch,) = client._message_accumulator._batches[PARTITION]
        assert (batch.record_count, batch.tp) == (3, PARTITION)
        match how:
            case "acknowledged":
                batch.done(7)
            case "acks=0":
                batch.done_noack()
            case _:
                batch.failure(KafkaError("refused"))
        await client.stop()
        return await future

    if how == "failed":
        with pytest.raises(KafkaError, match="refused"):
            in_loop(queue)
    else:
        assert in_loop(queue) == {"acknowledged": 7, "acks=0": None}[how]


def test_a_producer_that_has_failed_takes_no_more() -> None:
    """Its batches would never leave."""

    async def queue() -> None:
        client = producer_of()
        client._message_accumulator.fail_all(KafkaError("gone"))
        try:
            submit(client, record_batch(), PARTITION, lambda *_: None)
        finally:
            await client.stop()

    with pytest.raises(KafkaError, match="gone"):
        in_loop(queue)


# Several requests on their way


def lead(client: Any, partitions: int, *, brokers: int = 1) -> list[TopicPartition]:
    """Let the client know of a topic, and of the leaders of its partitions."""
    leaders = [(0, partition, partition % brokers, [0], [0]) for partition in range(partitions)]
    nodes = [(node, "127.0.0.1", 9, None) for node in range(brokers)]
    client.client.cluster.update_metadata(MetadataResponse_v1(nodes, 0, [(0, "topic", False, leaders)]))
    return [TopicPartition("topic", partition) for partition in range(partitions)]


def test_adapted_producers_are_made_of_our_parts() -> None:
    """`AIOKafkaProducer` looks them up in its module; those of single records stay as aiokafka makes them."""

    async def parts(client: str) -> list[type]:
        made = producer_of(client=client)
        await made.stop()
        return [type(made._sender), type(made._message_accumulator)]

    assert in_loop(lambda: parts("batch")) == [Sender, Accumulator]
    assert in_loop(lambda: parts("record")) == [sender.Sender, message_accumulator.MessageAccumulator]
    assert [aiokafka_producer.Sender, aiokafka_producer.MessageAccumulator] == [
        sender.Sender,
        message_accumulator.MessageAccumulator,
    ]


@pytest.mark.parametrize("client", ["batch", "record"])
@pytest.mark.parametrize(
    ("error", "fields", "repeated"),
    [
        (RequestTimedOutError(), {}, 1),
        (KafkaConnectionError(), {}, 1),
        (NotEnoughReplicasError(), {}, 0),  # the broker has refused it
        (RequestTimedOutError(), {"idempotence": True}, 0),  # the broker drops the copy
        (MessageSizeTooLargeError(), {}, 0),  # it is not sent again
    ],
    ids=str,
)
def test_batches_that_may_be_in_the_log_twice_are_counted(
    client: str, error: KafkaError, fields: dict[str, Any], repeated: int
) -> None:
    """The copy of one batch may hide that another one was lost."""

    async def count() -> int:
        made = producer_of(client=client, **fields)
        await made.stop()
        batch = QueuedBatch(PARTITION, record_batch(), 60, made._message_accumulator)
        handler = sender.SendProduceReqHandler(made._sender, {PARTITION: batch})
        handler._can_retry(error, batch)
        return repeated_batches(made._sender)

    assert in_loop(count) == repeated


def test_the_sender_asks_of_its_sets_what_ours_answer() -> None:
    """Two that bound what is on its way: by broker and by partition."""
    source = inspect.getsource(sender)  # of the class, Python 3.11 parses it, and fails at that now and then

    assert "self._in_flight = set()" in source
    assert "self._muted_partitions = set()" in source
    assert set(re.findall(r"_in_flight\.(\w+)", source)) == {"add", "remove"}
    assert set(re.findall(r"_muted_partitions\.(\w+)", source)) == {"add", "remove"}
    assert "ignore_nodes=self._in_flight," in source
    assert "muted_partitions = self._muted_partitions\n" in source
    drain = inspect.getsource(MessageAccumulator.drain_by_nodes)
    assert re.findall(r"\b(?:ignore_nodes|muted_partitions)\b.*", drain) == [
        "ignore_nodes, muted_partitions=frozenset()):",
        "muted_partitions:",
        "ignore_nodes and leader in ignore_nodes:",
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {0: 5, 1: 5}),
        ({"producer_config": {"max_in_flight_requests_per_connection": 2}}, {0: 2, 1: 2}),
        ({"producer_config": {"max_in_flight_requests_per_connection": 1}}, {0: 1, 1: 1}),
        ({"idempotence": True}, {0: 1, 1: 1}),
        ({"client": "record"}, {0: 1, 1: 1}),
    ],
    ids=str,
)
def test_as_many_requests_are_on_their_way_as_may_be(fields: dict[str, Any], expected: dict[int, int]) -> None:
    """To each broker; with idempotence a partition has one batch on its way. Each takes the first of the queue."""
    requests: list[tuple[int, list[tuple[int, bytes]]]] = []

    async def run() -> None:
        client = producer_of(**fields)
        if client._txn_manager is not None:
            client._txn_manager.set_pid_and_epoch(1, 0)
        partitions = lead(client, 4, brokers=2)
        silence = asyncio.Event()

        async def send(node: int, request: Any) -> None:
            ((_, batches),) = request.topics if hasattr(request, "topics") else request._topics
            requests.append((node, [(partition, bytes(data)) for partition, data in batches]))
            await silence.wait()
            raise asyncio.CancelledError  # an error would stay in futures, to be logged at any time later

        client.client.send = send  # the network
        for number in range(8):
            for partition in partitions:
                if fields.get("client") == "record":
                    batch = client.create_batch()
                    batch.append(timestamp=0, key=None, value=b"%d" % number)
                    batch.close()  # does not linger
                else:
                    body, _ = encode_records([(None, b"%d" % number, [])])
                    batch = EncodedBatch(body, 1, timestamp_ms=0)
                client._message_accumulator._append_batch(batch, partition)
        client._sender._sender_task = asyncio.ensure_future(client._sender._sender_routine())
        for _ in range(100):
            await asyncio.sleep(0)
        client._sender._sender_task.cancel()
        client._message_accumulator._batches.clear()
        silence.set()
        await asyncio.wait([client._sender._sender_task])
        await client.client.close()
        client._closed = True

    in_loop(run)
    assert {node: sum(one == node for one, _ in requests) for node in (0, 1)} == expected
    for node in (0, 1):
        for turn, batches in enumerate(batches for one, batches in requests if one == node):
            assert [partition for partition, _ in batches] == [node, node + 2]
            assert all(data[-2:-1] == b"%d" % turn for _, data in batches)


@pytest.mark.parametrize(
    ("fields", "batches"),
    [
        ({}, 5),
        ({"producer_config": {"max_in_flight_requests_per_connection": 2}}, 2),
        ({"idempotence": True}, 1),
        ({"transaction_size": 10}, 1),
    ],
    ids=str,
)
def test_producers_know_how_many_batches_of_a_partition_can_be_on_their_way(
    fields: dict[str, Any], batches: int
) -> None:
    """What they hand over beyond that only waits, and could have grown meanwhile."""
    assert batches_in_flight(Scenario.of(fields)) == batches


def test_one_drain_takes_one_batch_a_partition_and_another_follows() -> None:
    """Without a wake-up the rest would wait for the next batch to come, or for an answer."""

    async def drain() -> list[tuple[int, bool]]:
        client = producer_of()
        partitions = lead(client, 2)
        accumulator = client._message_accumulator
        for partition in [*partitions, *partitions, partitions[0]]:
            submit(client, record_batch(), partition, lambda *_: None)
        seen = []
        for _ in range(4):
            nodes, unknown = accumulator.drain_by_nodes(ignore_nodes=set())
            assert not unknown
            seen.append((sum(map(len, nodes.values())), accumulator.waiter().done()))
        accumulator.fail_all(KafkaError("gone"))
        await client.stop()
        return seen

    assert in_loop(drain) == [(2, True), (2, True), (1, False), (0, False)]


def test_a_drain_that_gives_nothing_does_not_call_for_another() -> None:
    """All brokers have enough on their way: the sender would turn without end."""

    async def drain() -> tuple[int, bool]:
        client = producer_of()
        (partition,) = lead(client, 1)
        submit(client, record_batch(), partition, lambda *_: None)
        client._message_accumulator.drain_by_nodes(ignore_nodes={0})
        nodes, _ = client._message_accumulator.drain_by_nodes(ignore_nodes={0})
        client._message_accumulator._batches[partition][0].done_noack()
        await client.stop()
        return len(nodes), client._message_accumulator.waiter().done()

    assert in_loop(drain) == (0, False)


@pytest.mark.parametrize("failed", [(0, 1), (1, 0), (2, 0, 1), (1,)], ids=str)
def test_batches_that_failed_together_are_sent_again_in_their_order(failed: tuple[int, ...]) -> None:
    """aiokafka puts each to the front, which turns them round; those not sent yet follow."""

    async def reenqueue() -> list[int]:
        client = producer_of()
        accumulator = client._message_accumulator
        batches = []
        for number in range(5):
            submit(client, record_batch(number + 1), PARTITION, lambda *_: None)
            batches.append(accumulator._batches[PARTITION][-1])
        for _ in range(3):
            accumulator._pop_batch(PARTITION)
        for number in failed:
            accumulator.reenqueue(batches[number])
        order = [batch.record_count - 1 for batch in accumulator._batches[PARTITION]]
        for batch in batches:
            batch.done_noack()
        await client.stop()
        return order

    assert in_loop(reenqueue) == [*sorted(failed), 3, 4]


def test_batches_that_failed_are_queued_by_the_method_that_we_replace() -> None:
    assert "_message_accumulator.reenqueue(batch)" in inspect.getsource(sender)


# Reading


def test_fetched_data_is_unpacked_by_a_method_of_partition_records() -> None:
    """`BatchedRecords` replaces it, and keeps what the fetcher reads of it."""
    assert list(inspect.signature(fetcher.PartitionRecords._unpack_records).parameters) == ["self"]
    assert issubclass(BatchedRecords, fetcher.PartitionRecords.__mro__[-2])
    source = inspect.getsource(BatchedRecords.__base__.__init__)
    for name in ("_tp", "_records", "_aborted_producers", "_isolation_level", "next_fetch_offset"):
        assert f"self.{name} = " in source
    assert "self._records_iterator = self._unpack_records()" in source
    assert not isinstance(BatchedRecords.__base__._consume_aborted_up_to, property)


INNER_NAMES = (
    (aiokafka_client, "MetadataRequest"),
    (AIOKafkaClient, "_maybe_wait_metadata"),
    (AIOKafkaClient, "bootstrap"),
    (AIOKafkaClient, "hosts"),
    (conn, "AIOKafkaConnection"),
    (conn, "READER_LIMIT"),
    (conn.AIOKafkaConnection, "_handle_frame"),
    (conn.AIOKafkaConnection, "_next_correlation_id"),
    (fetcher, "MemoryRecords"),
    (fetcher, "PartitionRecords"),
    (fetcher.PartitionRecords, "_unpack_records"),
    (message_accumulator.MessageAccumulator, "_append_batch"),
    (message_accumulator.MessageAccumulator, "_pop_batch"),
    (message_accumulator.MessageAccumulator, "drain_by_nodes"),
    (message_accumulator.MessageAccumulator, "fail_all"),
    (message_accumulator.MessageAccumulator, "reenqueue"),
    (aiokafka_producer, "MessageAccumulator"),
    (aiokafka_producer, "Sender"),
    (sender, "SendProduceReqHandler"),
    (sender.SendProduceReqHandler, "_can_retry"),
    (sender.Sender, "_maybe_wait_for_pid"),
    (sender.Sender, "_sender_routine"),
    (util, "get_running_loop"),
)
"""Every replaced or inner name. Assigning to a name that has moved would have no effect and raise no error."""


@pytest.mark.parametrize(("owner", "name"), INNER_NAMES, ids=lambda each: getattr(each, "__name__", each))
def test_aiokafka_has_each_name_that_is_replaced_or_used(owner: object, name: str) -> None:
    """Results would be those of another engine."""
    assert hasattr(owner, name)


def test_a_client_uses_its_timeout_when_it_connects() -> None:
    """The plugin shortens it while other servers may answer."""
    assert "request_timeout_ms=self._request_timeout_ms" in inspect.getsource(connection._bootstrap)


def test_another_version_of_aiokafka_stops_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests have not seen it."""
    check_aiokafka()
    monkeypatch.setattr(aiokafka, "__version__", "0.15.0")
    with pytest.raises(LoadError) as raised:
        check_aiokafka()
    assert str(raised.value) == (
        "aiokafka 0.15.0 is installed, but the load generator replaces internals of aiokafka 0.14 and works only with "
        "that version; run: pip install 'aiokafka>=0.14,<0.15'"
    )
    pyproject = Path(__file__).parents[5] / "pyproject.toml"
    assert '"aiokafka[lz4,snappy,zstd]>=0.14,<0.15"' in pyproject.read_text(encoding="utf-8")


def test_adapt_replaces_nothing_that_is_not_checked() -> None:
    """A name that is added to `adapt` is added to the list, too."""
    source = ast.parse(textwrap.dedent(inspect.getsource(adapt)))
    assigned = {
        ast.unparse(target)
        for node in ast.walk(source)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
    checked = {f"{owner.__name__.rpartition('.')[2]}.{name}" for owner, name in INNER_NAMES}
    assert assigned != set()
    assert assigned <= checked


def test_fetchers_look_up_what_adapt_replaces() -> None:
    """In their module, each time: that is where `adapt` puts ours."""
    adapt(Scenario.of({}))
    source = inspect.getsource(fetcher.Fetcher._proc_fetch_request)

    assert "PartitionRecords(" in source
    assert "MemoryRecords(part_data[-1])" in source
    assert (fetcher.PartitionRecords, fetcher.MemoryRecords) == (BatchedRecords, FetchedBatches)
    assert "fetcher." not in source


# The rest


def test_encoding_tells_how_much_a_record_takes() -> None:
    """Templates rest on it: where each record ends."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    before = builder.size()
    taken = [builder.append(offset, 0, b"key", bytes(offset), [("h", b"v")]) for offset in range(300)]

    assert before + sum(metadata.size for metadata in taken) == builder.size() == len(builder.build())


def test_futures_and_tasks_are_made_by_the_loop_that_util_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """`adapt` puts asyncio's own way there, for producers of batches only."""
    adapt(Scenario.of({}))
    assert util.get_running_loop is asyncio.get_running_loop
    adapt(Scenario.of({"client": "record"}))
    assert "asyncio.get_event_loop()" in inspect.getsource(util.get_running_loop)

    class FoundError(Exception):
        pass

    def find() -> None:
        raise FoundError

    monkeypatch.setattr(util, "get_running_loop", find)
    for make in (util.create_future, lambda: util.create_task(None)):
        with pytest.raises(FoundError):
            make()


def test_clients_ask_about_topics_without_creating_them() -> None:
    """A topic that is gone stays gone: by default a broker may create what somebody asks about."""
    adapt(Scenario.of({}))
    source = inspect.getsource(AIOKafkaClient)

    assert source.count("MetadataRequest(") == 2
    asked = aiokafka_client.MetadataRequest(["orders"]).prepare({3: (0, 5)})
    assert (asked.API_VERSION, asked.allow_auto_topic_creation) == (5, False)


def test_clients_make_connections_of_the_class_and_buffer_that_we_replace() -> None:
    """`Connection` stands in for it, and overrides some of its methods."""
    adapt(Scenario.of({}))
    connection = ReloginConnection.__base__

    assert conn.AIOKafkaConnection is Connection
    assert conn.READER_LIMIT == 8 << 20
    assert "reader = asyncio.StreamReader(limit=READER_LIMIT, " in inspect.getsource(connection.connect)
    assert "conn = AIOKafkaConnection(" in inspect.getsource(conn.create_conn)
    assert list(inspect.signature(connection.send).parameters) == ["self", "request", "expect_response"]
    assert "return self._writer.drain()" in inspect.getsource(connection.send)
    assert list(inspect.signature(connection.close).parameters) == ["self", "reason", "exc"]
    assert "self._requests.append(" in inspect.getsource(connection.send)  # a login's requests are moved to the front
    handshake = inspect.getsource(connection._do_sasl_handshake)
    assert "await self.send(SaslHandShakeRequest(self._sasl_mechanism))" in handshake
    assert "resp = await self.send(SaslAuthenticateRequest(payload))" in handshake
    assert "authenticator = self.authenticator_oauth()" in handshake
    assert "CONNECTION_BROKEN" in conn.CloseReason.__members__
    assert list(inspect.signature(AIOKafkaClient.send).parameters) == ["self", "node_id", "request", "group"]


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_write_to_a_broken_connection_is_a_kafka_error(loop_factory: Any) -> None:
    """Any other would end the client for good, where it should connect again."""

    async def send(*, expect_response: bool) -> str:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        connection = Connection(*address, security_protocol="PLAINTEXT", ssl_context=None)
        connection._reader, connection._writer = await asyncio.open_connection(*address)
        connection._read_task = asyncio.ensure_future(asyncio.sleep(0))
        connection._versions = {3: (0, 12)}
        connection._writer.transport.abort()
        await connection._writer.wait_closed()
        server.close()
        with pytest.raises(KafkaConnectionError, match=r"^KafkaConnectionError: Connection at 127.0.0.1:\d+ "):
            await connection.send(MetadataRequest([]), expect_response=expect_response)
        return "told"

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(send(expect_response=False)) == "told"
        if loop_factory is uvloop.new_event_loop:  # asyncio takes no notice: there the reader finds out
            assert runner.run(send(expect_response=True)) == "told"


def test_the_scenario_reaches_the_clients() -> None:
    """Acks, compression, sizes, linger, transactions and what was passed on; consumers start at the end."""

    async def make() -> None:
        scenario = Scenario.of(
            {
                "compression": "zstd",
                "batch_size": "1 MiB",
                "transaction_size": 10,
                "consumers": 1,
                "isolation_level": "read_committed",
                "producer_config": {"request.timeout.ms": 1234},
                "consumer_config": {"fetch_max_wait_ms": 77},
            }
        )
        client = make_producer(scenario, NOWHERE, {}, transactional_id="group-3", largest=2 << 20)
        assert (client._sender._acks, client._compression_type, client._request_timeout_ms) == (-1, "zstd", 1234)
        assert client._message_accumulator._batch_size == 1 << 20
        assert client._message_accumulator._linger_time == 0  # the schedule's work
        assert client._max_request_size > 3 << 20
        assert client._txn_manager.transactional_id == "group-3"
        consumer = make_consumer(scenario, "topic", "group", NOWHERE, {"client_id": "me"}).client
        assert (consumer._auto_offset_reset, consumer._enable_auto_commit) == ("latest", False)
        assert (consumer._isolation_level, consumer._fetch_max_wait_ms) == ("read_committed", 77)
        assert consumer._client._client_id == "me"
        reader = make_reader(NOWHERE, {})
        assert (reader._auto_offset_reset, reader._group_id) == ("none", None)
        for one in (client, consumer, reader):
            await one.stop()

    in_loop(make)


def test_a_client_of_single_records_lingers_by_itself() -> None:
    """It is there to measure what an application gets: nothing of it is ours."""

    async def make() -> None:
        client = producer_of(client="record", linger="20 ms")
        assert client._message_accumulator._linger_time == 0.02
        assert (type(client._sender._in_flight), type(client._sender._muted_partitions)) == (set, set)
        assert client._txn_manager is None
        await client.stop()

    in_loop(make)

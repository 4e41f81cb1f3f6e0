"""Producers on a clock of the test: no broker, no waiting, and the same in every run.

The producer under test is the engine's own, and so is its client, which is never started: what it has queued is taken
from it, and acknowledged after as long as the test says. Time passes only when everybody waits for it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pytest
from aiokafka import client, conn, util
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaError
from aiokafka.producer import producer as aiokafka_producer
from aiokafka.producer import sender
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import RecordMetadata, TopicPartition

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import Timer
from pytest_kafkaperf.load.engines.aiokafka import (
    batch_producer,
    generated_producer,
    keyed_producer,
    producers,
    record_producer,
)
from pytest_kafkaperf.load.engines.aiokafka.clients import adapt, make_producer
from pytest_kafkaperf.load.engines.aiokafka.producers import Producer, ProducerSetup, Window
from pytest_kafkaperf.load.engines.aiokafka.templates import Templates
from pytest_kafkaperf.load.engines.aiokafka.worker import kind_of_producer
from pytest_kafkaperf.load.identity import origin
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.schedule import records_of_producer
from pytest_kafkaperf.scenarios.identify import HEADER
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.load.messages import Produced

TOPIC = "topic"
START_NS = 100 * NS_PER_S
MS = 1_000_000
_TAG = struct.Struct(">qq")


def adapt_here(monkeypatch: pytest.MonkeyPatch, scenario: Scenario) -> None:
    """As a worker does to its process, for the length of one test."""
    for module, name in (
        (fetcher, "PartitionRecords"),
        (fetcher, "MemoryRecords"),
        (conn, "AIOKafkaConnection"),
        (conn, "READER_LIMIT"),
        (client, "MetadataRequest"),
        (util, "get_running_loop"),
        (sender, "SendProduceReqHandler"),
        (aiokafka_producer, "Sender"),
        (aiokafka_producer, "MessageAccumulator"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    adapt(scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A batch that left the producer, or one record of a client that batches by itself."""

    at_ns: int
    partition: int
    indexes: list[int]
    """Of its records; by the first one's tag, where the others have none. Zeros if records have identities."""
    dues_ns: list[int]
    """As the tags say."""
    keys: list[bytes | None]
    sizes: list[int]
    """Bytes of values."""
    values: list[bytes] = field(default_factory=list)
    headers: list[list[tuple[str, bytes]]] = field(default_factory=list)
    """Each record's headers, including the tag."""


@dataclass(slots=True, kw_only=True)
class Simulation(Timer):
    """One producer's round."""

    scenario: Scenario
    number: int = 0
    latency_ns: Callable[[Sent], int] = lambda _: 2 * MS
    """From being sent to the acknowledgement."""
    error: Callable[[Sent], KafkaError | None] = lambda _: None
    """Ends the batch instead of an acknowledgement."""
    commit_ns: int = 3 * MS
    give_up_ns: int | None = None
    """When the controller loses patience."""
    now_ns: int = START_NS - 10 * NS_PER_S
    sent: list[Sent] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """Beginnings and ends of transactions."""
    visible: int = 0
    in_flight: dict[int, int] = field(default_factory=dict)
    most_in_flight: int = 0
    """Batches of a partition."""
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)
    _ended_ns: dict[int, int] = field(default_factory=dict)
    _offsets: dict[int, int] = field(default_factory=dict)
    _accumulator: Any = None

    def run(self, monkeypatch: pytest.MonkeyPatch) -> Produced:
        """The whole round: warm-up, window, settling."""
        adapt_here(monkeypatch, self.scenario)
        for module in (batch_producer, generated_producer, keyed_producer, producers, record_producer):
            monkeypatch.setattr(module, "now_ns", lambda: self.now_ns)
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_NothingFromOutside())) as runner:
            return runner.run(self._run())

    @property
    def indexes(self) -> list[int]:
        """Of all records, in the order in which they left."""
        return [index for one in self.sent for index in one.indexes]

    async def _run(self) -> Produced:
        scenario = self.scenario
        payload = Payload(scenario, seed=1)
        kafka = make_producer(scenario, "127.0.0.1:9", {}, transactional_id="t", largest=payload.largest)
        kafka._txn_manager = kafka._message_accumulator._txn_manager = None  # transactions are the simulation's
        self._accumulator = kafka._message_accumulator
        client = _Client(simulation=self, kafka=kafka)
        try:
            return await self._drive(self._producer(client, payload))
        finally:
            await kafka.stop()

    def _producer(self, client: _Client, payload: Payload) -> Producer:
        templates = Templates(payload)
        setup = ProducerSetup(scenario=self.scenario, topic=TOPIC, templates=templates, seed=1, on_visible=self._see)
        return kind_of_producer(self.scenario, payload)(client, self.number, setup)

    async def _drive(self, producer: Producer) -> Produced:
        scenario = self.scenario
        end_ns = None if scenario.duration is None else START_NS + round(scenario.duration * NS_PER_S)
        warm_from_ns = START_NS - round(scenario.warmup * NS_PER_S)
        records = (
            None if scenario.records is None else records_of_producer(scenario.records, self.number, scenario.producers)
        )
        window = Window(start_ns=START_NS, warm_from_ns=warm_from_ns, end_ns=end_ns, records=records)
        self.now_ns = warm_from_ns
        if self.give_up_ns is not None:
            self.at(self.give_up_ns, producer.give_up)
        running = asyncio.ensure_future(producer.run(window, self, Series(START_NS), settle_s=60))
        while True:
            await _all_that_can_happen_now()
            self._take()
            if running.done():
                return await running
            assert self._events, "it waits for nothing that will ever come"
            instant_ns, _, happen = heapq.heappop(self._events)
            self.now_ns = max(self.now_ns, instant_ns)
            happen()

    def stall(self, instant_ns: int, length_ns: int) -> None:
        """The producer's process stands still for so long."""

        def stand_still() -> None:
            self.now_ns += length_ns

        self.at(instant_ns, stand_still)

    def at(self, instant_ns: int, happen: Callable[[], None]) -> None:
        """Something will happen."""
        heapq.heappush(self._events, (instant_ns, next(self._order), happen))

    async def until(self, deadline_ns: int) -> None:
        """As an alarm."""
        if deadline_ns > self.now_ns:
            rang: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.at(deadline_ns, lambda: None if rang.done() else rang.set_result(None))
            await rang

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def deliver(self, one: Sent, done: Callable[[int], None], failed: Callable[[KafkaError], None]) -> None:
        """It was sent; what becomes of it. Those of a partition end in their order."""
        self.sent.append(one)
        partition = one.partition
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight[partition])
        ends_ns = max(one.at_ns + self.latency_ns(one), self._ended_ns.get(partition, 0))
        self._ended_ns[partition] = ends_ns
        error = self.error(one)

        def end() -> None:
            self.in_flight[partition] -= 1
            if error is not None:
                failed(error)
                return
            offset = self._offsets.get(partition, 0)
            self._offsets[partition] = offset + len(one.indexes)
            done(offset)

        self.at(ends_ns, end)

    def _take(self) -> None:
        """What the client has queued."""
        for where, queue in list(self._accumulator._batches.items()):
            while queue:
                batch_producer = queue.popleft()
                batch_producer.drain_ready()
                one = self._decoded(bytes(batch_producer.get_data_buffer()), where.partition)
                self.deliver(one, batch_producer.done, batch_producer.failure)
        self._accumulator._batches.clear()

    def _decoded(self, data: bytes, partition: int) -> Sent:
        records = list(MemoryRecords(data).next_batch())
        tags = [(0, 0) if self.scenario.joins_identities else _tag(_tag_bytes(record)) for record in records]
        return Sent(
            at_ns=self.now_ns,
            partition=partition,
            indexes=[index for _, index in tags],
            dues_ns=[due_ns for due_ns, _ in tags],
            keys=[record.key for record in records],
            sizes=[len(record.value) for record in records],
            values=[record.value for record in records],
            headers=[list(record.headers) for record in records],
        )

    def _see(self, count: int) -> None:
        self.visible += count


@dataclass(slots=True, kw_only=True)
class _Client:
    """The client of the simulation: aiokafka's for batches, its own for single records and for transactions."""

    simulation: Simulation
    kafka: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kafka, name)

    async def begin_transaction(self) -> None:
        self.simulation.told.append("begin")

    async def commit_transaction(self) -> None:
        await self._end("commit")

    async def abort_transaction(self) -> None:
        await self._end("abort")

    async def _end(self, how: str) -> None:
        self.simulation.told.append(how)
        await self.simulation.until(self.simulation.now_ns + self.simulation.commit_ns)

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None, headers: list[tuple[str, bytes]]
    ) -> asyncio.Future[RecordMetadata]:
        """As `AIOKafkaProducer.send`."""
        assert (topic, headers) == (TOPIC, [])
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        due_ns, index = _tag(value)
        one = Sent(
            at_ns=self.simulation.now_ns,
            partition=0,
            indexes=[index],
            dues_ns=[due_ns],
            keys=[key],
            sizes=[len(value)],
        )

        def done(offset: int) -> None:
            future.set_result(RecordMetadata(TOPIC, 0, TopicPartition(TOPIC, 0), offset, 0, 0, 0))

        self.simulation.deliver(one, done, future.set_exception)
        return future


class _NothingFromOutside(selectors.SelectSelector):
    """A selector that does not ask the system: no event of a simulation comes from there."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:  # noqa: ARG002
        return []


def _tag_bytes(record: Any) -> bytes:
    """Return a record's tag, from its header if it has one; short values without a header have none."""
    found: bytes = dict(record.headers).get(HEADER, record.value)
    return found[: _TAG.size].ljust(_TAG.size, bytes(1))


def _tag(value: bytes) -> tuple[int, int]:
    due_ns, named = _TAG.unpack_from(value)
    return due_ns, origin(named)[1]


async def _all_that_can_happen_now() -> None:
    loop: Any = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready:
        await asyncio.sleep(0)

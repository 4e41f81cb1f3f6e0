"""The worker: one picklable function, assignment in, report out."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from pytest_kafkaperf.clusters.client.connection import Notes, close
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.aiokafka_hooks import adapt
from pytest_kafkaperf.load.batch_decoder import reader_of
from pytest_kafkaperf.load.clients import REQUEST_TIMEOUT_S, make_consumer, make_producer
from pytest_kafkaperf.load.clock import make_alarm, now_ns
from pytest_kafkaperf.load.consumer import Consumer
from pytest_kafkaperf.load.messages import Assignment, WorkerReport
from pytest_kafkaperf.load.payload import Payload, RecordFilter
from pytest_kafkaperf.load.producers.base import Producer, Window
from pytest_kafkaperf.load.producers.batch import BatchProducer
from pytest_kafkaperf.load.producers.keyed import KeyedProducer
from pytest_kafkaperf.load.producers.record import RecordProducer
from pytest_kafkaperf.load.schedule import window_s
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters, WorkerState
from pytest_kafkaperf.load.timeseries import Series
from pytest_kafkaperf.scenario.scenario import RECORDS_TIMEOUT_S, Scenario

DRAIN_TIMEOUT_S = 30
"""Bound of reading what is left after production, and of sending what was due in the window."""
_CONNECT_TIMEOUT_S = 20
"""Bound of connecting one client and of joining its group."""
_START_TIMEOUT_S = 90
"""Bound of waiting for the start instant: the other workers connect meanwhile."""
_SETTLE_MARGIN_S = 5
_TICK_S = 0.05
_READY_TICK_S = 0.01

T = TypeVar("T")


def work(assignment: Assignment) -> WorkerReport:
    """Run one worker's part of one round.

    Raises:
        LoadError: a client could not connect or join its group; the text says which and why.

    """
    adapt(assignment.scenario, reader_of(assignment.scenario))
    gc.collect()
    gc.freeze()  # what is here stays: later collections need not look at it
    with Notes() as notes, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(LoadWorker(assignment, notes).run())


def settle_timeout_s(scenario: Scenario) -> float:
    """Bound of waiting for the fate of what was sent."""
    request_ms: int = scenario.producer_config.get("request_timeout_ms", REQUEST_TIMEOUT_S * 1000)
    return request_ms / 1000 + _SETTLE_MARGIN_S


def longest_s(scenario: Scenario) -> float:
    """Bound of sending the records of a window, from its start on: what is not sent then is missing."""
    length_s = window_s(scenario)
    return RECORDS_TIMEOUT_S if length_s is None else length_s + max(length_s, DRAIN_TIMEOUT_S / 2)


class LoadWorker:
    """Holds what the parts of one worker share."""

    def __init__(self, assignment: Assignment, notes: Notes) -> None:
        self._assignment = assignment
        self._notes = notes
        self._counters = SharedCounters(assignment.counters, groups=assignment.scenario.consumer_groups)
        self._scenario = assignment.scenario
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._visible = 0

    async def run(self) -> WorkerReport:
        """Take part in one round and report it."""
        report = WorkerReport(worker=self._assignment.worker)
        with self._counters as counters:
            async with self._clients():
                start_ns = await self._start_instant(counters)
                if start_ns is not None:
                    await self._load(report, counters, start_ns)
        report.notes = self._notes.texts()
        return report

    @contextlib.asynccontextmanager
    async def _clients(self) -> AsyncIterator[None]:
        """Start all clients at once, and stop them at once.

        Members that join one after the other would each make the group start again, and where a cluster is gone,
        each stop takes its whole bound.
        """
        assignment, scenario = self._assignment, self._scenario
        servers, config = assignment.bootstrap_servers, assignment.access.arguments()
        payload = Payload(scenario, seed=assignment.seed) if assignment.producers else None
        largest = payload.largest if payload else 0
        read_topic = scenario.output_topic or assignment.topic
        try:
            writers = {
                number: make_producer(
                    scenario, servers, config, transactional_id=f"{assignment.group}-{number}", largest=largest
                )
                for number in assignment.producers
            }
            readers = [
                (group, make_consumer(scenario, read_topic, f"{assignment.group}-{group}", servers, config))
                for group in assignment.consumers
            ]
        except (AssertionError, TypeError, ValueError) as error:
            refused = f"aiokafka refuses the settings of a client: {type(error).__name__}: {error}"
            raise LoadError(f"{refused}; check producer_config and consumer_config") from None
        connecting = [_connect(self._start_writer(client), f"producer {n}", servers) for n, client in writers.items()]
        connecting += [_connect(client.start(), "a consumer", servers) for _, client in readers]
        try:
            await _together(connecting)
            if payload is not None:
                self._producers = [self._producer(number, client, payload) for number, client in writers.items()]
            self._consumers = [
                Consumer(
                    client,
                    group=group,
                    on_received=functools.partial(self._post_received, group),
                    missing=functools.partial(self._missing, group),
                    own=RecordFilter.of(scenario),
                )
                for group, client in readers
            ]
            yield
        finally:
            clients = [*writers.values(), *(client for _, client in readers)]
            await asyncio.gather(*map(close, clients), return_exceptions=True)

    async def _start_writer(self, client: Any) -> None:
        await client.start()
        await client.partitions_for(self._assignment.topic)

    def _producer(self, number: int, client: Any, payload: Payload) -> Producer:
        scenario = self._scenario
        kind: type[Producer] = BatchProducer if scenario.key is None else KeyedProducer
        return (RecordProducer if scenario.client == "record" else kind)(
            client=client,
            scenario=scenario,
            number=number,
            topic=self._assignment.topic,
            payload=payload,
            seed=self._assignment.seed,
            on_visible=self._post_visible,
        )

    async def _start_instant(self, counters: SharedCounters) -> int | None:
        """Be ready, and wait for the instant at which the window opens; None when the round is given up before.

        The group may still hand partitions to members that come later, so positions are settled again and again.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (start_ns := counters.start_ns) is None:
            held = [await consumer.settle_position() for consumer in self._consumers]
            self._tell(Counter.ASSIGNED, sum(held))
            self._tell(Counter.STATE, WorkerState.READY)
            if counters.stopped:
                return None
            if time.monotonic() > deadline:
                raise LoadError(f"no start instant within {_START_TIMEOUT_S} s")
            await asyncio.sleep(_READY_TICK_S)
        return start_ns

    async def _load(self, report: WorkerReport, counters: SharedCounters, start_ns: int) -> None:
        meter = _Meter()
        self._notes.clear()
        report.produce_series, report.consume_series = Series(start_ns), Series(start_ns)
        watch = asyncio.ensure_future(self._watch(counters, start_ns, meter, report.produce_series))
        try:
            await _together([self._produce(report, start_ns, meter), self._consume(report, counters, start_ns)])
            if not self._producers:
                report.cpu_s, report.busy_ratio = meter.read()
            self._tell(Counter.STATE, WorkerState.DONE)
            if self._consumers:
                await self._until_all_are_done(counters)
        finally:
            watch.cancel()

    async def _produce(self, report: WorkerReport, start_ns: int, meter: _Meter) -> None:
        with contextlib.ExitStack() as alarms:
            report.produced = await _together(
                [
                    producer.run(
                        self._window(start_ns, number),
                        alarms.enter_context(make_alarm()),
                        report.produce_series,
                        settle_s=settle_timeout_s(self._scenario),
                    )
                    for number, producer in zip(self._assignment.producers, self._producers, strict=True)
                ]
            )
        if self._producers:
            report.cpu_s, report.busy_ratio = meter.read()
        self._post()
        self._tell(Counter.STATE, WorkerState.PRODUCED)

    async def _consume(self, report: WorkerReport, counters: SharedCounters, start_ns: int) -> None:
        report.consumed = await _together(
            [
                consumer.run(
                    start_ns,
                    report.consume_series,
                    backlog=self._scenario.consume == "backlog",
                    drain_ns=lambda: counters.drain_ns,
                    stopped=lambda: counters.stopped,
                    drain_s=DRAIN_TIMEOUT_S,
                )
                for consumer in self._consumers
            ]
        )

    async def _until_all_are_done(self, counters: SharedCounters) -> None:
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while not (counters.all_reached(WorkerState.DONE) or counters.stopped or time.monotonic() > deadline):
            await asyncio.sleep(_TICK_S)

    def _window(self, start_ns: int, number: int) -> Window:
        scenario = self._scenario
        duration_ns = None if scenario.duration is None else round(scenario.duration * NS_PER_S)
        return Window(
            start_ns=start_ns,
            warm_from_ns=start_ns - round(scenario.warmup * NS_PER_S),
            end_ns=None if duration_ns is None else start_ns + duration_ns,
            records=None
            if scenario.records is None
            else records_of_producer(scenario.records, number, scenario.producers),
        )

    async def _watch(self, counters: SharedCounters, start_ns: int, meter: _Meter, series: Series) -> None:
        """Post progress; end the load when the controller says so or its time is up."""
        last_ns = start_ns + round(longest_s(self._scenario) * NS_PER_S)
        measuring = False
        second = 0
        while True:
            self._post()
            if second != (second := (now_ns() - start_ns) // NS_PER_S):  # once a second, for some microseconds
                self._tell(Counter.P99_NS, series.recent_ns(0.99) or 0)
            if not measuring and now_ns() >= start_ns:
                meter.start()
                measuring = True
            for producer in self._producers:
                if counters.stopped or now_ns() > last_ns:
                    producer.give_up()
                if counters.stopped:
                    producer.abandon()
            await asyncio.sleep(_TICK_S)

    def _tell(self, cell: int, value: int) -> None:
        self._counters.write(self._assignment.worker, cell, value)

    def _post(self) -> None:
        ledgers = [producer.ledger for producer in self._producers]
        self._tell(Counter.SENT, sum(ledger.sent for ledger in ledgers))
        self._tell(Counter.SETTLED, sum(ledger.answered for ledger in ledgers))

    def _post_visible(self, count: int) -> None:
        self._visible += count
        self._tell(Counter.VISIBLE, self._visible)

    def _missing(self, group: int) -> int:
        """How many of the records that all workers have written a group has not received."""
        return self._counters.total(Counter.VISIBLE) - self._counters.received()[group]

    def _post_received(self, group: int) -> None:
        received = sum(consumer.report.total for consumer in self._consumers if consumer.report.group == group)
        self._tell(Counter.RECEIVED + group, received)


class _Meter:
    """CPU seconds of this process, and how busy it was, since `start`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._since_ns, self._cpu_s, self._runnable_ns = now_ns(), time.process_time(), _runnable_ns()

    def read(self) -> tuple[float, float]:
        """CPU seconds, and the share of the time in which the process ran or waited for a core."""
        elapsed_ns = max(1, now_ns() - self._since_ns)
        cpu_s = time.process_time() - self._cpu_s
        runnable_ns = _runnable_ns()
        if runnable_ns is None or self._runnable_ns is None:
            return cpu_s, min(1.0, cpu_s * NS_PER_S / elapsed_ns)
        return cpu_s, min(1.0, (runnable_ns - self._runnable_ns) / elapsed_ns)


def _runnable_ns() -> int | None:
    """Time that the main thread ran or waited for a core (Linux, Documentation/scheduler/sched-stats.rst)."""
    try:
        running, waiting, _ = Path("/proc/self/schedstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(running) + int(waiting)


async def _connect(starting: Coroutine[Any, Any, None], name: str, servers: str) -> None:
    """Start a client within a bound."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await starting
    except TimeoutError:
        raise LoadError(f"{name} could not connect to {servers} within {_CONNECT_TIMEOUT_S} s") from None
    except (KafkaError, OSError, ValueError) as error:
        raise LoadError(f"{name} could not connect to {servers}: {type(error).__name__}: {error}") from None


async def _together(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Like `asyncio.gather`, but when one fails, the others are cancelled and ended before it is told."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where it is installed: 10 to 25 % less CPU a record."""
    try:
        import uvloop  # noqa: PLC0415 - absent on Windows
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def records_of_producer(records: int, number: int, producers: int) -> int:
    """How many of `records` fall to producer `number`."""
    return records // producers + (number < records % producers)

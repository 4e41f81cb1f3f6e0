"""Worker: a picklable function that takes an assignment and returns a report."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.clusters.admin.connection import Notes, close
from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import make_alarm, now_ns
from pytest_kafkaperf.load.engines.aiokafka.batch_producer import BatchProducer
from pytest_kafkaperf.load.engines.aiokafka.clients import adapt, make_consumer, make_producer
from pytest_kafkaperf.load.engines.aiokafka.consumer import Consumer
from pytest_kafkaperf.load.engines.aiokafka.generated_producer import GeneratedProducer, encodes_each_record
from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import KeyedProducer
from pytest_kafkaperf.load.engines.aiokafka.producers import Producer, ProducerSetup, Window
from pytest_kafkaperf.load.engines.aiokafka.record_producer import RecordProducer
from pytest_kafkaperf.load.engines.aiokafka.sender import repeated_batches
from pytest_kafkaperf.load.engines.aiokafka.templates import Templates
from pytest_kafkaperf.load.messages import Assignment, WorkerReport
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.load.recorder import Series, merged
from pytest_kafkaperf.load.schedule import DRAIN_TIMEOUT_S, longest_s, records_of_producer, settle_timeout_s, window_s
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters, WorkerState
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, Scenario

_LEADERS_TIMEOUT_S = 5
"""Time limit for connecting to the leaders. A broker that does not respond shows up in the results."""
_CONNECT_TIMEOUT_S = 20
"""Time limit for connecting one client and joining its group."""
_START_TIMEOUT_S = 90
"""Maximum wait for the start instant, while the other workers connect."""
_TICK_S = 0.05
_READY_TICK_S = 0.01

T = TypeVar("T")


def work(assignment: Assignment) -> WorkerReport:
    """Run one worker's part of one round.

    Raises:
        LoadError: a client could not connect or join its group; the message shows the client and the reason.

    """
    import uvloop  # noqa: PLC0415 - for worker processes only; takes 10 to 25 % less CPU per record than asyncio's

    adapt(assignment.scenario, assignment.nonce)
    gc.collect()
    gc.freeze()  # these objects live on, so later collections skip them
    with Notes() as notes, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(LoadWorker(assignment, notes).run())


def kind_of_producer(scenario: Scenario, payload: Payload) -> type[Producer]:
    """Return the producer class for a scenario and its payload."""
    if scenario.client == "record":
        return RecordProducer
    if encodes_each_record(scenario, payload):
        return GeneratedProducer
    return BatchProducer if scenario.key is None else KeyedProducer


class LoadWorker:
    """State shared by the parts of one worker."""

    def __init__(self, assignment: Assignment, notes: Notes) -> None:
        self._assignment = assignment
        self._notes = notes
        self._counters = SharedCounters(assignment.counters, groups=assignment.scenario.consumer_groups)
        self._scenario = assignment.scenario
        self._writers: list[Any] = []
        """Producers' clients."""
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._visible = 0
        try:
            self._config = assignment.access.arguments()
        except ClusterError as error:
            raise LoadError(str(error)) from None

    async def run(self) -> WorkerReport:
        """Take part in one round and return the report."""
        report = WorkerReport()
        with self._counters as counters:
            await self._while_logged_in(self._take_part(report, counters))
        report.notes = self._notes.notices("aiokafka")
        return report

    @contextlib.asynccontextmanager
    async def _clients(self) -> AsyncIterator[None]:
        """Start all clients concurrently, and stop them concurrently.

        If members joined one by one, each would trigger a rebalance. If the cluster is gone, stopping each client takes
        the full time limit.
        """
        assignment, scenario = self._assignment, self._scenario
        servers, config = assignment.bootstrap_servers, self._config
        topic, prefix = scenario.output_topic or assignment.topic, assignment.group
        payload = Payload(scenario, seed=assignment.seed, nonce=assignment.nonce) if assignment.producers else None
        largest = payload.largest if payload else 0
        try:
            writers = {
                number: make_producer(scenario, servers, config, transactional_id=f"{prefix}-{number}", largest=largest)
                for number in assignment.producers
            }
            readers = [
                (group, make_consumer(scenario, topic, f"{prefix}-{group}", servers, config))
                for group in assignment.consumers
            ]
        except (AssertionError, TypeError, ValueError) as error:
            rejected = f"aiokafka rejects the client configuration: {type(error).__name__}: {error}"
            raise LoadError(f"{rejected}; check producer_config and consumer_config") from None
        connecting = [_connect(self._start_writer(client), f"producer {n}", servers) for n, client in writers.items()]
        connecting += [_connect(member.client.start(), "a consumer", servers) for _, member in readers]
        try:
            await _gather(connecting)
            self._writers = [*writers.values()]
            if payload is not None:
                self._producers = self._producers_of(writers, payload)
            self._consumers = [
                Consumer(
                    member,
                    scenario,
                    group=group,
                    nonce=assignment.nonce,
                    counters=self._counters,
                    on_received=functools.partial(self._publish_received, group),
                )
                for group, member in readers
            ]
            yield
        finally:
            clients = [*writers.values(), *(member.client for _, member in readers)]
            await asyncio.gather(*map(close, clients), return_exceptions=True)

    async def _start_writer(self, client: Any) -> None:
        await client.start()
        topic, cluster = self._assignment.topic, client.client.cluster
        partitions = [TopicPartition(topic, number) for number in await client.partitions_for(topic)]
        # Until there is a connection, later batches can overtake the first ones (`sender.Sender._post`).
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEADERS_TIMEOUT_S):
                for leader in {cluster.leader_for_partition(partition) for partition in partitions} - {None, -1}:
                    await client.client.ready(leader)

    def _producers_of(self, writers: Mapping[int, Any], payload: Payload) -> list[Producer]:
        setup = ProducerSetup(
            scenario=self._scenario,
            topic=self._assignment.topic,
            templates=Templates(payload),
            seed=self._assignment.seed,
            on_visible=self._add_visible,
        )
        kind = kind_of_producer(self._scenario, payload)
        return [kind(client, number, setup) for number, client in writers.items()]

    async def _start_instant(self, counters: SharedCounters) -> int | None:
        """Report readiness and wait for the window's start; return None if the controller stops the round.

        Positions are set repeatedly, because a rebalance may still assign partitions to members that join later.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (start_ns := counters.start_ns) is None:
            assigned = [await consumer.settle_position() for consumer in self._consumers]
            self._publish(Counter.ASSIGNED, sum(assigned))
            self._publish(Counter.STATE, WorkerState.READY)
            if counters.stopped:
                return None
            if time.monotonic() > deadline:
                raise LoadError(f"the controller did not start the round within {_START_TIMEOUT_S} s")
            await asyncio.sleep(_READY_TICK_S)
        return start_ns

    async def _take_part(self, report: WorkerReport, counters: SharedCounters) -> None:
        async with self._clients():
            start_ns = await self._start_instant(counters)
            if start_ns is not None:
                await self._load(report, counters, start_ns)

    async def _while_logged_in(self, load: Coroutine[Any, Any, None]) -> None:
        """Run the load; if a login with a token or ticket fails, stop at once, because clients would retry for a while.

        Raises:
            LoadError: a login failed.

        """
        provider = self._config.get("sasl_oauth_token_provider")
        if provider is None:
            await load
            return
        running, failing = asyncio.ensure_future(load), asyncio.ensure_future(provider.failure())
        try:
            await asyncio.wait([running, failing], return_when=asyncio.FIRST_COMPLETED)
            if failing.done() and (not running.done() or running.exception() is not None):
                raise LoadError(failing.result())
            await running
        finally:
            for task in (running, failing):
                task.cancel()
            await asyncio.wait([running, failing])

    async def _load(self, report: WorkerReport, counters: SharedCounters, start_ns: int) -> None:
        meter = _Meter()
        self._notes.clear()
        length_s = self._scenario.warmup + (window_s(self._scenario) or 0)
        report.produce_series, report.consume_series = Series.of(length_s, start_ns), Series.of(length_s, start_ns)
        watch = asyncio.ensure_future(self._watch(report.produce_series, counters, start_ns, meter))
        try:
            await _gather([self._produce(report, start_ns, meter), self._consume(report, start_ns)])
            if not self._producers:
                report.cpu_s, report.busy_ratio = meter.read()
            self._publish(Counter.STATE, WorkerState.DONE)
            if self._consumers:
                await self._until_all_are_done(counters)
        finally:
            watch.cancel()

    async def _produce(self, report: WorkerReport, start_ns: int, meter: _Meter) -> None:
        with contextlib.ExitStack() as alarms:
            report.produced = await _gather(
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
        report.repeated_batches = sum(repeated_batches(client._sender) for client in self._writers)  # noqa: SLF001
        self._publish_sent()
        self._publish(Counter.STATE, WorkerState.PRODUCED)

    async def _consume(self, report: WorkerReport, start_ns: int) -> None:
        report.consumed = await _gather(
            [consumer.run(start_ns, report.consume_series, drain_s=DRAIN_TIMEOUT_S) for consumer in self._consumers]
        )

    async def _until_all_are_done(self, counters: SharedCounters) -> None:
        """Stay in the groups, because a leaving member's partitions would move to others that read from elsewhere.

        The controller stops a round that does not end. The time limit applies if the controller is gone.
        """
        deadline = time.monotonic() + RECORDS_TIMEOUT_S
        while not (counters.all_reached(WorkerState.DONE) or counters.stopped or time.monotonic() > deadline):
            await asyncio.sleep(_TICK_S)

    def _window(self, start_ns: int, number: int) -> Window:
        scenario = self._scenario
        return Window(
            start_ns=start_ns,
            warm_from_ns=start_ns - round(scenario.warmup * NS_PER_S),
            end_ns=None if scenario.duration is None else start_ns + round(scenario.duration * NS_PER_S),
            records=None
            if scenario.records is None
            else records_of_producer(scenario.records, number, scenario.producers),
        )

    async def _watch(self, produced: Series, counters: SharedCounters, start_ns: int, meter: _Meter) -> None:
        """Publish progress, and stop the load when the controller requests it or the time is up."""
        last_ns = start_ns + round(longest_s(self._scenario) * NS_PER_S)
        measuring, second = False, 0
        while True:
            self._publish_sent()
            # Once per second. The producers' own histograms are much larger, and merging them would delay the load.
            if second != (second := (now_ns() - start_ns) // NS_PER_S):
                latency = merged([one for interval, one in produced.latencies.items() if interval >= 0])
                self._publish(Counter.P99_NS, round(latency.quantile_s(0.99) * NS_PER_S) if latency.total else 0)
            if not measuring and now_ns() >= start_ns:
                meter.start()
                measuring = True
            for producer in self._producers:
                if counters.stopped or now_ns() > last_ns:
                    producer.give_up()
                if counters.stopped:
                    producer.abandon()
            await asyncio.sleep(_TICK_S)

    def _publish(self, cell: int, value: int) -> None:
        self._counters.write(self._assignment.worker, cell, value)

    def _publish_sent(self) -> None:
        ledgers = [producer.ledger for producer in self._producers]
        self._publish(Counter.SENT, sum(ledger.sent for ledger in ledgers))
        self._publish(Counter.SETTLED, sum(ledger.answered for ledger in ledgers))
        self._publish(Counter.VISIBLE, self._visible)

    def _add_visible(self, count: int) -> None:
        self._visible += count
        if self._scenario.consumers:
            self._publish(Counter.VISIBLE, self._visible)

    def _publish_received(self, group: int) -> None:
        received = sum(consumer.report.total for consumer in self._consumers if consumer.report.group == group)
        self._publish(Counter.RECEIVED + group, received)
        self._publish(Counter.OTHERS, sum(consumer.report.unmatched for consumer in self._consumers))


class _Meter:
    """Meter for this process's CPU time and utilization since `start`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._since_ns, self._cpu_s, self._runnable_ns = now_ns(), time.process_time(), _runnable_ns()

    def read(self) -> tuple[float, float]:
        """Return the CPU seconds, and the share of time in which the process was running or waiting for a core."""
        elapsed_ns = max(1, now_ns() - self._since_ns)
        cpu_s = time.process_time() - self._cpu_s
        runnable_ns = _runnable_ns()
        if runnable_ns is None or self._runnable_ns is None:
            return cpu_s, min(1.0, cpu_s * NS_PER_S / elapsed_ns)
        return cpu_s, min(1.0, (runnable_ns - self._runnable_ns) / elapsed_ns)


def _runnable_ns() -> int | None:
    """Return how long the main thread ran or waited for a core (Linux, Documentation/scheduler/sched-stats.rst)."""
    try:
        running, waiting, _ = Path("/proc/self/schedstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return int(running) + int(waiting)


async def _connect(starting: Coroutine[Any, Any, None], name: str, servers: str) -> None:
    """Start a client with a time limit."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await starting
    except TimeoutError:
        raise LoadError(f"{name} could not connect to {servers} within {_CONNECT_TIMEOUT_S} s") from None
    except (KafkaError, OSError, ValueError) as error:
        raise LoadError(f"{name} could not connect to {servers}: {type(error).__name__}: {error}") from None


async def _gather(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines like `asyncio.gather`, but if one fails, cancel the others and await them first."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

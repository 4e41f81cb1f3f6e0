"""The watcher that reads the probes of brokers once a second, while load runs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import ask_for_topics, close
from pytest_kafkaperf.clusters.client.preflight import gone
from pytest_kafkaperf.clusters.monitoring.partitions import PartitionState
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, Probe
from pytest_kafkaperf.clusters.monitoring.samples import Sample
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError

INTERVAL_S = 1.0

MAX_SAMPLES = 4096
"""Of each kind of probe and broker: more than an hour. Beyond it, every other of the older half goes."""

EXIT_TIMEOUT_S = 1.0
"""How long the end of a watch waits for readings that are under way."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Log:
    """What one kind of probe gave of one broker."""

    samples: list[Sample] = field(default_factory=list)
    begun: int = 0
    ended: int = 0
    """Readings: one that hangs has begun."""
    failures: int = 0
    reason: str = ""
    """Of the last failure."""

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        if len(self.samples) > MAX_SAMPLES:
            half = MAX_SAMPLES // 2
            self.samples = [*self.samples[:half:2], *self.samples[half:]]

    def problem(self, *, gaps: bool) -> str:
        """What is wrong with the readings, for people; empty where they are all there."""
        if self.failures and not self.samples:
            return f": {self.reason}"
        if self.begun > self.ended and not self.samples:
            return ": it did not answer"
        if self.failures and gaps:
            return f", {self.failures} times of {self.ended}: {self.reason}"
        return ""


class BrokerWatcher(Generic[Key]):
    """Reads probes once a second, each in a thread of its own, from entry to exit.

    Readings are on one grid of instants, whatever one of them takes: a slow one misses instants, and delays nobody
    else's. A probe that fails or hangs is counted and asked again.
    """

    def __init__(self, probes: Callable[[], Mapping[Key, Sequence[Probe]]], *, interval_s: float = INTERVAL_S) -> None:
        """Watch what `probes` gives, by broker; it is asked once an interval, as a broker may have been restarted."""
        self._probes = probes
        self._interval_s = interval_s
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._logs: dict[tuple[Key, str], _Log] = {}
        self._readers: dict[tuple[Key, Probe], _Reader] = {}
        self._origin_s = 0.0
        self._supervisor = threading.Thread(target=self._supervise, name="kafkaperf-watcher", daemon=True)

    def __enter__(self) -> Self:
        self._origin_s = time.monotonic()
        self._supervisor.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take a last reading of each probe, and leave those that do not answer to themselves."""
        deadline_s = time.monotonic() + EXIT_TIMEOUT_S
        self._closing.set()
        self._supervisor.join(max(0.0, deadline_s - time.monotonic()))
        with self._lock:
            readers = list(self._readers.values())
        for reader in readers:
            reader.ended.set()
        for reader in readers:
            reader.thread.join(max(0.0, deadline_s - time.monotonic()))

    def samples(self) -> dict[Key, list[Sample]]:
        """What was read, by broker, in the order of time; each probe gives samples of its own."""
        with self._lock:
            found: dict[Key, list[Sample]] = {broker: [] for broker, _ in self._logs}
            for (broker, _), log in self._logs.items():
                found[broker] += log.samples
        return {broker: sorted(found[broker], key=lambda sample: sample.at_ns) for broker in sorted(found, key=str)}

    def unread(self, *, gaps: bool = True) -> list[str]:
        """What could not be read, and why, for people; with `gaps` also what was read at other times."""
        with self._lock:
            told = [(broker, kind, log.problem(gaps=gaps)) for (broker, kind), log in self._logs.items()]
        return sorted(
            f"broker {broker} could not be read ({kind}){problem}" for broker, kind, problem in told if problem
        )

    def _supervise(self) -> None:
        for _ in self._instants(self._closing):
            try:
                wanted = {(broker, probe) for broker, probes in self._probes().items() for probe in probes}
            except (OSError, ClusterError):
                continue  # a cluster that is just changing: what was there goes on
            with self._lock:
                if self._closing.is_set():
                    return  # the question took longer than the exit waits
                for key in self._readers.keys() - wanted:
                    self._readers.pop(key).ended.set()
                for key in wanted - self._readers.keys():
                    self._readers[key] = self._start(*key)

    def _start(self, broker: Key, probe: Probe) -> _Reader:
        log = self._logs.setdefault((broker, type(probe).__name__), _Log())
        ended = threading.Event()
        thread = threading.Thread(
            target=self._read_on, args=(probe, log, ended), name=f"kafkaperf-watcher-{broker}", daemon=True
        )
        thread.start()
        return _Reader(thread, ended)

    def _read_on(self, probe: Probe, log: _Log, ended: threading.Event) -> None:
        for _ in self._instants(ended):
            self._read(probe, log)
        if self._closing.is_set():
            self._read(probe, log)  # so that what happened until now is known

    def _read(self, probe: Probe, log: _Log) -> None:
        with self._lock:
            log.begun += 1
        before_ns = time.monotonic_ns()
        try:
            figures = probe.read()
        except Exception as error:  # noqa: BLE001 - counted, and told; it must not end the watch of the rest
            with self._lock:
                log.ended += 1
                log.failures += 1
                log.reason = str(error) or type(error).__name__
            return
        after_ns = time.monotonic_ns()
        at_ns = after_ns if isinstance(probe, ContainerProbe) else (before_ns + after_ns) // 2
        with self._lock:
            log.ended += 1
            if figures:
                log.add(Sample(at_ns=at_ns, figures=figures))

    def _instants(self, ended: threading.Event) -> Iterator[None]:
        """Come back at each instant of the grid, the next one being the next that is not over, until the end."""
        while True:
            yield
            past = math.floor((time.monotonic() - self._origin_s) / self._interval_s)
            next_s = self._origin_s + (past + 1) * self._interval_s
            if ended.wait(max(0.0, next_s - time.monotonic())):
                return


@dataclass(frozen=True, slots=True)
class _Reader:
    thread: threading.Thread
    ended: threading.Event


_ANSWER_TIMEOUT_S = 2
"""Bound of one look; the next one may ask another broker."""

_TOPIC_EXIT_TIMEOUT_S = 5

_GONE_LOOKS = 3
"""In a row, at which brokers do not know a topic that was there: one that has just started may be late."""


class TopicWatcher:
    """Looks at a topic, in a thread of its own, from entry to exit; where no broker answers, it looks again."""

    def __init__(self, bootstrap_servers: str, access: Access, topic: str) -> None:
        self.states: list[tuple[int, PartitionState]] = []
        """Each with its instant on the monotonic clock, in ns."""
        self._unknown = 0
        """Looks in a row at which a broker did not know the topic."""
        self._servers = bootstrap_servers
        self._access = access
        self._topic = topic
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkaperf-topic-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_TOPIC_EXIT_TIMEOUT_S)

    def check(self) -> None:
        """Raise ClusterLostError when the topic was there and is gone."""
        if self.states and self._unknown >= _GONE_LOOKS:
            raise ClusterLostError(gone(self._topic))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._watch())

    async def _watch(self) -> None:
        client = AIOKafkaClient(
            **{**self._access.arguments(), "bootstrap_servers": self._servers, "request_timeout_ms": 1000}
        )
        connected = False
        try:
            while not self._closing.is_set():
                with contextlib.suppress(KafkaError, OSError, TimeoutError, ValueError):
                    async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                        if not connected:
                            await client.bootstrap()
                            connected = True
                        await self._look(client)
                await asyncio.to_thread(self._closing.wait, INTERVAL_S)
        finally:
            await close(client)

    async def _look(self, client: Any) -> None:
        """Ask any broker that answers; the cluster's own view comes with the answer."""
        answer = await client.send(client.get_random_node(), ask_for_topics([self._topic]))
        at_ns = time.monotonic_ns()
        state: dict[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]] = {}
        unknown = False
        for topic in answer.topics:
            unknown = topic[0] == UnknownTopicOrPartitionError.errno
            for _, partition, leader, replicas, in_sync, *_rest in topic[-1]:
                state[partition] = (leader if leader >= 0 else None, tuple(in_sync), tuple(replicas))
        self._unknown = self._unknown + 1 if unknown else 0
        if state:
            self.states.append((at_ns, state))

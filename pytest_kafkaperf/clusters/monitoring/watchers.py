"""Watchers, which read brokers, partitions and committed offsets in the background."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.connection import BoundedLoop, close
from pytest_kafkaperf.clusters.admin.groups import Protocol, describe_group, offsets_in, offsets_request
from pytest_kafkaperf.clusters.admin.preflight import gone
from pytest_kafkaperf.clusters.admin.wire import ask_any, ask_end_offsets, ask_for_topics, by_partition
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.partitions import PartitionState
from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, Probe, ProcessProbe
from pytest_kafkaperf.clusters.monitoring.readings import Key, named
from pytest_kafkaperf.clusters.monitoring.rebalances import RebalanceLog
from pytest_kafkaperf.clusters.monitoring.tracks import Sample
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.units import NS_PER_S

INTERVAL_S = 1.0

MAX_SAMPLES = 4096
"""Maximum number of samples per broker and kind of probe, enough for more than an hour. Beyond this number, the older
half is thinned out."""

EXIT_TIMEOUT_S = 1.0
"""Maximum time to wait for readings in progress when a watch ends."""


@dataclass(slots=True)
class _Log:
    """Samples and failures for one broker and one kind of probe."""

    first: Sample
    """A failed reading at the time of the first attempt, for probes that never answer."""
    samples: list[Sample] = field(default_factory=list)
    """Samples; after a failed reading, a sample without measurements is added."""
    begun: int = 0
    ended: int = 0
    """Number of completed readings; `begun` is the number of started ones."""
    failures: int = 0
    reason: str = ""
    """Reason for the last failure."""

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        if len(self.samples) > MAX_SAMPLES:
            half = MAX_SAMPLES // 2
            self.samples = [*self.samples[:half:2], *self.samples[half:]]

    def unread(self, program: str, probe: str, *, gaps: bool) -> Notice | None:
        """Return a warning about missing readings; None if there are none."""
        values = {"program": program, "probe": probe, "reason": self.reason}
        if self.failures and self.failures == self.ended:
            return Notice(Remark.NEVER_READ, values)
        if self.begun > self.ended == 0:
            return Notice(Remark.NEVER_READ, {**values, "reason": "it did not answer"})
        if self.failures and gaps:
            return Notice(Remark.SOMETIMES_UNREAD, {**values, "failures": self.failures, "readings": self.ended})
        return None


class BrokerWatcher:
    """Watcher that reads each probe once a second from entry to exit, with a separate thread for each reading.

    All probes are read at the same regular times, so a slow probe misses some readings but does not delay other probes.
    Failures and hangs are counted, and the probe is read again.
    """

    def __init__(self, probes: Callable[[], Mapping[Key, Sequence[Probe]]], *, interval_s: float = INTERVAL_S) -> None:
        """Watch the probes returned by `probes`, which is called in each interval because brokers may restart."""
        self._probes = probes
        self._interval_s = interval_s
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._logs: dict[tuple[Key, str], _Log] = {}
        self._current: frozenset[tuple[Key, Probe]] = frozenset()
        """The brokers' current probes, which are replaced as a whole."""
        self._edges: dict[int, threading.Timer] = {}
        """Instants of further readings, each with its timer."""
        self._thread = threading.Thread(target=self._run, name="kafkaperf-watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take a last reading from each probe, but do not wait longer for unresponsive probes."""
        deadline_s = time.monotonic() + EXIT_TIMEOUT_S
        self._closing.set()
        for timer in self._edges.values():
            timer.cancel()
        self._thread.join(max(0.0, deadline_s - time.monotonic()))
        for reading in [self._start(*each) for each in self._current]:
            reading.join(max(0.0, deadline_s - time.monotonic()))

    def read_at(self, at_ns: int) -> None:
        """Take one more reading of CPU time at an instant on the monotonic clock, or now if the instant has passed."""
        if at_ns in self._edges:
            return
        timer = threading.Timer(max(0, at_ns - time.monotonic_ns()) / NS_PER_S, self._read_cpu)
        timer.daemon = True
        self._edges[at_ns] = timer
        timer.start()

    def _read_cpu(self) -> None:
        for broker, probe in self._current:
            if isinstance(probe, (ProcessProbe, ContainerProbe)):
                self._start(broker, probe)

    def samples(self) -> dict[Key, list[Sample]]:
        """Return the samples by broker, in chronological order; each probe has separate samples."""
        with self._lock:
            found: dict[Key, list[Sample]] = {broker: [] for broker, _ in self._logs}
            for (broker, _), log in self._logs.items():
                found[broker] += log.samples or [log.first]
        return {broker: sorted(found[broker], key=lambda sample: sample.at_ns) for broker in sorted(found, key=str)}

    def unread(self, *, gaps: bool = True) -> list[Notice]:
        """Return warnings about failed readings; `gaps` includes probes that failed only sometimes."""
        with self._lock:
            found = [log.unread(named(key), kind, gaps=gaps) for (key, kind), log in self._logs.items()]
        return sorted((notice for notice in found if notice is not None), key=str)

    def _run(self) -> None:
        """Start a reading of each probe at regular times, unless the probe's last reading is still in progress."""
        readings: dict[tuple[Key, Probe], threading.Thread] = {}
        origin_s = time.monotonic()
        while True:
            with contextlib.suppress(OSError, ClusterError):  # the cluster is changing; keep the current probes
                self._current = frozenset((key, probe) for key, probes in self._probes().items() for probe in probes)
            if self._closing.is_set():
                return  # `probes` may have taken longer than the exit waits
            for each in self._current:
                if each not in readings or not readings[each].is_alive():
                    readings[each] = self._start(*each)
            passed = math.floor((time.monotonic() - origin_s) / self._interval_s)
            next_s = origin_s + (passed + 1) * self._interval_s
            if self._closing.wait(max(0.0, next_s - time.monotonic())):
                return

    def _start(self, broker: Key, probe: Probe) -> threading.Thread:
        thread = threading.Thread(
            target=self._read, args=(broker, probe), name=f"kafkaperf-watcher-{broker}", daemon=True
        )
        thread.start()
        return thread

    def _read(self, broker: Key, probe: Probe) -> None:
        kind = type(probe).__name__
        before_ns = time.monotonic_ns()
        with self._lock:
            first = Sample(at_ns=before_ns, kind=kind, readings={})
            log = self._logs.setdefault((broker, kind), _Log(first))
            log.begun += 1
        readings: Mapping[str, float] = {}
        reason = None
        try:
            readings = probe.read()
        except Exception as error:  # noqa: BLE001 - counted and reported; the other probes go on
            reason = str(error) or type(error).__name__
        after_ns = time.monotonic_ns()
        at_ns = after_ns if isinstance(probe, ContainerProbe) else (before_ns + after_ns) // 2
        with self._lock:
            log.ended += 1
            log.add(Sample(at_ns=at_ns, kind=kind, readings=readings))
            if reason is not None:
                log.failures += 1
                log.reason = reason


_ANSWER_TIMEOUT_S = 2
"""Timeout for one request; the next request may go to another broker."""

_CONNECT_TIMEOUT_S = 10
"""Timeout for connecting, which takes several round trips with TLS and a login."""

_CLIENT_EXIT_TIMEOUT_S = 5

_MIN_UNKNOWN_RESPONSES = 3
"""Number of consecutive responses that prove a topic's deletion. A broker that has just started may not know it yet."""


class ClientWatcher(ABC):
    """Watcher that queries the cluster at an interval in a separate thread, and retries if no broker responds."""

    def __init__(self, bootstrap_servers: str, access: Access, *, interval_s: float) -> None:
        self._servers = bootstrap_servers
        self._access = access
        self._interval_s = interval_s
        self._reason = "no answer"
        """Reason for the last failure."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafkaperf-{type(self).__name__}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_CLIENT_EXIT_TIMEOUT_S)

    @abstractmethod
    async def _read(self, client: Any) -> None:
        """Query the cluster once, and store the result."""

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=BoundedLoop) as runner:
            runner.run(self._watch())

    async def _watch(self) -> None:
        client = AIOKafkaClient(
            **{**self._access.arguments(), "bootstrap_servers": self._servers, "request_timeout_ms": 1000}
        )
        connected = False
        try:
            while not self._closing.is_set():
                begun_s = time.monotonic()
                try:
                    if not connected:
                        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                            await client.bootstrap()
                        connected = True
                    async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                        await self._read(client)
                except (KafkaError, OSError, TimeoutError, ValueError) as error:
                    self._reason = str(error) or "no answer"
                left_s = self._interval_s - (time.monotonic() - begun_s)
                await asyncio.to_thread(self._closing.wait, max(0.0, left_s))
        finally:
            await close(client)


class TopicWatcher(ClientWatcher):
    """Watcher that reads a topic's state once a second."""

    def __init__(self, bootstrap_servers: str, access: Access, topic: str) -> None:
        super().__init__(bootstrap_servers, access, interval_s=INTERVAL_S)
        self.states: list[tuple[int, PartitionState]] = []
        """States of the partitions that changed, each with the time on the monotonic clock in ns."""
        self._known: PartitionState = {}
        self._unknown = 0
        """Number of consecutive responses from brokers that did not know the topic."""
        self._topic = topic

    def check(self) -> None:
        """Raise `ClusterLostError` if the topic existed and was deleted."""
        if self.states and self._unknown >= _MIN_UNKNOWN_RESPONSES:
            raise ClusterLostError(gone(self._topic))

    def unread(self) -> list[Notice]:
        """Return a warning if the topic's partitions could not be read, otherwise none; call this after the exit."""
        if self.states:
            return []
        return [Notice(Remark.PARTITIONS_UNREAD, {"topic": self._topic, "reason": self._reason})]

    async def _read(self, client: Any) -> None:
        """Request the topic's metadata from any broker."""
        answer = await ask_any(client, ask_for_topics([self._topic]))
        at_ns = time.monotonic_ns()
        state: dict[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]] = {}
        unknown = False
        for topic in answer.topics:
            unknown = topic[0] == UnknownTopicOrPartitionError.errno
            for _, partition, leader, replicas, in_sync, *_rest in topic[-1]:
                state[partition] = (leader if leader >= 0 else None, tuple(in_sync), tuple(replicas))
        if not state:
            self._reason = "the brokers did not describe it"
        self._unknown = self._unknown + 1 if unknown else 0
        changed = {partition: now for partition, now in state.items() if self._known.get(partition) != now}
        if changed:
            self._known = {**self._known, **changed}
            self.states.append((at_ns, changed))


OFFSETS_INTERVAL_S = 0.1
"""Interval between two readings, and thus the shortest commit interval that readings can show. Each takes 1 ms of
CPU time here, and up to 2 ms on the brokers."""
_LAG_ATTEMPTS = 4
"""Maximum number of requests for the lag of a share group in one reading."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Readings of one group's offsets."""

    at_ns: Int64s
    """Instants on the monotonic clock, shape `(readings,)`."""
    committed: Int64s
    """Offset after the last committed record, shape `(readings, partitions)`. For a partition without commits, this
    is the first value in `ends`."""
    ends: Int64s
    """End offset, shape `(readings, partitions)`, read right after the committed offsets."""
    rebalances_ns: tuple[int, ...] = ()
    """Instants at which a rebalance of the group was seen, one for each rebalance."""
    unsettled_ns: tuple[int, ...] = ()
    """Instants of readings during a rebalance."""
    protocol: Protocol = Protocol.CLASSIC
    """The group's protocol. For a share group, `committed` is the number of records that are done."""

    @classmethod
    def of(cls, readings: Sequence[tuple[int, Sequence[int], Sequence[int]]], partitions: int) -> GroupOffsets:
        """Convert readings: instant, committed offset by partition (-1: none), end offset by partition."""
        rows = np.array([(at_ns, *committed, *ends) for at_ns, committed, ends in readings], dtype=np.int64)
        at_ns, committed, ends = np.split(rows.reshape(-1, 1 + 2 * partitions), [1, 1 + partitions], axis=1)
        return cls(at_ns=at_ns[:, 0], committed=np.where(committed < 0, ends[:1], committed), ends=ends)


class GroupWatcher(ClientWatcher):
    """Watcher that reads groups' members and committed offsets on a topic, and its end offsets, ten times a second."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, groups: Sequence[str]) -> None:
        super().__init__(cluster.bootstrap_servers, cluster.access, interval_s=OFFSETS_INTERVAL_S)
        self._topic = topic
        self._partitions = partitions
        self._coordinators: dict[str, int] = {}
        self._rebalances = {group: RebalanceLog() for group in groups}
        self._knows_leaders = False
        self._readings: dict[str, list[tuple[int, list[int], list[int]]]] = {group: [] for group in groups}

    def offsets(self) -> dict[str, GroupOffsets]:
        """Return the readings by group; call this after the exit."""
        return {group: self._offsets(group, found) for group, found in self._readings.items()}

    def _offsets(self, group: str, readings: Sequence[tuple[int, Sequence[int], Sequence[int]]]) -> GroupOffsets:
        log = self._rebalances[group]
        found = GroupOffsets.of(readings, self._partitions)
        return dataclasses.replace(
            found,
            rebalances_ns=tuple(log.instants_ns),
            unsettled_ns=tuple(log.unsettled_ns),
            protocol=log.protocol,
        )

    def waiting_for(self, offsets: Mapping[int, int], *, timeout_s: float) -> Iterator[None]:
        """Wait until every group has committed the given offset in each partition, or time is up; yield meanwhile."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and not all(
            readings and all(readings[-1][1][partition] >= offset for partition, offset in offsets.items())
            for readings in self._readings.values()
        ):
            yield
            self._closing.wait(OFFSETS_INTERVAL_S)

    async def _read(self, client: Any) -> None:
        try:
            found = [(group, await self._committed(client, group), time.monotonic_ns()) for group in self._readings]
            ends = await self._ends(client)
        except KafkaError:  # a coordinator or a leader may have moved
            self._coordinators.clear()
            self._knows_leaders = False
            raise
        for group, committed, at_ns in found:
            self._readings[group].append((at_ns, committed, ends))

    async def _committed(self, client: Any, group: str) -> list[int]:
        log = self._rebalances[group]
        described = await describe_group(client, group, expected=log.protocol, known=self._coordinators)
        log.see(described, time.monotonic_ns())
        protocol = described.protocol
        request = offsets_request(protocol, group, self._topic, self._partitions)
        if protocol is Protocol.SHARE:
            return await self._done(client, group, request)
        answer = await client.send(self._coordinators[group], request)
        return by_partition(offsets_in(protocol, answer, ()))

    async def _done(self, client: Any, group: str, request: Any) -> list[int]:
        """Return the number of finished records in each partition of a share group.

        Brokers report only the lag, without the end offset to which it refers. If the end offsets before and after the
        request are equal, the result is exact; otherwise, it is a lower bound, which would look like a commit when it
        rises later. Therefore, the request is repeated.
        """
        ends = await self._ends(client)
        done = [-1] * self._partitions
        for _ in range(_LAG_ATTEMPTS):
            answer = await client.send(self._coordinators[group], request)
            found = by_partition(offsets_in(Protocol.SHARE, answer, ends))
            done = [max(pair) for pair in zip(done, found, strict=True)]
            before, ends = ends, await self._ends(client)
            if ends == before:
                break
        return done

    async def _ends(self, client: Any) -> list[int]:
        if not self._knows_leaders:  # aiokafka's own request would recreate a deleted topic
            client.cluster.update_metadata(await ask_any(client, ask_for_topics([self._topic])))
            self._knows_leaders = True
        return await ask_end_offsets(client, self._topic, self._partitions)

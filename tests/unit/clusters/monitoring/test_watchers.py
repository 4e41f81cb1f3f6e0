"""The watcher: readings in time, whatever a probe or a cluster does."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.monitoring import watchers as watching
from pytest_kafkaperf.clusters.monitoring.probes import Probe, ProcessProbe
from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey, Key
from pytest_kafkaperf.clusters.monitoring.watchers import BrokerWatcher, TopicWatcher
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Notice, Remark
from tests.support.orphans import becomes
from tests.support.patience import PATIENCE_S


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter time for the last readings."""
    assert watching.EXIT_TIMEOUT_S < PATIENCE_S / 2
    monkeypatch.setattr(watching, "EXIT_TIMEOUT_S", 0.2)


@dataclass(frozen=True)
class Ticking:
    """A probe whose reading is the clock in the middle of its reading, in the unit of CPU seconds."""

    name: str
    takes_s: float = 0.0

    def read(self) -> Mapping[str, float]:
        begin_s = time.monotonic()
        time.sleep(self.takes_s)
        return {"cpu_s": (begin_s + time.monotonic()) / 2}


@dataclass(eq=False)
class Counting:
    """A probe whose reading is how often it was read."""

    readings: int = 0

    def read(self) -> Mapping[str, float]:
        self.readings += 1
        return {"cpu_s": self.readings}


@dataclass(frozen=True)
class Failing:
    """A probe that cannot read."""

    def read(self) -> Mapping[str, float]:
        raise ConnectionRefusedError("nobody there")


@dataclass(eq=False)
class Flickering:
    """A probe that can read every other time."""

    readings: int = 0

    def read(self) -> Mapping[str, float]:
        self.readings += 1
        if self.readings % 2:
            raise TimeoutError("busy")
        return {"cpu_s": self.readings}


@dataclass(frozen=True)
class Hanging:
    """A probe that does not come back before it is released."""

    released: threading.Event

    def read(self) -> Mapping[str, float]:
        self.released.wait(PATIENCE_S)
        return {}


def test_a_watcher_reads_on_a_grid_and_stamps_the_middle() -> None:
    """Drift would leave seconds without a reading; a wrong stamp moves load to another second."""
    interval_s = 0.1
    with BrokerWatcher(lambda: {1: [Ticking("a", takes_s=0.03)]}, interval_s=interval_s) as watcher:
        assert becomes(lambda: len(watcher.samples().get(1, [])) > 10)
    samples = watcher.samples()[1]

    assert len(samples) > 10
    assert statistics.median(abs(sample.at_ns / 1e9 - sample.readings["cpu_s"]) for sample in samples) < 0.01
    at = [sample.at_ns / 1e9 / interval_s for sample in samples[:-1]]
    # Most are whole intervals apart from one that was in time. Were each an interval after the end of the one before,
    # they would be anywhere between two instants, and no one would have half of the others so near.
    off = [statistics.median(abs(other - one - round(other - one)) for other in at) for one in at]
    assert min(off) < 0.15


def test_cpu_time_is_read_at_the_instants_that_were_asked_for() -> None:
    """The edges of a window lie between the ticks of the grid; each is read once, and one that has passed at once."""
    probe = ProcessProbe(os.getpid())
    with BrokerWatcher(lambda: {1: [probe, Ticking("other")]}, interval_s=3600) as watcher:
        assert becomes(lambda: len(watcher.samples().get(1, [])) == 2)  # one of each probe, at entry
        began_ns = time.monotonic_ns()
        wanted = [began_ns - 10**9, began_ns + 2 * 10**8]
        for at_ns in (*wanted, *wanted):
            watcher.read_at(at_ns)
        asked_ns = time.monotonic_ns()
        assert becomes(lambda: len(watcher.samples()[1]) == 4)
        found = [sample.at_ns for sample in watcher.samples()[1][2:]]
    assert began_ns < found[0] < asked_ns + PATIENCE_S * 10**9
    assert wanted[1] <= found[1] < wanted[1] + PATIENCE_S * 10**9


def test_an_instant_after_the_end_is_read_no_more() -> None:
    """A round that breaks off leaves no thread that reads the brokers of the next one."""
    before = {*threading.enumerate()}
    with BrokerWatcher(lambda: {1: [ProcessProbe(os.getpid())]}, interval_s=3600) as watcher:
        assert becomes(lambda: [len(sample.readings) > 0 for sample in watcher.samples().get(1, [])] == [True])
        watcher.read_at(time.monotonic_ns() + 3600 * 10**9)
        (timer,) = {each for each in threading.enumerate() if isinstance(each, threading.Timer)} - before
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    # A busy machine may take the reading at the end after the exit has stopped waiting for it.
    assert becomes(lambda: not [each for each in threading.enumerate() if each.name == "kafkaperf-watcher-1"])
    assert len(watcher.samples()[1]) == 2  # at entry and at the end


@pytest.mark.usefixtures("_impatient")
def test_a_probe_that_fails_or_hangs_stops_no_other_and_not_the_end() -> None:
    """A broker that is stopped must not take the readings of the others with it."""
    released = threading.Event()
    try:
        with BrokerWatcher(lambda: {1: [Ticking("a"), Failing()], 2: [Hanging(released)]}, interval_s=0.05) as watcher:
            assert becomes(lambda: len(watcher.samples().get(1, [])) >= 10 and bool(watcher.unread()))
            before_s = time.monotonic()
        exit_s = time.monotonic() - before_s
        unread = watcher.unread()
    finally:
        released.set()

    assert len([sample for sample in watcher.samples()[1] if sample.readings]) >= 5
    assert [(sample.kind, sample.readings) for sample in watcher.samples()[2]] == [("Hanging", {})]
    assert unread == [
        Notice(Remark.NEVER_READ, {"program": "broker 1", "probe": "Failing", "reason": "nobody there"}),
        Notice(Remark.NEVER_READ, {"program": "broker 2", "probe": "Hanging", "reason": "it did not answer"}),
    ]
    assert exit_s < PATIENCE_S / 2


def test_probes_can_be_replaced_while_the_watcher_runs() -> None:
    """A broker that was restarted has a new process id."""
    current: dict[Key, list[Probe]] = {"one": [Ticking("old")]}

    with BrokerWatcher(lambda: current, interval_s=0.05) as watcher:
        assert becomes(lambda: len(watcher.samples().get("one", [])) >= 2)
        current = {"one": [Failing()], "two": [Ticking("new")]}
        assert becomes(lambda: bool(watcher.unread()) and bool(watcher.samples().get("two")))
        before_ns = time.monotonic_ns()
        assert becomes(lambda: len(watcher.samples()["two"]) >= 4)
    samples = watcher.samples()

    assert [sample.at_ns for sample in samples["one"] if sample.readings][-1] < before_ns
    assert len(samples["two"]) >= 4


def test_readings_that_fail_now_and_then_are_counted() -> None:
    """What is known of a broker is then known of other instants alone; where a test stops brokers, that is no news."""
    probe = Flickering()
    with BrokerWatcher(lambda: {1: [probe]}, interval_s=0.02) as watcher:
        assert becomes(lambda: len(watcher.samples().get(1, [])) >= 3)

    (told,) = watcher.unread()
    samples = watcher.samples()[1]
    failures = len([sample for sample in samples if not sample.readings])
    values = {"program": "broker 1", "probe": "Flickering", "reason": "busy"}
    assert told == Notice(Remark.SOMETIMES_UNREAD, {**values, "failures": failures, "readings": len(samples)})
    assert watcher.unread(gaps=False) == []


@pytest.mark.parametrize(
    ("key", "named"),
    [(2, "broker 2"), (ApplicationKey("orders"), "application orders"), ("k1:9404", "exporter k1:9404")],
)
def test_what_could_not_be_read_has_its_own_name(key: Key, named: str) -> None:
    """Who looks for a broken broker must not be sent to one that is fine."""
    with BrokerWatcher(lambda: {key: [Failing()]}, interval_s=0.02) as watcher:
        assert becomes(lambda: bool(watcher.unread()))
    (notice,) = watcher.unread()
    assert notice.values["program"] == named


def test_a_cluster_that_cannot_tell_its_probes_keeps_those_it_had() -> None:
    """While a broker is restarted, there may be nothing to tell."""
    asked = 0

    def wanted() -> Mapping[Key, list[Probe]]:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise ClusterError("just changing")
        return {1: [Ticking("a")]}

    with BrokerWatcher(wanted, interval_s=0.05) as watcher:
        assert becomes(lambda: asked > 1)
        read = len(watcher.samples()[1])
        assert becomes(lambda: len(watcher.samples()[1]) >= read + 3)

    assert asked > 1
    assert len(watcher.samples()[1]) >= read + 3


@pytest.mark.usefixtures("_impatient")
def test_a_cluster_that_does_not_answer_holds_up_no_exit() -> None:
    """And what it answers too late starts nothing."""
    released = threading.Event()

    def wanted() -> Mapping[Key, list[Probe]]:
        released.wait(PATIENCE_S)
        return {1: [Ticking("late")]}

    before_s = time.monotonic()
    with BrokerWatcher(wanted, interval_s=0.05) as watcher:
        pass
    exit_s = time.monotonic() - before_s
    released.set()
    assert becomes(lambda: not any(thread.name.startswith("kafkaperf-watcher") for thread in threading.enumerate()))

    assert exit_s < PATIENCE_S / 2
    assert watcher.samples() == {}


def test_a_long_watch_is_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soak tests run for days; older readings are thinned out, the first and the latest stay."""
    monkeypatch.setattr(watching, "MAX_SAMPLES", 8)
    probe = Counting()
    with BrokerWatcher(lambda: {1: [probe]}, interval_s=0.005) as watcher:
        assert becomes(lambda: probe.readings >= 40)
    readings = [sample.readings["cpu_s"] for sample in watcher.samples()[1]]

    assert len(readings) <= 8
    assert (readings[0], readings[-1]) == (1, probe.readings)
    assert probe.readings >= 40


PARTITIONS = 1000
LOOKS = 200


@dataclass
class Metadata:
    """A client whose topic has an in-sync replica less for a while, and that is told to look no more."""

    looks: int = 0
    enough: threading.Event = field(default_factory=threading.Event)
    cluster: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])
    )

    async def bootstrap(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def send(self, *_: object) -> Any:
        self.looks += 1
        if self.looks == LOOKS:
            self.enough.set()
        thin = {7: [1]} if LOOKS / 4 < self.looks < LOOKS / 2 else {}
        rows = [(0, number, 1, [1, 2], thin.get(number, [1, 2])) for number in range(PARTITIONS)]
        return SimpleNamespace(topics=[(0, "orders", False, rows)])


def test_a_topic_that_does_not_change_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at 1,000 partitions takes 240 KB, and a soak test looks once a second for hours."""
    client = Metadata()
    monkeypatch.setattr(watching, "AIOKafkaClient", lambda **_: client)
    monkeypatch.setattr(watching, "INTERVAL_S", 0)
    with TopicWatcher("127.0.0.1:9", Access(), "orders") as watcher:
        assert client.enough.wait(PATIENCE_S)

    full = (1, (1, 2), (1, 2))
    assert [state for _, state in watcher.states] == [
        dict.fromkeys(range(PARTITIONS), full),
        {7: (1, (1,), (1, 2))},
        {7: full},
    ]


def test_a_client_that_needs_longer_to_connect_than_to_ask_still_reads_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cluster far away, with TLS and a login: its leader changes would otherwise go unseen."""

    class Far(Metadata):
        async def bootstrap(self) -> None:
            await asyncio.sleep(0.2)

    client = Far()
    monkeypatch.setattr(watching, "AIOKafkaClient", lambda **_: client)
    monkeypatch.setattr(watching, "_ANSWER_TIMEOUT_S", 0.1)
    with TopicWatcher("127.0.0.1:9", Access(), "orders") as watcher:
        assert becomes(lambda: bool(watcher.states))
    assert len(watcher.states) == 1
    assert watcher.unread() == []


def test_a_topic_that_was_never_read_is_a_warning() -> None:
    """No event in a report would otherwise look as if nothing had happened to the brokers."""
    with TopicWatcher("127.0.0.1:9", Access(), "orders") as watcher:
        assert becomes(lambda: "127.0.0.1" in str(watcher.unread()))  # the first attempt has failed
    (told,) = watcher.unread()
    assert (told.remark, told.values["topic"]) == (Remark.PARTITIONS_UNREAD, "orders")
    assert "127.0.0.1" in str(told.values["reason"])


def test_a_topic_that_no_broker_describes_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login that may not see the topic gets answers without it."""

    class Refusing(Metadata):
        async def send(self, *_: object) -> Any:
            self.enough.set()
            return SimpleNamespace(topics=[(29, "orders", False, [])])

    client = Refusing()
    monkeypatch.setattr(watching, "AIOKafkaClient", lambda **_: client)
    with TopicWatcher("127.0.0.1:9", Access(), "orders") as watcher:
        assert client.enough.wait(PATIENCE_S)
    (told,) = watcher.unread()
    assert told.values["reason"] == "the brokers did not describe it"

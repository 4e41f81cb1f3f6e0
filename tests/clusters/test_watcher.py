"""The watcher: readings in time, whatever a probe or a cluster does."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from pytest_kafkaperf.clusters import watcher as watching
from pytest_kafkaperf.clusters.probes import Probe
from pytest_kafkaperf.clusters.watcher import EXIT_TIMEOUT_S, Watcher
from pytest_kafkaperf.errors import ClusterError


@dataclass(frozen=True)
class Ticking:
    """A probe whose figure is the clock, in the unit of CPU seconds."""

    name: str

    def read(self) -> Mapping[str, float]:
        return {"cpu_s": time.monotonic()}


@dataclass(frozen=True)
class Failing:
    """A probe that cannot read."""

    def read(self) -> Mapping[str, float]:
        raise ConnectionRefusedError("nobody there")


@dataclass(frozen=True)
class Hanging:
    """A probe that does not come back before it is released."""

    released: threading.Event

    def read(self) -> Mapping[str, float]:
        self.released.wait(20)
        return {}


def test_a_watcher_reads_on_a_grid_and_stamps_the_middle() -> None:
    """Drift would leave seconds without a reading; a wrong stamp moves load to another second."""
    with Watcher(lambda: {1: [Ticking("a")]}, interval_s=0.1) as watcher:
        time.sleep(1.05)
    samples = watcher.samples()[1]

    assert 10 <= len(samples) <= 13
    assert all(abs(sample.at_ns / 1e9 - sample.figures["cpu_s"]) < 0.02 for sample in samples)
    offsets_s = [(sample.at_ns - samples[0].at_ns) / 1e9 for sample in samples[:-1]]
    assert offsets_s == pytest.approx([0.1 * round(offset_s / 0.1) for offset_s in offsets_s], abs=0.05)


def test_a_probe_that_fails_or_hangs_stops_no_other_and_not_the_end() -> None:
    """A broker that is stopped must not take the figures of the others with it."""
    released = threading.Event()
    try:
        with Watcher(lambda: {1: [Ticking("a"), Failing()], 2: [Hanging(released)]}, interval_s=0.05) as watcher:
            time.sleep(0.5)
            before_s = time.monotonic()
        exit_s = time.monotonic() - before_s
    finally:
        released.set()

    assert len(watcher.samples()[1]) >= 8
    assert watcher.samples()[2] == []
    failures = watcher.failures()
    assert set(failures) == {(1, "Failing")}
    assert failures[1, "Failing"].last == "nobody there"
    assert failures[1, "Failing"].count >= 8
    assert exit_s < EXIT_TIMEOUT_S + 0.5


def test_probes_can_be_replaced_while_the_watcher_runs() -> None:
    """A broker that was restarted has a new process id."""
    current: dict[str, list[Probe]] = {"one": [Ticking("old")]}

    with Watcher(lambda: current, interval_s=0.05) as watcher:
        time.sleep(0.2)
        current = {"one": [Failing()], "two": [Ticking("new")]}
        time.sleep(0.2)
        readers = {thread.name for thread in threading.enumerate() if thread.name.startswith("kafkaperf-watcher-")}
    samples = watcher.samples()

    assert len(samples["one"]) <= 6
    assert len(samples["two"]) >= 3
    assert readers == {"kafkaperf-watcher-one", "kafkaperf-watcher-two"}


def test_a_cluster_that_cannot_tell_its_probes_keeps_those_it_had() -> None:
    """While a broker is restarted, there may be nothing to tell."""
    asked = 0

    def wanted() -> Mapping[int, list[Probe]]:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise ClusterError("just changing")
        return {1: [Ticking("a")]}

    with Watcher(wanted, interval_s=0.05) as watcher:
        time.sleep(0.3)

    assert asked > 1
    assert len(watcher.samples()[1]) >= 4


def test_a_cluster_that_does_not_answer_holds_up_no_exit() -> None:
    """And what it answers too late starts nothing."""
    released = threading.Event()

    def wanted() -> Mapping[int, list[Probe]]:
        released.wait(20)
        return {1: [Ticking("late")]}

    before_s = time.monotonic()
    with Watcher(wanted, interval_s=0.05) as watcher:
        pass
    exit_s = time.monotonic() - before_s
    released.set()
    time.sleep(0.2)

    assert exit_s < EXIT_TIMEOUT_S + 0.5
    assert watcher.samples() == {}


def test_a_long_watch_is_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soak tests run for days; older readings are thinned out, the first and the latest stay."""
    monkeypatch.setattr(watching, "MAX_SAMPLES", 16)
    with Watcher(lambda: {1: [Ticking("a")]}, interval_s=0.01) as watcher:
        time.sleep(1.0)
    at_s = [sample.at_ns / 1e9 for sample in watcher.samples()[1]]

    assert len(at_s) <= 16
    assert at_s[-1] - at_s[0] > 0.9

"""What runs on brokers that have just started."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import threading
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.runner.rounds.loads import SLICE_S, Phase, warm_up_load, workload_key
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, Workers
from pytest_kafkaperf.runner.warmup import BLIND_S, IDLE_SLICES, WarmUp, WarmUpEnd, warm_up
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import problem_told

THROUGH: dict[str, Any] = {"topic": "orders", "output_topic": "orders-enriched", "consumers": 1}


@pytest.mark.parametrize("fields", [{"record_size": 5}, {"payload": "file:short.txt"}, {"record_size": {5: 1, 99: 1}}])
def test_values_that_are_too_short_for_a_tag_are_replaced(fields: dict[str, Any]) -> None:
    """Through an application the tag is in a header; without one consumers would have nothing to find it in."""
    scenario = warm_up_load(Scenario.of({**THROUGH, **fields}), duration_s=3)
    assert (scenario.topic, scenario.output_topic, scenario.duration) == (None, None, 3)
    assert Payload(scenario, seed=0).tagged


def test_other_values_stay_as_they_are() -> None:
    """What a broker has to do depends on their size."""
    assert warm_up_load(Scenario.of({**THROUGH, "record_size": 16}), duration_s=3).record_size == 16
    assert warm_up_load(Scenario.of({"record_size": 5}), duration_s=3).record_size == 5


PORTS = itertools.count(1)


LOST = problem_told(ProblemKind.CLUSTER_ERROR, "no record was acknowledged for 15 s")


class Scripted(SideRounds):
    """A side without a cluster: the compilers of its programs follow a script, one entry for each slice."""

    def __init__(self, *shares: float | None, rate: str | None = None, program: Key = 1) -> None:
        """The last share repeats."""
        cluster = Cluster(
            bootstrap_servers=f"127.0.0.1:{next(PORTS)}", brokers=1, provider="external", version="unknown"
        )
        super().__init__(Side.of(cluster), Scenario.of({"rate": rate} if rate else {}))
        self.phases: list[Phase] = []
        self.warm: list[Phase] = []
        self.order: list[Scripted] = []
        """All sides that have run a slice, in order."""
        self.breaks_in: int | None = None
        self._program = program
        self._script = itertools.chain(shares, itertools.repeat(shares[-1]))

    def is_cold(self, phase: Phase) -> bool:
        return phase not in self.warm

    def mark_warm(self, phase: Phase) -> None:
        self.warm.append(phase)

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        assert workers.shares is WORKERS.shares
        assert load.rate == (None if phase is Phase.FULL else self.scenario.rate)
        self.phases.append(phase)
        self.order.append(self)
        self.broken = len(self.phases) == self.breaks_in
        return Round(
            metrics={"lost": 1.0},
            compiler={self._program: next(self._script)},
            problems=(LOST,) if self.broken else (),
        )


NONE: Any = None
WORKERS = Workers(pool=NONE, shares=[], backend=lambda _: contextlib.nullcontext(NONE), can_grow=False)


def warmed(
    *sides: Scripted, most_s: float = 60.0, short: bool = False, slice_s: float = 1.0, workers: Workers = WORKERS
) -> list[WarmUp]:
    ticks = itertools.count(0.0, slice_s)
    return warm_up(sides, workers, most_s=most_s, short=short, clock=lambda: next(ticks))


@pytest.mark.parametrize(
    ("shares", "slices"),
    [
        ([0.0], IDLE_SLICES),
        ([0.9, 0.8, 0.7, 0.02], 3 + IDLE_SLICES),
        ([0.02, 0.02, 0.5, 0.02], 3 + IDLE_SLICES),  # idle for a moment: it waited for hot code
        ([None], math.ceil(BLIND_S / SLICE_S)),  # unknown is not idle
        ([0.5, None], math.ceil(BLIND_S / SLICE_S)),
    ],
)
def test_a_side_is_warm_when_its_compiler_is_idle(shares: list[float | None], slices: int) -> None:
    """A broker that is as slow as before may only wait for its compiler."""
    side = Scripted(*shares)
    (found,) = warmed(side)
    assert (found.end, len(found.shares)) == (WarmUpEnd.IDLE, slices)
    assert side.warm == [Phase.FULL]
    assert found.lost == slices


def test_both_sides_get_equally_many_slices_by_turns() -> None:
    """A side with more load would be ahead."""
    fast, slow = Scripted(0.0), Scripted(*[0.9] * 6, 0.0)
    found = warmed(fast, slow)
    assert [len(each.shares) for each in found] == [6 + IDLE_SLICES] * 2


class Together(Scripted):
    """A side whose slices end only while a slice of the other side is running."""

    barrier = threading.Barrier(2, timeout=10)

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        self.barrier.wait()
        return super().warm_up_slice(workers, load, phase)


def test_both_sides_run_their_slices_at_the_same_time() -> None:
    """Each broker waits most of the time until its code has run often enough."""
    found = warmed(Together(0.0), Together(*[0.9] * 6, 0.0), workers=dataclasses.replace(WORKERS, can_grow=True))
    assert [len(each.shares) for each in found] == [6 + IDLE_SLICES] * 2


def test_sides_on_one_cluster_take_turns() -> None:
    """Their loads would disturb each other, and exceed a permitted rate together."""
    ours, theirs = Scripted(0.0), Scripted(0.0)
    theirs.side = dataclasses.replace(theirs.side, cluster=ours.side.cluster)
    order: list[Scripted] = []
    for side in (ours, theirs):
        side.order = order
    warmed(ours, theirs, workers=dataclasses.replace(WORKERS, can_grow=True))
    assert order == [ours, theirs, theirs, ours, ours, theirs]


class Interrupted(Scripted):
    """A side whose first slice is interrupted."""

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        raise KeyboardInterrupt(workers, load, phase)


class Endless(Scripted):
    """A side whose slice ends only when it is cancelled."""

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        assert self.cancelled.wait(10)
        return super().warm_up_slice(workers, load, phase)

    def __init__(self) -> None:
        super().__init__(0.0)
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()


def test_an_interrupt_cancels_the_slice_of_the_other_side() -> None:
    """It reaches one thread only."""
    with pytest.raises(KeyboardInterrupt):
        warmed(Interrupted(0.0), Endless(), workers=dataclasses.replace(WORKERS, can_grow=True))


def test_a_paced_scenario_is_warmed_up_at_its_rate_as_well() -> None:
    """At its rate, a broker runs code that a full-speed load does not reach."""
    side = Scripted(0.0, rate="1k/s")
    warmed(side)
    assert side.phases == [Phase.FULL] * IDLE_SLICES + [Phase.RATE] * IDLE_SLICES
    assert side.warm == [Phase.FULL, Phase.RATE]
    assert IDLE_SLICES * SLICE_S >= 2


def test_a_compiler_that_is_never_idle_ends_the_warm_up_at_its_limit() -> None:
    """Three brokers on two cores may need minutes, and no test waits that long."""
    ours, theirs = Scripted(0.9), Scripted(0.9)
    found = warmed(ours, theirs, most_s=9.0)
    assert [(each.end, each.took_s) for each in found] == [(WarmUpEnd.LIMIT, 9.0)] * 2
    assert (ours.warm, theirs.warm) == ([], [])


def test_a_short_warm_up_leaves_brokers_cold() -> None:
    """The next test may need warm ones."""
    side = Scripted(0.9)
    (found,) = warmed(side, short=True)
    assert (found.end, side.warm) == (WarmUpEnd.SHORT, [])
    assert len(side.phases) < 5


def test_a_load_that_breaks_a_side_ends_the_warm_up() -> None:
    """More slices would only take time."""
    ours, theirs = Scripted(0.9), Scripted(0.9)
    theirs.breaks_in = 1
    found = warmed(ours, theirs)
    assert [(each.end, each.problems) for each in found] == [(WarmUpEnd.BROKEN, ()), (WarmUpEnd.BROKEN, (LOST,))]
    assert [len(side.phases) for side in (ours, theirs)] == [1, 1]


def test_warm_sides_and_those_that_shall_stay_cold_get_no_slice() -> None:
    """The reason is kept, because rounds on cold brokers count differently."""
    warm, unwanted = Scripted(0.9), Scripted(0.9)
    warm.warm = [Phase.FULL]
    assert [each.end for each in (*warmed(warm), *warmed(unwanted, most_s=0))] == [
        WarmUpEnd.NOT_NEEDED,
        WarmUpEnd.OFF,
    ]
    assert (warm.phases, unwanted.phases) == ([], [])


def test_brokers_are_warm_for_the_same_load_only() -> None:
    """Another record size, or another rate, uses other code; the length of a round does not."""
    one, longer = Scenario.of({"rate": "1k/s"}), Scenario.of({"rate": "1k/s", "duration": "9 s", "rounds": 7})
    larger, faster = Scenario.of({"rate": "1k/s", "record_size": 5000}), Scenario.of({"rate": "2k/s"})
    for phase in (Phase.FULL, Phase.RATE):
        assert workload_key(one, phase) == workload_key(longer, phase)
        assert workload_key(one, phase) != workload_key(larger, phase)
    assert workload_key(one, Phase.FULL) == workload_key(faster, Phase.FULL)
    assert workload_key(one, Phase.RATE) != workload_key(faster, Phase.RATE)


def test_brokers_with_the_quick_compiler_alone_need_fewer_slices() -> None:
    """It compiles each method once, so it does not pause before more work comes."""
    side = Scripted(0.3, 0.2, 0.05, rate="1k/s")
    side.side = dataclasses.replace(side.side, brokers=Quick())
    warmed(side)
    assert side.phases == [Phase.FULL] * 3 + [Phase.RATE] * 2
    assert side.warm == [Phase.FULL, Phase.RATE]


class Quick:
    """Brokers with the quick compiler alone."""

    quick: bool | None = True

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a warm-up does not use {name}")

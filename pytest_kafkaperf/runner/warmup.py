"""The warm-up before a trial's rounds.

A cold broker's code is not compiled yet, so its throughput is only a third of its throughput half a minute later. A
broker is considered warm when its JVM's compiler is idle. A broker that has stopped getting faster is not necessarily
warm: while the compiler works through its queue, speed and CPU time per record can remain the same for several seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.monitoring.readings import ApplicationKey
from pytest_kafkaperf.runner.rounds.loads import APPLICATION_SLICE_S, SLICE_S, Phase, slice_load
from pytest_kafkaperf.runner.rounds.round import COLD_SHARE

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import Key
    from pytest_kafkaperf.core.problems import Problem
    from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, Workers

IDLE_SLICES = 3
"""Number of consecutive slices in which the compilers must be idle."""
_QUICK_IDLE_SLICES = {Phase.FULL: 1, Phase.RATE: 2, Phase.APPLICATION: 2}
"""The same for brokers with the quick compiler alone, which compiles each method once, without pauses."""
_SHORT_SLICES = 3
BLIND_S = 10.0
"""Load duration, in seconds, for programs whose compiler cannot be observed, such as brokers without a JVM."""
_APPLICATION_S = 3.0
"""Load duration, in seconds, for applications without a known compiler, such as Python or Go programs."""


class WarmUpEnd(StrEnum):
    """Reason why a warm-up ended."""

    IDLE = "idle"
    """The compilers of all programs were idle."""
    SHORT = "short"
    """A short warm-up was enough for the test's thresholds."""
    LIMIT = "limit"
    """The limit of `kafka_broker_warmup` was reached."""
    BROKEN = "broken"
    """A load left the cluster or the workers unusable."""
    NOT_NEEDED = "not needed"
    """The brokers were already warm, or the plugin did not start them."""
    OFF = "off"
    """`kafka_broker_warmup` is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """One side's warm-up."""

    end: WarmUpEnd
    took_s: float = 0.0
    """Total time of its slices, in seconds."""
    shares: tuple[Mapping[Key, float | None], ...] = ()
    """Number of cores that each program's compiler used in each slice; None if unknown."""
    lost: float = 0.0
    """Number of acknowledged records that were lost during the warm-up."""
    problems: tuple[Problem, ...] = ()
    """Problems of the load that left the cluster or the workers unusable; empty if none did."""


def warm_up(
    sides: Sequence[SideRounds],
    workers: Workers,
    *,
    most_s: float,
    short: bool,
    clock: Callable[[], float] = time.monotonic,
) -> list[WarmUp]:
    """Warm up the sides until all programs' compilers are idle, for at most `most_s` for each side.

    The sides get the same number of slices: first at full speed, which warms up the brokers fastest, then at the
    scenario's rate, which exercises different broker code. Applications receive the scenario's load on their own topic.
    If `workers` can be doubled, both sides run their slices at the same time: a warm-up mostly waits until the broker
    has executed its code often enough.

    Args:
        sides: the sides, which all have the same scenario.
        workers: the worker processes that generate the load.
        most_s: maximum time for each side, in seconds; 0 to skip the warm-up.
        short: stop after a few slices.
        clock: returns seconds.

    Raises:
        ClusterError: for the same reasons as `SideRounds.measure`.

    """
    phases = [phase for phase in _phases(sides[0]) if any(side.is_cold(phase) for side in sides)]
    if not phases:
        return [WarmUp(end=WarmUpEnd.NOT_NEEDED) for _ in sides]
    if most_s <= 0:
        return [WarmUp(end=WarmUpEnd.OFF) for _ in sides]
    done = [_Slices(side, clock) for side in sides]
    end = WarmUpEnd.IDLE
    clusters = {side.side.cluster.bootstrap_servers for side in sides}
    with workers.for_loads(len(sides) if len(clusters) == len(sides) else 1) as free:
        for phase in phases:
            end = _run_phase(done, free, phase, most_s=most_s, short=short)
            if end is not WarmUpEnd.IDLE:
                break
            for side in sides:
                side.mark_warm(phase)
    return [each.warm_up(end) for each in done]


def _run_phase(
    done: Sequence[_Slices], free: Sequence[Workers], phase: Phase, *, most_s: float, short: bool
) -> WarmUpEnd:
    """Run the same number of slices on each side until all sides are warm; return the reason for stopping.

    `free` contains the workers for each load that can run at the same time. Because these loads share the machine, each
    side may take that many times as long.
    """
    for each in done:
        each.begin(phase)
    while not all(each.is_warm(short=short) for each in done):
        if max(each.took_s for each in done) >= most_s * len(free):
            return WarmUpEnd.LIMIT
        _run_slices(done, free)
        if any(each.side.broken for each in done):
            return WarmUpEnd.BROKEN
    return WarmUpEnd.SHORT if short else WarmUpEnd.IDLE


def _run_slices(done: Sequence[_Slices], free: Sequence[Workers]) -> None:
    """Run one slice on each side, as many at the same time as there are workers for."""
    turns = [*done] if done[0].count % 2 == 0 else [*reversed(done)]
    if len(free) < len(turns):
        for each in turns:
            each.run(free[0])
        return
    with ThreadPoolExecutor(len(turns)) as threads:
        try:
            slices = [threads.submit(each.run, own) for each, own in zip(turns, free, strict=True)]
            for one in slices:
                one.result()
        except BaseException:  # an interrupt only reaches this thread
            for each in turns:
                each.side.cancel()
            raise


def _phases(side: SideRounds) -> list[Phase]:
    if side.warms_applications:
        return [Phase.FULL, Phase.APPLICATION]
    return [Phase.FULL] if side.scenario.rate is None or side.searches else [Phase.FULL, Phase.RATE]


class _Slices:
    """One side's warm-up slices so far."""

    def __init__(self, side: SideRounds, clock: Callable[[], float]) -> None:
        self.side = side
        self._clock = clock
        self.took_s = 0.0
        self._phase = Phase.FULL
        self._first = 0
        """Index of the phase's first slice."""
        self._shares: list[Mapping[Key, float | None]] = []
        self._lost = 0.0
        self._problems: tuple[Problem, ...] = ()

    @property
    def count(self) -> int:
        return len(self._shares)

    def begin(self, phase: Phase) -> None:
        self._phase, self._first = phase, len(self._shares)

    def run(self, workers: Workers) -> None:
        began_s = self._clock()
        one = self.side.warm_up_slice(workers, slice_load(self.side.scenario, self._phase), self._phase)
        self.took_s += self._clock() - began_s
        self._shares.append(one.compiler)
        if self.side.broken:
            self._problems = one.problems
        if self._phase is not Phase.APPLICATION:  # an application may drop records on purpose
            self._lost += one.metrics.get("lost", 0.0)

    def is_warm(self, *, short: bool) -> bool:
        shares = self._shares[self._first :]
        least = _SHORT_SLICES if short else self._least_idle
        if len(shares) < least:
            return False
        return short or all(self._is_idle(program, shares) for program in shares[-1])

    @property
    def _least_idle(self) -> int:
        """Number of slices in which the brokers' compilers must be idle."""
        return _QUICK_IDLE_SLICES[self._phase] if self.side.side.quick else IDLE_SLICES

    def _is_idle(self, program: Key, shares: Sequence[Mapping[Key, float | None]]) -> bool:
        least = IDLE_SLICES if isinstance(program, ApplicationKey) else self._least_idle
        last = [one.get(program) for one in shares[-least:]]
        known = [share for share in last if share is not None]
        if len(known) < len(last):  # a compiler whose share is unknown may not be idle
            if self._phase is Phase.APPLICATION:
                return len(shares) * APPLICATION_SLICE_S >= _APPLICATION_S
            return len(shares) * SLICE_S >= BLIND_S
        return len(last) == least and max(known) < COLD_SHARE

    def warm_up(self, end: WarmUpEnd) -> WarmUp:
        return WarmUp(end=end, took_s=self.took_s, shares=tuple(self._shares), lost=self._lost, problems=self._problems)

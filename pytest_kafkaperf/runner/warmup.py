"""The warm-up of a trial, and the loads before a round.

A cold broker runs code that is not compiled yet: its throughput is a third of what it is half a minute later. It is
warm when its JVM's compiler is idle, not when it stops getting faster: while the compiler works through its queue, a
broker stays equally slow for several seconds, even in CPU time per record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.runner.round import COLD_SHARE
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.rounds import Side, Workers

IDLE_SLICES = 3
"""Consecutive slices in which the compilers must be idle."""
SLICE_S = 0.7
"""Load of one slice. Each has a topic of its own: the first load on another topic was slow again even after a long
warm-up, because the JVM had to discard code that it had compiled for a single one."""
_SHORT_SLICES = 3
BLIND_S = 10.0
"""Load for programs whose compiler cannot be observed, such as brokers without a JVM."""
_APPLICATION_S = 3.0
"""Load for applications without a known compiler, such as those in Python or Go."""

_IRRELEVANT = {
    **dict.fromkeys(("topic", "output_topic", "correlate", "rate", "records", "duration")),
    "watch_group": (),
    "backlog": 0,
    "warmup": 0.0,
    "rounds": 1,
}
"""Fields that make no difference to how warm a broker gets."""
_TAGGED_BYTES = 100
"""Record size of a warm-up whose scenario has values too short for a tag."""
_PROBE_WARMUP_S = 0.3
_PROBE_DURATION_S = 1.0


class WarmUpEnd(StrEnum):
    """The reason why a warm-up ended."""

    IDLE = "idle"
    """The compilers of all programs were idle."""
    SHORT = "short"
    """A short one was enough for what the test judges."""
    LIMIT = "limit"
    """It took as long as `kafka_broker_warmup` allows."""
    BROKEN = "broken"
    """A load left the cluster or the workers unusable."""
    NOT_NEEDED = "not needed"
    """The brokers were warm already, or the plugin did not start them."""
    OFF = "off"
    """`kafka_broker_warmup` is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The warm-up of one side."""

    end: WarmUpEnd
    took_s: float = 0.0
    """Time of its slices, in seconds."""
    shares: tuple[Mapping[str, float | None], ...] = ()
    """Number of cores that each program's compiler used, by slice; None: unknown."""
    lost: float = 0.0
    """Number of acknowledged records that were lost."""


def warm_up(
    sides: Sequence[Side],
    workers: Workers,
    *,
    most_s: float,
    short: bool,
    clock: Callable[[], float] = time.monotonic,
) -> list[WarmUp]:
    """Warm up the sides until the compilers of all their programs are idle, for at most `most_s` on each.

    All sides get equally many slices, alternately: first at full speed, which warms up soonest, then at the scenario's
    rate, at which brokers use other code. Applications get the scenario's own load on their own topic.

    Args:
        sides: they have the same scenario.
        workers: the worker processes that make the load.
        most_s: the limit of each side's time, in seconds; 0: no warm-up.
        short: end after a few slices.
        clock: returns seconds.

    Raises:
        ClusterError: as `Side.measure`.

    """
    phases = [phase for phase in _phases(sides[0]) if any(side.is_cold(phase) for side in sides)]
    if not phases:
        return [WarmUp(end=WarmUpEnd.NOT_NEEDED) for _ in sides]
    if most_s <= 0:
        return [WarmUp(end=WarmUpEnd.OFF) for _ in sides]
    done = [_Slices(side, clock) for side in sides]
    end = WarmUpEnd.IDLE
    for phase in phases:
        end = _run_phase(done, workers, phase, most_s=most_s, short=short)
        if end is not WarmUpEnd.IDLE:
            break
        for side in sides:
            side.mark_warm(phase)
    return [each.warm_up(end) for each in done]


def _run_phase(done: Sequence[_Slices], workers: Workers, phase: Phase, *, most_s: float, short: bool) -> WarmUpEnd:
    """Run equally many slices on each side until all sides are warm; return the reason why they ended."""
    for each in done:
        each.begin(phase)
    while not all(each.is_warm(short=short) for each in done):
        if max(each.took_s for each in done) >= most_s:
            return WarmUpEnd.LIMIT
        for each in done if done[0].count % 2 == 0 else reversed(done):
            each.run(workers)
            if each.side.broken:
                return WarmUpEnd.BROKEN  # the first round reports why
    return WarmUpEnd.SHORT if short else WarmUpEnd.IDLE


class Phase(StrEnum):
    """The kind of load of a slice."""

    FULL = "full speed"
    RATE = "the scenario's rate"
    APPLICATION = "the application's topic"


def _phases(side: Side) -> list[Phase]:
    if side.warms_applications:
        return [Phase.FULL, Phase.APPLICATION]
    return [Phase.FULL] if side.scenario.rate is None or side.searches else [Phase.FULL, Phase.RATE]


class _Slices:
    """The slices of one side so far."""

    def __init__(self, side: Side, clock: Callable[[], float]) -> None:
        self.side = side
        self._clock = clock
        self.took_s = 0.0
        self._phase = Phase.FULL
        self._first = 0
        """Index of the phase's first slice."""
        self._shares: list[Mapping[str, float | None]] = []
        self._lost = 0.0

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
        if self._phase is not Phase.APPLICATION:  # an application may drop records
            self._lost += one.metrics.get("lost", 0.0)

    def is_warm(self, *, short: bool) -> bool:
        shares = self._shares[self._first :]
        least = _SHORT_SLICES if short else IDLE_SLICES
        if len(shares) < least:
            return False
        return short or all(self._is_idle(program, shares) for program in shares[-1])

    def _is_idle(self, program: str, shares: Sequence[Mapping[str, float | None]]) -> bool:
        last = [one.get(program) for one in shares[-IDLE_SLICES:]]
        known = [share for share in last if share is not None]
        if len(known) < len(last):  # unknown is not idle
            needed_s = _APPLICATION_S if self._phase is Phase.APPLICATION else BLIND_S
            return len(shares) * SLICE_S >= needed_s
        return max(known) < COLD_SHARE

    def warm_up(self, end: WarmUpEnd) -> WarmUp:
        return WarmUp(end=end, took_s=self.took_s, shares=tuple(self._shares), lost=self._lost)


def slice_load(scenario: Scenario, phase: Phase) -> Scenario:
    """Return the load of one slice of the warm-up."""
    rate = None if phase is Phase.FULL or scenario.rate is None else peak_rate(scenario.rate)
    if phase is not Phase.APPLICATION:
        return warm_up_load(scenario, duration_s=SLICE_S).model_copy(update={"rate": rate})
    update: dict[str, Any] = {"records": None, "duration": SLICE_S, "backlog": 0, "warmup": 0.0, "rounds": 1}
    return scenario.model_copy(update={**update, "rate": rate})


def warm_up_load(scenario: Scenario, *, duration_s: float) -> Scenario:
    """Return the scenario's load at full speed, on a topic of its own.

    Consumers of that topic find the tags in the values. A scenario that measures through an application may have
    values too short for that; the warm-up then uses longer ones.
    """
    update: dict[str, Any] = {**_IRRELEVANT, "duration": duration_s, "producers": max(1, scenario.producers)}
    if scenario.tags_in_header and (scenario.record_size is None or min(scenario.record_sizes) < TAG_BYTES):
        update |= {"payload": "random", "record_size": _TAGGED_BYTES}
    return scenario.model_copy(update=update)


def workload_key(scenario: Scenario, phase: Phase) -> str:
    """Return a text that is the same for scenarios which warm up a broker alike in this phase."""
    return f"{phase}: {slice_load(scenario, phase).model_dump_json()}"


def probe_load(scenario: Scenario) -> Scenario:
    """Return a short load at the scenario's highest rate, from which the worker count is decided."""
    update: dict[str, Any] = {
        "rate": None if scenario.rate is None else peak_rate(scenario.rate),
        "records": None,
        "duration": _PROBE_DURATION_S,
        "backlog": 0,
        "warmup": _PROBE_WARMUP_S,
        "rounds": 1,
    }
    return scenario.model_copy(update=update)


def backlog_load(scenario: Scenario, *, paced: bool) -> Scenario:
    """Return the load that writes the scenario's backlog: at full speed, or `paced` by the scenario's highest rate."""
    rate = peak_rate(scenario.rate) if paced and scenario.rate is not None else None
    update = {"records": scenario.backlog, "duration": None, "rate": rate, "warmup": 0.0, "backlog": 0}
    update["abort_ratio"] = 0.0  # all of the backlog is there to be read
    return scenario.model_copy(update=update)

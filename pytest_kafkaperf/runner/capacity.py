"""The search for the highest rate that holds its limits. Pure: it says what to try, and is told how that went.

From the lowest rate on each is twice the last, until one does not hold; between that and the last that held, the
geometric mean is tried, until they are `RESOLUTION` apart. No single step decides: the rate that did not hold is tried
twice more, and the one that held once more, after a warm-up that no quota and no buffer outlasts. What it gives then is
the capacity: a figure of its own, not of the search. Where tries differ, the majority counts, and the search goes on
from there.

OpenMessaging Benchmark's search (`driver-kafka`, `WorkloadGenerator.findMaximumSustainableRate`) moves one rate up and
down in a load that goes on. It is known to stay at the minimum after a bad first second, to settle above what can be
had while a backlog grows, to change the rate within what it measures, and not to see that a consumer stands still. Here
each rate has a topic, a warm-up and a window of its own, and consumers have to keep up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.runner.round import Round, Step, StepOutcome
from pytest_kafkaperf.scenario.rate import peak_rate
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.scenario.threshold import Absolute, Threshold, describe_limit, holds

RESOLUTION = 1.015
"""Between a rate that holds and one that does not. What holds lies some per cent below a ceiling anyway, for near to it
latency rises, and a quota counts more bytes than those of values: together with this it is within 5 %."""
_FACTOR = 2.0
"""From one rate of the bracket to the next."""
_NEAR = 1.1
"""Around the last search's capacity, where the next one begins."""
SETTLED_S = 12.0
"""Of warm-up, where it counts: a client quota averages over `quota.window.num` windows of a second, 11 by default, and
lets through as a burst what came too little in them."""
_SUSTAINED_RATIO = 0.95
"""Of the rate, that must be acknowledged and received by the time: a backlog that grows is no capacity."""
_TAIL_S = 0.1
"""That the last answers of a window may take besides: of a short one it would be much."""
MOST_STEPS = 60
"""Of one search. The widest bracket takes 30 steps, and a decision that is overturned some more."""
LIKELY_STEPS = 20
"""Of a search, for what has to be planned: 11 to bracket, 6 between, 3 at the edge."""
_MOST_DISTURBED = 8
"""Of those, steps that count for nothing because other programs had the machine; where they always have, it is what it
is."""
_DECIDING = 3
"""Tries that break before a rate is given up. Two let 3 % of searches end far too low where one step in twenty fails by
chance: at some rate of the bracket that failed twice."""
_MISLED = 2
"""Settled tries that break where short ones held."""
_DIGITS = 4
"""Of a rate: more than the resolution tells, and short in a report."""

Measure = Callable[["Scenario", str], Round]
"""Runs a scenario once; the text says which step it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """What is searched for."""

    limits: tuple[Threshold, ...]
    """Absolute ones."""
    low: float
    """Records a second, where the search begins."""
    high: float
    """Where it ends."""

    def __str__(self) -> str:
        """What has to hold; where the search begins and ends is no part of what it finds."""
        return ", ".join(limit.expression for limit in self.limits)


def described(scenario: Scenario, plan: SearchPlan | None) -> Mapping[str, Any]:
    """What is run, as baselines hold it: with other limits a search finds another capacity."""
    fields: dict[str, Any] = scenario.model_dump(mode="json")
    return fields if plan is None else {**fields, "capacity": str(plan)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A rate to hold next."""

    rate: float
    settled: bool
    """Whether it is warm for `SETTLED_S` before."""
    final: bool = False
    """Whether what it gives is the capacity, if it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The highest rate that holds."""

    rate: float
    above: StepOutcome | None
    """How the rate above it went; None: it is the highest that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """No rate was found."""

    lowest: StepOutcome | None
    """How the lowest rate went; None: there were too many steps."""


class Search:
    """Which rate to try next, and what all of them say together.

    `near` is a capacity that an earlier search has found, `settled` whether short warm-ups have misled that one.
    """

    def __init__(self, low: float, high: float, *, near: float | None = None, settled: bool = False) -> None:
        self._settled = settled
        """Whether every step has a long warm-up: short ones have misled."""
        self._low, self._high = low, high
        self._first = low if near is None else min(high, max(low, _rounded(near / _NEAR)))
        self._factor = _FACTOR if near is None else _NEAR**2
        self._votes: dict[float, list[StepOutcome]] = {}
        self._asked: Try | None = None
        self._last_final: float | None = None
        self._confirmed: float | None = None
        self._steps = 0

    def next(self) -> Try | Found | Missed:
        """What to do now."""
        held, broken = self._edge()
        self._asked = None
        if held is None and broken is not None and broken <= self._low and self._decided(broken):
            return Missed(lowest=self._standing(broken))
        if held is not None and held == self._confirmed:
            return Found(rate=held, above=None if broken is None else self._standing(broken))
        if self._steps >= MOST_STEPS:
            return Missed(lowest=None)
        self._asked = self._choice(held, broken)
        return self._asked

    def tell(self, outcome: StepOutcome) -> None:
        """How it went."""
        asked = self._asked
        if asked is None:
            raise RuntimeError("nothing was asked")
        self._steps += 1
        if outcome is StepOutcome.DISTURBED:
            return
        misled = asked.settled and outcome is StepOutcome.BROKEN and not self._settled
        self._votes.setdefault(asked.rate, []).append(outcome)
        if asked.final and outcome is StepOutcome.HELD:  # it is the third try, where the second said otherwise
            self._confirmed = asked.rate
        if misled and self._standing(asked.rate) is StepOutcome.BROKEN:
            self._distrust(asked.rate)

    def _choice(self, held: float | None, broken: float | None) -> Try:
        tied = next((rate for rate in self._votes if self._standing(rate) is None), None)
        if tied is not None:
            final = tied == self._last_final
            return Try(rate=tied, settled=final or self._settled, final=final)
        if held is None:
            return self._short(self._first if broken is None else self._down(broken))
        if broken is None:
            if held < self._high:
                return self._short(min(self._high, _rounded(held * self._widened())))
        elif broken / held > RESOLUTION:
            return self._short(_rounded(math.sqrt(held * broken)))
        elif not self._decided(broken):
            return self._short(broken)
        self._last_final = held
        return Try(rate=held, settled=True, final=True)

    def _short(self, rate: float) -> Try:
        return Try(rate=rate, settled=self._settled)

    def _down(self, broken: float) -> float:
        return max(self._low, _rounded(broken / self._widened()))

    def _widened(self) -> float:
        """How far to go while there is no bracket: from a near guess on each time farther."""
        factor = self._factor
        self._factor = min(_FACTOR, factor**2)
        return factor

    def _edge(self) -> tuple[float | None, float | None]:
        """The highest rate that holds as far as one knows, and the lowest above it that does not."""
        held = max((rate for rate in self._votes if self._standing(rate) is StepOutcome.HELD), default=None)
        lost = (StepOutcome.BROKEN, StepOutcome.UNREACHED)
        above = (rate for rate in self._votes if self._standing(rate) in lost and (held is None or rate > held))
        return held, min(above, default=None)

    def _standing(self, rate: float) -> StepOutcome | None:
        """What most tries of a rate say; None where they are even."""
        outcomes = self._votes[rate]
        held = outcomes.count(StepOutcome.HELD)
        if 2 * held == len(outcomes):
            return None
        if 2 * held > len(outcomes):
            return StepOutcome.HELD
        return max((StepOutcome.BROKEN, StepOutcome.UNREACHED), key=outcomes.count)

    def _decided(self, rate: float) -> bool:
        return sum(outcome is not StepOutcome.HELD for outcome in self._votes[rate]) >= _DECIDING

    def _distrust(self, rate: float) -> None:
        """A rate held after a short warm-up, and not after a long one: so may others have done, that are near it."""
        self._settled = True
        self._votes = {
            other: votes
            for other, votes in self._votes.items()
            if self._standing(other) is not StepOutcome.HELD or other * _FACTOR <= rate
        }


def find_capacity(plan: SearchPlan, scenario: Scenario, measure: Measure, earlier: Sequence[Round]) -> Round:
    """Search, and give the round that was measured at the rate that was found, with the metric `capacity`.

    `earlier` are rounds of searches for the same: the next one begins near the last one's capacity. A round without
    the metric has a problem that says why.
    """
    known = [one for one in earlier if "capacity" in one.metrics]
    search = Search(
        plan.low,
        plan.high,
        near=known[-1].metrics["capacity"] if known else None,
        settled=bool(known) and _was_misled(known[-1].steps),
    )
    steps: list[Step] = []
    disturbed = 0
    last = Round(metrics={})
    while isinstance(asked := search.next(), Try):
        warmup_s = max(scenario.warmup, SETTLED_S) if asked.settled else scenario.warmup
        tried = scenario.model_copy(update={"rate": asked.rate, "warmup": warmup_s})
        last = measure(tried, f"step {len(steps) + 1}, {_shown(asked.rate)}")
        outcome, reason = _outcome_of(last, plan, tried)
        if outcome is None:
            return dataclasses.replace(last, steps=tuple(steps))
        if outcome is StepOutcome.BROKEN and last.busy_warning and disturbed < _MOST_DISTURBED:
            outcome, disturbed = StepOutcome.DISTURBED, disturbed + 1
        metrics = last.metrics
        step = Step(rate=asked.rate, outcome=outcome, reason=reason, settled=asked.settled, metrics=metrics)
        steps.append(step)
        search.tell(outcome)
    if isinstance(asked, Missed):
        return Round(metrics={}, problems=(_missed(asked, plan, steps),), steps=tuple(steps))
    capacity = last.metrics["produce.throughput"]
    bound = _at_least(asked, capacity)
    return dataclasses.replace(
        last,
        metrics={**last.metrics, "capacity": capacity},
        warnings=(*last.warnings, *([] if bound is None else [bound])),
        steps=tuple(steps),
        at_least=bound is not None,
    )


def _outcome_of(one: Round, plan: SearchPlan, scenario: Scenario) -> tuple[StepOutcome | None, str | None]:
    """How a rate went, and why it did not hold; None where the round says nothing at all, and nothing goes on."""
    kinds, reasons = {problem.kind for problem in one.problems}, [problem.text for problem in one.problems]
    if ProblemKind.GENERATOR_TOO_SLOW in kinds:
        return StepOutcome.UNREACHED, reasons[0]
    if kinds - {ProblemKind.RECORDS_UNREAD, ProblemKind.NOTHING_ACKNOWLEDGED}:
        return None, reasons[0]
    broken = [*reasons, *_backlog(one.metrics, scenario), *_broken(one.metrics, plan)]
    return (StepOutcome.BROKEN, broken[0]) if broken else (StepOutcome.HELD, None)


def _broken(metrics: Mapping[str, float], plan: SearchPlan) -> list[str]:
    found = []
    for limit in plan.limits:
        value = metrics.get(limit.metric.name)
        if value is None:
            found.append(f"{limit.metric.name} was not measured")
        elif isinstance(limit.limit, Absolute) and not holds(value, limit.operator, limit.limit.value):
            bound = f"{limit.operator} {describe_limit(limit.limit, limit.metric)}"
            found.append(f"{limit.metric.name} {format_quantity(value, limit.metric.unit)} (limit {bound})")
    return found


def _backlog(metrics: Mapping[str, float], scenario: Scenario) -> list[str]:
    """Whether producers or live consumers fell behind, whatever the limits are."""
    due = (1 - scenario.abort_ratio) * peak_rate(scenario.rate or 0.0)
    length_s = scenario.duration or _TAIL_S
    least = _SUSTAINED_RATIO * due * length_s / (length_s + _TAIL_S)
    sides = {"acknowledged": metrics.get("produce.throughput", 0.0)}
    if scenario.consumers and scenario.consume == "live":
        sides["received"] = metrics.get("consume.throughput", 0.0)
    return [f"of {_shown(due)} only {_shown(seen)} were {what} in time" for what, seen in sides.items() if seen < least]


def _was_misled(steps: Sequence[Step]) -> bool:
    """Whether short warm-ups have shown more than there was."""
    return sum(step.settled and step.outcome is StepOutcome.BROKEN for step in steps) >= _MISLED


def _missed(missed: Missed, plan: SearchPlan, steps: Sequence[Step]) -> Problem:
    at = f"at the lowest rate, {_shown(plan.low)}"
    why = next((step.reason for step in reversed(steps) if step.rate == plan.low), None)
    match missed.lowest:
        case None:
            text = (
                f"the search came to no end in {len(steps)} steps: what holds once does not the next time; hold each "
                "rate for longer"
            )
        case StepOutcome.UNREACHED:
            return Problem(ProblemKind.GENERATOR_TOO_SLOW, f"{why} ({at}: no capacity can be told)")
        case _:
            text = f"no rate held its limits: {at}, {why}; give a lower low=, or other limits"
    return Problem(ProblemKind.CAPACITY_NOT_FOUND, text)


def _at_least(found: Found, capacity: float) -> str | None:
    if found.above is StepOutcome.BROKEN:
        return None
    why = (
        "the highest rate that was asked for held, too; give a higher high="
        if found.above is None
        else "generator too slow for more; use more producers, or give the machine more cores"
    )
    return f"the capacity is at least {_shown(capacity)}: {why}"


def _shown(rate: float) -> str:
    return format_quantity(rate, Unit.RECORD_RATE)


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")

"""The capacity search, which finds the highest rate that meets its thresholds. `Search` is pure and only chooses rates.

The search doubles the rate until a rate does not hold. It then repeatedly tries the geometric mean of the highest rate
that held and the lowest that did not, until the two are `RESOLUTION` apart. No single attempt is decisive: the search
tries the rate that did not hold twice more, and the rate that held once more, after a warm-up that outlasts any quota
or buffer. The throughput of that last attempt is the capacity. If attempts at a rate disagree, the majority counts, and
the search continues from there.

OpenMessaging Benchmark's search (`driver-kafka`, `WorkloadGenerator.findMaximumSustainableRate`) moves the rate up and
down in one continuous load. It is known to stay at the minimum after a bad first second, to settle too high while a
backlog grows, to change the rate during a measurement, and to miss a stuck consumer. Here, each rate has a separate
topic, warm-up and window, and consumers must keep up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.metrics import SEARCH_METRICS
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.core.units import Quantity, Unit, format_quantity
from pytest_kafkaperf.runner.rounds.round import Round, Step, StepOutcome
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import Absolute, Threshold, describe_limit, holds

RESOLUTION = 1.015
"""Ratio, at the end of a search, between the rate that does not hold and the rate that holds. The result is within 5%
of the true limit, because latency rises just below the limit, and quotas count more bytes than those in the values."""
_FACTOR = 2.0
"""Ratio between successive rates until one fails to hold."""
_NEAR = 1.1
"""Ratio between the capacity of the last search and the first rate of the next one."""
SETTLED_S = 12.0
"""Duration of a long warm-up, in seconds. A client quota averages over `quota.window.num` windows of one second, 11 by
default, and allows bursts after windows with less traffic."""
_SUSTAINED_RATIO = 0.95
"""Share of the rate that must be acknowledged and received in time; below it, a backlog grows."""
_TAIL_S = 0.1
"""Additional time for a window's last responses, in seconds, which matters for short windows."""
MOST_STEPS = 60
"""Maximum number of steps in a search. The widest range takes 30 steps, and a reversed decision takes a few more."""
LIKELY_STEPS = 20
"""Typical number of steps, for time estimates: 11 to double the rate, 6 between two rates, 3 to confirm."""
_MOST_DISTURBED = 8
"""Maximum number of steps to discard because other programs used the machine; any further steps count."""
_DECIDING = 3
"""Number of failed attempts before the search gives up on a rate. If one step in twenty fails by chance, two attempts
would make 3% of searches end far too low."""
_MISLED = 2
"""Number of failed attempts with a long warm-up after which the next search uses only long warm-ups."""
_DIGITS = 4
"""Number of significant digits in a rate: more than the resolution requires, but short in reports."""

Measure = Callable[["Scenario", str], Round]
"""Runs a scenario once; the text is a label for the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A capacity search's thresholds and range."""

    limits: tuple[Threshold, ...]
    """Absolute thresholds that each rate must meet."""
    low: float
    """Lower end of the searched range, in records per second."""
    high: float
    """Upper end of the searched range, in records per second."""
    implied: tuple[Threshold, ...] = ()
    """Thresholds that are implied in every test, such as `errors == 0`, and that each rate must also meet."""

    def __str__(self) -> str:
        """Return the thresholds without the range, which does not change the result."""
        return ", ".join(limit.expression for limit in self.limits)


def workload_of(scenario: Scenario, plan: SearchPlan | None) -> Mapping[str, Any]:
    """Return the fields that identify a workload in baselines: the scenario's fields and the search's thresholds."""
    fields: dict[str, Any] = scenario.model_dump(mode="json")
    return fields if plan is None else {**fields, "capacity": str(plan)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """The next rate to try."""

    rate: float
    settled: bool
    """True for a long warm-up of `SETTLED_S` seconds."""
    final: bool = False
    """True if the throughput at this rate will become the capacity, provided that the rate holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Result of a successful search."""

    rate: float
    """The highest rate that holds."""
    above: StepOutcome | None
    """The outcome at the next higher rate; None if `rate` is the highest rate in the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Result of a search that did not find a rate."""

    lowest: StepOutcome | None
    """The outcome at the range's lowest rate; None if the search took too many steps."""


class Search:
    """The state of a search, which chooses the next rate based on the attempts so far.

    `near` is the capacity that an earlier search found; `settled` is True if short warm-ups misled that search.
    """

    def __init__(self, low: float, high: float, *, near: float | None = None, settled: bool = False) -> None:
        self._settled = settled
        """True if every step has a long warm-up because rates held only after short warm-ups."""
        self._low, self._high = low, high
        self._first = low if near is None else min(high, max(low, _rounded(near / _NEAR)))
        self._factor = _FACTOR if near is None else _NEAR**2
        self._votes: dict[float, list[StepOutcome]] = {}
        self._asked: Try | None = None
        self._last_final: float | None = None
        self._confirmed: float | None = None
        self._steps = 0

    def next(self) -> Try | Found | Missed:
        """Return the next rate to try, or the search's result."""
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
        """Record the outcome at the rate that `next` returned."""
        asked = self._asked
        if asked is None:
            raise RuntimeError("tell() needs a rate that next() returned")
        self._steps += 1
        if outcome is StepOutcome.DISTURBED:
            return
        misled = asked.settled and outcome is StepOutcome.BROKEN and not self._settled
        self._votes.setdefault(asked.rate, []).append(outcome)
        if asked.final and outcome is StepOutcome.HELD:  # after a tie, this is the third attempt
            self._confirmed = asked.rate
        if misled and self._standing(asked.rate) is StepOutcome.BROKEN:
            self._distrust(asked.rate)

    def _choice(self, held: float | None, broken: float | None) -> Try:
        tied = next((rate for rate in self._votes if self._standing(rate) is None), None)
        if tied is not None:
            final = tied == self._last_final
            return Try(rate=tied, settled=final or self._settled, final=final)
        if held is None:
            lower = self._first if broken is None else max(self._low, _rounded(broken / self._widened()))
            return self._short(lower)
        closer = self._closer(held, broken)
        if closer is not None:
            return self._short(closer)
        self._last_final = held
        return Try(rate=held, settled=True, final=True)

    def _closer(self, held: float, broken: float | None) -> float | None:
        """Return a rate that narrows the search; None if the highest rate that held so far must be confirmed."""
        if broken is None:
            return min(self._high, _rounded(held * self._widened())) if held < self._high else None
        if broken / held > RESOLUTION:
            return _rounded(math.sqrt(held * broken))
        return None if self._decided(broken) else broken

    def _short(self, rate: float) -> Try:
        return Try(rate=rate, settled=self._settled)

    def _widened(self) -> float:
        """Return the ratio to the next rate; it grows with each step if the search started near an earlier capacity."""
        factor = self._factor
        self._factor = min(_FACTOR, factor**2)
        return factor

    def _edge(self) -> tuple[float | None, float | None]:
        """Return the highest rate that holds so far, and the lowest rate above it that does not."""
        held = max((rate for rate in self._votes if self._standing(rate) is StepOutcome.HELD), default=None)
        lost = (StepOutcome.BROKEN, StepOutcome.UNREACHED)
        above = (rate for rate in self._votes if self._standing(rate) in lost and (held is None or rate > held))
        return held, min(above, default=None)

    def _standing(self, rate: float) -> StepOutcome | None:
        """Return the majority outcome of the attempts at a rate; None for a tie."""
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
        """Discard nearby rates that held, because `rate` held after a short warm-up but failed after a long one."""
        self._settled = True
        self._votes = {
            other: votes
            for other, votes in self._votes.items()
            if self._standing(other) is not StepOutcome.HELD or other * _FACTOR <= rate
        }


def find_capacity(plan: SearchPlan, scenario: Scenario, measure: Measure, earlier: Sequence[Round]) -> Round:
    """Run a search and return the round at the rate that it found, with the metric `capacity`.

    `earlier` are the rounds of earlier searches in the same trial; the search starts near the last capacity. If the
    search fails, the round lacks the metric, and a problem gives the reason.
    """
    known = [one for one in earlier if "capacity" in one.metrics]
    failed = [step for step in known[-1].steps if step.settled and step.outcome is StepOutcome.BROKEN] if known else []
    search = Search(
        plan.low, plan.high, near=known[-1].metrics["capacity"] if known else None, settled=len(failed) >= _MISLED
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
            problems = last.problems or (_ended_by_loss(asked.rate, last.metrics["lost"]),)
            return dataclasses.replace(last, problems=problems, steps=tuple(steps))
        if outcome is StepOutcome.BROKEN and last.busy and disturbed < _MOST_DISTURBED:
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
        at_least=(*last.at_least, *(() if bound is None else SEARCH_METRICS)),
    )


_OF_LOAD = {ProblemKind.RECORDS_UNREAD, ProblemKind.NOTHING_ACKNOWLEDGED, ProblemKind.NOT_CAUGHT_UP}
"""Problems that may disappear at a lower rate."""


def _outcome_of(one: Round, plan: SearchPlan, scenario: Scenario) -> tuple[StepOutcome | None, str | None]:
    """Return the outcome at a rate, and the reason if the rate did not hold; an outcome of None ends the search."""
    kinds, reasons = {problem.kind for problem in one.problems}, [problem.text for problem in one.problems]
    is_limited = any(limit.metric.name == "lost" for limit in plan.limits)
    has_lost = scenario.output_topic is None and not is_limited and one.metrics.get("lost", 0) > 0
    if has_lost:
        return None, next(iter(reasons), None)
    if ProblemKind.GENERATOR_TOO_SLOW in kinds:
        return StepOutcome.UNREACHED, reasons[0]
    if kinds - _OF_LOAD:
        return None, reasons[0]
    broken = [*reasons, *_backlog(one.metrics, scenario), *_broken(one.metrics, plan)]
    return (StepOutcome.BROKEN, broken[0]) if broken else (StepOutcome.HELD, None)


def _broken(metrics: Mapping[str, float], plan: SearchPlan) -> list[str]:
    found = []
    for limit in (*plan.limits, *plan.implied):
        value = metrics.get(limit.metric.name)
        if value is None:
            found.append(f"{limit.metric.name} was not measured")
        elif isinstance(limit.limit, Absolute) and not holds(value, limit.operator, limit.limit.value):
            bound = f"{limit.operator} {describe_limit(limit.limit, limit.metric)}"
            found.append(f"{limit.metric.name} {format_quantity(value, limit.metric.unit)} (threshold {bound})")
    return found


def _backlog(metrics: Mapping[str, float], scenario: Scenario) -> list[str]:
    """Return the reasons why producers or live consumers fell behind the rate, regardless of thresholds.

    The last responses may arrive after the window by as much as the delay that all records have. A steadily growing
    backlog does not extend this time, because it makes p99 twice the median.
    """
    due = (1 - scenario.abort_ratio) * peak_rate(scenario.rate or 0.0)
    length_s = scenario.duration or _TAIL_S
    sides = {"acknowledged": ("produce", metrics.get("produce.throughput", 0.0))}
    if scenario.consumers and scenario.consume == "live":
        sides["received"] = "e2e", metrics.get("consume.throughput", 0.0) / scenario.consumer_groups
    found = []
    for what, (way, seen) in sides.items():
        delay_s = 2 * metrics.get(f"{way}.latency.p50", 0.0) - metrics.get(f"{way}.latency.p99", 0.0)
        if seen < _SUSTAINED_RATIO * due * length_s / (length_s + _TAIL_S + max(0.0, delay_s)):
            found.append(f"only {_shown(seen)} of {_shown(due)} were {what} in time")
    return found


def _ended_by_loss(rate: float, lost: float) -> Problem:
    return Problem(Cause.SEARCH_ENDED_BY_LOSS, {"rate": Quantity(rate, Unit.RECORD_RATE), "lost": lost})


def _missed(missed: Missed, plan: SearchPlan, steps: Sequence[Step]) -> Problem:
    if missed.lowest is None:
        return Problem(Cause.SEARCH_UNENDED, {"steps": len(steps)})
    why = next((step.reason for step in reversed(steps) if step.rate == plan.low), None)
    cause = Cause.LOWEST_RATE_UNREACHED if missed.lowest is StepOutcome.UNREACHED else Cause.NO_RATE_HELD
    return Problem(cause, {"rate": Quantity(plan.low, Unit.RECORD_RATE), "reason": why})


def _at_least(found: Found, capacity: float) -> Notice | None:
    if found.above is StepOutcome.BROKEN:
        return None
    remark = Remark.HIGHEST_RATE_HELD if found.above is None else Remark.GENERATOR_ENDED_SEARCH
    return Notice(remark, {"capacity": Quantity(capacity, Unit.RECORD_RATE)})


def _shown(rate: float) -> str:
    return format_quantity(rate, Unit.RECORD_RATE)


def _rounded(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")

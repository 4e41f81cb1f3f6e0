"""The latency curve: latency against rate, as the searches for the capacity have seen it. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.runner.capacity import SearchPlan
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.round import Round, Step, StepOutcome
from pytest_kafkaperf.scenario.threshold import Absolute

_FAMILIES = ("e2e.latency", "produce.latency")
"""Of the way that a record has behind it, the whole first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPoint:
    """One rate, and what became of it in all tries."""

    rate: float
    low: float | None
    """The median of the lower quantile, in seconds; None where it was not measured."""
    high: float | None
    outcome: StepOutcome
    """What most tries say."""
    tries: int
    reason: str | None
    """Of the last try that did not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCurve:
    """Latency against rate."""

    names: tuple[str, str]
    """Metrics: the lower quantile, and the higher one."""
    limit: float | None
    """On the higher one, in seconds."""
    points: tuple[LatencyPoint, ...]
    """By rate, ascending."""
    capacities: tuple[float, ...]
    """What each search has found."""
    at_least: bool


def stick_of(result: Result, rounds: Sequence[Round] | None = None) -> LatencyCurve | None:
    """That of the test's first session, or of these of its rounds; None where nothing was searched."""
    rounds = result.rounds if rounds is None else rounds
    steps = [step for one in rounds for step in one.steps]
    if result.plan is None or not steps:
        return None
    names, limit = _latency(result.plan, steps)
    by_rate = sorted(steps, key=lambda step: step.rate)
    return LatencyCurve(
        names=names,
        limit=limit,
        points=tuple(_point(rate, [*tries], names) for rate, tries in itertools.groupby(by_rate, lambda one: one.rate)),
        capacities=tuple(one.metrics["capacity"] for one in rounds if "capacity" in one.metrics),
        at_least=any(one.at_least for one in rounds),
    )


def described_search(plan: SearchPlan) -> str:
    """What was searched for: `the highest from 1k to 2M records/s with errors == 0`."""
    low, high = (format_quantity(rate, Unit.RECORD_RATE) for rate in (plan.low, plan.high))
    return f"the highest from {low.removesuffix(f' {Unit.RECORD_RATE}')} to {high} with {plan}"


def _latency(plan: SearchPlan, steps: Sequence[Step]) -> tuple[tuple[str, str], float | None]:
    """The latency that has a limit, else that of the whole way; the median beside it."""
    for limit, family in itertools.product(plan.limits, _FAMILIES):
        name = limit.metric.name
        if name.startswith(f"{family}.") and isinstance(limit.limit, Absolute):
            median = f"{family}.p50"
            return (median, f"{family}.p99" if name == median else name), limit.limit.value
    known = {name for step in steps for name in step.metrics}
    family = next((each for each in _FAMILIES if f"{each}.p99" in known), _FAMILIES[-1])
    return (f"{family}.p50", f"{family}.p99"), None


def _point(rate: float, tries: Sequence[Step], names: tuple[str, str]) -> LatencyPoint:
    low, high = (_median([step.metrics for step in tries], name) for name in names)
    counting = [step for step in tries if step.outcome is not StepOutcome.DISTURBED]
    outcomes = Counter(step.outcome for step in counting or tries)
    return LatencyPoint(
        rate=rate,
        low=low,
        high=high,
        outcome=outcomes.most_common(1)[0][0],
        tries=len(tries),
        reason=next((step.reason for step in reversed(tries) if step.reason is not None), None),
    )


def _median(rounds: Sequence[Mapping[str, float]], name: str) -> float | None:
    values = [one[name] for one in rounds if name in one]
    return statistics.median(values) if values else None

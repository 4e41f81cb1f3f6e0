"""A test's latency curve: latency as a function of rate, as measured by the capacity searches. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round, Step, StepOutcome
from pytest_kafkaperf.scenarios.threshold import Absolute

_FAMILIES = ("e2e.latency", "produce.latency")
"""Families of latency metrics, in order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPoint:
    """One rate and the outcome of all attempts at this rate."""

    rate: float
    """The rate, in records per second."""
    low: float | None
    """Median of the lower quantile over all attempts, in seconds; None if the quantile was not measured."""
    high: float | None
    """Median of the higher quantile over all attempts, in seconds; None if the quantile was not measured."""
    outcome: StepOutcome
    """The most frequent outcome of the attempts."""
    attempts: int
    """Number of attempts."""
    reason: str | None
    """Reason why the last unsuccessful attempt failed; None if all attempts were successful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCurve:
    """Latency as a function of rate."""

    names: tuple[str, str]
    """Metrics for the lower and the higher quantile."""
    limit: float | None
    """Threshold for the higher quantile, in seconds; None without a threshold."""
    points: tuple[LatencyPoint, ...]
    """Points, in ascending order of rate."""
    capacities: tuple[float, ...]
    """The capacity that each search found, in records per second."""
    at_least: bool
    """True if a search reached its maximum rate, in which case the capacity may be higher."""


def latency_curve(result: Result, rounds: Sequence[Round] | None = None) -> LatencyCurve | None:
    """Return the curve for the given rounds, by default the first trial's; None if the test did not run a search."""
    rounds = result.rounds if rounds is None else rounds
    steps = [step for one in rounds for step in one.steps]
    if result.plan is None or not steps:
        return None
    names, limit = _latency(result.plan, steps)
    by_rate = sorted(steps, key=lambda step: step.rate)
    return LatencyCurve(
        names=names,
        limit=limit,
        points=tuple(
            _point(rate, [*attempts], names) for rate, attempts in itertools.groupby(by_rate, lambda one: one.rate)
        ),
        capacities=tuple(one.metrics["capacity"] for one in rounds if "capacity" in one.metrics),
        at_least=any("capacity" in one.at_least for one in rounds),
    )


def describe_search(plan: SearchPlan) -> str:
    """Return a text such as `the highest from 1k to 2M records/s with errors == 0`."""
    low, high = (format_quantity(rate, Unit.RECORD_RATE) for rate in (plan.low, plan.high))
    return f"the highest from {low.removesuffix(f' {Unit.RECORD_RATE}')} to {high} with {plan}"


def _latency(plan: SearchPlan, steps: Sequence[Step]) -> tuple[tuple[str, str], float | None]:
    """Return the median metric, and the latency metric that has a threshold, with its limit in seconds.

    Without such a threshold, the second metric is p99, for end-to-end latency if it was measured.
    """
    for limit, family in itertools.product(plan.limits, _FAMILIES):
        name = limit.metric.name
        if name.startswith(f"{family}.") and isinstance(limit.limit, Absolute):
            median = f"{family}.p50"
            return (median, f"{family}.p99" if name == median else name), limit.limit.value
    known = {name for step in steps for name in step.metrics}
    family = next((each for each in _FAMILIES if f"{each}.p99" in known), _FAMILIES[-1])
    return (f"{family}.p50", f"{family}.p99"), None


def _point(rate: float, attempts: Sequence[Step], names: tuple[str, str]) -> LatencyPoint:
    low, high = (_median([step.metrics for step in attempts], name) for name in names)
    counting = [step for step in attempts if step.outcome is not StepOutcome.DISTURBED]
    outcomes = Counter(step.outcome for step in counting or attempts)
    return LatencyPoint(
        rate=rate,
        low=low,
        high=high,
        outcome=outcomes.most_common(1)[0][0],
        attempts=len(attempts),
        reason=next((step.reason for step in reversed(attempts) if step.reason is not None), None),
    )


def _median(rounds: Sequence[Mapping[str, float]], name: str) -> float | None:
    values = [one[name] for one in rounds if name in one]
    return statistics.median(values) if values else None

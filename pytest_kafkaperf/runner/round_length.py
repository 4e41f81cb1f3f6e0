"""The duration of rounds whose duration is not declared, and the most rounds in a side-by-side trial.

Rounds are as short as the test's thresholds allow.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import QUANTILES, STEADINESS_METRICS
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import Threshold

_USUAL_S = 2.0
"""Shortest duration of a round, in seconds."""
_SHORT_S = 1.0
"""The same in side-by-side trials."""
MOST_PAIRS = 12
"""Maximum number of rounds on each side of a side-by-side trial.

The declared rounds always run. Further ones run only while the rounds so far are too noisy for two trials to suffice,
and have taken less time than the warm-up, which a further trial would repeat. In simulations with a warm-up of 50 s and
10% noise in a pair of rounds, an unchanged metric was decided in 20 to 25% less time than with four rounds, and without
more false alarms (benchmarks/simulations.md).
"""
MOST_REPEATED = 2
"""Maximum number of a trial's rounds that are repeated because the generator was too slow for a moment."""
_RECORDS_BEYOND = 50
"""Number of records beyond a quantile that makes the quantile's noise small compared with other noise."""
_ENOUGH_BEYOND = 5
"""The same in side-by-side trials for a quantile that is only compared with an absolute limit. The limit applies to the
median of all trials' rounds, and two trials have 40 records beyond the quantile."""


def in_usual_rounds(scenario: Scenario, thresholds: Sequence[Threshold]) -> Scenario:
    """Return the scenario with rounds that suffice for its thresholds, but are not longer than before."""
    if _is_fixed(scenario):
        return scenario
    return scenario.model_copy(
        update={"duration": _at_most(scenario, _least_s(scenario, thresholds, _RECORDS_BEYOND), _USUAL_S)}
    )


def short_round_s(scenario: Scenario, thresholds: Sequence[Threshold]) -> float | None:
    """Return the duration of rounds in side-by-side trials, in seconds; None if it must not be changed.

    In a shorter window, a load that degrades would have less time to do so.
    """
    if _is_fixed(scenario) or any(one.metric.name in STEADINESS_METRICS for one in thresholds):
        return None
    relative = [one for one in thresholds if one.relative is not None]
    absolute = [one for one in thresholds if one.relative is None]
    enough = _ENOUGH_BEYOND if relative else _RECORDS_BEYOND  # without relative thresholds, there is only one trial
    least_s = max(_least_s(scenario, relative, _RECORDS_BEYOND), _least_s(scenario, absolute, enough))
    return _at_most(scenario, least_s, _SHORT_S)


def _is_fixed(scenario: Scenario) -> bool:
    """Return True for loads with a fixed number of records or a changing rate, and if a backlog must be processed."""
    return scenario.duration is None or isinstance(scenario.rate, tuple) or scenario.backlog > 0


def _at_most(scenario: Scenario, least_s: float, shortest_s: float) -> float:
    return min(scenario.duration or shortest_s, max(least_s, shortest_s))


def _least_s(scenario: Scenario, thresholds: Sequence[Threshold], beyond: int) -> float:
    """Return how long it takes to send `beyond` records beyond each quantile with a threshold, or in all."""
    if scenario.rate is None or isinstance(scenario.rate, tuple):
        return 0.0
    names = [threshold.metric.name for threshold in thresholds]
    shares = [1 - ratio for part, ratio in QUANTILES.items() if any(name.endswith(f".{part}") for name in names)]
    return beyond / min(shares, default=1.0) / scenario.rate

"""Drift between rounds on an external cluster, whose brokers the plugin cannot observe. Pure functions.

The plugin warms up the brokers that it starts. For other brokers, only the rounds show whether the brokers are warm: on
a cold broker, each round is faster than the one before.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.units import Quantity, Unit
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.scale import flaw_of, logs

ALPHA = 0.01
"""False-alarm rate per test, divided equally among its sides (Bonferroni correction)."""
LEAST_CHANGE = 0.1
"""Smallest relevant change from the first to the last round, as a ratio."""
FEWEST_ROUNDS = 4
"""Minimum number of rounds; with fewer, even a perfectly regular drift can be noise."""
_POINTS = 1000
"""Number of points for the numerical integration; its error is below 1e-4 for four or more rounds."""


def drift_warnings(result: Result, own: Side, other: Side | None = None) -> list[Notice]:
    """Return a warning for each side with an external cluster if its rounds drift more than noise can explain.

    Only the first trial is checked, because it provides the test's values and later trials run on a warmer cluster.
    Capacity searches are not checked because they choose their own rates. Rounds with actions are not checked either,
    but recording a custom metric does not count as an action.
    """
    first = result.trials[0]
    acted = any(action.metric is None for action in own.actions)
    if acted or result.plan is not None or first.problems:
        return []
    sides = [(first.rounds, False)] if own.brokers is None else []
    if other is not None and other.brokers is None:
        sides.append((first.other_side or (), True))
    found = []
    for rounds, is_other in sides:
        notice = _drift(rounds, result.scenario, ALPHA / len(sides))
        if notice is not None:
            found.append(notice.of_other_side() if is_other else notice)
    return found


def _drift(rounds: Sequence[Round], scenario: Scenario, alpha: float) -> Notice | None:
    """Return a warning if these rounds drift; None if they do not, or if there are too few or the metric is missing."""
    subject = CATALOGUE[_metric_for(scenario)]
    metrics = [one.metrics for one in rounds]
    if len(rounds) < FEWEST_ROUNDS or flaw_of(subject, metrics, ratio=True) is not None:
        return None
    values = logs(subject, metrics)
    if abs(values[-1] - values[0]) < math.log1p(LEAST_CHANGE) or chance_of(values) > alpha:
        return None
    change = metrics[-1][subject.name] / metrics[0][subject.name] - 1
    remark = Remark.RISE if change > 0 else Remark.FALL
    return Notice(remark, {"metric": subject.name, "change": Quantity(abs(change), Unit.RATIO, digits=2)})


def _metric_for(scenario: Scenario) -> str:
    """Return the metric that shows how quickly the cluster handles this load."""
    if not scenario.producers:
        return "consume.throughput"
    if scenario.rate is None:
        return "produce.throughput"
    return "e2e.latency.p50" if scenario.consumers and scenario.consume == "live" else "produce.latency.p50"


def chance_of(values: Sequence[float]) -> float:
    """Return the probability that normal noise alone yields values whose neighbors are as similar as these.

    The statistic is the sum of the squared differences between neighbors, divided by the sum of the squared differences
    from the mean. Any smooth drift, whether a straight line or a step, makes the statistic small. The statistic does
    not depend on the noise level, which is unknown on an external cluster.

    Of the tests that we tried, this one is the most powerful. In 42 stored trials with half-warm brokers, whose
    throughput rose by half within five rounds (median), it detected 10 drifts at the 1% level, compared with 7 for
    Student's t-test of the slope. With five rounds, the Mann-Kendall test cannot reach 1% in both directions. A jump in
    the last of five rounds cannot be distinguished from an outlier.

    Sources: J. von Neumann, "Distribution of the ratio of the mean square successive difference to the variance"
    (Annals of Mathematical Statistics 12, 1941) for its distribution, a ratio of quadratic forms; J. P. Imhof,
    "Computing the distribution of quadratic forms in normal variables" (Biometrika 48, 1961) for its probability.

    Args:
        values: at least two values that are not all equal, in chronological order.

    """
    mean = statistics.fmean(values)
    steps = sum((after - before) ** 2 for before, after in itertools.pairwise(values))
    ratio = steps / sum((value - mean) ** 2 for value in values)
    weights = [2 - 2 * math.cos(math.pi * number / len(values)) - ratio for number in range(1, len(values))]
    share = (np.arange(_POINTS) + 0.5) / _POINTS  # fraction of the way from 0 to infinity
    at = share / (1 - share) / math.hypot(*weights)
    angle, log_length = np.zeros(_POINTS), np.zeros(_POINTS)
    for weight in weights:
        angle += np.arctan(weight * at) / 2
        log_length += np.log1p((weight * at) ** 2) / 4
    integrand = np.sin(angle) * np.exp(-log_length) / (share * (1 - share))
    return 0.5 - float(integrand.mean()) / math.pi

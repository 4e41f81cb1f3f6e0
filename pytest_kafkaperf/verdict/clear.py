"""A suspect so far beyond its threshold that it fails without confirmation, if there is no time for that."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from fractions import Fraction

from pytest_kafkaperf.scenario.threshold import Relative, Threshold
from pytest_kafkaperf.verdict.comparison import Comparison, Measured, Rounds, compare, exceeds, logs

_FEWEST_ROUNDS = 3
"""Fewer rounds do not show the noise of a session."""


def is_clear(
    threshold: Threshold, sessions: Sequence[Measured], baseline: Sequence[Rounds], *, level: Fraction
) -> bool:
    """Return True if every round of all sessions is worse than twice the tolerance and the noise, and p < `level`.

    The noise is the larger standard deviation: of the rounds of the first session, or of the medians of the baseline's
    sessions. `benchmarks/verdict/curtail.py` simulates how often unchanged software is that far off.
    """
    limit = threshold.limit
    if not isinstance(limit, Relative):
        return False  # an absolute part may hold
    found = [compare(threshold.metric, session, baseline) for session in sessions]
    compared = [each for each in found if isinstance(each, Comparison)]
    if len(compared) < len(found) or min(len(each.current) for each in compared) < _FEWEST_ROUNDS:
        return False
    first, medians = compared[0], [statistics.median(logs(threshold.metric, session)) for session in baseline]
    within, between = statistics.stdev(first.current), statistics.stdev(medians) if len(medians) > 1 else 0.0
    least = statistics.median(first.baseline) + 2 * limit.log_tolerance + max(within, between)
    every_round = all(exceeds(value, least) for each in compared for value in each.current)
    return every_round and first.worse_p(limit.log_tolerance) < level

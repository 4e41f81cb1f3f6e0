"""A suspect so far beyond its threshold that it fails without confirmation, if there is no time for that."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_kafkaperf.scenarios.threshold import Relative, Threshold
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.comparison import Measured, exceeds, logs
from pytest_kafkaperf.verdict.dates import compare

_FEWEST_ROUNDS = 3
"""Fewer rounds do not show the noise of a session."""


def is_clear(threshold: Threshold, sessions: Sequence[Measured], baseline: BaselineRounds, *, alpha: float) -> bool:
    """Return True if every round of all sessions is worse than noise explains, and than twice the tolerance.

    The standard deviation of the first session's rounds adds to twice the tolerance.
    `benchmarks/verdict/simulate.py` shows how often unchanged software is that far off.
    """
    subject, limit = threshold.metric, threshold.limit
    first = compare(subject, sessions[:1], baseline)
    # An absolute part may hold.
    if (
        not isinstance(limit, Relative)
        or isinstance(first, str)
        or isinstance(compare(subject, sessions, baseline), str)
    ):
        return False
    if min(len(session.rounds) for session in sessions) < _FEWEST_ROUNDS:
        return False
    within = statistics.stdev(logs(subject, sessions[0].rounds))
    least = first.known.level + max(2 * limit.log_tolerance + within, first.most_by_noise(alpha))
    return all(exceeds(value, least) for session in sessions for value in logs(subject, session.rounds))

"""The minimum detectable change of a limit: how much worse a metric must get so that the limit finds it. Pure.

It goes by the noise of the baseline, or of the pairs with a reference; see `noise` for the figure itself.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction

from pytest_kafkaperf.comparison import Measured, Paired, Rounds, change_of, compare, logs, no_ratio, ratio_of, sign_of
from pytest_kafkaperf.metrics import Metric
from pytest_kafkaperf.noise import Noise, detectable, detectable_absolute
from pytest_kafkaperf.threshold import Extreme, Threshold


def detectable_change(
    threshold: Threshold, session: Measured, baseline: Sequence[Rounds], *, confirmed: bool, alpha: Fraction
) -> float | None:
    """As a ratio: -0.12 when a throughput that fell by 12 % is found in 4 of 5 cases.

    Of a limit that speaks of the baseline, against that or the reference; of an absolute one, against the limit.
    `baseline` are the sessions that count here; `confirmed` says that fresh sessions decide, `alpha` what their p must
    be below. None where the noise is not known, or where no change at all would be found.
    """
    if not session.rounds:
        return None
    subject = threshold.metric
    beyond = _beyond(subject, session, baseline)
    if threshold.relative is None:
        towards = 1 if threshold.operator.startswith("<") else -1
        return None if beyond is None or threshold.operator == "==" else ratio_of(towards * beyond)
    least = _shift(threshold.relative.log_tolerance, subject, session, baseline, confirmed=confirmed, alpha=alpha)
    if least is None or not isinstance(threshold.limit, Extreme):
        return None if least is None else change_of(subject, least)
    known = _level(subject, session, baseline)
    if beyond is None or known is None or threshold.limit.absolute.value <= 0:
        return None
    until = sign_of(subject) * math.log(threshold.limit.absolute.value) - known + beyond
    decides = max if threshold.limit.takes_one(threshold.operator) else min
    return change_of(subject, max(0.0, decides(least, until)))


def _shift(
    tolerance: float,
    subject: Metric,
    session: Measured,
    baseline: Sequence[Rounds],
    *,
    confirmed: bool,
    alpha: Fraction,
) -> float | None:
    """Of a limit relative to the baseline, on the log scale where larger is worse."""
    match compare(subject, session, baseline):
        case str():
            return None
        case Paired(differences=differences):
            noise, known = Noise.of([differences]), None
        case _:
            noise, known = Noise.of([logs(subject, one) for one in baseline]), [len(one) for one in baseline]
    if noise is None:
        return None
    rounds = len(session.rounds)
    least = detectable(noise, tolerance=tolerance, rounds=rounds, baseline=known, confirmed=confirmed, alpha=alpha)
    return least if math.isfinite(least) else None


def _beyond(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> float | None:
    """How far beyond an absolute limit a value must lie to be found, on the log scale."""
    known = [session.rounds] if session.reference is not None or not baseline else baseline
    if no_ratio(subject, known) is not None:
        return None
    noise = Noise.of([logs(subject, one) for one in known])
    return None if noise is None else detectable_absolute(noise, rounds=len(session.rounds))


def _level(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> float | None:
    """Where the baseline lies on the log scale where larger is worse."""
    known = baseline if session.reference is None else [session.reference]
    if not known or no_ratio(subject, known) is not None:
        return None
    return statistics.median(value for one in known for value in logs(subject, one))

"""Calibration: noise and suspects of the regression rule, from unchanged sessions of the same cluster.

Values are those of one metric, on the scale of `comparison`, where larger is worse.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.verdict.baselines.record import MAX_SESSIONS
from pytest_kafkaperf.verdict.comparison import exceeds
from pytest_kafkaperf.verdict.dates import BaselineLevel
from pytest_kafkaperf.verdict.power import Confirmation, Noise, detectable_shift

_DROWNED = 3
"""Multiple of the tolerance that a threshold must detect to be of use: noise may add twice the tolerance."""

_Session = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Calibration result of one metric and one tolerance; changes are on the log scale."""

    noise: Noise
    tolerance: float
    sessions: int
    suspects: int
    """Number of sessions that are suspect when compared with all the others."""
    detectable: float
    """Minimum detectable change against a baseline of the newest of these sessions."""
    detectable_of_dates: float
    """The same if each of these sessions was of a date of its own: at best, because dates differ more than sessions."""

    def drowns(self, detectable: float) -> bool:
        """Return True if a threshold that detects this change misses changes of three times its tolerance."""
        return detectable > _DROWNED * self.tolerance


def calibrated(
    sessions: Sequence[_Session], *, tolerance: float, alpha: float, confirmation: Confirmation, least: float = 0.0
) -> Calibrated | None:
    """Evaluate unchanged sessions against each other; return None if there are fewer than two sessions, or no noise.

    `tolerance` is on the log scale; `alpha` is the significance level; `confirmation` is how later suspects will be
    confirmed, which decides what is detectable; `least` is the metric's `session_noise`.
    """
    noise = Noise.of(sessions)
    if noise is None or len(sessions) <= 1:
        return None
    kept = min(len(sessions), MAX_SESSIONS)
    dates = [sessions[-kept:]], [[session] for session in sessions[-kept:]]
    levels = [BaselineLevel.of(each, least=least) for each in dates]
    detectable, of_dates = (
        detectable_shift(known, tolerance=tolerance, confirmation=confirmation, alpha=alpha) for known in levels
    )
    others = [BaselineLevel.of([[*sessions[:at], *sessions[at + 1 :]]]).level for at in range(len(sessions))]
    return Calibrated(
        noise=noise,
        tolerance=tolerance,
        sessions=len(sessions),
        suspects=sum(
            exceeds(statistics.median(one) - level, tolerance) for one, level in zip(sessions, others, strict=True)
        ),
        detectable=detectable,
        detectable_of_dates=of_dates,
    )

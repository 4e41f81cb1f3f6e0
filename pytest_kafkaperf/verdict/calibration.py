"""Calibration: noise and suspected regressions of the regression rule, from unchanged trials of the same cluster.

Values are those of one metric, on the scale of `comparison`, where larger is worse.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.verdict.baselines.record import MAX_TRIALS
from pytest_kafkaperf.verdict.comparison import exceeds
from pytest_kafkaperf.verdict.days import BaselineLevel
from pytest_kafkaperf.verdict.power import Confirmation, Noise, detectable_shift

_DROWNED = 3
"""Multiple of the tolerance that a threshold must detect to be of use: noise may add twice the tolerance."""

_Trial = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Calibration result of one metric and one tolerance; changes are on the log scale."""

    noise: Noise
    tolerance: float
    trials: int
    suspected: int
    """Number of trials that look like a regression when compared with all the others."""
    detectable_change: float
    """Minimum detectable change against a baseline of the newest of these trials."""
    detectable_over_days: float
    """The same if each of these trials had run on a separate day: at best, because days differ more than trials."""

    def drowns(self, detectable: float) -> bool:
        """Return True if this minimum detectable change misses changes of three times the tolerance."""
        return detectable > _DROWNED * self.tolerance


def calibrated(
    trials: Sequence[_Trial], *, tolerance: float, alpha: float, confirmation: Confirmation, least: float = 0.0
) -> Calibrated | None:
    """Evaluate unchanged trials against each other; return None if there are fewer than two trials, or no noise.

    `tolerance` is on the log scale; `alpha` is the significance level; `confirmation` is how later suspected
    regressions will be confirmed, which decides what is detectable; `least` is the metric's `trial_noise`.
    """
    noise = Noise.of(trials)
    if noise is None or len(trials) <= 1:
        return None
    kept = min(len(trials), MAX_TRIALS)
    days = [trials[-kept:]], [[trial] for trial in trials[-kept:]]
    levels = [BaselineLevel.of(each, least=least) for each in days]
    detectable, of_days = (
        detectable_shift(known, tolerance=tolerance, confirmation=confirmation, alpha=alpha) for known in levels
    )
    others = [BaselineLevel.of([[*trials[:at], *trials[at + 1 :]]]).level for at in range(len(trials))]
    return Calibrated(
        noise=noise,
        tolerance=tolerance,
        trials=len(trials),
        suspected=sum(
            exceeds(statistics.median(one) - level, tolerance) for one, level in zip(trials, others, strict=True)
        ),
        detectable_change=detectable,
        detectable_over_days=of_days,
    )

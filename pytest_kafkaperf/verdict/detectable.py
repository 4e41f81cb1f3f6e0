"""Minimum detectable changes, and calibration, which measures noise and false suspicions with unchanged code.

Values are on the log scale of `scale`, where larger is worse.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.scenarios.threshold import Extreme, Threshold
from pytest_kafkaperf.verdict.baseline_file import MAX_TRIALS
from pytest_kafkaperf.verdict.days import TRIALS, BaselineLevel, level_of_day
from pytest_kafkaperf.verdict.scale import Rounds, change_of, exceeds, ratio_of, sign_of
from pytest_kafkaperf.verdict.sequential import detectable
from pytest_kafkaperf.verdict.student import student_quantile

POWER = 0.8
"""Statistical power of the minimum detectable change; 80% is the usual convention."""

FEWEST_TRIALS = 3
"""Minimum number of trials for estimating the noise between trials. Two trials yield only one difference, which is
often close to zero by chance."""

_RUNS = 4000
"""Number of simulated runs; sufficient to make the power accurate to about 0.01."""
_SEED = 20_260_815


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A metric's noise, as standard deviations of its logarithm: 0.06 is about 6%.

    A round is modeled as the true value plus two normally distributed errors, one for the trial and one for the round.
    This is a one-way random-effects model (S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992),
    chapter 3).
    """

    within: float
    """Standard deviation between the rounds in a trial."""
    between: float
    """Standard deviation between trials, excluding the effect of `within`."""
    assumed: bool
    """True if there were fewer than 3 trials, which is too few to estimate `between`; `between` is then set to
    `within`.

    With freshly started brokers, the two are similar: throughput noise was 6% within trials and 6.5% between trials.
    Setting `between` to 0 would make the minimum detectable change too small.
    """

    @classmethod
    def of(cls, trials: Sequence[Sequence[float]]) -> Self | None:
        """Estimate the noise from the rounds of each trial; None if no trial has two rounds.

        Uses analysis of variance (method of moments) for trials of different sizes; a negative variance estimate
        becomes 0.
        """
        groups = [trial for trial in trials if trial]
        sizes = [len(group) for group in groups]
        rounds = sum(sizes)
        if rounds == len(groups):
            return None
        means = [statistics.fmean(group) for group in groups]
        squares = math.fsum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
        within = between = squares / (rounds - len(groups))
        assumed = len(groups) < FEWEST_TRIALS
        if not assumed:
            overall = math.fsum(itertools.chain(*groups)) / rounds
            squares = math.fsum(size * (mean - overall) ** 2 for size, mean in zip(sizes, means, strict=True))
            mean_size = (rounds - sum(size**2 for size in sizes) / rounds) / (len(groups) - 1)
            between = max(0.0, (squares / (len(groups) - 1) - within) / mean_size)
        return cls(within=math.sqrt(within), between=math.sqrt(between), assumed=assumed)


Confirmation = Literal["none", "fresh", "side by side"]
"""Method for confirming suspected regressions: none, new trials, or side-by-side trials with the baseline's brokers."""


def detectable_shift(known: BaselineLevel, *, tolerance: float, confirmation: Confirmation, alpha: float) -> float:
    """Return the minimum detectable change: the true change detected with an average probability of POWER.

    The average is taken over the uncertainty of the variances, because the true variances may be much larger than an
    estimate from only a few days. This average probability is known as the assurance of the rule (A. O'Hagan, J. W.
    Stevens, M. J. Campbell, "Assurance in clinical trial design", Pharmaceutical Statistics 4 (2005)). The result is on
    the log scale and includes the tolerance.

    The function simulates the rule. Because a true change adds equally to all shifts, each simulated run yields the
    smallest change that it would have detected; the result is the POWER quantile of these changes. The random numbers
    are the same in every call.

    For confirmation side by side with the baseline's brokers, the result is an upper bound: the first trial and the
    comparison each detect that change with a probability of the square root of POWER. The two sides are assumed to
    differ in the same way as two trials on the same day.

    Args:
        known: level and noise of the baseline.
        tolerance: tolerated change, on the log scale.
        confirmation: how suspected regressions are confirmed; with "none", the first trial decides.
        alpha: significance level.

    """
    source = np.random.default_rng(_SEED)
    drawn = source.standard_normal((_RUNS, 4 + TRIALS))
    chances = [
        np.sqrt(each.value * each.freedom / source.chisquare(each.freedom, _RUNS))
        for each in (known.of_days, known.of_trials)
    ]
    of_day, of_trial = (chance[:, None] for chance in chances)
    days = known.days
    before = of_day * drawn[:, :1] / math.sqrt(days)
    before += of_trial * drawn[:, 1:2] * math.sqrt(known.trials_share / days)
    shifts = of_day * drawn[:, 2:3] + of_trial * drawn[:, 3:] - before
    first, fresh = shifts[:, 0], np.median(shifts[:, 1:], axis=1)
    if confirmation == "side by side":
        deviation, power = math.sqrt(2 * known.of_trials.value), math.sqrt(POWER)
        suspected = float(np.quantile(tolerance - first, power))
        return max(suspected, detectable(deviation, tolerance=tolerance, alpha=alpha, power=power))
    deciding, trials = (fresh, TRIALS) if confirmation == "fresh" else (first, 1)
    needed = np.maximum(tolerance - first, max(tolerance, known.most_by_noise(trials, alpha)) - deciding)
    return max(tolerance, float(np.quantile(needed, POWER)))


def detectable_change(
    threshold: Threshold, rounds: Rounds, known: BaselineLevel | None, least: float | None
) -> float | None:
    """Return the minimum detectable change as a ratio: -0.12 if a 12% throughput drop is detected in 4 of 5 cases.

    The change is relative to the baseline, or, for an absolute threshold, relative to the limit. Returns None if the
    change is unknown.

    Args:
        threshold: the threshold that must fail.
        rounds: the rounds that an absolute limit applies to.
        known: level of the stored or live baseline; None if there is no baseline.
        least: the minimum detectable change for the threshold's relative part, on the log scale where larger is worse;
            None if there is no such part or if the change is unknown.

    """
    if not rounds:
        return None
    subject = threshold.metric
    beyond = _detectable_absolute(subject, rounds, known)
    if threshold.relative is None:
        sign = 1 if threshold.operator.startswith("<") else -1
        return None if beyond is None or threshold.operator == "==" else ratio_of(sign * beyond)
    if least is None or not isinstance(threshold.limit, Extreme):
        return None if least is None else change_of(subject, least)
    if beyond is None or known is None or threshold.limit.absolute.value <= 0:
        return None
    absolute = sign_of(subject) * math.log(threshold.limit.absolute.value) - known.level + beyond
    combine = max if threshold.limit.takes_one(threshold.operator) else min
    return change_of(subject, max(0.0, combine(least, absolute)))


def _detectable_absolute(subject: Metric, rounds: Rounds, known: BaselineLevel | None) -> float | None:
    """Return how far beyond an absolute limit a true value must be to violate it with an average probability of POWER.

    The distance is on the log scale. The limit applies to the median of a trial's rounds.
    """
    if known is None and len(rounds) > 1:
        known = level_of_day(subject, [rounds])
    if known is None:
        return None  # the noise is unknown
    noise = math.sqrt(known.of_days.value + known.of_trials.value)
    return student_quantile(1 - POWER, known.of_days.freedom) * noise


_DROWNED = 3
"""Multiple of the tolerance that a useful threshold must detect; noise can add twice the tolerance."""

_Trial = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Calibration result for one metric and one tolerance; changes are on the log scale."""

    noise: Noise
    tolerance: float
    trials: int
    suspected: int
    """Number of trials that look like a regression when compared with all other trials."""
    detectable_change: float
    """Minimum detectable change against a baseline created from the newest of these trials."""
    detectable_over_days: float
    """Minimum detectable change if each of these trials had run on a separate day; this is a best case, because results
    differ more between days than between trials."""

    def drowns(self, detectable: float) -> bool:
        """Return True if this minimum detectable change exceeds three times the tolerance."""
        return detectable > _DROWNED * self.tolerance


def calibrated(
    trials: Sequence[_Trial], *, tolerance: float, alpha: float, confirmation: Confirmation, least: float = 0.0
) -> Calibrated | None:
    """Compare unchanged trials with each other; return None if there are fewer than two trials or the noise is unknown.

    `tolerance` is on the log scale; `alpha` is the significance level; `confirmation` is how later runs will confirm
    suspected regressions, which determines what is detectable; `least` is the metric's `trial_noise`.
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

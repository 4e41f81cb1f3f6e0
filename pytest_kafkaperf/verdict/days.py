"""Comparison of trials with a stored baseline that accounts for day-to-day noise.

Trials from one day have a common level, because they share the state of the machine, its neighbors and the kernel's
write-back. A day therefore counts as one value, regardless of its number of trials. The difference between a trial and
the true level is the sum of day noise, trial noise and round noise. This is a nested random-effects model. Values are
on the scale of module `scale`, where larger is worse.

The variances are estimated by the method of moments, and pooled with a prior because there are only a few days. A
difference is judged by a prediction interval, with Student's t distribution and Satterthwaite's degrees of freedom.

Sources: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components" (1992), chapter 3; A. Gelman and others,
"Bayesian Data Analysis", 3rd edition (2013), sections 2.6 and 3.2, for the prior; G. K. Smyth, "Linear models and
empirical Bayes methods", Statistical Applications in Genetics and Molecular Biology 3 (2004), for t tests that use it;
T. Y. Lin, C. T. Liao, "Prediction intervals for general balanced linear random models", Journal of Statistical Planning
and Inference 138 (2008).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.scale import NOTHING, Incomparable, Measured, Rounds, flaw_of, has_nothing, logs, no_ratio
from pytest_kafkaperf.verdict.student import student_quantile

TRIALS = 3
"""Maximum number of new trials for re-testing a suspected regression."""
FEWEST_DAYS = 3
"""Minimum number of days in a strong baseline; with fewer days, the prior (3 out of n + 2 degrees of freedom) outweighs
the data."""

_MEASURED = 0.08
"""Prior standard deviation between days; measured at 6% to 8% for closed-loop throughput on 2 cores."""
_MOST_RATIO = 3.0
"""Maximum ratio of that prior to the trials' noise; the minimum is 1. A paced load's throughput is steady across days,
whereas tail latency varies by more than 8% even within a day."""
_PRIOR_FREEDOM = 3
"""Degrees of freedom of a prior. The prior weighs as much as 4 days: with 95% probability, the true value is between
0.6 and 3.7 times the prior."""
LEVEL = 0.97
"""Confidence level of the interval for a change. In simulations, the coverage is at least 93%, even if days differ by
13%, more than the prior assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance:
    """Estimate of a variance; its uncertainty follows a scaled inverse chi-square distribution."""

    value: float
    freedom: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineLevel:
    """A baseline's level, and the noise by which trials from another day differ from that level."""

    level: float
    """Mean over the days; a day's value is the mean over its trials, and a trial's value is the median over its
    rounds."""
    days: int
    of_days: Variance
    """Variance between days."""
    of_trials: Variance
    """Variance between trials from the same day, including the trials' round noise."""
    trials_share: float
    """Mean over the days of `1 / number of trials`."""

    @classmethod
    def of(cls, days: Sequence[Sequence[Sequence[float]]], *, least: float = 0.0) -> Self:
        """Estimate the level and the variances from each trial's rounds on each day.

        `least` is the metric's `trial_noise`.
        """
        of_trials = _of_trials(days, least)
        levels = [statistics.fmean(map(statistics.median, trials)) for trials in days]
        share = statistics.fmean(1 / len(trials) for trials in days)
        between = 0.0
        if len(levels) > 1:
            between = max(0.0, statistics.variance(levels) - share * of_trials.value)
        prior = min(max(_MEASURED**2, of_trials.value), _MOST_RATIO**2 * of_trials.value)
        return cls(
            level=statistics.fmean(levels),
            days=len(levels),
            of_days=_with_prior(prior, between, freedom=len(levels) - 1),
            of_trials=of_trials,
            trials_share=share,
        )

    def error(self, trials: int) -> tuple[float, int]:
        """Return the standard error of the median of this many trials on another day, and its degrees of freedom."""
        of_days = self.of_days.value * (1 + 1 / self.days)
        of_trials = self.of_trials.value * (median_variance_ratio(trials) + self.trials_share / self.days)
        total = of_days + of_trials
        ratio = of_days / total if total else 0.0
        freedom = 1 / (ratio**2 / self.of_days.freedom + (1 - ratio) ** 2 / self.of_trials.freedom)
        return math.sqrt(total), int(freedom)

    def most_by_noise(self, trials: int, alpha: float) -> float:
        """Return the difference that noise alone exceeds, in one direction, with probability `alpha`."""
        error, freedom = self.error(trials)
        return student_quantile(alpha, freedom) * error


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifts:
    """Trials from one day, compared with a baseline."""

    shifts: tuple[float, ...]
    """Difference between each trial's level and the baseline's level; positive if the trial is worse."""
    known: BaselineLevel

    @property
    def shift(self) -> float:
        """Median of the shifts."""
        return statistics.median(self.shifts)

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval for the true change; it is also valid on other days."""
        half = self.most_by_noise((1 - LEVEL) / 2)
        return self.shift - half, self.shift + half

    def most_by_noise(self, alpha: float) -> float:
        """Return the shift that noise alone exceeds, in one direction, with probability `alpha`."""
        return self.known.most_by_noise(len(self.shifts), alpha)


def compare(subject: Metric, trials: Sequence[Measured], baseline: BaselineRounds) -> Shifts | Incomparable:
    """Compare trials from one day with a baseline."""
    for number, trial in enumerate(trials, 1):
        if problem := flaw_of(subject, trial.rounds):
            return Incomparable(problem if len(trials) == 1 else f"{problem} (fresh trial {number})")
    known = level_of(subject, baseline)
    if known is None:
        return Incomparable(no_ratio(subject, baseline.trials) or "no baseline")
    return Shifts(shifts=tuple(_shift(subject, trial.rounds, known) for trial in trials), known=known)


def _shift(subject: Metric, rounds: Rounds, known: BaselineLevel) -> float:
    """Return the difference between a trial's level and the baseline's level."""
    if has_nothing(subject, rounds):
        return NOTHING
    return statistics.median(logs(subject, rounds)) - known.level


def level_of(subject: Metric, baseline: BaselineRounds) -> BaselineLevel | None:
    """Return a metric's level in a baseline, based on the usable trials; None if there are none."""
    return _level(subject, baseline.by_day)


def level_of_day(subject: Metric, trials: Sequence[Rounds]) -> BaselineLevel | None:
    """Return a metric's level in trials from one day, based on the usable trials; None if there are none."""
    return _level(subject, [trials])


def level_of_other_side(subject: Metric, trials: Sequence[Measured]) -> BaselineLevel | None:
    """Return a metric's level in the live baseline of side-by-side trials; None if there is no value for it."""
    return level_of_day(subject, [trial.other_side or () for trial in trials])


def _level(subject: Metric, days: Sequence[Sequence[Rounds]]) -> BaselineLevel | None:
    if subject.can_be_zero:
        return None
    usable = ([one for one in day if flaw_of(subject, one, ratio=True) is None] for day in days)
    found = [[logs(subject, rounds) for rounds in trials] for trials in usable if trials]
    return BaselineLevel.of(found, least=subject.trial_noise) if found else None


def median_variance_ratio(values: int) -> float:
    """Return the variance of the median of normally distributed values, relative to the variance of these values.

    For large `n`, the result is `pi / 2 / n`. For small `n`, replace `n` with `n + 0.5` if `n` is odd, or with `n +
    1.25` if `n` is even.
    """
    return math.pi / 2 / (values + (0.5 if values % 2 else 1.25))


def _of_trials(days: Sequence[Sequence[Sequence[float]]], least: float) -> Variance:
    """Return the variance between trials from one day. The prior is their round noise, but at least `least`.

    In 14 baselines for two tests, every metric except `broker.memory` varied less between trials than the prior
    assumes.
    """
    every = [rounds for trials in days for rounds in trials]
    freedom = sum(len(rounds) - 1 for rounds in every)
    prior = _MEASURED**2
    if freedom:
        of_rounds = sum(map(_squares, every)) / freedom
        prior = of_rounds * (1 + statistics.fmean(median_variance_ratio(len(rounds)) for rounds in every))
    freedom = len(every) - len(days)
    squares = sum(_squares([statistics.median(rounds) for rounds in trials]) for trials in days)
    return _with_prior(max(prior, least**2), squares / freedom if freedom else 0.0, freedom=freedom)


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def _with_prior(prior: float, found: float, *, freedom: int) -> Variance:
    """Pool an estimate with a prior, in the same way as the variances of two samples."""
    every = _PRIOR_FREEDOM + freedom
    return Variance(value=(_PRIOR_FREEDOM * prior + freedom * found) / every, freedom=every)

"""The rule over a baseline, on noise that is known: many tests at once, as arrays over the runs.

A slow, obvious version stands in `tests/unit/verdict/test_days.py`; `benchmarks/verdict/simulate.py` makes tables of
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.verdict.days import LEVEL, TRIALS, BaselineLevel, median_variance_ratio
from pytest_kafkaperf.verdict.detectable import detectable_shift
from pytest_kafkaperf.verdict.regression import ALPHA
from pytest_kafkaperf.verdict.student import student_quantile

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_PRIOR_FREEDOM, _PRIOR, _MOST_RATIO = 3, 0.08, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a test is judged by. The tolerance, the change and the standard deviations are on the log scale."""

    of_days: float | Floats
    """Standard deviation of the levels of days, or one for each run; the trials of one day share its level."""
    of_trials: float
    of_rounds: float
    tolerance: float
    days: int
    """Days of the baseline."""
    trials: int = 1
    """Trials on each of them."""
    rounds: int = 5
    confirmed: bool = True
    """Whether fresh trials decide over a suspected regression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Values of some runs: baselines (runs, days, trials, rounds), and today's trials (runs, trials, rounds)."""

    baseline: Floats
    today: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of the tests: one value for each."""

    failed: Flags
    suspected: Flags
    unexplained: Flags
    """Neither passed nor failed: beyond the tolerance, but not beyond noise."""
    fresh: Floats
    """Fresh trials."""
    covered: Flags
    """Whether the interval of three fresh trials holds the true change."""


def drawn(setting: Setting, *, runs: int, worse: float | Floats = 0.0, seed: int = 20_260_815) -> Draw:
    """Log-normal noise; today's trials share a day, and are truly worse by so much, each test by its own."""
    source = np.random.default_rng(seed)

    def measured(days: int, trials: int) -> Floats:
        return (
            np.reshape(setting.of_days, (-1, 1, 1, 1)) * source.standard_normal((runs, days, 1, 1))
            + setting.of_trials * source.standard_normal((runs, days, trials, 1))
            + setting.of_rounds * source.standard_normal((runs, days, trials, setting.rounds))
        )

    before = measured(setting.days, setting.trials)
    return Draw(baseline=before, today=measured(1, 1 + TRIALS)[:, 0] + np.reshape(worse, (-1, 1, 1)))


def judged_by_rule(draw: Draw, setting: Setting, *, worse: float | Floats = 0.0, alpha: float = ALPHA) -> Outcomes:
    """Judge each test."""
    tolerance = setting.tolerance
    known = _estimated(draw.baseline)
    levels = np.median(draw.today, axis=2) - known.level[:, None]
    first, again = levels[:, 0], levels[:, 1:]
    shift, trials = (np.median(again, axis=1), TRIALS) if setting.confirmed else (first, 1)
    suspected = first > tolerance
    beyond = suspected & (shift > tolerance)
    failed = beyond & (shift > known.most_by_noise(trials, alpha))
    # The third trial is left out where the first two clear the test.
    taken = np.where((again[:, : TRIALS - 1] > tolerance).any(axis=1), TRIALS, TRIALS - 1)
    return Outcomes(
        failed=failed,
        suspected=suspected,
        unexplained=beyond & ~failed,
        fresh=suspected * taken.astype(float) * setting.confirmed,
        covered=np.abs(shift - worse) <= known.most_by_noise(trials, (1 - LEVEL) / 2),
    )


def achieved_power(setting: Setting, *, baselines: int, runs: int, seed: int = 1) -> float:
    """Share of tests that fail at the minimum detectable change that their own baseline gives."""
    before = drawn(setting, runs=baselines, seed=seed).baseline
    least = [
        detectable_shift(
            BaselineLevel.of(one.tolist()),
            tolerance=setting.tolerance,
            confirmation="fresh" if setting.confirmed else "none",
            alpha=ALPHA,
        )
        for one in before
    ]
    worse = np.repeat(least, runs)
    later = replace(setting, of_days=np.repeat(np.broadcast_to(setting.of_days, baselines), runs))
    today = drawn(later, runs=len(worse), worse=worse, seed=seed + 1).today
    draw = Draw(baseline=np.repeat(before, runs, axis=0), today=today)
    return float(judged_by_rule(draw, setting).failed.mean())


def first_trials(draw: Draw, setting: Setting) -> tuple[Floats, Flags]:
    """Rounds that each first trial takes if it may end early, and whether it is clear that it failed."""
    known = _estimated(draw.baseline)
    values = draw.today[:, 0] - known.level[:, None]
    most = setting.rounds // 2 + 1
    within = (values <= setting.tolerance).cumsum(axis=1) >= most
    rounds = np.where(within.any(axis=1), within.argmax(axis=1) + 1, setting.rounds)
    twice = 2 * setting.tolerance + values.std(axis=1, ddof=1)
    return rounds.astype(float), values.min(axis=1) > np.maximum(twice, known.most_by_noise(1, ALPHA))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Baselines, as arrays over the runs."""

    level: Floats
    of_days: Floats
    of_trials: Floats
    freedoms: tuple[int, int]
    days: int
    trials: int

    def most_by_noise(self, trials: int, alpha: float) -> Floats:
        by_days = self.of_days * (1 + 1 / self.days)
        by_trials = self.of_trials * (median_variance_ratio(trials) + 1 / self.trials / self.days)
        error = np.sqrt(by_days + by_trials)
        ratio = by_days / error**2
        freedom = (1 / (ratio**2 / self.freedoms[0] + (1 - ratio) ** 2 / self.freedoms[1])).astype(int)
        return _quantiles(alpha, freedom) * error


def _estimated(baseline: Floats) -> _Known:
    """Estimate the level of each baseline, and the variances."""
    _, days, trials, rounds = baseline.shape
    medians = np.median(baseline, axis=3)
    prior = np.full(len(baseline), _PRIOR**2)
    if rounds > 1:
        prior = baseline.var(axis=3, ddof=1).mean(axis=(1, 2)) * (1 + median_variance_ratio(rounds))
    freedom = days * (trials - 1)
    squares = ((medians - medians.mean(axis=2, keepdims=True)) ** 2).sum(axis=(1, 2))
    of_trials = (_PRIOR_FREEDOM * prior + squares) / (_PRIOR_FREEDOM + freedom)
    levels = medians.mean(axis=2)
    between = np.zeros(len(baseline))
    if days > 1:
        between = np.maximum(0, levels.var(axis=1, ddof=1) - of_trials / trials)
    prior = np.minimum(np.maximum(_PRIOR**2, of_trials), _MOST_RATIO**2 * of_trials)
    of_days = (_PRIOR_FREEDOM * prior + (days - 1) * between) / (_PRIOR_FREEDOM + days - 1)
    return _Known(
        level=levels.mean(axis=1),
        of_days=of_days,
        of_trials=of_trials,
        freedoms=(_PRIOR_FREEDOM + days - 1, _PRIOR_FREEDOM + freedom),
        days=days,
        trials=trials,
    )


def _quantiles(p: float, freedom: npt.NDArray[np.int64]) -> Floats:
    known = {int(each): student_quantile(p, int(each)) for each in np.unique(freedom)}
    return np.array([known[int(each)] for each in freedom])


def of_one_noise(measured: float, *, days: int, tolerance: float = math.log1p(0.1)) -> Setting:
    """The noise of closed-loop throughput on fresh brokers, next to that of days."""
    return Setting(of_days=measured, of_trials=0.065, of_rounds=0.06, tolerance=tolerance, days=days)

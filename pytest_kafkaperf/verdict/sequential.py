"""Sequential test against a live baseline: trials are added until the evidence is conclusive.

For each metric, a trial yields one difference on the log scale of module `scale`, where larger is worse: the
pseudomedian over its pairs of rounds. Trials are independent, because both sides are restarted for each trial. From the
second trial on, two one-sided t tests are applied to all trials so far, and the first test that succeeds decides. The
tests use the trimmed mean of the differences, because other programs on the machine disturb some trials much more than
others. The first trial can only show that nothing has changed: if its pairs of rounds agree so well that not even the
noise of a restart, which one trial does not reveal, can hide a change equal to the target.

- Regressed: the trimmed mean exceeds the tolerance. The probability that this happens at any look even though the true
  difference is within the tolerance is at most the significance level.
- Equal: the trimmed mean is below the target, which is `MARGIN` beyond the tolerance. If the true difference equals the
  target, this happens with a probability of at most `BETA`.

A few trials reveal little about their own noise, but the pairs of rounds within them reveal more: in 47 of 48 series
with equal sides on half-warm brokers, the variance between trials was 0.25 to 1.4 times the variance that the pairs
predict. Other series, which are mostly short, had ratios of up to 5.4 (benchmarks/README.md, "Noise that the pairs
predict"). The t tests are therefore moderated: `_EXPECTED` times the predicted variance counts as much as up to
`_TRUST` degrees of freedom of the variance between the trials. Its weight falls with each trial, to 0 after `_FADES`
further trials, so that only the trials count as soon as there are many.

Later looks require weaker evidence: on the scale of the normal distribution, the bounds are proportional to a power of
`trials / MOST_TRIALS`. For regressions, its exponent is between those of O'Brien and Fleming and of Pocock, so that
early alarms need strong evidence. For equality, it is close to that of Pocock, so that an unchanged test ends early.
Because there are few trials, the bounds are converted to quantiles of Student's distribution with the same
probabilities.

If time runs out earlier, the last look is final: it can spend what earlier looks have left of both levels. This is
valid because the number of trials then does not depend on their differences (error spending: K. K. G. Lan, D. L.
DeMets, Biometrika 70, 1983).

Source: C. Jennison, B. W. Turnbull, "Group Sequential Methods with Applications to Clinical Trials" (2000): section 2.7
for the shapes (S. K. Wang, A. A. Tsiatis, Biometrics 43, 1987), 11.4 for unknown variances, 9 for repeated confidence
intervals, and 19.2 for the recursion. K. K. Yuen, "The two-sample trimmed t for unequal population variances",
Biometrika 61, 1974, for the error of a trimmed mean and its degrees of freedom. G. K. Smyth, "Linear models and
empirical Bayes methods for assessing differential expression in microarray experiments", Statistical Applications in
Genetics and Molecular Biology 3, 2004, for the moderated t test.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.verdict.scale import NOTHING, Difference, Incomparable, Measured, difference
from pytest_kafkaperf.verdict.student import student_quantile

MOST_TRIALS = 28
"""Maximum number of trials. It limits both the duration and the noise at which small changes are still detectable."""
FEWEST_TRIALS = 2
"""Fewest trials that can show a change; a single trial does not reveal the noise of restarts."""
USUAL_FREEDOM = 3
"""Degrees of freedom of a trial's own variance estimate, with the usual four pairs of rounds."""
MARGIN = 0.075
"""Distance from the tolerance to the target, the change that must be detected; on the log scale."""
BETA = 0.05
"""Probability that a true change equal to the target counts as no change, and that one end of the repeated confidence
interval misses the true difference at some look."""

_FIRST_LEVEL = 0.01
"""The same probability after the first trial alone; nominal, because the degrees of freedom are approximate.

It is 1 to 1.7% in simulations with normal and with heavy-tailed noise. All looks together still stay within `BETA`,
because later looks use less than that: a change equal to the target counts as no change in 0.1 to 4.3% of simulated
tests, and in up to 5.4% if the variance of trials is four times the variance that their pairs predict.
"""
_RESTARTS = 0.03
"""Standard deviation that restarts are assumed to add to a trial's difference, on the log scale, at the first look.

This is in addition to the expected noise of later trials. Of 433 trials with equal sides, none would have hidden a
change of p50 or p99 that is equal to the target (benchmarks/README.md, "Verdicts after one trial").
"""
_TRIMMED = 8
"""One out of this number of differences is trimmed at each end.

In a simulation with 6% noise, in which one trial in seven is five times as noisy, the trimmed mean detected a 10% drop
in 93 of 100 runs, and the plain mean in 69. Under normal noise, the trimmed mean needed 0.2 to 1 more trials.
"""
_EXPECTED = 1.5
"""Factor by which the trials' variance is expected to exceed the variance that their pairs of rounds predict."""
_TRUST = 4
"""Number of degrees of freedom that this expectation counts for at most.

In simulations in which restarts add so much noise that the variance is 25 times the one that the pairs predict, an
unchanged test failed in at most 6 of 10,000 runs, and a change equal to the tolerance in at most 95 of 10,000 runs
(benchmarks/simulations.md).
"""
_FADES = 10
"""Number of trials after the first look at which the expectation no longer counts.

Without this, tail latencies need more trials, because their trials often differ less than their pairs predict.
"""
_STEPS_BY_SD = 16
"""Grid points of the recursion per standard deviation of a trial's difference."""
_MOST_BOUND = 8.0
"""Largest bound considered at the last look; the grid covers this number of standard deviations."""
_BISECTIONS = 20

Floats = npt.NDArray[np.float64]
Kind = Literal["regressed", "equal"]
Decision = Literal["regressed", "improved", "equal", "open"]

_SHAPES: dict[Kind, float] = {"regressed": -0.15, "equal": -0.05}
"""Exponents of the bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The evidence about one metric from all trials so far."""

    trials: int
    tolerance: float
    last: float
    """Difference in the last trial."""
    mean: float
    """Trimmed mean of the differences in all trials so far; `NOTHING` if one difference is `NOTHING`."""
    interval: tuple[float, float] | None
    """Repeated confidence interval for the true difference; None if a single trial decides nothing.

    Across all looks, each end has a confidence level of 95%, so a metric counts as equal if the interval excludes the
    target.
    """
    decision: Decision
    deviation: float | None
    """Standard deviation of the differences, as estimated for the trimmed mean; None without an interval."""

    @property
    def settled(self) -> bool:
        """True if further trials cannot change the decision."""
        return self.decision != "open" or self.trials >= MOST_TRIALS


def look(differences: Sequence[Difference], *, tolerance: float, alpha: float, final: bool = False) -> Look:
    """Evaluate the differences in all trials so far, of which there must be at least one.

    `alpha` is the significance level of this metric. Looks after `MOST_TRIALS` use the last bound. `final` is True if
    there is no time for another look. A single trial that is worse by `NOTHING` is decisive.
    """
    trials = len(differences)
    values = [one.value for one in differences]
    if NOTHING in values:
        return Look(
            trials=trials,
            tolerance=tolerance,
            last=values[-1],
            mean=NOTHING,
            interval=None,
            decision="regressed",
            deviation=None,
        )
    trimmed = _trimmed(np.array(values))
    mean = float(trimmed.mean)
    decision: Decision = "open"
    interval = deviation = None
    if trials < FEWEST_TRIALS:
        expected_deviation, enough = _first_error(differences[0])
        if tolerance + MARGIN - abs(mean) >= enough:  # a trial that is much better may be the first of an improvement
            decision, deviation, interval = "equal", expected_deviation, (mean - enough, mean + enough)
    else:
        expected, trust = _expected(differences)
        deviation = math.sqrt(float(trimmed.variance(expected, trust)))
        error = max(deviation / math.sqrt(trimmed.kept), math.ulp(1.0))
        needed = _quantile("regressed", alpha, trials, trust, final=final) * error
        enough = _quantile("equal", BETA, trials, trust, final=final) * error
        interval = mean - enough, mean + enough
        decision = _decision(mean, tolerance, needed=needed, enough=enough)
    return Look(
        trials=trials,
        tolerance=tolerance,
        last=values[-1],
        mean=mean,
        interval=interval,
        decision=decision,
        deviation=deviation,
    )


def is_precise(one: Difference, *, tolerance: float, alpha: float) -> bool:
    """Return True if two trials with the noise of this one would probably rule out a change that does not exist.

    Their mean may then be worse by one standard error. A trial without known noise counts as precise.
    """
    if one.variance is None:
        return True
    error = math.sqrt(_EXPECTED * one.variance / FEWEST_TRIALS)
    typical = Difference(error, one.variance, one.freedom)
    return look([typical] * FEWEST_TRIALS, tolerance=tolerance, alpha=alpha).decision == "equal"


def further_trials(seen: Look, *, alpha: float) -> int:
    """Estimate how many further trials an open decision needs if their mean and their noise stay the same.

    `seen` is the last look, which must have a deviation, and `alpha` the metric's significance level.
    """
    for trials in range(seen.trials + 1, MOST_TRIALS):
        needed = _half_width(seen, "regressed", alpha, trials)
        enough = _half_width(seen, "equal", BETA, trials)
        if _decision(seen.mean, seen.tolerance, needed=needed, enough=enough) != "open":
            return trials - seen.trials
    return max(1, MOST_TRIALS - seen.trials)


def passing_tolerance(seen: Look) -> float:
    """Return the tolerance with which one more trial like those so far would pass; the arguments are as above."""
    return seen.mean + _half_width(seen, "equal", BETA, seen.trials + 1) - MARGIN


def _first_error(one: Difference) -> tuple[float, float]:
    """Return a single trial's expected standard deviation, and the distance from its value to the bound for equality.

    With fewer pairs of rounds than usual, a single trial shows too little, so the distance is infinite. The degrees of
    freedom are those of Satterthwaite: the noise of the pairs is estimated, that of a restart assumed.
    """
    if one.variance is None or one.freedom < USUAL_FREEDOM:
        return math.inf, math.inf
    estimated = _EXPECTED * one.variance
    total = estimated + _RESTARTS**2
    freedom = one.freedom / max((estimated / total) ** 2, one.freedom / _MOST_FREEDOM)
    deviation = math.sqrt(total)
    return deviation, student_quantile(_FIRST_LEVEL, freedom) * deviation


_MOST_FREEDOM = 100.0
"""Degrees of freedom beyond which Student's distribution is practically the normal distribution."""


def _decision(mean: float, tolerance: float, *, needed: float, enough: float) -> Decision:
    """Return the decision for a mean at these distances from the bounds of both tests."""
    if mean - tolerance >= needed:
        return "regressed"
    if -mean - tolerance >= needed:
        return "improved"
    return "equal" if tolerance + MARGIN - mean >= enough else "open"


def _half_width(seen: Look, kind: Kind, level: float, trials: int) -> float:
    """Return the distance from the mean to the bound at a later look, with the usual number of rounds."""
    error = (seen.deviation or 0.0) / math.sqrt(_kept(trials))
    return _quantile(kind, level, trials, _trust(USUAL_FREEDOM * trials, trials)) * error


def differences_of(subject: Metric, trials: Sequence[Measured]) -> tuple[list[Difference], str | None]:
    """Return the differences between trials and their live baseline, as `usable` does."""
    return usable([difference(subject, trial) for trial in trials])


def usable(found: Sequence[Difference | Incomparable]) -> tuple[list[Difference], str | None]:
    """Return the differences between trials and their live baseline, and the reason if a trial lacks a difference.

    Up to a quarter of the trials can lack a difference. If more trials lack one, or if the only trial does, no
    differences are returned.
    """
    flaws = [f"{one.reason} (trial {number})" for number, one in enumerate(found, 1) if isinstance(one, Incomparable)]
    values = [one for one in found if not isinstance(one, Incomparable)]
    return values if len(flaws) <= max(1, len(found) // 4) else [], next(iter(flaws), None)


def detectable(
    deviation: float, *, tolerance: float, alpha: float, power: float, freedom: int = USUAL_FREEDOM
) -> float:
    """Simulate the smallest true difference that makes a test fail with probability `power`.

    `deviation` is the standard deviation of the trials' differences, and `freedom` the number of degrees of freedom of
    each trial's own estimate (see `Difference`). The random numbers are the same in every call.
    """
    mean, fail, pass_ = _simulated(alpha, freedom)
    looks = mean.shape[1]
    # The values are in units of the deviation. The test fails at the first look that reaches `fail`, unless it passed
    # earlier.
    low, high = 0.0, _MOST_CHANGE
    for _ in range(_BISECTIONS):
        change = (low + high) / 2
        fails = mean + change >= fail
        passes = (deviation * (mean + change + pass_) <= MARGIN) & ~fails
        first = np.where(fails.any(axis=1), fails.argmax(axis=1), looks)
        found = first < np.where(passes.any(axis=1), passes.argmax(axis=1), looks)
        low, high = (low, change) if found.mean() >= power else (change, high)
    return tolerance + high * deviation


@functools.cache
def _simulated(alpha: float, freedom: int) -> tuple[Floats, Floats, Floats]:
    """Return simulated means and both half-widths in units of the deviation; shape (runs, looks).

    The first trial passes more often here than in reality, because the noise assumed for restarts is left out.
    """
    random = np.random.default_rng(_SEED)
    draws = random.standard_normal((_RUNS, MOST_TRIALS))
    predicted = random.chisquare(max(1, freedom), (_RUNS, MOST_TRIALS)) / max(1, freedom)
    first = np.sqrt(predicted[:, 0]) * student_quantile(_FIRST_LEVEL, max(1, freedom))
    means, needed, enough = [draws[:, 0]], [np.full(_RUNS, np.inf)], [first]
    for trials in range(FEWEST_TRIALS, MOST_TRIALS + 1):
        trimmed, trust = _trimmed(draws[:, :trials]), _trust(freedom * trials, trials)
        error = np.sqrt(trimmed.variance(_typical(predicted[:, :trials], freedom), trust) / trimmed.kept)
        means.append(trimmed.mean)
        needed.append(error * _quantile("regressed", alpha, trials, trust))
        enough.append(error * _quantile("equal", BETA, trials, trust))
    return np.array(means).T, np.array(needed).T, np.array(enough).T


_MOST_CHANGE = 100.0
_RUNS = 1000
_SEED = 20_261_123


@dataclass(frozen=True, slots=True)
class _Trimmed:
    """Trimmed mean over the last axis, and what its error is calculated from."""

    mean: Floats
    squares: Floats
    """Sum of squares of the winsorized values."""
    kept: int
    """Number of values that were not trimmed."""

    def variance(self, expected: float | Floats, trust: float) -> Floats:
        """Return the variance of one value, moderated by its expected value, which counts as `trust` further values.

        Divided by `kept`, it is the squared error of the mean.
        """
        return (trust * np.asarray(expected) + self.squares) / (trust + self.kept - 1)


def _trimmed(values: Floats) -> _Trimmed:
    """Return the trimmed mean over the last axis, of at least one value."""
    ordered, number = np.sort(values), _kept(values.shape[-1])
    cut = (values.shape[-1] - number) // 2
    kept = ordered[..., cut : cut + number]
    winsorized = ordered.clip(kept[..., :1], kept[..., -1:])
    squares = ((winsorized - winsorized.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return _Trimmed(kept.mean(axis=-1), squares, number)


def _kept(trials: int) -> int:
    """Return the number of values that a trimmed mean of this many values keeps."""
    return trials - 2 * (trials // _TRIMMED)


def _expected(differences: Sequence[Difference]) -> tuple[float, float]:
    """Return the expected variance of a trial's difference, and the degrees of freedom that it counts for."""
    known = [one for one in differences if one.variance is not None]
    if not known:
        return 0.0, 0.0
    freedom = sum(one.freedom for one in known)
    typical = _typical(np.array([one.variance for one in known]), round(freedom / len(known)))
    return _EXPECTED * float(typical), _trust(freedom, len(differences))


def _typical(variances: Floats, freedom: int) -> Floats:
    """Return the variance over the last axis that is not determined by a few disturbed trials.

    It is the median, divided by the median of a variance of 1 with these degrees of freedom (E. B. Wilson, M. M.
    Hilferty, "The distribution of chi-square", Proceedings of the National Academy of Sciences 17, 1931). Of two
    variances, it is the mean.
    """
    if variances.shape[-1] < _FEWEST_FOR_MEDIAN:
        return np.asarray(variances.mean(axis=-1))
    return np.asarray(np.median(variances, axis=-1) / (1 - 2 / (9 * max(1, freedom))) ** 3)


_FEWEST_FOR_MEDIAN = 3


def _trust(freedom: int, trials: int) -> float:
    """Return the degrees of freedom that the expected variance counts for, given those of its estimate."""
    if freedom == 0:
        return 0.0
    return max(0.0, 1 - (trials - FEWEST_TRIALS) / _FADES) / (1 / _TRUST + 1 / freedom)


def _quantile(kind: Kind, level: float, trials: int, trust: float, *, final: bool = False) -> float:
    """Return the t value required at this look for all looks together to have at most this level."""
    nominal, number = level / _STUDENT_EXCESS, max(0, min(trials, MOST_TRIALS) - FEWEST_TRIALS)
    bounds = _bounds(nominal, _SHAPES[kind])
    p = statistics.NormalDist().cdf(-bounds[number])
    if final:
        p = max(p, nominal - _crossing(bounds[:number]))  # even if looks are correlated, the level is not exceeded
    return student_quantile(p, trust + _kept(trials) - 1)


_STUDENT_EXCESS = 1.35
"""Factor by which all looks together exceed a level that would be exact if the variance were known.

In a simulation of 400,000 runs, the factor was 1.16 at 5%, 1.20 at 2.5%, 1.28 at 1% and 1.33 at 0.5%. In a simulation
of 160,000 runs, it was 1.5 at 0.2% and 1.7 at 0.1%: with ten thresholds, 1.25% of the tests reach a wrong verdict
instead of 1%.
"""


@functools.cache
def _bounds(level: float, exponent: float) -> list[float]:
    """Return the bound for each look, assuming that differences follow the standard normal distribution.

    With probability `level`, the mean of unchanged trials exceeds its bound at some look.
    """
    looks = range(FEWEST_TRIALS, MOST_TRIALS + 1)
    shape = [(trials / MOST_TRIALS) ** exponent for trials in looks]
    low, high = 0.0, _MOST_BOUND
    for _ in range(_BISECTIONS):
        last = (low + high) / 2
        low, high = (last, high) if _crossing([last * each for each in shape]) > level else (low, last)
    return [high * each for each in shape]


def _crossing(bounds: Sequence[float]) -> float:
    """Return the probability that the sum of `n` standard normal values exceeds `bounds * sqrt(n)` at some look.

    Tracks the density of the sums that have not exceeded a bound; each trial convolves it with the normal density.
    """
    reach = round(_MOST_BOUND * math.sqrt(MOST_TRIALS) * _STEPS_BY_SD)
    sums = np.arange(-reach, reach + 1) / _STEPS_BY_SD
    kernel = np.exp(-((np.arange(-8 * _STEPS_BY_SD, 8 * _STEPS_BY_SD + 1) / _STEPS_BY_SD) ** 2) / 2)
    kernel /= kernel.sum()
    density = np.exp(-(sums**2) / 2 / FEWEST_TRIALS)
    density /= density.sum()
    for trials, bound in enumerate(bounds, FEWEST_TRIALS):
        if trials > FEWEST_TRIALS:
            density = np.convolve(density, kernel, mode="same")
        density[sums >= bound * math.sqrt(trials)] = 0
    return 1 - float(density.sum())

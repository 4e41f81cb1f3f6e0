"""The comparison with a live baseline on trials whose noise is known: many tests at once, as arrays over the runs.

A slow, obvious version stands in `tests/unit/verdict/test_sequential.py`; `benchmarks/verdict/simulate.py` makes
tables of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.verdict.scale import Difference
from pytest_kafkaperf.verdict.sequential import FEWEST_TRIALS, MARGIN, MOST_TRIALS, Decision, Look, look

Floats = npt.NDArray[np.float64]
Noise = Literal["normal", "heavy-tailed", "disturbed"]

FREEDOM = 3
"""Degrees of freedom within a trial, of four pairs of rounds."""
LOOKS = range(FEWEST_TRIALS, MOST_TRIALS + 1)
_MOST_T, _FAR = 1e4, 1e5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What became of the tests: one value for each."""

    decisions: npt.NDArray[np.str_]
    trials: npt.NDArray[np.int64]
    """Number of trials that each test took."""

    def share(self, decision: Decision) -> float:
        """Share of the tests with this decision."""
        return float((self.decisions == decision).mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Simulated trials of many tests; both arrays have the shape (runs, trials)."""

    values: Floats
    """Difference of each trial."""
    variances: Floats
    """Variance of the difference that the trial's own pairs of rounds predict."""

    def __add__(self, change: float) -> Trials:
        """The same trials, each worse by a constant."""
        return Trials(values=self.values + change, variances=self.variances)

    def test(self, run: int) -> list[Difference]:
        """The trials of one test."""
        both = zip(self.values[run].tolist(), self.variances[run].tolist(), strict=True)
        return [Difference(value, variance, FREEDOM) for value, variance in both]


def differences(
    *, runs: int, deviation: float, noise: Noise = "normal", restarts: float | Floats = 1.5, seed: int = 20_261_123
) -> Trials:
    """Unchanged trials with this standard deviation, whose square is `restarts` times the one that the pairs predict.

    By default, restarts add as much noise as the rule expects. An array of the shape (runs, 1) has another factor for
    each test.

    Heavy-tailed ones have Student's distribution with 5 degrees of freedom: one in 80 is beyond 3 deviations. Of
    disturbed ones, one in eight has five times this deviation, within the trial as well as between trials.
    """
    source, shape = np.random.default_rng(seed), (runs, MOST_TRIALS)
    within = source.chisquare(FREEDOM, shape) / FREEDOM * deviation**2 / restarts
    if noise != "heavy-tailed":
        disturbed = np.where(source.random(shape) < 1 / 8, 5.0, 1.0) if noise == "disturbed" else np.ones(shape)
        values = deviation * disturbed * source.standard_normal(shape)
        return Trials(values=values, variances=within * disturbed**2)
    values = deviation / math.sqrt(5 / 3) * source.standard_t(5, shape)
    return Trials(values=values, variances=within)


def uncertain_restarts(runs: int) -> Floats:
    """Factors between the variances of trials and of pairs, by test, as uncertain as the rule assumes: 4 degrees."""
    factors: Floats = 1.5 * 4 / np.random.default_rng(20_261_127).chisquare(4, (runs, 1))
    return factors


def judged(drawn: Trials, *, tolerance: float, alpha: float) -> Outcomes:
    """Judge each test at every look, until the first decision."""
    equal = tolerance + MARGIN - np.abs(drawn.values[:, 0]) >= first_half_widths(drawn)
    found = np.where(equal, "equal", "open").astype("<U9")
    trials = np.where(equal, 1, MOST_TRIALS)
    for number in LOOKS:
        mean, error = moderated(drawn, number)
        needed, enough = critical(number, "regressed", alpha), critical(number, "equal", alpha)
        decided = np.select(
            [
                mean - tolerance >= needed * error,
                -mean - tolerance >= needed * error,
                tolerance + MARGIN - mean >= enough * error,
            ],
            ["regressed", "improved", "equal"],
            "open",
        )
        first = (found == "open") & (decided != "open")
        found[first], trials[first] = decided[first], number
    return Outcomes(decisions=found, trials=trials)


def first_half_widths(drawn: Trials) -> Floats:
    """Half of the interval after the first trial, of each test: restarts are assumed to add a noise of 3%."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    within = 1.5 * drawn.variances[:, 0]
    variance = within + 0.03**2
    widths: Floats = stats.t.isf(0.01, FREEDOM * (variance / within) ** 2) * np.sqrt(variance)
    return widths


def cleared_after(drawn: Trials, tolerance: float) -> npt.NDArray[np.int64]:
    """Number of trials after which the mean of each test is within the tolerance; very large if it never is."""
    means = np.column_stack([trimmed_mean(drawn.values[:, :number])[0] for number in range(1, MOST_TRIALS + 1)])
    within = means <= tolerance
    return np.where(within.any(axis=1), within.argmax(axis=1) + 1, np.iinfo(np.int64).max)


def trimmed_mean(drawn: Floats) -> tuple[Floats, Floats]:
    """The mean without an eighth at each end, and its standard error by Yuen, of each row."""
    number = drawn.shape[1]
    cut = number // 8
    kept = number - 2 * cut
    ordered = np.sort(drawn, axis=1)
    ordered[:, :cut], ordered[:, number - cut :] = ordered[:, [cut]], ordered[:, [number - cut - 1]]
    error = ordered.std(axis=1) * math.sqrt(number / kept / max(1, kept - 1))
    return ordered[:, cut : number - cut].mean(axis=1), error


def trust_of(number: int) -> float:
    """The degrees of freedom that the noise within so many trials counts for."""
    return max(0, 12 - number) / 10 / (1 / 4 + 1 / (FREEDOM * number))


def moderated(drawn: Trials, number: int) -> tuple[Floats, Floats]:
    """The trimmed mean of the first trials of each test, and its error with the help of the noise within trials."""
    mean, error = trimmed_mean(drawn.values[:, :number])
    own = number - 2 * (number // 8) - 1
    trust = trust_of(number)
    within = drawn.variances[:, :number]
    typical = within.mean(axis=1) if number < 3 else np.median(within, axis=1) / (1 - 2 / (9 * FREEDOM)) ** 3
    variance = (trust * 1.5 * typical + own * error**2 * (own + 1)) / (trust + own)
    return mean, np.sqrt(variance / (own + 1))


@functools.cache
def critical(trials: int, decision: Literal["regressed", "equal"], alpha: float, *, final: bool = False) -> float:
    """The least t that leads to this decision at a look, found by trying."""
    sign = 1 if decision == "regressed" else -1
    border = _FAR if decision == "regressed" else _FAR + MARGIN

    def decides(t: float) -> bool:
        mean = border + sign * t / math.sqrt(trials - 2 * (trials // 8))
        return look(with_mean(mean, trials), tolerance=_FAR, alpha=alpha, final=final).decision == decision

    return _least(decides)


@functools.cache
def half_width(trials: int) -> float:
    """The half of the repeated confidence interval at a look, in standard errors."""
    low, high = look(with_mean(0.0, trials), tolerance=0.0, alpha=0.01).interval or (math.nan, math.nan)
    return (high - low) / 2 * math.sqrt(trials - 2 * (trials // 8))


def with_mean(mean: float, trials: int, deviation: float = 1.0) -> list[Difference]:
    """As many differences with this mean, whose standard deviation is estimated to be `deviation`, also within them."""
    spread: Floats = np.arange(trials, dtype=np.float64) - (trials - 1) / 2
    _, (error,) = trimmed_mean(spread[np.newaxis])
    factor = deviation / error / math.sqrt(trials - 2 * (trials // 8)) if trials > 1 else 0.0
    correction = 1.0 if trials < 3 else (1 - 2 / (9 * FREEDOM)) ** 3
    within = deviation**2 / 1.5 * correction
    return [Difference(value, within, FREEDOM) for value in (mean + spread * factor).tolist()]


def looks(drawn: list[Difference], *, tolerance: float, alpha: float) -> Iterator[Look]:
    """The looks at one test, until one is settled."""
    for number in range(1, len(drawn) + 1):
        found = look(drawn[:number], tolerance=tolerance, alpha=alpha)
        yield found
        if found.settled:
            return


def _least(holds: Callable[[float], bool]) -> float:
    low, high = 0.0, _MOST_T
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high

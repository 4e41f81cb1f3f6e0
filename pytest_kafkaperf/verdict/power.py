"""Noise of a metric, and the minimum detectable change that follows from it.

Values are on the log scale of `comparison`, where larger is worse. The model of a round is a true value plus a normal
error of its session plus a normal error of its own: a one-way random-effects model (S. R. Searle, G. Casella, C. E.
McCulloch, "Variance Components" (1992), chapter 3).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.scenario.threshold import Extreme, Threshold
from pytest_kafkaperf.verdict.comparison import (
    Measured,
    Rounds,
    change_of,
    compare,
    logs,
    no_ratio,
    ratio_of,
    sign_of,
)
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.rank_tests import critical_us

POWER = 0.8
"""Statistical power of the minimum detectable change: the usual convention of 80 %."""

FEWEST_SESSIONS = 3
"""Minimum number of sessions to estimate the noise between sessions. Two give a single difference, which is often near
zero by chance."""

_MOST_RUNS, _FEWEST_RUNS = 1000, 400
"""Maximum and minimum number of simulated runs. The error of the power is about 0.02, that of the change a few per
cent of the change."""

_DIFFERENCES = 500_000
"""Maximum number of differences between rounds in all simulated runs together, which limits the time to some ms."""

_MOST_ROUNDS = 15
"""Maximum number of simulated values per session; in longer sessions each value is the mean of several rounds."""

_SEED = 20_260_815

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Noise of a metric as standard deviations of its logarithm: 0.06 is about 6 %."""

    within: float
    """Standard deviation of the rounds within a session."""
    between: float
    """Standard deviation between sessions, beyond the effect of `within`."""
    sessions: int
    """Number of sessions in the estimate."""
    assumed: bool
    """True if there were fewer than 3 sessions, too few to estimate `between`; it is then assumed to equal `within`.

    On fresh brokers the two were similar: the noise of throughput was 6 % within and 6.5 % between sessions. If
    `between` were assumed to be 0, the minimum detectable change would be too small.
    """

    @classmethod
    def of(cls, sessions: Sequence[Sequence[float]]) -> Self | None:
        """Estimate the noise from the rounds of each session; return None if no session has two rounds.

        Uses the analysis of variance (method of moments) for sessions of different sizes; a negative variance estimate
        becomes 0.
        """
        groups = [session for session in sessions if session]
        sizes = [len(group) for group in groups]
        rounds = sum(sizes)
        if rounds == len(groups):
            return None
        means = [statistics.fmean(group) for group in groups]
        squares = math.fsum((value - mean) ** 2 for group, mean in zip(groups, means, strict=True) for value in group)
        within = between = squares / (rounds - len(groups))
        assumed = len(groups) < FEWEST_SESSIONS
        if not assumed:
            overall = math.fsum(itertools.chain(*groups)) / rounds
            squares = math.fsum(size * (mean - overall) ** 2 for size, mean in zip(sizes, means, strict=True))
            mean_size = (rounds - sum(size**2 for size in sizes) / rounds) / (len(groups) - 1)
            between = max(0.0, (squares / (len(groups) - 1) - within) / mean_size)
        return cls(within=math.sqrt(within), between=math.sqrt(between), sessions=len(groups), assumed=assumed)


def detectable(
    noise: Noise,
    *,
    tolerance: float,
    rounds: int,
    baseline: Sequence[int],
    confirmed: bool,
    alpha: Fraction,
) -> float:
    """Return the minimum detectable change: the true change that the rule finds with probability POWER.

    The result is on the log scale and includes the tolerance. It is infinite if there are too few rounds for a p below
    `alpha`.

    The function simulates the rule on random noise. A true change adds to all shifts alike, so each simulated run gives
    the smallest change that it would have found; the result is the POWER quantile of these. The random numbers are the
    same in every call.

    Args:
        noise: noise of the rounds.
        tolerance: tolerated change, on the log scale.
        rounds: number of rounds of a session.
        baseline: number of rounds of each baseline session.
        confirmed: True if fresh sessions decide about a suspect; False if the first session decides.
        alpha: significance level.

    """
    known, some = sum(min(size, _MOST_ROUNDS) for size in baseline), min(rounds, _MOST_ROUNDS)
    deciding = SESSIONS * some if confirmed else some
    extreme = critical_us(deciding, known, alpha)
    if not extreme:
        return math.inf
    runs = max(_FEWEST_RUNS, min(_DIFFERENCES // max(1, (some + 2 * deciding) * known), _MOST_RUNS))
    values = _simulated(noise, [*baseline, *[rounds] * (1 + SESSIONS)], runs)
    reference, first, *fresh = np.split(values, [known + some * number for number in range(1 + SESSIONS)], axis=1)
    needed = np.median(_negated_differences(first, reference), axis=1)
    every = first
    if confirmed:
        shortfalls = [np.median(_negated_differences(session, reference), axis=1) for session in fresh]
        needed = np.maximum(needed, np.median(shortfalls, axis=0))
        every = np.concatenate(fresh, axis=1)
    each = _negated_differences(every, reference)
    place = each.shape[1] - extreme
    needed = np.maximum(needed, np.partition(each, place, axis=1)[:, place])
    return tolerance + max(0.0, float(np.quantile(needed, POWER)))


def detectable_absolute(noise: Noise, *, rounds: int) -> float:
    """Return the distance from an absolute limit at which a true value violates it with probability POWER.

    The distance is on the log scale. The limit applies to the median of a session's rounds. For large `n`, the variance
    of the median of `n` values is `pi / 2 / n` times theirs; for small `n`, use `n + 0.5` if `n` is odd and `n + 1.25`
    if it is even.
    """
    variance_ratio = math.pi / 2 / (rounds + (0.5 if rounds % 2 else 1.25))
    return statistics.NormalDist().inv_cdf(POWER) * math.sqrt(noise.between**2 + noise.within**2 * variance_ratio)


def _simulated(noise: Noise, sizes: Sequence[int], runs: int) -> _Floats:
    """Simulate unchanged rounds; shape (runs, rounds of all sessions with at most _MOST_ROUNDS each).

    The second half of the runs mirrors the first (antithetic variates), which halves the simulation error.
    """
    source = np.random.default_rng(_SEED)
    half = (runs + 1) // 2
    drawn = np.minimum(sizes, _MOST_ROUNDS)
    levels = np.repeat(source.standard_normal((half, len(sizes))), drawn, axis=1)
    within = np.repeat(noise.within * np.sqrt(drawn / np.asarray(sizes)), drawn)
    values = noise.between * levels + within * source.standard_normal((half, len(within)))
    return np.concatenate([values, -values])


def _negated_differences(current: _Floats, baseline: _Floats) -> _Floats:
    """Return the negated pairwise differences of each run.

    Their median is the negated shift. The number of them below a change, without the tolerance, is the U of Mann and
    Whitney.
    """
    return (baseline[:, None, :] - current[:, :, None]).reshape(len(current), -1)


def detectable_change(
    threshold: Threshold, rounds: Rounds, known: Sequence[Rounds], least: float | None
) -> float | None:
    """Return the minimum detectable change as a ratio: -0.12 if a throughput drop of 12 % is found in 4 of 5 cases.

    For a relative threshold, the change is against the baseline or reference; for an absolute one, against the limit.
    Returns None if the noise is unknown or no change is detectable.

    Args:
        threshold: the threshold that must fail.
        rounds: the rounds that an absolute limit applies to.
        known: the comparable sessions of the baseline, or of the reference; empty if there is neither.
        least: the minimum detectable change of the relative part of the threshold, on the log scale where larger is
            worse; None if it has none, or if that is unknown.

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
    if beyond is None or not known or no_ratio(subject, known) is not None or threshold.limit.absolute.value <= 0:
        return None
    level = statistics.median(value for one in known for value in logs(subject, one))
    absolute = sign_of(subject) * math.log(threshold.limit.absolute.value) - level + beyond
    combine = max if threshold.limit.takes_one(threshold.operator) else min
    return change_of(subject, max(0.0, combine(least, absolute)))


def detectable_relative(
    threshold: Threshold, session: Measured, baseline: Sequence[Rounds], *, confirmed: bool, alpha: Fraction
) -> float | None:
    """Return the minimum detectable change of a limit relative to the baseline, on the log scale; None if unknown.

    Args:
        threshold: the threshold that must fail.
        session: the first session.
        baseline: the comparable sessions of the baseline.
        confirmed: True if fresh sessions decide about a suspect.
        alpha: significance level.

    """
    subject = threshold.metric
    if threshold.relative is None or isinstance(compare(subject, session, baseline), str):
        return None
    noise = Noise.of([logs(subject, one) for one in baseline])
    if noise is None:
        return None
    least = detectable(
        noise,
        tolerance=threshold.relative.log_tolerance,
        rounds=len(session.rounds),
        baseline=[len(one) for one in baseline],
        confirmed=confirmed,
        alpha=alpha,
    )
    return least if math.isfinite(least) else None


def _detectable_absolute(subject: Metric, rounds: Rounds, known: Sequence[Rounds]) -> float | None:
    """Return the minimum detectable distance from an absolute limit, on the log scale."""
    sessions = known or [rounds]
    if no_ratio(subject, sessions) is not None:
        return None
    noise = Noise.of([logs(subject, one) for one in sessions])
    return None if noise is None else detectable_absolute(noise, rounds=len(rounds))

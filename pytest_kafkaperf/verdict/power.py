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
    Paired,
    Rounds,
    change_of,
    compare,
    logs,
    no_ratio,
    ratio_of,
    sign_of,
)
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.rank_tests import critical_rank_sums, critical_us

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
    baseline: Sequence[int] | None,
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
        noise: noise of the rounds, or of the differences if there is a reference.
        tolerance: tolerated change, on the log scale.
        rounds: number of rounds of a session.
        baseline: number of rounds of each baseline session; None if rounds form pairs with those of a reference.
        confirmed: True if fresh sessions decide about a suspect; False if the first session decides.
        alpha: significance level.

    """
    known, some = sum(min(size, _MOST_ROUNDS) for size in baseline or ()), min(rounds, _MOST_ROUNDS)
    deciding = SESSIONS * some if confirmed else some
    extreme = critical_rank_sums(deciding, alpha) if baseline is None else critical_us(deciding, known, alpha)
    if not extreme:
        return math.inf
    runs = max(_FEWEST_RUNS, min(_DIFFERENCES // max(1, (some + 2 * deciding) * known), _MOST_RUNS))
    values = _simulated(noise, [*(baseline or ()), *[rounds] * (1 + SESSIONS)], runs)
    before, first, *fresh = np.split(values, [known + some * number for number in range(1 + SESSIONS)], axis=1)
    reference = None if baseline is None else before
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


def _negated_differences(current: _Floats, reference: _Floats | None) -> _Floats:
    """Return the negated pairwise differences (or Walsh averages of paired differences) of each run.

    Their median is the negated shift. The number of them below a change, without the tolerance, is the U of Mann and
    Whitney, or the sum of positive ranks (a result of J. W. Tukey).
    """
    if reference is not None:
        return (reference[:, None, :] - current[:, :, None]).reshape(len(current), -1)
    first, second = np.triu_indices(current.shape[1])
    return -(current[:, first] + current[:, second]) / 2


def detectable_change(
    threshold: Threshold, session: Measured, baseline: Sequence[Rounds], *, confirmed: bool, alpha: Fraction
) -> float | None:
    """Return the minimum detectable change as a ratio: -0.12 if a throughput drop of 12 % is found in 4 of 5 cases.

    For a relative threshold, the change is against the baseline or reference; for an absolute one, against the limit.
    Returns None if the noise is unknown or no change is detectable.

    Args:
        threshold: the threshold that must fail.
        session: the first session.
        baseline: the comparable sessions of the baseline.
        confirmed: True if fresh sessions decide about a suspect.
        alpha: significance level.

    """
    if not session.rounds:
        return None
    subject = threshold.metric
    beyond = _detectable_absolute(subject, session, baseline)
    if threshold.relative is None:
        sign = 1 if threshold.operator.startswith("<") else -1
        return None if beyond is None or threshold.operator == "==" else ratio_of(sign * beyond)
    least = _detectable_relative(
        threshold.relative.log_tolerance, subject, session, baseline, confirmed=confirmed, alpha=alpha
    )
    if least is None or not isinstance(threshold.limit, Extreme):
        return None if least is None else change_of(subject, least)
    known = _baseline_level(subject, session, baseline)
    if beyond is None or known is None or threshold.limit.absolute.value <= 0:
        return None
    absolute = sign_of(subject) * math.log(threshold.limit.absolute.value) - known + beyond
    combine = max if threshold.limit.takes_one(threshold.operator) else min
    return change_of(subject, max(0.0, combine(least, absolute)))


def _detectable_relative(
    tolerance: float,
    subject: Metric,
    session: Measured,
    baseline: Sequence[Rounds],
    *,
    confirmed: bool,
    alpha: Fraction,
) -> float | None:
    """Return the minimum detectable change of a relative limit, on the log scale where larger is worse."""
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


def _detectable_absolute(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> float | None:
    """Return the minimum detectable distance from an absolute limit, on the log scale."""
    known = [session.rounds] if session.reference is not None or not baseline else baseline
    if no_ratio(subject, known) is not None:
        return None
    noise = Noise.of([logs(subject, one) for one in known])
    return None if noise is None else detectable_absolute(noise, rounds=len(session.rounds))


def _baseline_level(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> float | None:
    """Return the median of the baseline on the log scale where larger is worse."""
    known = baseline if session.reference is None else [session.reference]
    if not known or no_ratio(subject, known) is not None:
        return None
    return statistics.median(value for one in known for value in logs(subject, one))

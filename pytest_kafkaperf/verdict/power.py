"""How much the rounds of a metric scatter, and how small a worsening is found in spite of it. Pure.

Values are on a log scale where larger is worse, as in `comparison`. A round is the true value plus an error that its
session shares, plus one of its own, both normal: a one-way random-effects model (S. R. Searle, G. Casella, C. E.
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
"""How often a worsening must be found to count as detectable: the usual convention for the power of a test."""

FEWEST_SESSIONS = 3
"""That show noise between sessions: two give one difference, which is near zero every few times by chance."""

_MOST_RUNS, _FEWEST_RUNS = 1000, 400
"""Of the rule, on drawn noise: the power is right to about 0.02, and the change to a few per cent of itself."""

_DIFFERENCES = 500_000
"""Between rounds, in all runs: some milliseconds."""

_MOST_ROUNDS = 15
"""Of a session, that are drawn one by one; of more, each stands for the mean of some."""

_SEED = 20_260_815

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Standard deviations of the log of a metric: 0.06 is about 6 %."""

    within: float
    """Of the rounds of one session."""
    between: float
    """Of the sessions' levels, beyond what `within` explains."""
    sessions: int
    """What it rests on."""
    assumed: bool
    """Whether `between` could not be seen, in fewer than 3 sessions, and is taken to be as large as `within`.

    Where both were measured on fresh brokers they were of one size: 6 and 6.5 % of the throughput. To take it as zero
    would promise to find changes that are nothing but one session's noise.
    """

    @classmethod
    def of(cls, sessions: Sequence[Sequence[float]]) -> Self | None:
        """Estimate it from the rounds of each session; None where no session has two rounds.

        Analysis of variance by the method of moments, for sessions of any size; a negative variance counts as 0.
        """
        groups = [session for session in sessions if session]
        sizes = [len(group) for group in groups]
        rounds = sum(sizes)
        if rounds == len(groups):
            return None
        means = [statistics.fmean(group) for group in groups]
        pairs = list(zip(groups, means, strict=True))
        own = math.fsum((value - mean) ** 2 for group, mean in pairs for value in group) / (rounds - len(groups))
        assumed = len(groups) < FEWEST_SESSIONS
        shared = own
        if not assumed:
            centre = math.fsum(itertools.chain(*groups)) / rounds
            scatter = math.fsum(size * (mean - centre) ** 2 for size, mean in zip(sizes, means, strict=True))
            typical = (rounds - sum(size**2 for size in sizes) / rounds) / (len(groups) - 1)
            shared = max(0.0, (scatter / (len(groups) - 1) - own) / typical)
        return cls(within=math.sqrt(own), between=math.sqrt(shared), sessions=len(groups), assumed=assumed)


def detectable(
    noise: Noise,
    *,
    tolerance: float,
    rounds: int,
    baseline: Sequence[int] | None,
    confirmed: bool,
    alpha: Fraction,
) -> float:
    """Give the minimum detectable change: the true worsening that the rule finds with probability POWER.

    `rounds` are those of a session, `baseline` those of each session of the baseline; None: each round stands beside
    one of a reference, and `noise` is that of the differences. With `confirmed` fresh sessions decide over a suspect,
    otherwise the first session alone. Changes and the tolerance, which the result includes, are on the log scale.
    Infinite where so few rounds cannot give a p below `alpha`.

    A change adds to all shifts alike, so one run of the rule on drawn noise tells the least change that it would have
    found, and that which POWER of the runs would have found is the answer. The draws are the same in every call.
    """
    drawn = [min(size, _MOST_ROUNDS) for size in baseline or ()]
    known, some = sum(drawn), min(rounds, _MOST_ROUNDS)
    deciding = SESSIONS * some if confirmed else some
    extreme = critical_rank_sums(deciding, alpha) if baseline is None else critical_us(deciding, known, alpha)
    if not extreme:
        return math.inf
    runs = max(_FEWEST_RUNS, min(_DIFFERENCES // max(1, (some + 2 * deciding) * known), _MOST_RUNS))
    values = _drawn(noise, [*(baseline or ()), *[rounds] * (1 + SESSIONS)], runs)
    before, first, *fresh = np.split(values, [known + some * number for number in range(1 + SESSIONS)], axis=1)
    reference = None if baseline is None else before
    needed = np.median(_shortfalls(first, reference), axis=1)
    every = first
    if confirmed:
        shortfalls = [np.median(_shortfalls(session, reference), axis=1) for session in fresh]
        needed = np.maximum(needed, np.median(shortfalls, axis=0))
        every = np.concatenate(fresh, axis=1)
    each = _shortfalls(every, reference)
    place = each.shape[1] - extreme
    needed = np.maximum(needed, np.partition(each, place, axis=1)[:, place])
    return tolerance + max(0.0, float(np.quantile(needed, POWER)))


def detectable_absolute(noise: Noise, *, rounds: int) -> float:
    """How far beyond an absolute limit a true value must lie, on the log scale, to break it with probability POWER.

    Such a limit judges the median of the rounds of one session. The variance of the median of `n` values is about
    `pi / 2 / n` of theirs for many (its efficiency), and `pi / 2 / (n + 0.5)` for few, `n + 1.25` where `n` is even.
    """
    median = math.pi / 2 / (rounds + (0.5 if rounds % 2 else 1.25))
    return statistics.NormalDist().inv_cdf(POWER) * math.sqrt(noise.between**2 + noise.within**2 * median)


def _drawn(noise: Noise, sizes: Sequence[int], runs: int) -> _Floats:
    """Draw rounds without a change, shape (runs, rounds of all sessions, at most _MOST_ROUNDS of each).

    Each run has its mirror image, which halves what chance does to the result.
    """
    source = np.random.default_rng(_SEED)
    half = (runs + 1) // 2
    drawn = np.minimum(sizes, _MOST_ROUNDS)
    levels = np.repeat(source.standard_normal((half, len(sizes))), drawn, axis=1)
    within = np.repeat(noise.within * np.sqrt(drawn / np.asarray(sizes)), drawn)
    values = noise.between * levels + within * source.standard_normal((half, len(within)))
    return np.concatenate([values, -values])


def _shortfalls(current: _Floats, reference: _Floats | None) -> _Floats:
    """By how much each round falls short of each of the baseline, or each two differences of zero, run by run.

    Their median is the shift with its sign turned. A test asks how many are below the change without the tolerance:
    that number is the U of Mann and Whitney, or the sum of positive ranks (J. W. Tukey).
    """
    if reference is not None:
        return (reference[:, None, :] - current[:, :, None]).reshape(len(current), -1)
    first, second = np.triu_indices(current.shape[1])
    return -(current[:, first] + current[:, second]) / 2


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

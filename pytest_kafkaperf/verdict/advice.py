"""Advice: significant changes in metrics without a threshold, which never fail a test.

No tolerance is declared for these metrics, and there are many of them. So a change is reported only if the exact
one-sided test (see `comparison`) shows a change of more than 10 % plus twice the largest distance between sessions of
the baseline, at a significance level of 1 % after the Holm correction over all compared metrics and both directions.
In simulations with the noise of fresh brokers, the false alarm rate is 1 in 100 unchanged runs; a plain rank test gives
a false alarm in more than half of them. A throughput that halves is found in 9 of 10 runs, one that drops by a third in
1 of 4.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.metrics import CATALOGUE, Metric
from pytest_kafkaperf.verdict.comparison import Comparison, Measured, Rounds, change_of, compare, logs
from pytest_kafkaperf.verdict.confirmation import holm
from pytest_kafkaperf.verdict.rank_tests import hodges_lehmann
from pytest_kafkaperf.verdict.sequential import differences_of, look

ALPHA = Fraction(1, 100)
"""False alarm rate per run, over all metrics."""
LEAST_CHANGE = 0.1
"""Smallest change that is reported, as a ratio."""
FEWEST_SESSIONS = 5
"""Minimum number of baseline sessions to estimate the distance between unchanged sessions."""
_SPREAD_FACTOR = 2.0
"""Safety factor for the largest distance between so few sessions; found by simulation with `FEWEST_SESSIONS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A metric that changed. Values are in its base unit."""

    metric: str
    observed: float
    """Median over the rounds."""
    baseline: float
    """Median over the rounds of all sessions of the baseline, or over those of the reference."""
    change: float
    """Hodges-Lehmann estimate of the change, as a ratio: +0.3 if the value rose by 30 %."""
    better: bool


def advice(sessions: Sequence[Measured], baseline: Sequence[Rounds], *, gated: Collection[str]) -> tuple[Advice, ...]:
    """Return the significant changes, worst first; of related metrics (quantiles of a latency) only the largest change.

    Sessions with a reference are compared with that. Otherwise the first session is compared with the sessions of the
    baseline, which must be at least `FEWEST_SESSIONS`. Metrics in `gated` have thresholds and are left out. So are
    metrics that can be zero, and metrics that are missing, not finite or not positive in some round.
    """
    subjects = [each for each in CATALOGUE.values() if each.name not in gated and not each.can_be_zero]
    if sessions[0].reference is not None:
        significant = [change for subject in subjects if (change := _beside(subject, sessions, len(subjects)))]
    else:
        compared = [change for subject in subjects if (change := _change(subject, sessions[0], baseline)) is not None]
        levels = holm([change.p for change in compared], gated=len(compared), alpha=ALPHA)
        significant = [change for change, level in zip(compared, levels, strict=True) if change.p < level]
    by_family: dict[str, list[_Change]] = {}
    for change in significant:
        by_family.setdefault(_family(change.advice.metric), []).append(change)
    largest = (max(changes, key=lambda change: abs(change.shift)) for changes in by_family.values())
    return tuple(change.advice for change in sorted(largest, key=lambda change: -change.shift))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Change of a metric, with its shift on the scale where larger is worse; `p` is two-sided, against a baseline."""

    advice: Advice
    shift: float
    p: Fraction


def _beside(subject: Metric, sessions: Sequence[Measured], subjects: int) -> _Change | None:
    """Return the change of a metric against the reference if it is significant, by the sequential test."""
    differences = differences_of(subject, sessions)
    if isinstance(differences, str):
        return None
    alpha = float(ALPHA) / 2 / subjects
    evidence = look(differences, tolerance=math.log1p(LEAST_CHANGE), alpha=alpha)
    if evidence.decision not in ("regressed", "improved"):
        return None
    rounds = [one for session in sessions for one in session.rounds]
    return _found(subject, rounds, [session.reference or () for session in sessions], evidence.mean)


def _change(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> _Change | None:
    """Return the change of a metric against the baseline, or None if no comparison is possible."""
    comparison = compare(subject, session, baseline)
    if isinstance(comparison, str) or len(baseline) < FEWEST_SESSIONS:
        return None
    tolerance = math.log1p(LEAST_CHANGE)
    tolerance += _SPREAD_FACTOR * _noise_between([logs(subject, rounds) for rounds in baseline])
    return _found(subject, session.rounds, baseline, comparison.shift, _two_sided_p(comparison, tolerance))


def _found(
    subject: Metric, rounds: Rounds, known: Sequence[Rounds], shift: float, p: Fraction = Fraction(0)
) -> _Change:
    found = Advice(
        metric=subject.name,
        observed=statistics.median(one[subject.name] for one in rounds),
        baseline=statistics.median(one[subject.name] for session in known for one in session),
        change=change_of(subject, shift),
        better=shift < 0,
    )
    return _Change(advice=found, shift=shift, p=p)


def _two_sided_p(comparison: Comparison, tolerance: float) -> Fraction:
    if abs(comparison.shift) <= tolerance:
        return Fraction(1)  # never significant, and the exact test is slow
    one_sided = comparison.worse_p(tolerance) if comparison.shift > 0 else comparison.better_p(tolerance)
    return min(2 * one_sided, Fraction(1))


def _noise_between(sessions: Sequence[Sequence[float]]) -> float:
    """Return the largest shift of one session against all the others: the noise between unchanged sessions."""
    return max(
        abs(hodges_lehmann(session, list(itertools.chain(*sessions[:place], *sessions[place + 1 :]))))
        for place, session in enumerate(sessions)
    )


def _family(metric: str) -> str:
    """Return the group of related metrics: `produce.latency`; bandwidth belongs to throughput."""
    return ".".join(metric.split(".")[:2]).replace(".bandwidth", ".throughput")

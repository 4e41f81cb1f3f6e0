"""Advice: metrics that no limit gates, but which moved beyond noise. It can never fail a test. Pure.

Nobody chose a tolerance for these metrics, and there are many of them. So a metric counts as moved when the exact
one-sided test (see `comparison`) says that it moved by more than 10 % on top of twice what sessions of the baseline lie
apart already, at 1 % after Holm's correction over all compared metrics and both directions. On simulated noise as that
of fresh brokers, 1 run in 100 without any change gives advice; a plain rank test gives some in more than half of them.
A throughput that halves is seen in 9 of 10 runs, one that falls by a third in 1 of 4.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.metrics import CATALOGUE, Metric
from pytest_kafkaperf.verdict.comparison import Comparison, Measured, Rounds, Unpaired, change_of, compare, logs
from pytest_kafkaperf.verdict.confirmation import holm
from pytest_kafkaperf.verdict.rank_tests import hodges_lehmann

ALPHA = Fraction(1, 100)
"""How often a run without any change may yield advice."""
LEAST_CHANGE = 0.1
"""Ratio; what moved by less is not worth a line."""
FEWEST_SESSIONS = 5
"""Of a baseline: fewer do not tell how far sessions lie apart where nothing changed."""
_BEYOND_SPREAD = 2.0
"""The farthest of so few sessions is not as far as sessions can be: found by simulation, with `FEWEST_SESSIONS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A metric that moved. Figures are in its base unit."""

    metric: str
    observed: float
    """The median over the rounds."""
    baseline: float
    """The median over the rounds of all sessions of the baseline, or of the reference."""
    change: float
    """By the Hodges-Lehmann shift: +0.3 when the value rose by 30 %."""
    better: bool
    p: float
    """Of a move so far in either direction by chance; not yet corrected for the number of metrics."""


def advice(session: Measured, baseline: Sequence[Rounds], *, gated: Collection[str]) -> tuple[Advice, ...]:
    """What moved, worst first; of metrics that move together, such as quantiles of a latency, the one that did most.

    A session with a reference is compared with that, pair by pair; else with the sessions of a comparable baseline,
    of which fewer than `FEWEST_SESSIONS` give no advice. `gated` are the metrics that have limits.

    A metric that can be zero, or that is missing, not finite or not positive in any round, is not compared.
    """
    subjects = (each for each in CATALOGUE.values() if each.name not in gated and not each.can_be_zero)
    compared = [move for subject in subjects if (move := _moved(subject, session, baseline)) is not None]
    levels = holm([move.p for move in compared], gated=len(compared), alpha=ALPHA)
    by_family: dict[str, list[_Move]] = {}
    for move, level in zip(compared, levels, strict=True):
        if move.p < level:
            by_family.setdefault(_family(move.subject), []).append(move)
    telling = (max(moves, key=lambda move: abs(move.shift)) for moves in by_family.values())
    return tuple(move.advice for move in sorted(telling, key=lambda move: -move.shift))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """One metric compared, on the scale where larger is worse."""

    subject: Metric
    observed: float
    baseline: float
    shift: float
    p: Fraction

    @property
    def advice(self) -> Advice:
        return Advice(
            metric=self.subject.name,
            observed=self.observed,
            baseline=self.baseline,
            change=change_of(self.subject, self.shift),
            better=self.shift < 0,
            p=float(self.p),
        )


def _moved(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> _Move | None:
    """How far a metric moved; None where it cannot be compared."""
    comparison = compare(subject, session, baseline)
    if isinstance(comparison, str):
        return None
    tolerance = math.log1p(LEAST_CHANGE)
    if isinstance(comparison, Unpaired):
        if len(baseline) < FEWEST_SESSIONS:
            return None
        tolerance += _BEYOND_SPREAD * _spread([logs(subject, rounds) for rounds in baseline])
    known = baseline if session.reference is None else [session.reference]
    return _Move(
        subject=subject,
        observed=statistics.median(one[subject.name] for one in session.rounds),
        baseline=statistics.median(one[subject.name] for rounds in known for one in rounds),
        shift=comparison.shift,
        p=_two_sided(comparison, tolerance),
    )


def _two_sided(comparison: Comparison, tolerance: float) -> Fraction:
    if abs(comparison.shift) <= tolerance:
        return Fraction(1)  # whatever the ranks say, and much faster
    one_sided = comparison.worse_p(tolerance) if comparison.shift > 0 else comparison.better_p(tolerance)
    return min(2 * one_sided, Fraction(1))


def _spread(sessions: Sequence[Sequence[float]]) -> float:
    """How far the farthest session lies from all the others: so far a metric moves where nothing changed."""
    return max(
        abs(hodges_lehmann(session, list(itertools.chain(*sessions[:place], *sessions[place + 1 :]))))
        for place, session in enumerate(sessions)
    )


def _family(subject: Metric) -> str:
    """What moves together: `produce.latency`; the bandwidth is the throughput in bytes."""
    return ".".join(subject.name.split(".")[:2]).replace(".bandwidth", ".throughput")

"""Confirmation of a suspected regression by fresh sessions.

The noise between sessions is as large as typical regressions, and more rounds in one session do not reduce it. So the
plugin runs a suspect test again in up to three fresh sessions, and these alone decide. They confirm the regression if
the median of their shifts exceeds the tolerance, and the exact one-sided Mann-Whitney test of all their rounds, shifted
by the tolerance, gives p < ALPHA after the Holm correction over the relative thresholds. Two sessions within the
tolerance clear the suspect, because then the median of three cannot exceed it. Values are on the scale of `comparison`,
where larger is worse.

Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pytest_kafkaperf.verdict.comparison import Comparison, exceeds, pooled
from pytest_kafkaperf.verdict.rank_tests import least_p

SESSIONS = 3
"""Maximum number of fresh sessions."""
_ENOUGH_TO_CLEAR = SESSIONS // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """Evaluation of one threshold over the fresh sessions so far."""

    shifts: tuple[float, ...]
    """Shift of each session against the baseline."""
    tolerance: float
    p: Fraction
    """p of all their rounds together, shifted by the tolerance; 1 if the shifts alone rule out a regression, or if
    sessions are missing."""

    @classmethod
    def of(cls, sessions: Sequence[Comparison], *, tolerance: float) -> Fresh:
        """Evaluate the comparisons of the fresh sessions."""
        fresh = cls(shifts=tuple(session.shift for session in sessions), tolerance=tolerance, p=Fraction(1))
        if not (fresh.settled and fresh.exceeds):
            return fresh
        return replace(fresh, p=pooled(sessions).worse_p(tolerance))  # the slowest step, so only on demand

    @property
    def cleared(self) -> bool:
        """True if further sessions could not confirm the regression."""
        return sum(not exceeds(shift, self.tolerance) for shift in self.shifts) >= _ENOUGH_TO_CLEAR

    @property
    def settled(self) -> bool:
        """True if no further session is needed."""
        return self.cleared or len(self.shifts) >= SESSIONS

    @property
    def exceeds(self) -> bool:
        """True if the median shift of the sessions exceeds the tolerance."""
        return bool(self.shifts) and exceeds(statistics.median(self.shifts), self.tolerance)


def can_decide(rounds: int, baseline: int, *, gated: int, confirmed: bool, alpha: Fraction) -> bool:
    """Return True if this number of rounds per session could fail a threshold at all.

    Args:
        rounds: rounds of a session.
        baseline: rounds of the baseline.
        gated: number of relative thresholds, for the Holm correction.
        confirmed: True if fresh sessions decide.
        alpha: significance level.

    """
    every, level = (SESSIONS * rounds, alpha / gated) if confirmed else (rounds, alpha)
    # The first session must be able to make a suspect.
    return least_p(rounds, baseline) < alpha and least_p(every, baseline) < level


def holm(ps: Sequence[Fraction], *, gated: int, alpha: Fraction) -> list[Fraction]:
    """Return the significance level of each p after the Holm correction over `gated` thresholds.

    Thresholds that are missing in `ps` count as p = 1. From the first p that is not significant on, the level is 0.
    """
    levels = [Fraction(0)] * len(ps)
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        level = alpha / (gated - rank)
        if ps[place] >= level:
            break
        levels[place] = level
    return levels

"""Whether fresh sessions confirm what one session made suspect. Pure.

Noise between sessions is as large as the regressions that people care about, and more rounds of one session do not help
against it. So a suspect runs again, on up to three fresh sessions, and these alone decide: it is confirmed when the
median of their shifts exceeds the tolerance and the exact one-sided Mann-Whitney test of all their rounds, the
tolerance taken off, gives p < ALPHA after Holm's correction over the gated limits (S. Holm, "A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979)). Two sessions within the tolerance
clear it: the median of three cannot exceed it any more. Beside a reference the test is Wilcoxon's of the pairs. Values
are on the scale of `comparison`, where larger is worse.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pytest_kafkaperf.verdict.comparison import Comparison, exceeds, pooled
from pytest_kafkaperf.verdict.rank_tests import least_p, least_signed_p

SESSIONS = 3
"""Fresh ones that decide, at most."""
_ENOUGH_TO_CLEAR = SESSIONS // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What the fresh sessions so far say of one limit."""

    shifts: tuple[float, ...]
    """Of each session over the baseline."""
    tolerance: float
    p: Fraction
    """Of all their rounds together, the tolerance taken off; 1 where their shifts alone say that nothing is wrong, or
    nothing yet."""

    @classmethod
    def of(cls, sessions: Sequence[Comparison], *, tolerance: float) -> Fresh:
        """Look at sessions that were compared each, and together."""
        seen = cls(shifts=tuple(session.shift for session in sessions), tolerance=tolerance, p=Fraction(1))
        if not (seen.settled and seen.exceeds):
            return seen
        return replace(seen, p=pooled(sessions).worse_p(tolerance))  # takes most of the time

    @property
    def cleared(self) -> bool:
        """Whether no further session could confirm it."""
        return sum(not exceeds(shift, self.tolerance) for shift in self.shifts) >= _ENOUGH_TO_CLEAR

    @property
    def settled(self) -> bool:
        """Whether no further session is needed."""
        return self.cleared or len(self.shifts) >= SESSIONS

    @property
    def exceeds(self) -> bool:
        """Whether the typical session is worse by more than the tolerance."""
        return bool(self.shifts) and exceeds(statistics.median(self.shifts), self.tolerance)


def can_decide(rounds: int, baseline: int | None, *, gated: int, confirmed: bool, alpha: Fraction) -> bool:
    """Whether so many rounds a session could fail a limit at all, however bad they are.

    Against so many rounds of the baseline; None: each beside one of a reference. `gated` limits could fail the test,
    and with `confirmed` fresh sessions decide over all of them.
    """
    every, level = (SESSIONS * rounds, alpha / gated) if confirmed else (rounds, alpha)
    if baseline is None:
        return least_signed_p(every) < level
    # One session is looked at first, and says nothing where it cannot differ.
    return least_p(rounds, baseline) < alpha and least_p(every, baseline) < level


def holm(ps: Sequence[Fraction], *, gated: int, alpha: Fraction) -> list[Fraction]:
    """Below what each p is significant, where `gated` limits in all could have failed the test.

    Those that are not among `ps` count as p = 1. From the first that is not significant on it is 0.
    """
    levels = [Fraction(0)] * len(ps)
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        level = alpha / (gated - rank)
        if ps[place] >= level:
            break
        levels[place] = level
    return levels

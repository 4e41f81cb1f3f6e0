"""Comparison of rounds with those of a baseline, and pair by pair with those of a reference.

Values are on a log scale where larger is worse: `s * log(value)` of each round, where `s` is +1 if lower values are
better and -1 if higher values are. A shift of `t` on this scale is a relative change of `expm1(s * t)`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_quantity
from pytest_kafkaperf.verdict.rank_tests import (
    SAME,
    hodges_lehmann,
    mann_whitney_p,
    pseudomedian,
    ranked,
    shift_interval,
)

Rounds = Sequence[Mapping[str, float]]
"""One mapping per round: metrics by name, in base units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Rounds of one session."""

    rounds: Rounds
    reference: Rounds | None = None
    """Rounds of the reference, in pairs with `rounds`; None if a stored baseline is used instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Current rounds of one session or more, and baseline rounds."""

    current: tuple[float, ...]
    baseline: tuple[float, ...]

    @property
    def shift(self) -> float:
        """Hodges-Lehmann estimate of the shift; positive if the current rounds are worse."""
        return hodges_lehmann(self.current, self.baseline)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of the shift at 95 %, or the nearest attainable level; None for too few rounds."""
        return shift_interval(self.current, self.baseline)

    def worse_p(self, tolerance: float) -> Fraction:
        """Return the p of the exact one-sided Mann-Whitney test that the shift exceeds the tolerance."""
        return mann_whitney_p(*ranked([value - tolerance for value in self.current], self.baseline))

    def better_p(self, tolerance: float) -> Fraction:
        """Return the p of the same test in the other direction."""
        return mann_whitney_p(*ranked([value - tolerance for value in self.baseline], self.current))

    @property
    def sizes(self) -> str:
        """Sample sizes for users: `5 against 25 rounds`."""
        return f"{len(self.current)} against {counted(len(self.baseline), 'round')}"


def pooled(sessions: Sequence[Comparison]) -> Comparison:
    """Combine the comparisons of at least one session: all rounds against the common baseline."""
    currents = (each.current for each in sessions)
    return Comparison(current=tuple(itertools.chain(*currents)), baseline=sessions[0].baseline)


def compare(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> Comparison | str:
    """Compare a session with the pooled sessions of the baseline; return the reason as text if that is impossible."""
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    if not baseline:
        return "no baseline"
    problem = flaw_of(subject, session.rounds, ratio=True) or no_ratio(subject, baseline)
    known = list(itertools.chain(*baseline))
    return problem or Comparison(current=logs(subject, session.rounds), baseline=logs(subject, known))


def difference(subject: Metric, session: Measured) -> float | str:
    """Return the difference of a session from its reference; positive if the current rounds are worse.

    It is the one-sample Hodges-Lehmann estimate of the pairs of rounds. Returns the reason as text if there is none.
    """
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    reference = session.reference or ()
    problem = flaw_of(subject, session.rounds, ratio=True)
    problem = problem or flaw_of(subject, reference, ratio=True, of=" of the reference")
    if problem:
        return problem
    if len(session.rounds) != len(reference):
        return f"{counted(len(session.rounds), 'round')} and {len(reference)} of the reference do not form pairs"
    pairs = zip(logs(subject, session.rounds), logs(subject, reference), strict=True)
    return pseudomedian([candidate - other for candidate, other in pairs])


_ZERO = "{} can be zero, so it has no ratio to a baseline"


def exceeds(shift: float, tolerance: float) -> bool:
    """Return True if the shift is larger than the tolerance, apart from rounding errors of log()."""
    return shift - tolerance > SAME


def logs(subject: Metric, rounds: Rounds) -> tuple[float, ...]:
    """Return the values on the log scale where larger is worse; all rounds must have the metric, above 0."""
    sign = sign_of(subject)
    return tuple(sign * math.log(one[subject.name]) for one in rounds)


def sign_of(subject: Metric) -> int:
    """Return the direction of the log scale: +1 if lower values are better, else -1."""
    return 1 if subject.better == "lower" else -1


def no_ratio(subject: Metric, sessions: Sequence[Rounds]) -> str | None:
    """Explain that the sessions of a baseline allow no ratio; return None if they do."""
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    for number, session in enumerate(sessions, 1):
        if problem := flaw_of(subject, session, ratio=True, of=f" of the baseline's session {number}"):
            return problem
    return None


def flaw_of(subject: Metric, rounds: Rounds, *, ratio: bool = False, of: str = "") -> str | None:
    """Explain why a metric of these rounds cannot be used: missing or invalid values; return None if it can.

    With `ratio`, zero is invalid, too. `of` names the origin of the rounds in the text.
    """
    if not rounds:
        return f"no round{of} was measured"
    for number, one in enumerate(rounds, 1):
        where = f"in round {number} of {len(rounds)}{of}"
        value = one.get(subject.name)
        if value is None:
            return f"{subject.name} is missing {where}"
        if not math.isfinite(value) or value < 0 or (ratio and value == 0):
            reason = ", so it has no ratio" if value == 0 else ""
            return f"{subject.name} is {format_quantity(value, subject.unit)} {where}{reason}"
    return None


def ratio_of(shift: float) -> float:
    """Convert a shift of logarithms to a relative change: +0.3 for 30 % more. Shifts are capped at `_MOST_SHIFT`."""
    return math.expm1(min(shift, _MOST_SHIFT))


def change_of(subject: Metric, shift: float) -> float:
    """Convert a shift on the scale where larger is worse to a change of the metric: +0.3 if the value rose by 30 %."""
    return ratio_of(sign_of(subject) * shift)


_MOST_SHIFT = 200.0
"""Cap that avoids overflows: a factor of about 10**86."""

"""Rounds of one metric compared: with the rounds of a baseline, or pair by pair with those of a reference. Pure.

Values are on a scale where larger is worse: `s * log(value)` of each round, with `s` = +1 where lower is better and -1
where higher is. A shift of `t` there is a change by `expm1(s * t)`.
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
    pairs_interval,
    pseudomedian,
    ranked,
    shift_interval,
    signed_rank_p,
)

Rounds = Sequence[Mapping[str, float]]
"""Metrics by name, in base units, one mapping a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one session measured."""

    rounds: Rounds
    reference: Rounds | None = None
    """Of the reference, each beside the round at its place; None where a stored baseline is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """Rounds of now, and rounds of another time."""

    current: tuple[float, ...]
    baseline: tuple[float, ...]
    against = "the baseline"

    @property
    def shift(self) -> float:
        """How much worse: the Hodges-Lehmann estimate."""
        return hodges_lehmann(self.current, self.baseline)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between what it lies, at 95 % or the nearest attainable; None of too few rounds (see `ranks`)."""
        return shift_interval(self.current, self.baseline)

    def worse_p(self, tolerance: float) -> Fraction:
        """The p of "worse by more than the tolerance": exact one-sided Mann-Whitney test."""
        return mann_whitney_p(*ranked([value - tolerance for value in self.current], self.baseline))

    def better_p(self, tolerance: float) -> Fraction:
        """The mirror image."""
        return mann_whitney_p(*ranked([value - tolerance for value in self.baseline], self.current))

    @property
    def sizes(self) -> str:
        """What p rests on: `5 against 25 rounds`."""
        return f"{len(self.current)} against {counted(len(self.baseline), 'round')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Rounds in pairs, each beside one of the reference: what the machine did meanwhile, it did to both."""

    differences: tuple[float, ...]
    """The current minus the reference's, pair by pair."""
    against = "the reference"

    @property
    def shift(self) -> float:
        """How much worse: the Hodges-Lehmann estimate of one sample."""
        return pseudomedian(self.differences)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between what it lies, at 95 % or the nearest attainable; None of too few pairs (see `ranks`)."""
        return pairs_interval(self.differences)

    def worse_p(self, tolerance: float) -> Fraction:
        """The p of "worse by more than the tolerance": exact one-sided Wilcoxon signed-rank test."""
        return signed_rank_p([value - tolerance for value in self.differences])

    def better_p(self, tolerance: float) -> Fraction:
        """The mirror image."""
        return signed_rank_p([-value - tolerance for value in self.differences])

    @property
    def sizes(self) -> str:
        """What p rests on: `5 pairs`."""
        return counted(len(self.differences), "pair")


Comparison = Unpaired | Paired


def pooled(sessions: Sequence[Comparison]) -> Comparison:
    """All rounds of some sessions, at least one, against the one baseline or all pairs."""
    match sessions[0]:
        case Unpaired(baseline=baseline):
            currents = (each.current for each in sessions if isinstance(each, Unpaired))
            return Unpaired(current=tuple(itertools.chain(*currents)), baseline=baseline)
        case Paired():
            pairs = (each.differences for each in sessions if isinstance(each, Paired))
            return Paired(differences=tuple(itertools.chain(*pairs)))


def compare(subject: Metric, session: Measured, baseline: Sequence[Rounds]) -> Comparison | str:
    """One session against the pooled sessions of the baseline, or against its reference; or why that cannot be."""
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    if session.reference is None and not baseline:
        return "no baseline"
    flaw = flaw_of(subject, session.rounds, ratio=True)
    if flaw:
        return flaw
    if session.reference is None:
        flaw = no_ratio(subject, baseline)
        known = [one for rounds in baseline for one in rounds]
        return flaw or Unpaired(current=logs(subject, session.rounds), baseline=logs(subject, known))
    flaw = flaw_of(subject, session.reference, ratio=True, of=" of the reference")
    if flaw or len(session.rounds) != len(session.reference):
        return (
            flaw or f"{counted(len(session.rounds), 'round')} and {len(session.reference)} of the reference: no pairs"
        )
    sides = zip(logs(subject, session.rounds), logs(subject, session.reference), strict=True)
    return Paired(differences=tuple(candidate - reference for candidate, reference in sides))


_ZERO = "{} can be zero and so has no ratio to a baseline"


def exceeds(shift: float, tolerance: float) -> bool:
    """Whether it is worse by more than that; figures that differ as log() rounds are the same."""
    return shift - tolerance > SAME


def logs(subject: Metric, rounds: Rounds) -> tuple[float, ...]:
    """The rounds on the scale where larger is worse; they must have the metric, above 0."""
    sign = sign_of(subject)
    return tuple(sign * math.log(one[subject.name]) for one in rounds)


def sign_of(subject: Metric) -> int:
    """Which way that scale runs: +1 where lower is better."""
    return 1 if subject.better == "lower" else -1


def no_ratio(subject: Metric, sessions: Sequence[Rounds]) -> str | None:
    """Why there is no ratio to sessions of a baseline."""
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    flaws = (
        flaw_of(subject, session, ratio=True, of=f" of the baseline's session {number}")
        for number, session in enumerate(sessions, 1)
    )
    return next((flaw for flaw in flaws if flaw), None)


def flaw_of(subject: Metric, rounds: Rounds, *, ratio: bool = False, of: str = "") -> str | None:
    """What keeps these rounds from deciding; a median without the rounds that lack a value would be another one."""
    if not rounds:
        return f"no round{of} was measured"
    for number, one in enumerate(rounds, 1):
        where = f"in round {number} of {len(rounds)}{of}"
        value = one.get(subject.name)
        if value is None:
            return f"{subject.name} is missing {where}"
        if not math.isfinite(value) or value < 0:
            return f"{subject.name} is {format_quantity(value, subject.unit)} {where}"
        if ratio and value == 0:
            return f"{subject.name} is {format_quantity(value, subject.unit)} {where} and so has no ratio"
    return None


def ratio_of(shift: float) -> float:
    """A shift of logarithms as a change: +0.3 for 30 % more. One that no figures can have counts as `_MOST_SHIFT`."""
    return math.expm1(min(shift, _MOST_SHIFT))


def change_of(subject: Metric, shift: float) -> float:
    """A shift on the scale where larger is worse, as a ratio of the metric itself: +0.3 when the value rose by 30 %."""
    return ratio_of(sign_of(subject) * shift)


_MOST_SHIFT = 200.0
"""A factor of 10**86: a floating-point number still, as its multiples are."""

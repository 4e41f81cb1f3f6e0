"""The scale on which rounds are compared, and their pairwise comparison with a live baseline.

This is a log scale on which larger is worse: each round has the value `s * log(value)`, where `s` is +1 if lower values
are better and -1 if higher values are better. A shift of `t` on this scale is a relative change of `expm1(s * t)`.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_quantity

Rounds = Sequence[Mapping[str, float]]
"""One mapping per round: metrics by name, in base units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The rounds in one trial."""

    rounds: Rounds
    at_most: Rounds = ()
    """Upper bounds of metrics that are missing in a round of `rounds` because they were too small to be measured."""
    other_side: Rounds | None = None
    """Rounds of the live baseline, paired with `rounds`; None if a stored baseline is used instead."""


@dataclass(frozen=True, slots=True)
class Incomparable:
    """Reason why a comparison is impossible, returned instead of a result."""

    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between a trial and its live baseline."""

    value: float
    """Difference on the log scale; positive if the trial is worse."""
    variance: float | None = None
    """Variance of `value`, as estimated from the noise between the trial's pairs of rounds; None if there is only one
    pair."""
    freedom: int = 0
    """Degrees of freedom of this estimate."""


def difference(subject: Metric, trial: Measured) -> Difference | Incomparable:
    """Return the difference between a trial and its live baseline.

    Its value is the one-sample Hodges-Lehmann estimate over the pairs of rounds, or `NOTHING` (see `has_nothing`).
    """
    if subject.can_be_zero:
        return Incomparable(_ZERO.format(subject.name))
    other_side = trial.other_side or ()
    problem = flaw_of(subject, trial.rounds)
    problem = problem or flaw_of(subject, other_side, ratio=True, of=" of the baseline")
    if problem:
        return Incomparable(problem)
    own = counted(len(trial.rounds), "round")
    if len(trial.rounds) != len(other_side):
        return Incomparable(f"{own} cannot be paired with {len(other_side)} of the baseline")
    if has_nothing(subject, trial.rounds):
        return Difference(NOTHING)
    both = zip(logs(subject, trial.rounds), logs(subject, other_side), strict=True)
    pairs = [candidate - other for candidate, other in both]
    variance = statistics.variance(pairs) / len(pairs) if len(pairs) > 1 else None
    return Difference(pseudomedian(pairs), variance, len(pairs) - 1)


def pseudomedian(differences: Sequence[float]) -> float:
    """Return the one-sample Hodges-Lehmann estimate of paired differences.

    This is the median of the Walsh averages, which are the means of all pairs of differences, including each difference
    with itself.

    Source: J. L. Hodges, E. L. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics
    34 (1963).
    """
    return statistics.median((a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2))


NOTHING = 1000.0
"""Distance between 0 and every other value on the log scale; large enough for the exponential to be exactly 0."""


def has_nothing(subject: Metric, rounds: Rounds) -> bool:
    """Return True if a metric for which higher is better is 0 in at least one round.

    Noise cannot explain such a round, so the other rounds must not outvote it: the trial is worse by `NOTHING`.
    """
    return subject.better == "higher" and any(one[subject.name] == 0 for one in rounds)


_ZERO = "{} can be zero, so it has no ratio to a baseline"


_SAME = 1e-12
"""Values on a log scale that differ by less than this count as equal, to allow for rounding errors of log()."""


def exceeds(shift: float, tolerance: float) -> bool:
    """Return True if the shift exceeds the tolerance by more than the rounding errors of log()."""
    return shift - tolerance > _SAME


def logs(subject: Metric, rounds: Rounds) -> tuple[float, ...]:
    """Return the values on the log scale where larger is worse; every round must have a value ≥ 0 for the metric."""
    sign = sign_of(subject)
    values = [one[subject.name] for one in rounds]
    return tuple(sign * (math.log(value) if value else -NOTHING) for value in values)


def sign_of(subject: Metric) -> int:
    """Return the sign of the log scale: +1 if lower values are better, otherwise -1."""
    return 1 if subject.better == "lower" else -1


def value_of(subject: Metric, level: float) -> float:
    """Convert a level on the log scale to a value of the metric, without rounding errors of log()."""
    return float(f"{math.exp(min(sign_of(subject) * level, _MOST_SHIFT)):.12g}")


def no_ratio(subject: Metric, trials: Sequence[Rounds], *, of: str = "the baseline's ") -> str | None:
    """Explain why no ratio can be computed from trials (by default, the baseline's); None if one can be computed."""
    if subject.can_be_zero:
        return _ZERO.format(subject.name)
    named = ((trial, f" of {of}trial {number}") for number, trial in enumerate(trials, 1))
    return next(filter(None, (flaw_of(subject, trial, ratio=True, of=name) for trial, name in named)), None)


def flaw_of(subject: Metric, rounds: Rounds, *, ratio: bool = False, of: str = "") -> str | None:
    """Explain why a metric is unusable in these rounds (values are missing or invalid); None if it is usable.

    Zero is valid for counts, custom metrics, and metrics for which higher is better, because there may not have been
    any output. A latency or broker CPU time of 0 indicates a failed reading. With `ratio`, zero is never valid. `of`
    describes the origin of the rounds in the returned text.
    """
    if not rounds:
        return f"no round{of} was measured"
    may_be_zero = not ratio and (subject.can_be_zero or subject.is_own or subject.better == "higher")
    for number, one in enumerate(rounds, 1):
        where = f"in round {number} of {len(rounds)}{of}"
        value = one.get(subject.name)
        if value is None:
            return f"{subject.name} is missing {where}"
        if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
            reason = ", so it has no ratio" if value == 0 else ""
            return f"{subject.name} is {format_quantity(value, subject.unit)} {where}{reason}"
    return None


def ratio_of(shift: float) -> float:
    """Convert a shift of logarithms to a relative change: +0.3 for 30% more. Shifts are capped at `_MOST_SHIFT`."""
    return math.expm1(min(shift, _MOST_SHIFT))


def change_of(subject: Metric, shift: float) -> float:
    """Convert a shift on the log scale to a relative change in the metric: +0.3 if the value rose by 30%."""
    return ratio_of(sign_of(subject) * shift)


_MOST_SHIFT = 200.0
"""Upper limit for shifts, which prevents overflows; it corresponds to a factor of about 10**86."""

"""The verdict of a test: its limits judged over its rounds. Pure.

A limit relative to the baseline asks "worse by more than N %, beyond noise". With `s` = +1 where lower is better and
-1 where higher is, `y` and `x` are `s * log(value)` of the current and of the baseline's rounds, so that larger is
worse, and `t` is the tolerance on that scale. The limit is broken when the Hodges-Lehmann shift of `y` over `x`
exceeds `t` and the exact one-sided Mann-Whitney test of `y - t` against `x` gives p < 0.01 (sources: `ranks`).
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from pytest_kafkaperf.metrics import Metric, metric
from pytest_kafkaperf.ranks import hodges_lehmann, least_p, mann_whitney_p
from pytest_kafkaperf.threshold import (
    Absolute,
    Extreme,
    Limit,
    Operator,
    Relative,
    Threshold,
    describe_limit,
    limit_value,
)
from pytest_kafkaperf.units import Unit, format_quantity, format_ratio

if TYPE_CHECKING:
    from pytest_kafkaperf.baseline import BaselineRounds

ALPHA = Fraction(1, 100)
"""A difference is beyond noise when its p is below this.

Not divided over the gated metrics (Holm): 5 against 5 rounds give 1/252 at best, so three metrics at ALPHA / 3 could
never fail, and a gate would sleep. That correction belongs to a suspect's fresh sessions, which give more rounds.
"""
_FEWEST_ROUNDS = 4
"""Current rounds that 5 of the baseline can decide with, and the other way round."""
_LOG_NOISE = 1e-12
"""Logarithms closer than this are equal: log() rounds, and a tie must stay one when a tolerance is taken off."""

Rounds = Sequence[Mapping[str, float]]
"""Metrics by name, in base units, one mapping a round."""


class Verdict(StrEnum):
    """What was found, of one limit or of a test; the later outranks the earlier."""

    PASSED = "PASSED"
    IMPROVED = "IMPROVED"
    """Better than the baseline by more than the tolerance, beyond noise."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """Could not be compared: neither passed nor failed."""
    REGRESSED = "REGRESSED"
    """Worse than the baseline by more than the tolerance, beyond noise."""
    VIOLATED = "VIOLATED"
    """An absolute limit is broken."""
    INVALID = "INVALID"
    """The run itself cannot be trusted."""

    @property
    def fails(self) -> bool:
        """Whether such a test fails; INCONCLUSIVE fails under `--kafka-strict` only."""
        return self in (Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One limit and what was found. Figures are in the metric's base unit; None where there is none."""

    expression: str
    metric: str
    observed: float | None
    """The median over the rounds; of counts such as `errors` the sum."""
    limit: str
    """The right-hand side for people: `baseline + 20 %`."""
    limit_value: float | None
    baseline: float | None
    """The median over the rounds of all sessions of the baseline."""
    change: float | None
    """Current against baseline, by the Hodges-Lehmann shift: +0.3 when the value rose by 30 %."""
    outcome: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of a test and what it rests on."""

    verdict: Verdict
    checks: tuple[Check, ...]


def judge(
    *,
    thresholds: Sequence[Threshold],
    rounds: Rounds,
    baseline: BaselineRounds,
    problems: Sequence[str] = (),
    gate_baseline: bool = True,
) -> Judgement:
    """Judge the limits of a test.

    `problems` say why the run cannot be trusted: the verdict is INVALID then, and the checks are for information.
    Without `gate_baseline` the run is to become the baseline, and limits relative to the old one pass. A run that
    breaks an absolute limit or cannot be trusted never becomes one: there they are judged all the same.
    """

    def checks(*, gate: bool) -> tuple[Check, ...]:
        return tuple(_check(threshold, rounds, baseline, gate=gate) for threshold in thresholds)

    found = checks(gate=gate_baseline)
    if not gate_baseline and (problems or any(check.outcome is Verdict.VIOLATED for check in found)):
        found = checks(gate=True)
    outcomes = [check.outcome for check in found]
    return Judgement(verdict=Verdict.INVALID if problems else _worst(outcomes), checks=found)


def relative_change(subject: Metric, rounds: Rounds, sessions: Sequence[Rounds]) -> float | None:
    """Current against baseline: +0.3 when the value rose by 30 %; None where there is no ratio."""
    comparison = _compare(subject, rounds, sessions)
    return comparison.change if isinstance(comparison, _Comparison) else None


def failure_text(checks: Sequence[Check], problems: Sequence[str] = (), *, strict: bool = False) -> str:
    """The message of a failing test: its problems, then each limit not met, one a line, with the reason below.

    With `strict`, what could not be decided is not met.
    """
    broken = [check for check in checks if check.outcome.fails or (strict and check.outcome is Verdict.INCONCLUSIVE)]
    lines = []
    if problems:
        lines.append(f"{Verdict.INVALID}: the run cannot be trusted")
        lines += [line for problem in problems for line in _wrapped(problem)]
    if broken:
        count = f"{len(broken)} of {len(checks)} limits not met"
        verdict = _worst([check.outcome for check in broken])
        lines.append(f"{count}, as far as this run can tell" if problems else f"{verdict}: {count}")
        head, *rows = _table(broken)
        lines.append(head)
        for row, check in zip(rows, broken, strict=True):
            needs = " (--kafka-strict)" if check.outcome is Verdict.INCONCLUSIVE else ""
            lines += [row, *_wrapped(f"{check.outcome}{needs}: {check.reason}")]
    return "\n".join(lines)


_HEAD = ("expression", "observed", "limit", "baseline", "change")
_WIDTH = 80


def _table(checks: Sequence[Check]) -> list[str]:
    """Head and rows, aligned; columns that would be empty are left out."""
    rows = [_HEAD, *(_row(check) for check in checks)]
    columns = [column for column in zip(*rows, strict=True) if any(cell != "-" for cell in column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for first, *others in zip(*columns, strict=True):
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _row(check: Check) -> tuple[str, str, str, str, str]:
    unit = metric(check.metric).unit
    observed, limit, baseline = check.observed, check.limit_value, check.baseline
    # 25.04 ms against 25 ms would read as 25 ms against 25 ms.
    close = observed != limit and _shown(observed, unit) == _shown(limit, unit)
    digits = _CLOSE_DIGITS if close else _DIGITS
    return (
        check.expression,
        _shown(observed, unit, digits),
        _shown(limit, unit, digits),
        _shown(baseline, unit),
        "-" if check.change is None else format_ratio(check.change),
    )


_DIGITS = 3
_CLOSE_DIGITS = 6


def _shown(value: float | None, unit: Unit, digits: int = _DIGITS) -> str:
    return "-" if value is None else format_quantity(value, unit, digits=digits)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """Rounds of one metric on the scale where larger is worse."""

    sign: int
    current: tuple[float, ...]
    baseline: tuple[float, ...]

    @property
    def shift(self) -> float:
        """How much worse, at least 0 when it is."""
        return hodges_lehmann(self.current, self.baseline)

    @property
    def change(self) -> float:
        return math.expm1(self.sign * self.shift)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """The outcome of a limit, or of one part of it."""

    outcome: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What the limits on one metric are judged by."""

    subject: Metric
    rounds: Rounds
    comparison: _Comparison | str
    """Or why there is none."""
    obstacle: str | None
    """Why the comparison must not decide."""
    gate: bool


def _worst(outcomes: Sequence[Verdict]) -> Verdict:
    return max(outcomes, key=list(Verdict).index, default=Verdict.PASSED)


def _check(threshold: Threshold, rounds: Rounds, baseline: BaselineRounds, *, gate: bool) -> Check:
    subject, limit = threshold.metric, threshold.limit
    comparison = _compare(subject, rounds, baseline.sessions)
    known = _known(subject, baseline.sessions)
    evidence = _Evidence(subject=subject, rounds=rounds, comparison=comparison, obstacle=baseline.obstacle, gate=gate)
    finding = _judge(limit, threshold.operator, evidence)
    return Check(
        expression=threshold.expression,
        metric=subject.name,
        observed=_observed(subject, rounds),
        limit=describe_limit(limit, subject),
        limit_value=limit_value(limit, known),
        baseline=known,
        change=comparison.change if isinstance(comparison, _Comparison) else None,
        outcome=finding.outcome,
        reason=finding.reason,
    )


def _observed(subject: Metric, rounds: Rounds) -> float | None:
    if _flaw(subject, rounds):
        return None
    values = [one[subject.name] for one in rounds]
    return math.fsum(values) if subject.summed else statistics.median(values)


def _known(subject: Metric, sessions: Sequence[Rounds]) -> float | None:
    if not sessions or _no_ratio(subject, sessions):
        return None
    return statistics.median(one[subject.name] for rounds in sessions for one in rounds)


def _judge(limit: Limit, operator: Operator, evidence: _Evidence) -> _Finding:
    match limit:
        case Absolute():
            return _judge_absolute(limit, operator, evidence)
        case Relative():
            return _judge_relative(limit, evidence)
        case Extreme(kind=kind, parts=parts):
            findings = [_judge(part, operator, evidence) for part in parts]
            texts = [describe_limit(part, evidence.subject) for part in parts]
            reason = "; ".join(f"{text}: {one.reason}" for text, one in zip(texts, findings, strict=True))
            # The looser part decides `<= max` and `>= min`, the stricter one `<= min` and `>= max`.
            combine = _either if (kind == "max") == operator.startswith("<") else _both
            return _Finding(outcome=combine([one.outcome for one in findings]), reason=reason)


def _either(outcomes: Sequence[Verdict]) -> Verdict:
    """Of an absolute and a relative part, one has to hold."""
    holding = [outcome for outcome in outcomes if outcome in (Verdict.PASSED, Verdict.IMPROVED)]
    if holding:
        return _worst(holding)
    # Both broken is REGRESSED: the absolute part alone would have been let off.
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in outcomes else Verdict.REGRESSED


def _both(outcomes: Sequence[Verdict]) -> Verdict:
    """Of an absolute and a relative part, both have to hold; one broken part settles it."""
    return _worst(outcomes)


def _judge_absolute(limit: Absolute, operator: Operator, evidence: _Evidence) -> _Finding:
    subject, rounds = evidence.subject, evidence.rounds
    flaw, observed = _flaw(subject, rounds), _observed(subject, rounds)
    if flaw or observed is None:
        return _Finding(outcome=Verdict.INCONCLUSIVE, reason=str(flaw))
    values = [one[subject.name] for one in rounds]
    least, most = (format_quantity(value, subject.unit) for value in (min(values), max(values)))
    spread = f"each {least}" if least == most else f"from {least} to {most}"
    reason = f"{'sum' if subject.summed else 'median'} of {_count(len(values))}, {spread}"
    holds = _holds(observed, operator, limit.value)
    return _Finding(outcome=Verdict.PASSED if holds else Verdict.VIOLATED, reason=reason)


def _holds(observed: float, operator: Operator, limit: float) -> bool:
    match operator:
        case "<=":
            return observed <= limit
        case "<":
            return observed < limit
        case ">=":
            return observed >= limit
        case ">":
            return observed > limit
        case "==":
            return observed == limit


def _judge_relative(limit: Relative, evidence: _Evidence) -> _Finding:
    """Whether it is worse than the baseline by more than the tolerance; `<` is `<=`, noise has no edges."""
    flaw = _flaw(evidence.subject, evidence.rounds, ratio=True)
    if flaw:
        return _Finding(outcome=Verdict.INCONCLUSIVE, reason=flaw)
    if not evidence.gate:
        return _Finding(outcome=Verdict.PASSED, reason="accepted as the new baseline")
    comparison = evidence.comparison
    if evidence.obstacle or isinstance(comparison, str):
        return _Finding(outcome=Verdict.INCONCLUSIVE, reason=evidence.obstacle or str(comparison))
    sizes = len(comparison.current), len(comparison.baseline)
    if least_p(*sizes) >= ALPHA:
        # Whatever the values are: a limit that could never fail must not pass.
        return _Finding(outcome=Verdict.INCONCLUSIVE, reason=_too_few(*sizes))
    return _decide(limit, comparison)


def _decide(limit: Relative, comparison: _Comparison) -> _Finding:
    tolerance, shift = limit.log_tolerance, comparison.shift
    current, baseline = comparison.current, comparison.baseline
    change = f"{format_ratio(comparison.change)} against the baseline"
    allowed = f"the limit is {format_ratio(limit.factor - 1)}"
    sizes = f"{len(current)} against {_count(len(baseline))}"
    if shift - tolerance > _LOG_NOISE:
        p = mann_whitney_p(*_ranked([value - tolerance for value in current], baseline))
        if p < ALPHA:
            reason = f"{change}, {allowed}; beyond noise (p = {float(p):.3g}, {sizes})"
            return _Finding(outcome=Verdict.REGRESSED, reason=reason)
        reason = f"{change}, {allowed}; but not beyond noise (p = {float(p):.3g}, not < {float(ALPHA)}; {sizes})"
        return _Finding(outcome=Verdict.PASSED, reason=reason)
    if -shift - tolerance > _LOG_NOISE:
        p = mann_whitney_p(*_ranked([value - tolerance for value in baseline], current))
        if p < ALPHA:
            reason = f"{change}, better by more than the tolerance; beyond noise (p = {float(p):.3g}, {sizes})"
            return _Finding(outcome=Verdict.IMPROVED, reason=reason)
    return _Finding(outcome=Verdict.PASSED, reason=f"{change}, {allowed}")


def _ranked(*samples: Sequence[float]) -> list[list[int]]:
    """The order of all values, equal ones sharing a place."""
    places: dict[float, int] = {}
    before = -math.inf
    for value in sorted({value for sample in samples for value in sample}):
        places[value] = len(places) if value - before > _LOG_NOISE else places[before]
        before = value
    return [[places[value] for value in sample] for sample in samples]


def _compare(subject: Metric, rounds: Rounds, sessions: Sequence[Rounds]) -> _Comparison | str:
    """Both sides on the log scale, the sessions pooled; or why there is no comparison."""
    if not sessions:
        return "no baseline"
    flaw = _flaw(subject, rounds, ratio=True) or _no_ratio(subject, sessions)
    if flaw:
        return flaw
    sign = 1 if subject.better == "lower" else -1

    def logs(some: Rounds) -> tuple[float, ...]:
        return tuple(sign * math.log(one[subject.name]) for one in some)

    pooled = [one for session in sessions for one in session]
    return _Comparison(sign=sign, current=logs(rounds), baseline=logs(pooled))


def _no_ratio(subject: Metric, sessions: Sequence[Rounds]) -> str | None:
    if subject.can_be_zero:
        return f"{subject.name} can be zero and so has no ratio to a baseline"
    flaws = (
        _flaw(subject, session, ratio=True, of=f" of the baseline's session {number}")
        for number, session in enumerate(sessions, 1)
    )
    return next((flaw for flaw in flaws if flaw), None)


def _flaw(subject: Metric, rounds: Rounds, *, ratio: bool = False, of: str = "") -> str | None:
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
            return f"{subject.name} is {format_quantity(value, subject.unit)} {where} and so has no ratio to a baseline"
    return None


def _too_few(current: int, baseline: int) -> str:
    """What was given and what would do."""
    enough_current, enough_baseline = current, baseline
    while least_p(enough_current, max(baseline, _FEWEST_ROUNDS)) >= ALPHA:
        enough_current += 1
    while least_p(enough_current, enough_baseline) >= ALPHA:
        enough_baseline += 1
    advice = f"use rounds={enough_current} or more" if enough_current > current else ""
    if enough_baseline > baseline:
        advice += f"{' and ' if advice else ''}make the baseline anew with {enough_baseline} rounds or more"
    return (
        f"too few rounds: {current} against {baseline} cannot decide; "
        f"{enough_current} against {enough_baseline} can: {advice}"
    )


def _count(rounds: int) -> str:
    return f"{rounds} round{'s' if rounds != 1 else ''}"

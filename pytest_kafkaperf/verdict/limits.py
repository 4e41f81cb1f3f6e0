"""The result of one threshold, based on its absolute limit, its comparison with the baseline, or both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.core.units import counted, format_quantity
from pytest_kafkaperf.scenarios.threshold import (
    Absolute,
    Extreme,
    Operator,
    Relative,
    Threshold,
    describe_limit,
    holds,
    limit_value,
)
from pytest_kafkaperf.verdict.outcome import Check, Finding, Verdict, worst
from pytest_kafkaperf.verdict.scale import Measured, Rounds, change_of, flaw_of, value_of
from pytest_kafkaperf.verdict.sequential import Look

UPPER: tuple[Operator, ...] = ("<", "<=")
"""Operators for upper limits."""
MET = Finding.of(Verdict.PASSED, "")
"""Placeholder finding for a threshold without a relative part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRounds:
    """Rounds compared with a baseline, on the log scale where larger is worse (see `scale`)."""

    finding: Finding
    """Finding for the part of the limit that refers to the baseline; `MET` if there is no such part."""
    level: float | None
    """Level of the baseline; None without a baseline."""
    shift: float | None = None
    """Difference between the rounds and that level; None if no comparison was possible."""
    interval: tuple[float, float] | None = None
    """Confidence interval for the shift."""
    detectable_change: float | None = None
    """Minimum detectable change for the whole threshold, as a ratio."""
    looks: tuple[Look, ...] = ()
    """The evidence after each side-by-side trial."""
    rerun: bool = False
    """True if new trials were compared because the first trial showed a suspected regression."""
    stays_open: bool = False
    """True if an unsettled finding remains open until further trials settle it, even if the absolute limit is met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdResult:
    """A threshold and its result."""

    threshold: Threshold
    check: Check
    unsettled: bool
    """True if further trials are needed for a decision."""
    warning: Notice | None = None
    """Set if a re-test found both sides equal, but slower than the stored baseline; otherwise None."""


def result_of(threshold: Threshold, trials: Sequence[Measured], compared: ComparedRounds) -> ThresholdResult:
    """Return a threshold's result, based on the trials that count for it."""
    subject, rounds = threshold.metric, rounds_of(trials)
    finding = _combined(threshold, trials, compared)
    is_bound = flaw_of(subject, rounds) is not None and finding.outcome is Verdict.PASSED
    if is_bound:
        rounds = _bounded(subject, trials)
    values = [] if flaw_of(subject, rounds) else [one[subject.name] for one in rounds]
    observed = subject.aggregate(values) if values else None
    baseline = None if compared.level is None else value_of(subject, compared.level)
    change = None
    if compared.level is not None and compared.shift is not None:
        change = change_of(subject, compared.shift)
        if threshold.relative is not None:
            observed = value_of(subject, compared.level + compared.shift)
    check = Check(
        expression=threshold.expression,
        metric=subject.name,
        observed=observed,
        is_upper_bound=is_bound,
        limit_value=limit_value(threshold.limit, baseline),
        baseline=baseline,
        change=change,
        detectable_change=compared.detectable_change,
        outcome=finding.outcome,
        reasons=finding.reasons,
        rerun=compared.rerun,
        interval=_interval(subject, compared.interval),
        spread=(min(values), max(values)) if values else None,
        implied=threshold.implied,
        is_relative=threshold.relative is not None,
        trials=compared.looks,
    )
    return ThresholdResult(threshold=threshold, check=check, unsettled=finding.unsettled)


def rounds_of(trials: Sequence[Measured]) -> Rounds:
    """Return the rounds of all trials, excluding the live baseline's rounds."""
    return [one for trial in trials for one in trial.rounds]


def _bounded(subject: Metric, trials: Sequence[Measured]) -> Rounds:
    """Return the rounds of all trials, with a metric's upper bounds for values that were too small to be measured."""
    name, bounded = subject.name, []
    for trial in trials:
        bounds = trial.at_most or [{}] * len(trial.rounds)
        for one, most in zip(trial.rounds, bounds, strict=True):
            bounded.append({name: most[name], **one} if name in most else one)
    return bounded


def _interval(subject: Metric, ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """Convert the confidence interval of a shift to changes in the metric, smaller one first."""
    if ends is None:
        return None
    lower, higher = sorted(change_of(subject, end) for end in ends)
    return lower, higher


def _combined(threshold: Threshold, trials: Sequence[Measured], compared: ComparedRounds) -> Finding:
    """Return the finding for a threshold, based on its absolute limit, its comparison with the baseline, or both."""
    limit = threshold.limit
    if isinstance(limit, Absolute):
        return _judge_absolute(limit, threshold.operator, threshold.metric, trials)
    if isinstance(limit, Relative):
        return compared.finding
    return _judge_both(limit, threshold, trials, compared)


def _judge_both(limit: Extreme, threshold: Threshold, trials: Sequence[Measured], compared: ComparedRounds) -> Finding:
    """Return the finding for a limit that has an absolute and a relative part."""
    absolute = _judge_absolute(limit.absolute, threshold.operator, threshold.metric, trials)
    findings = [absolute if isinstance(part, Absolute) else compared.finding for part in limit.parts]
    texts = [describe_limit(part, threshold.metric) for part in limit.parts]
    reasons = tuple(one.of_part(text) for text, each in zip(texts, findings, strict=True) for one in each.reasons)
    combine = _one_holds if limit.takes_one(threshold.operator) else worst
    outcome, unsettled = combine([one.outcome for one in findings]), compared.finding.unsettled
    if compared.stays_open and unsettled:
        outcome = Verdict.INCONCLUSIVE
    elif not compared.stays_open and outcome is not Verdict.INCONCLUSIVE:
        unsettled = False  # the other part decides, so there is nothing to confirm
    return Finding(outcome=outcome, reasons=reasons, unsettled=unsettled)


def _one_holds(outcomes: Sequence[Verdict]) -> Verdict:
    """Combine the outcomes of an absolute and a relative part; at least one of the two must be met."""
    holding = [outcome for outcome in outcomes if outcome in (Verdict.PASSED, Verdict.IMPROVED)]
    if holding:
        return worst(holding)
    open_outcomes = (Verdict.MEASURED, Verdict.INCONCLUSIVE, Verdict.INVALID)
    undecided = [outcome for outcome in outcomes if outcome in open_outcomes]
    # If both fail, the outcome is REGRESSED, because the absolute part alone would not have failed the test.
    return worst(undecided) if undecided else Verdict.REGRESSED


def _judge_absolute(limit: Absolute, operator: Operator, subject: Metric, trials: Sequence[Measured]) -> Finding:
    """Return the finding for an absolute limit; INVALID if a missing value in a round could change the outcome.

    A lack of any rounds means that there was no time to measure. Values that were too small to be measured meet an
    upper limit if their upper bounds do.
    """
    rounds = rounds_of(trials)
    problem = flaw_of(subject, rounds)
    bounded = _bounded(subject, trials)
    if problem and operator in UPPER and not flaw_of(subject, bounded):
        bound = subject.aggregate([one[subject.name] for one in bounded])
        if holds(bound, operator, limit.value):
            shown = f"at most {format_quantity(bound, subject.unit)}; some values were too small to be measured"
            return Finding.of(Verdict.PASSED, shown)
    if problem and not rounds:
        return Finding.of(Verdict.INCONCLUSIVE, problem)
    found = [one.get(subject.name, math.nan) for one in rounds]
    values = [value for value in found if 0 <= value < math.inf]
    if problem and not _is_violated_anyway(values, len(found) - len(values), subject, operator, limit.value):
        return Finding.of(Verdict.INVALID, problem)
    least, most = (format_quantity(value, subject.unit) for value in (min(values), max(values)))
    spread = f"each {least}" if least == most else f"from {least} to {most}"
    reason = f"{subject.over_rounds} of {counted(len(values), 'round')}, {spread}"
    if problem:
        reason = f"{reason}; {problem}, which cannot change the outcome"
        return Finding.of(Verdict.VIOLATED, reason)
    met = holds(subject.aggregate(values), operator, limit.value)
    return Finding.of(Verdict.PASSED if met else Verdict.VIOLATED, reason)


def _is_violated_anyway(
    values: Sequence[float], missing: int, subject: Metric, operator: Operator, limit: float
) -> bool:
    """Return True if the rounds violate the limit regardless of the missing values."""
    if not values:
        return False
    least = subject.aggregate([*values, *[0.0] * missing])
    most = subject.aggregate([*values, *[math.inf] * missing])
    if operator == "==":
        return not least <= limit <= most
    return not holds(least if operator in UPPER else most, operator, limit)

"""Verdict of a test: its thresholds, evaluated over its rounds.

A threshold relative to the baseline fails if the metric is worse by more than the tolerance, beyond noise (see
`regression`), an absolute one if the median of the rounds does not meet it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import Problem, ProblemKind
from pytest_kafkaperf.core.units import counted, format_quantity
from pytest_kafkaperf.scenarios.threshold import (
    Absolute,
    Extreme,
    Operator,
    Relative,
    Threshold,
    count_gated,
    describe_limit,
    holds,
    limit_value,
)
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import compare, level_of, level_of_other_side
from pytest_kafkaperf.verdict.detectable import POWER, Confirmation, detectable_change, detectable_shift
from pytest_kafkaperf.verdict.outcome import Check, Finding, Judgement, Ungated, Verdict
from pytest_kafkaperf.verdict.regression import ALPHA, Stage, judge_look, judge_relative
from pytest_kafkaperf.verdict.scale import Measured, Rounds, change_of, difference, exceeds, flaw_of, value_of
from pytest_kafkaperf.verdict.sequential import Look, detectable, look, usable
from pytest_kafkaperf.verdict.side_by_side import Rebuilt, judge_suspected, machine_change


def judge(
    *,
    thresholds: Sequence[Threshold],
    trials: Sequence[Measured],
    baseline: BaselineRounds,
    confirm: bool,
    problems: Sequence[Problem] = (),
    at_least: Sequence[str] = (),
    ungated: Ungated | None = None,
    side_by_side: bool = False,
    rebuilt: Rebuilt | None = None,
    final: bool = False,
) -> Judgement:
    """Evaluate the thresholds of a test.

    Args:
        thresholds: the thresholds of the test.
        trials: all trials so far. With a live baseline, all of them decide together. With a stored one, the first trial
            shows suspected regressions, and the further ones, on fresh clusters, alone decide about them: side by side
            with the baseline's brokers if these are `rebuilt`. Absolute thresholds judge all trials except the latter.
        baseline: the stored baseline, which counts only if the trials have no live baseline.
        confirm: False if there will be no further trials, so that the first trial decides against the stored baseline.
        problems: reasons why the measurement is not trustworthy. The verdict is INVALID if there are any, and the
            checks are for information only. One that leaves a lower bound of a metric does not count if that bound
            exceeds an absolute threshold.
        at_least: metrics whose values are lower bounds. Such a value can meet a lower limit, but cannot violate it;
            it can exceed an upper limit, but cannot meet it.
        ungated: the reason why no threshold relative to the baseline is judged; None to judge them.
        side_by_side: True if suspected regressions will be confirmed side by side with the baseline's brokers, which
            changes what is detectable.
        rebuilt: the baseline's brokers, if the further trials ran side by side with them; None if they ran alone.
        final: True if there is no time for another side-by-side trial.

    """
    number, paired = count_gated(thresholds), trials[0].other_side is not None
    stage: Stage = "first" if confirm else "alone"
    every = paired or ungated is Ungated.CALIBRATION

    def evaluate(threshold: Threshold, part: Sequence[Measured]) -> _Result:
        if paired:
            return _evaluate_pairs(threshold, part, ungated=ungated, gated=number, final=final)
        return _evaluate(
            threshold, part, baseline, ungated=ungated, stage=stage, gated=number, side_by_side=side_by_side
        )

    def parts(threshold: Threshold) -> list[Sequence[Measured]]:
        if _is_of_each(threshold):
            return [[one] for one in trials]
        if every:
            return [trials]
        # Short rounds on shared cores are slower, so absolute thresholds do not apply to trials with rebuilt brokers.
        return [[one for one in trials if one.other_side is None] if threshold.relative is None else trials[:1]]

    found = [_worst([evaluate(threshold, part) for part in parts(threshold)]) for threshold in thresholds]
    if not paired and confirm and len(trials) > 1 and not problems:
        found = [
            one
            if not one.unsettled
            else _evaluate(one.threshold, trials[1:], baseline, ungated=None, stage="fresh", gated=number)
            if rebuilt is None
            else _retested(one, trials, baseline, rebuilt, gated=number, final=final)
            for one in found
        ]
    found = [one for one in found if one.check.outcome.fails or not one.threshold.implied]
    return _concluded(found, problems, at_least, paired=paired)


def _concluded(
    found: Sequence[_Result], problems: Sequence[Problem], at_least: Sequence[str], *, paired: bool
) -> Judgement:
    """Return the judgement on a test by the results of its thresholds and the problems of its rounds."""
    violated = [one for one in found if one.check.outcome is Verdict.VIOLATED]
    over = {one.check.metric for one in violated if one.threshold.operator in _UPPER}
    facts = {problem.metric: problem.fact for problem in problems if problem.metric in over}
    checks = tuple(
        dataclasses.replace(one, reason=f"{one.reason}; {facts[one.metric]}") if one.metric in facts else one
        for one in (result.check for result in found)
    )
    bounded = [one.check for one in found if one.check.metric in at_least and _is_doubtful(one)]
    missing = [check for check in checks if check.outcome is Verdict.INVALID]
    outcomes = [check.outcome for check in checks if check not in missing]
    fails = any(check.outcome.fails for check in checks if check not in (*bounded, *missing))  # whatever the others are
    doubts = [] if fails else [*map(_bounded, bounded), *(() if problems else map(value_missing, missing))]
    problems = (*(problem for problem in problems if problem.metric not in over), *doubts)
    checks = tuple(
        check for check in checks if not (check.implied and check in missing)
    )  # a problem has it, or explains it
    verdict = Verdict.INVALID if problems else worst(outcomes)
    verdict = verdict if checks or problems else Verdict.MEASURED
    # Side-by-side trials go on after a violated absolute threshold: more rounds may show that a median meets it.
    last = [one for one in found if not paired or one.check.is_relative or _is_of_each(one.threshold)]
    return Judgement(
        verdict=verdict,
        checks=checks,
        problems=problems,
        unsettled=not problems
        and not any(one.check.outcome.fails for one in last)
        and any(one.unsettled for one in found),
        warnings=tuple(dict.fromkeys(one.warning for one in found if one.warning is not None)),
    )


def _is_of_each(threshold: Threshold) -> bool:
    """Return True if each trial alone must meet a threshold: one on faults, such as `errors` and `error_ratio`.

    A sum over more trials would be larger, and a mean over more trials would hide the faults of one.
    """
    return threshold.metric.over_rounds != "median" and threshold.relative is None


_UPPER: tuple[Operator, ...] = ("<", "<=")
"""Operators of limits that a metric must not exceed."""


def _is_doubtful(result: _Result) -> bool:
    """Return True if the outcome may change if the true value is larger than the one that is known."""
    outcome = result.check.outcome
    return outcome is not Verdict.INVALID and outcome.fails != (result.threshold.operator in _UPPER)


def value_missing(check: Check) -> Problem:
    """Return the problem of a test with a check that has no value."""
    return Problem(ProblemKind.VALUE_MISSING, f"threshold {check.expression!r} cannot be judged: {check.reason}")


def _bounded(check: Check) -> Problem:
    may = "meet" if check.outcome.fails else "exceed"
    text = f"{check.expression}: {check.metric} is a lower bound here, so the true value may {may} the threshold; see "
    return Problem(ProblemKind.LOWER_BOUND, f"{text}the warnings")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """Threshold with its result."""

    threshold: Threshold
    check: Check
    unsettled: bool
    warning: str | None = None


def _worst(results: Sequence[_Result]) -> _Result:
    """Return the result that takes precedence; a trial without a value does not hide another one that fails."""
    known = [one for one in results if one.check.outcome is not Verdict.INVALID]
    certain = [one for one in known if one.check.outcome.fails]
    return max(certain or results, key=lambda one: list(Verdict).index(one.check.outcome))


def worst(outcomes: Sequence[Verdict]) -> Verdict:
    """Return the outcome that takes precedence; PASSED if there is none."""
    return max(outcomes, key=list(Verdict).index, default=Verdict.PASSED)


def _retested(
    first: _Result, trials: Sequence[Measured], baseline: BaselineRounds, rebuilt: Rebuilt, *, gated: int, final: bool
) -> _Result:
    """Evaluate a suspected regression of the first trial again, from the side-by-side trials alone."""
    threshold = first.threshold
    if threshold.relative is None:
        return first
    judged = threshold
    if isinstance(threshold.limit, Extreme) and not threshold.limit.takes_one(threshold.operator):
        judged = dataclasses.replace(threshold, limit=threshold.relative)  # the first trial has met the other part
    result = _evaluate_pairs(judged, trials[1:], ungated=None, gated=gated, final=final)
    before, check = first.check, result.check
    known = check.outcome is Verdict.INCONCLUSIVE and rebuilt.slower_machine is not None
    early = known and any(not exceeds(each.mean, each.tolerance) for each in check.trials)
    finding, warning = judge_suspected(
        Finding(outcome=check.outcome, reason=check.reason, unsettled=result.unsettled),
        threshold.metric,
        before.change,
        rebuilt,
        early=early,
        machine=machine_change(threshold.metric, trials, baseline, threshold.relative.log_tolerance),
    )
    check = dataclasses.replace(check, outcome=finding.outcome, reason=finding.reason, rerun=True)
    return _Result(threshold=threshold, check=check, unsettled=finding.unsettled, warning=warning)


def _evaluate(
    threshold: Threshold,
    trials: Sequence[Measured],
    baseline: BaselineRounds,
    *,
    ungated: Ungated | None,
    stage: Stage,
    gated: int,
    side_by_side: bool = False,
) -> _Result:
    """Evaluate a threshold of trials without a live baseline."""
    subject, comparison = threshold.metric, compare(threshold.metric, trials, baseline)
    rounds, alpha = _rounds_of(trials), ALPHA / max(1, gated)
    finding = _MET
    flaw = flaw_of(subject, rounds) if rounds else None
    if ungated is not None:
        finding = _ungated(subject, rounds, ungated)
    elif flaw is not None:  # not for want of a baseline
        finding = Finding(outcome=Verdict.INVALID, reason=flaw)
    elif baseline.obstacle or isinstance(comparison, str):
        finding = Finding(outcome=Verdict.INCONCLUSIVE, reason=baseline.obstacle or str(comparison))
    elif threshold.relative is not None:
        finding = judge_relative(
            threshold.relative, subject, comparison, stage, alpha=alpha, imported=baseline.imported
        )
    level, counts = level_of(subject, baseline), baseline.obstacle is None and baseline.imported is None
    least = None
    if level is not None and counts and threshold.relative is not None and not isinstance(comparison, str):
        tolerance = threshold.relative.log_tolerance
        way: Confirmation = "none" if stage == "alone" else "side by side" if side_by_side else "fresh"
        least = detectable_shift(level, tolerance=tolerance, confirmation=way, alpha=alpha)
    result = _result(
        threshold,
        rounds,
        _combined(threshold, rounds, finding, open_until_settled=stage == "fresh"),
        known=None if level is None else value_of(subject, level.level),
        detectable_change=detectable_change(threshold, trials[0].rounds, level if counts else None, least),
    )
    if isinstance(comparison, str):
        return result
    check = dataclasses.replace(
        result.check,
        observed=result.check.observed
        if threshold.relative is None
        else value_of(subject, comparison.known.level + comparison.shift),
        change=change_of(subject, comparison.shift),
        interval=_interval(subject, comparison.interval),
        rerun=stage == "fresh",
    )
    return dataclasses.replace(result, check=check)


def _evaluate_pairs(
    threshold: Threshold, trials: Sequence[Measured], *, ungated: Ungated | None, gated: int, final: bool
) -> _Result:
    """Evaluate a threshold of trials with a live baseline."""
    subject, relative = threshold.metric, threshold.relative
    alpha = ALPHA / max(1, gated)
    tolerance = 0.0 if relative is None else relative.log_tolerance
    every = [difference(subject, trial) for trial in trials]
    found = [usable(every[:count]) for count in range(1, len(every) + 1)]
    parts = {len(differences): differences for differences, _ in found if differences}  # a trial may add none
    looks = [
        look(part, tolerance=tolerance, alpha=alpha, final=final and part is [*parts.values()][-1])
        for part in parts.values()
    ]
    (differences, flaw), last = found[-1], _decisive(looks)
    known: Look | str = flaw or "no trial"
    if last is not None and (differences or last.decision != "open"):  # what was decided stays so
        known = last
    rounds, finding = _rounds_of(trials), _MET
    missing = _missing_value(subject, trials, some_may_lack_it=bool(differences))
    if ungated is not None:
        finding = _ungated(subject, rounds, ungated)
    elif missing is not None and not (isinstance(known, Look) and known.decision == "regressed"):
        finding = Finding(outcome=Verdict.INVALID, reason=missing)
    elif relative is not None:
        finding = judge_look(relative, subject, known, left_out=flaw)
    level = level_of_other_side(subject, trials)
    least = None
    if relative is not None and isinstance(known, Look) and known.deviation is not None:
        least = detectable(known.deviation, tolerance=tolerance, alpha=alpha, power=POWER)
    result = _result(
        threshold,
        rounds,
        _combined(threshold, rounds, finding, open_until_settled=not final),
        known=None if level is None else value_of(subject, level.level),
        detectable_change=detectable_change(threshold, rounds, level, least),
    )
    if isinstance(known, str) or level is None:
        return result
    check = dataclasses.replace(
        result.check,
        observed=result.check.observed if relative is None else value_of(subject, level.level + known.mean),
        change=change_of(subject, known.mean),
        interval=_interval(subject, known.interval),
        trials=() if relative is None else tuple(looks),
    )
    return dataclasses.replace(result, check=check)


def _missing_value(subject: Metric, trials: Sequence[Measured], *, some_may_lack_it: bool) -> str | None:
    """Return the reason if the own rounds of a trial lack a metric; None if they have it, or did not run.

    Readings of brokers fail now and then, on either side, so `some_may_lack_it` if the others are enough. Everything
    else is missing because of what is tested.
    """
    if some_may_lack_it and subject.name.startswith("broker."):
        return None
    found = ((number, flaw_of(subject, one.rounds)) for number, one in enumerate(trials, 1) if one.rounds)
    return next((f"{flaw} (trial {number})" for number, flaw in found if flaw is not None), None)


def _decisive(looks: Sequence[Look]) -> Look | None:
    """Return the last look with a decision, or with a regression if any has one; the last of all if none has."""
    decided = sorted((one for one in looks if one.decision != "open"), key=lambda one: one.decision == "regressed")
    return next(iter([*decided[-1:], *looks[-1:]]), None)


def _rounds_of(trials: Sequence[Measured]) -> Rounds:
    return list(itertools.chain.from_iterable(trial.rounds for trial in trials))


_MET = Finding(outcome=Verdict.PASSED, reason="")
"""Finding on the relative part of a threshold that has none."""


def _ungated(subject: Metric, rounds: Rounds, why: Ungated) -> Finding:
    """Return the finding on a relative limit that is not judged."""
    problem = flaw_of(subject, rounds, ratio=True)
    return Finding(outcome=Verdict.INCONCLUSIVE if problem else Verdict.MEASURED, reason=problem or str(why))


def _result(
    threshold: Threshold, rounds: Rounds, finding: Finding, *, known: float | None, detectable_change: float | None
) -> _Result:
    """Return a threshold with its result; the caller adds the change, which depends on the kind of the evidence.

    `known` is the value of the stored or live baseline.
    """
    subject, limit = threshold.metric, threshold.limit
    values = [] if flaw_of(subject, rounds) else [one[subject.name] for one in rounds]
    check = Check(
        expression=threshold.expression,
        metric=subject.name,
        observed=subject.aggregate(values) if values else None,
        limit_value=limit_value(limit, known),
        baseline=known,
        spread=(min(values), max(values)) if values else None,
        detectable_change=detectable_change,
        outcome=finding.outcome,
        reason=finding.reason,
        implied=threshold.implied,
    )
    return _Result(threshold=threshold, check=check, unsettled=finding.unsettled)


def _interval(subject: Metric, ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """Convert the confidence interval of a shift to changes of the metric, the lower first."""
    if ends is None:
        return None
    lower, higher = sorted(change_of(subject, end) for end in ends)
    return lower, higher


def _combined(threshold: Threshold, rounds: Rounds, relative: Finding, *, open_until_settled: bool) -> Finding:
    """Return the finding on a threshold; `relative` is that on the part of its limit that refers to the baseline.

    `open_until_settled`: a suspected regression stays open until its trials settle it, even if the absolute
    part passes.
    """
    limit, subject = threshold.limit, threshold.metric
    if isinstance(limit, Absolute):
        return _judge_absolute(limit, threshold.operator, subject, rounds)
    if isinstance(limit, Relative):
        return relative
    findings = [
        _judge_absolute(part, threshold.operator, subject, rounds) if isinstance(part, Absolute) else relative
        for part in limit.parts
    ]
    texts = [describe_limit(part, subject) for part in limit.parts]
    reason = "; ".join(f"{text}: {one.reason}" for text, one in zip(texts, findings, strict=True))
    combine = _one_holds if limit.takes_one(threshold.operator) else worst
    outcome, unsettled = combine([one.outcome for one in findings]), relative.unsettled
    if open_until_settled:
        outcome = Verdict.INCONCLUSIVE if unsettled else outcome
    elif outcome is not Verdict.INCONCLUSIVE:
        unsettled = False  # the other part decides, so no confirmation is needed
    return Finding(outcome=outcome, reason=reason, unsettled=unsettled)


def _one_holds(outcomes: Sequence[Verdict]) -> Verdict:
    """Combine the outcomes of an absolute and a relative part, one of which must hold."""
    holding = [outcome for outcome in outcomes if outcome in (Verdict.PASSED, Verdict.IMPROVED)]
    if holding:
        return worst(holding)
    open_outcomes = (Verdict.INCONCLUSIVE, Verdict.INVALID)
    undecided = [outcome for outcome in outcomes if outcome is Verdict.MEASURED or outcome in open_outcomes]
    # If both fail, the outcome is REGRESSED, because the absolute part alone would not have failed the test.
    return worst(undecided) if undecided else Verdict.REGRESSED


def _judge_absolute(limit: Absolute, operator: Operator, subject: Metric, rounds: Rounds) -> Finding:
    """Return the finding on an absolute limit: INVALID without a value in some round, unless that changes nothing.

    Without any round, nothing was measured because there was no time.
    """
    problem = flaw_of(subject, rounds)
    if problem and not rounds:
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=problem)
    found = [one.get(subject.name, math.nan) for one in rounds]
    values = [value for value in found if 0 <= value < math.inf]
    if problem and not _is_violated_anyway(values, len(found) - len(values), subject, operator, limit.value):
        return Finding(outcome=Verdict.INVALID, reason=problem)
    least, most = (format_quantity(value, subject.unit) for value in (min(values), max(values)))
    spread = f"each {least}" if least == most else f"from {least} to {most}"
    reason = f"{subject.over_rounds} of {counted(len(values), 'round')}, {spread}"
    met = not problem and holds(subject.aggregate(values), operator, limit.value)
    reason = f"{reason}; {problem}, which cannot change the outcome" if problem else reason
    return Finding(outcome=Verdict.PASSED if met else Verdict.VIOLATED, reason=reason)


def _is_violated_anyway(
    values: Sequence[float], missing: int, subject: Metric, operator: Operator, limit: float
) -> bool:
    """Return True if the rounds' value violates the limit, whatever the missing values are."""
    least = subject.aggregate([*values, *[0.0] * missing])
    most = subject.aggregate([*values, *[math.inf] * missing])
    if operator == "==":
        return bool(values) and not least <= limit <= most
    return bool(values) and not holds(least if operator in _UPPER else most, operator, limit)

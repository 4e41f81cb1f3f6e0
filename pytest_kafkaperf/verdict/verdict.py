"""Verdict of a test: its thresholds, evaluated over its rounds.

A threshold relative to the baseline fails if the metric is significantly worse by more than the tolerance (see
`regression`), an absolute one if the median of the rounds does not meet it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.core.units import counted, format_quantity
from pytest_kafkaperf.scenario.threshold import (
    Absolute,
    Extreme,
    Limit,
    Operator,
    Relative,
    Threshold,
    count_gated,
    describe_limit,
    holds,
    limit_value,
)
from pytest_kafkaperf.verdict.comparison import (
    Comparison,
    Measured,
    Rounds,
    change_of,
    compare,
    flaw_of,
    no_ratio,
    pooled,
)
from pytest_kafkaperf.verdict.confirmation import Fresh, holm
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.power import detectable_change
from pytest_kafkaperf.verdict.regression import ALPHA, Stage, judge_relative

if TYPE_CHECKING:
    from pytest_kafkaperf.verdict.baselines.record import BaselineRounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Result of one threshold. Values are in the metric's base unit; None if there is no value."""

    expression: str
    metric: str
    observed: float | None
    """Median over the rounds; for counts such as `errors` the sum."""
    limit: str
    """Right-hand side of the threshold for users: `baseline + 20 %`."""
    limit_value: float | None
    baseline: float | None
    """Median over the rounds of all sessions of the baseline."""
    change: float | None
    """Hodges-Lehmann estimate of the change against the baseline: +0.3 if the value rose by 30 %."""
    detectable: float | None
    """Minimum detectable change (see `power`): -0.12 if a throughput drop of 12 % is found in 4 of 5 cases.

    For a relative threshold, the change is against the baseline; for an absolute one, against the limit.
    """
    outcome: Verdict
    reason: str
    rerun: bool = False
    """True if the first session made the threshold a suspect, so that fresh sessions decided."""
    interval: tuple[float, float] | None = None
    """Distribution-free confidence interval of `change`, at 95 % or the nearest attainable level.

    None for too few rounds (see `rank_tests`). The interval treats rounds as independent, so it does not include the
    noise between sessions.
    """
    spread: tuple[float, float] | None = None
    """Minimum and maximum of the rounds that `observed` summarizes."""

    @property
    def is_relative(self) -> bool:
        """True if the threshold refers to the baseline."""
        return "baseline" in self.expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict of a test with the result of each threshold."""

    verdict: Verdict
    checks: tuple[Check, ...]
    problems: tuple[Problem, ...]
    """Reasons for the verdict INVALID; empty otherwise."""
    unsettled: bool = False
    """True if another fresh session must run, because it can change the verdict."""


def judge(
    *,
    thresholds: Sequence[Threshold],
    session: Measured,
    baseline: BaselineRounds,
    fresh: Sequence[Measured] | None = None,
    problems: Sequence[Problem] = (),
    at_least: Sequence[str] = (),
    ungated: str | None = None,
) -> Judgement:
    """Evaluate the thresholds of a test.

    Args:
        thresholds: the thresholds of the test.
        session: the first session.
        baseline: the baseline, which counts only if `session` has no reference.
        fresh: further sessions on fresh clusters, which alone decide about suspects of the first session. None if there
            will be no such sessions, so that the first session decides.
        problems: reasons why the measurement is not trustworthy. The verdict is INVALID if there are any, and the
            checks are for information only.
        at_least: metrics whose values are lower bounds. Such a value can meet a threshold, but cannot violate it.
        ungated: reason for which thresholds relative to the baseline pass, or None to evaluate them.

    """
    number = count_gated(thresholds)
    stage = None if fresh is None else Stage(gated=number)
    found = [_evaluate(threshold, [session], baseline, ungated=ungated, stage=stage) for threshold in thresholds]
    if fresh and not problems:
        found = _confirm(found, fresh, baseline, gated=number)
    checks = tuple(one.check for one in found)
    bounded = [_bounded(check) for check in checks if check.metric in at_least and check.outcome.fails]
    problems = (*problems, *bounded)
    verdict = Verdict.INVALID if problems else worst([check.outcome for check in checks])
    return Judgement(
        verdict=verdict,
        checks=checks,
        problems=problems,
        unsettled=not verdict.fails and any(one.unsettled for one in found),
    )


def _bounded(check: Check) -> Problem:
    text = f"{check.expression}: {check.metric} is a lower bound here, so the true value may meet the threshold; see "
    return Problem(ProblemKind.CAPACITY_LOWER_BOUND, f"{text}the warnings")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """Threshold with its result."""

    threshold: Threshold
    check: Check
    unsettled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Measurements that decide about the thresholds of one metric."""

    subject: Metric
    rounds: Rounds
    """Rounds of all sessions that count."""
    comparisons: tuple[Comparison, ...] | str
    """One comparison per session, or the reason why there is none."""
    obstacle: str | None
    """Reason why the comparison does not count, or None."""
    ungated: str | None
    stage: Stage | None
    """State of the confirmation; None if the first session decides alone."""
    imported: str | None
    """Tool that measured an imported baseline; None if this plugin measured it."""


def worst(outcomes: Sequence[Verdict]) -> Verdict:
    """Return the outcome that takes precedence; PASSED if there is none."""
    ranks = list(Verdict)
    return max(outcomes, key=ranks.index, default=Verdict.PASSED)


def _confirm(
    found: Sequence[_Result], fresh: Sequence[Measured], baseline: BaselineRounds, *, gated: int
) -> list[_Result]:
    """Evaluate the suspects again, by the fresh sessions alone."""
    suspects = [_fresh(one.threshold, fresh, baseline) for one in found if one.unsettled]
    levels = holm([each.p for each in suspects], gated=gated, alpha=ALPHA)
    stages = (Stage(gated=gated, fresh=each, level=level) for each, level in zip(suspects, levels, strict=True))
    return [
        _evaluate(one.threshold, fresh, baseline, ungated=None, stage=next(stages)) if one.unsettled else one
        for one in found
    ]


def _fresh(threshold: Threshold, fresh: Sequence[Measured], baseline: BaselineRounds) -> Fresh:
    """Evaluate the relative part of a threshold; without any session if one of them cannot be compared."""
    compared = _compared(threshold.metric, fresh, baseline)
    tolerance = 0.0 if threshold.relative is None else threshold.relative.log_tolerance
    return Fresh.of([] if isinstance(compared, str) else compared, tolerance=tolerance)


def _evaluate(
    threshold: Threshold,
    sessions: Sequence[Measured],
    baseline: BaselineRounds,
    *,
    ungated: str | None,
    stage: Stage | None,
) -> _Result:
    subject, limit = threshold.metric, threshold.limit
    rounds = list(itertools.chain.from_iterable(session.rounds for session in sessions))
    references = [session.reference for session in sessions if session.reference is not None]
    comparisons = _compared(subject, sessions, baseline)
    known = _baseline_median(subject, references or baseline.sessions)
    finding = _judge(
        limit,
        threshold.operator,
        _Evidence(
            subject=subject,
            rounds=rounds,
            comparisons=comparisons,
            obstacle=None if references else baseline.obstacle,
            ungated=ungated,
            stage=stage,
            imported=None if references else baseline.imported,
        ),
    )
    comparison = None if isinstance(comparisons, str) else pooled(comparisons)
    values = [] if flaw_of(subject, rounds) else [one[subject.name] for one in rounds]
    check = Check(
        expression=threshold.expression,
        metric=subject.name,
        observed=_summary(subject, values) if values else None,
        limit=describe_limit(limit, subject),
        limit_value=limit_value(limit, known),
        baseline=known,
        change=None if comparison is None else change_of(subject, comparison.shift),
        interval=None if comparison is None else _interval(subject, comparison),
        spread=(min(values), max(values)) if values else None,
        detectable=detectable_change(
            threshold,
            sessions[0],
            baseline.sessions if baseline.obstacle is None and baseline.imported is None else (),
            confirmed=stage is not None,
            alpha=ALPHA if stage is None or not stage.gated else ALPHA / stage.gated,
        ),
        outcome=finding.outcome,
        reason=finding.reason,
        rerun=stage is not None and stage.fresh is not None,
    )
    return _Result(threshold=threshold, check=check, unsettled=finding.unsettled)


def _compared(subject: Metric, sessions: Sequence[Measured], baseline: BaselineRounds) -> tuple[Comparison, ...] | str:
    found = [compare(subject, session, baseline.sessions) for session in sessions]
    for number, each in enumerate(found, 1):
        if isinstance(each, str):
            return each if len(found) == 1 else f"{each} (fresh session {number})"
    return tuple(each for each in found if not isinstance(each, str))


def _interval(subject: Metric, comparison: Comparison) -> tuple[float, float] | None:
    """Convert the confidence interval of the shift to changes of the metric, the lower first."""
    ends = comparison.interval
    if ends is None:
        return None
    lower, higher = sorted(change_of(subject, end) for end in ends)
    return lower, higher


def _summary(subject: Metric, values: Sequence[float]) -> float:
    return math.fsum(values) if subject.summed else statistics.median(values)


def _baseline_median(subject: Metric, sessions: Sequence[Rounds]) -> float | None:
    if not sessions or no_ratio(subject, sessions):
        return None
    return statistics.median(one[subject.name] for rounds in sessions for one in rounds)


def _judge(limit: Limit, operator: Operator, evidence: _Evidence) -> Finding:
    match limit:
        case Absolute():
            return _judge_absolute(limit, operator, evidence)
        case Relative():
            return _judge_relative(limit, evidence)
        case Extreme(parts=parts):
            findings = [_judge(part, operator, evidence) for part in parts]
            texts = [describe_limit(part, evidence.subject) for part in parts]
            reason = "; ".join(f"{text}: {one.reason}" for text, one in zip(texts, findings, strict=True))
            combine = _one_holds if limit.takes_one(operator) else worst
            outcome = combine([one.outcome for one in findings])
            unsettled = any(one.unsettled for one in findings)
            if evidence.stage is not None and evidence.stage.fresh is not None:
                # A suspect stays open until the fresh sessions settle it, even if its absolute part passes.
                outcome = Verdict.INCONCLUSIVE if unsettled else outcome
            elif outcome is not Verdict.INCONCLUSIVE:
                unsettled = False  # the other part decides, so no confirmation is needed
            return Finding(outcome=outcome, reason=reason, unsettled=unsettled)


def _one_holds(outcomes: Sequence[Verdict]) -> Verdict:
    """Combine the outcomes of an absolute and a relative part, one of which must hold."""
    holding = [outcome for outcome in outcomes if outcome in (Verdict.PASSED, Verdict.IMPROVED)]
    if holding:
        return worst(holding)
    # If both fail, the outcome is REGRESSED, because the absolute part alone would not have failed the test.
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in outcomes else Verdict.REGRESSED


def _judge_absolute(limit: Absolute, operator: Operator, evidence: _Evidence) -> Finding:
    subject, rounds = evidence.subject, evidence.rounds
    problem = flaw_of(subject, rounds)
    values = [one[subject.name] for one in rounds if subject.name in one]
    if problem and not (subject.summed and _is_exceeded(values, operator, limit.value)):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=problem)
    least, most = (format_quantity(value, subject.unit) for value in (min(values), max(values)))
    spread = f"each {least}" if least == most else f"from {least} to {most}"
    reason = f"{'sum' if subject.summed else 'median'} of {counted(len(values), 'round')}, {spread}"
    met = holds(_summary(subject, values), operator, limit.value)
    return Finding(outcome=Verdict.PASSED if met else Verdict.VIOLATED, reason=reason)


def _is_exceeded(values: Sequence[float], operator: Operator, limit: float) -> bool:
    """Return True if the sum violates the limit, whatever the values of the rounds without a value are."""
    if operator not in ("<=", "<", "==") or not all(0 <= value < math.inf for value in values):
        return False
    total = math.fsum(values)
    return total >= limit if operator == "<" else total > limit


def _judge_relative(limit: Relative, evidence: _Evidence) -> Finding:
    comparisons = evidence.comparisons
    if evidence.ungated:
        problem = flaw_of(evidence.subject, evidence.rounds, ratio=True)
        outcome = Verdict.INCONCLUSIVE if problem else Verdict.PASSED
        return Finding(outcome=outcome, reason=problem or evidence.ungated)
    if evidence.obstacle or isinstance(comparisons, str):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=evidence.obstacle or str(comparisons))
    return judge_relative(limit, evidence.subject, comparisons, evidence.stage, imported=evidence.imported)

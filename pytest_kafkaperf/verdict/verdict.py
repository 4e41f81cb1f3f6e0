"""The verdict of a test: its limits judged over its rounds. Pure.

A limit relative to the baseline asks "worse by more than N %, beyond noise" (see `relative`), an absolute one what the
median of the rounds is.
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
    detectable: float | None
    """The minimum detectable change (see `noise`): -0.12 when a throughput that fell by 12 % is found in 4 of 5 cases.

    Of a limit that speaks of the baseline, against the baseline; of an absolute one, against the limit.
    """
    outcome: Verdict
    reason: str
    rerun: bool = False
    """Whether the first session made it suspect, so that fresh ones decided."""
    interval: tuple[float, float] | None = None
    """Between what `change` lies: its distribution-free confidence interval, at 95 % or the nearest attainable.

    None of too few rounds (see `ranks`). It rests on the rounds that `change` rests on, and takes them as independent:
    what sessions have of their own is not in it.
    """
    spread: tuple[float, float] | None = None
    """The least and the most over the rounds that `observed` rests on."""

    @property
    def is_relative(self) -> bool:
        """Whether the limit speaks of the baseline."""
        return "baseline" in self.expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of a test and what it rests on."""

    verdict: Verdict
    checks: tuple[Check, ...]
    problems: tuple[Problem, ...]
    """Why the verdict is INVALID; empty otherwise."""
    unsettled: bool = False
    """Whether another fresh session is to run, which can change the verdict."""


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
    """Judge the limits of a test.

    `baseline` counts where `session` has no reference beside it.
    `fresh` are further sessions, each on a fresh cluster: limits that the first session makes suspect are judged by
    these alone. None: there will be none, and the first session decides.
    `problems` say why the run cannot be trusted: the verdict is INVALID then, and the checks are for information.
    `at_least` are metrics whose figures are lower bounds: a limit on such a one can be kept by it, and not be broken.
    With `ungated`, limits relative to the baseline pass for that reason.
    """
    number = count_gated(thresholds)
    stage = None if fresh is None else Stage(gated=number)
    found = [_look(threshold, [session], baseline, ungated=ungated, stage=stage) for threshold in thresholds]
    if fresh and not problems:
        found = _judged_afresh(found, fresh, baseline, gated=number)
    checks = tuple(look.check for look in found)
    problems = (*problems, *(_bounded(check) for check in checks if check.metric in at_least and check.outcome.fails))
    verdict = Verdict.INVALID if problems else worst([check.outcome for check in checks])
    return Judgement(
        verdict=verdict,
        checks=checks,
        problems=problems,
        unsettled=not verdict.fails and any(look.unsettled for look in found),
    )


def _bounded(check: Check) -> Problem:
    text = f"{check.expression}: {check.metric} is a lower bound here, and may keep the limit; see the warnings"
    return Problem(ProblemKind.CAPACITY_LOWER_BOUND, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A limit, and what was found of it."""

    threshold: Threshold
    check: Check
    unsettled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """What the limits on one metric are judged by."""

    subject: Metric
    rounds: Rounds
    """Of all sessions looked at."""
    comparisons: tuple[Comparison, ...] | str
    """One a session; or why there are none."""
    obstacle: str | None
    """Why the comparison must not decide."""
    ungated: str | None
    stage: Stage | None
    """None: one session decides alone."""
    imported: str | None
    """The tool that measured the baseline; None: this plugin did."""


def worst(outcomes: Sequence[Verdict]) -> Verdict:
    """The outcome that outranks the others; PASSED where there is none."""
    ranks = list(Verdict)
    return max(outcomes, key=ranks.index, default=Verdict.PASSED)


def _judged_afresh(
    found: Sequence[_Look], fresh: Sequence[Measured], baseline: BaselineRounds, *, gated: int
) -> list[_Look]:
    """The same, with the suspects judged by the fresh sessions alone."""
    suspects = [_afresh(look.threshold, fresh, baseline) for look in found if look.unsettled]
    levels = holm([each.p for each in suspects], gated=gated, alpha=ALPHA)
    stages = (Stage(gated=gated, fresh=each, level=level) for each, level in zip(suspects, levels, strict=True))
    return [
        _look(look.threshold, fresh, baseline, ungated=None, stage=next(stages)) if look.unsettled else look
        for look in found
    ]


def _afresh(threshold: Threshold, fresh: Sequence[Measured], baseline: BaselineRounds) -> Fresh:
    """What the sessions say of the relative part of a limit; as none at all where one of them cannot be compared."""
    compared = _compared(threshold.metric, fresh, baseline)
    tolerance = 0.0 if threshold.relative is None else threshold.relative.log_tolerance
    return Fresh.of([] if isinstance(compared, str) else compared, tolerance=tolerance)


def _look(
    threshold: Threshold,
    sessions: Sequence[Measured],
    baseline: BaselineRounds,
    *,
    ungated: str | None,
    stage: Stage | None,
) -> _Look:
    subject, limit = threshold.metric, threshold.limit
    rounds = list(itertools.chain.from_iterable(session.rounds for session in sessions))
    references = [session.reference for session in sessions if session.reference is not None]
    comparisons = _compared(subject, sessions, baseline)
    known = _known(subject, references or baseline.sessions)
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
    check = Check(
        expression=threshold.expression,
        metric=subject.name,
        observed=_observed(subject, rounds),
        limit=describe_limit(limit, subject),
        limit_value=limit_value(limit, known),
        baseline=known,
        change=None if comparison is None else change_of(subject, comparison.shift),
        interval=None if comparison is None else _interval(subject, comparison),
        spread=_spread(subject, rounds),
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
    return _Look(threshold=threshold, check=check, unsettled=finding.unsettled)


def _compared(subject: Metric, sessions: Sequence[Measured], baseline: BaselineRounds) -> tuple[Comparison, ...] | str:
    found = [compare(subject, session, baseline.sessions) for session in sessions]
    for number, each in enumerate(found, 1):
        if isinstance(each, str):
            return each if len(found) == 1 else f"{each} (fresh session {number})"
    return tuple(each for each in found if not isinstance(each, str))


def _interval(subject: Metric, comparison: Comparison) -> tuple[float, float] | None:
    """The same of the interval of the shift, the lower change first."""
    ends = comparison.interval
    if ends is None:
        return None
    lower, higher = sorted(change_of(subject, end) for end in ends)
    return lower, higher


def _observed(subject: Metric, rounds: Rounds) -> float | None:
    if flaw_of(subject, rounds):
        return None
    values = [one[subject.name] for one in rounds]
    return math.fsum(values) if subject.summed else statistics.median(values)


def _spread(subject: Metric, rounds: Rounds) -> tuple[float, float] | None:
    if flaw_of(subject, rounds):
        return None
    values = [one[subject.name] for one in rounds]
    return min(values), max(values)


def _known(subject: Metric, sessions: Sequence[Rounds]) -> float | None:
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
            combine = _either if limit.takes_one(operator) else worst
            outcome = combine([one.outcome for one in findings])
            open_yet = any(one.unsettled for one in findings)
            if evidence.stage is not None and evidence.stage.fresh is not None:
                # One session does not clear it, by its absolute part either.
                outcome = Verdict.INCONCLUSIVE if open_yet else outcome
            elif outcome is not Verdict.INCONCLUSIVE:
                open_yet = False  # what the other part has decided needs no confirmation
            return Finding(outcome=outcome, reason=reason, unsettled=open_yet)


def _either(outcomes: Sequence[Verdict]) -> Verdict:
    """Of an absolute and a relative part, one has to hold."""
    holding = [outcome for outcome in outcomes if outcome in (Verdict.PASSED, Verdict.IMPROVED)]
    if holding:
        return worst(holding)
    # Both broken is REGRESSED: the absolute part alone would have been let off.
    return Verdict.INCONCLUSIVE if Verdict.INCONCLUSIVE in outcomes else Verdict.REGRESSED


def _judge_absolute(limit: Absolute, operator: Operator, evidence: _Evidence) -> Finding:
    subject, rounds = evidence.subject, evidence.rounds
    flaw = flaw_of(subject, rounds)
    values = [one[subject.name] for one in rounds if subject.name in one]
    if flaw and not (subject.summed and _is_exceeded(values, operator, limit.value)):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=flaw)
    observed = math.fsum(values) if subject.summed else statistics.median(values)
    least, most = (format_quantity(value, subject.unit) for value in (min(values), max(values)))
    spread = f"each {least}" if least == most else f"from {least} to {most}"
    reason = f"{'sum' if subject.summed else 'median'} of {counted(len(values), 'round')}, {spread}"
    kept = holds(observed, operator, limit.value)
    return Finding(outcome=Verdict.PASSED if kept else Verdict.VIOLATED, reason=reason)


def _is_exceeded(values: Sequence[float], operator: Operator, limit: float) -> bool:
    """Whether the sum breaks the limit already, whatever the rounds without a value would add."""
    if operator not in ("<=", "<", "==") or not all(0 <= value < math.inf for value in values):
        return False
    total = math.fsum(values)
    return total >= limit if operator == "<" else total > limit


def _judge_relative(limit: Relative, evidence: _Evidence) -> Finding:
    comparisons = evidence.comparisons
    if evidence.ungated:
        flaw = flaw_of(evidence.subject, evidence.rounds, ratio=True)
        outcome = Verdict.INCONCLUSIVE if flaw else Verdict.PASSED
        return Finding(outcome=outcome, reason=flaw or evidence.ungated)
    if evidence.obstacle or isinstance(comparisons, str):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=evidence.obstacle or str(comparisons))
    return judge_relative(limit, evidence.subject, comparisons, evidence.stage, imported=evidence.imported)

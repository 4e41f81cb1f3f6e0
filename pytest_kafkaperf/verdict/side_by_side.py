"""Side-by-side comparisons with a live baseline or with freshly started brokers of the stored baseline's version.

A sequential test over the trials determines the outcome (see `sequential`). If a comparison with the stored baseline's
brokers finds both sides equal, the stored values differ because something that affects both sides, such as the machine,
has changed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.core.units import counted, format_percent, format_ratio
from pytest_kafkaperf.scenarios.threshold import Extreme, Relative, Threshold
from pytest_kafkaperf.verdict import sequential
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import compare, level_of_other_side
from pytest_kafkaperf.verdict.detectable import POWER, detectable_change
from pytest_kafkaperf.verdict.limits import MET, ComparedRounds, ThresholdResult, result_of, rounds_of
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import (
    NOTHING,
    Difference,
    Incomparable,
    Measured,
    change_of,
    difference,
    exceeds,
    flaw_of,
)
from pytest_kafkaperf.verdict.sequential import MARGIN, Look, detectable, look, usable
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers, finding_without_kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Compares all trials with the live baseline."""

    final: bool = False
    """True if there is no time for another trial."""

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return all trials."""
        del threshold
        return trials

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials' two sides."""
        subject, relative = threshold.metric, threshold.relative
        tolerance = 0.0 if relative is None else relative.log_tolerance
        evidence = self._evidence(subject, trials, tolerance, alpha)
        last, level = evidence.last, level_of_other_side(subject, trials)
        least = None
        if relative is not None and last is not None and last.deviation is not None:
            freedom = max(map(len, (one.rounds for one in trials))) - 1
            least = detectable(last.deviation, tolerance=tolerance, alpha=alpha, power=POWER, freedom=freedom)
        compared = ComparedRounds(
            finding=_finding(threshold, trials, evidence),
            level=None if level is None else level.level,
            detectable_change=detectable_change(threshold, rounds_of(trials), level, least),
            stays_open=not self.final,
        )
        if last is None or level is None:
            return compared
        looks = () if relative is None else evidence.looks
        return dataclasses.replace(compared, shift=last.mean, interval=last.interval, looks=looks)

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Return the first result because it is already based on all trials."""
        del trials, alpha
        return first

    def _evidence(self, subject: Metric, trials: Sequence[Measured], tolerance: float, alpha: float) -> _Evidence:
        found = [difference(subject, trial) for trial in trials]
        so_far = [usable(found[:count]) for count in range(1, len(found) + 1)]
        parts = {
            len(differences): differences for differences, _ in so_far if differences
        }  # a trial may lack a difference
        looks = tuple(
            look(part, tolerance=tolerance, alpha=alpha, final=self.final and number == len(parts))
            for number, part in enumerate(parts.values(), 1)
        )
        (differences, flaw), last = so_far[-1], _decisive(looks)
        if last is not None and not differences and last.decision == "open":  # a decision is final
            last = None
        return _Evidence(looks=looks, last=last, flaw=flaw, has_differences=bool(differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Evidence about one metric from side-by-side trials."""

    looks: tuple[Look, ...]
    last: Look | None
    """The decisive look; None if the trials cannot be compared."""
    flaw: str | None
    """Reason why a trial does not count; None if all trials count."""
    has_differences: bool
    """True if enough trials have a difference."""


def _decisive(looks: Sequence[Look]) -> Look | None:
    """Return the last look with a regression, or else the last look with a decision, or else the last look."""
    decided = [one for one in looks if one.decision != "open"]
    regressed = [one for one in decided if one.decision == "regressed"]
    found = regressed or decided or looks
    return found[-1] if found else None


def _finding(threshold: Threshold, trials: Sequence[Measured], evidence: _Evidence) -> Finding:
    """Return the finding for a relative limit; INVALID if a value is missing."""
    missing = _missing_value(threshold.metric, trials, some_may_lack_it=evidence.has_differences)
    regressed = evidence.last is not None and evidence.last.decision == "regressed"
    if missing is not None and not regressed:
        return Finding.of(Verdict.INVALID, missing)
    if threshold.relative is None:
        return MET
    if evidence.last is None:
        return Finding.of(Verdict.INCONCLUSIVE, evidence.flaw or "no trial ran")
    return _judge_look(threshold.relative, threshold.metric, evidence.last, left_out=evidence.flaw)


def is_precise(thresholds: Sequence[Threshold], trial: Measured, alpha: float) -> bool:
    """Return True if further pairs of rounds in this trial would not save further trials; see `sequential.is_precise`.

    Metrics that cannot be compared in this trial do not count. `alpha` is the significance level of each threshold.
    """
    compared = ((one.relative, difference(one.metric, trial)) for one in thresholds)
    return all(
        sequential.is_precise(found, tolerance=relative.log_tolerance, alpha=alpha)
        for relative, found in compared
        if relative is not None and isinstance(found, Difference)
    )


def _missing_value(subject: Metric, trials: Sequence[Measured], *, some_may_lack_it: bool) -> str | None:
    """Return the reason if a trial's own rounds lack a metric; None if no round lacks it or there are no rounds.

    Broker readings sometimes fail on either side, so a trial may lack them if enough other trials have them
    (`some_may_lack_it`). If any other metric is missing, the cause is the software under test.
    """
    if some_may_lack_it and subject.name.startswith("broker."):
        return None
    found = ((number, flaw_of(subject, one.rounds)) for number, one in enumerate(trials, 1) if one.rounds)
    return next((f"{flaw} (trial {number})" for number, flaw in found if flaw is not None), None)


def _judge_look(limit: Relative, subject: Metric, last: Look, *, left_out: str | None) -> Finding:
    """Judge a relative limit. The operators `<` and `<=` are equivalent here, as are `>` and `>=`.

    `left_out` is the reason why a trial does not count; None if all trials count.
    """
    reason = counted(last.trials, "side-by-side trial")
    if left_out is not None:
        reason = f"{reason} (left out: {left_out})"
    if last.decision == "open":
        noise = "" if last.deviation is None else f" with noise of {format_percent(last.deviation)}"
        reason = f"undecided after {reason}{noise}"
        return Finding.of(Verdict.INCONCLUSIVE, reason, unsettled=not last.settled)
    if last.decision == "improved":
        return Finding.of(Verdict.IMPROVED, reason)
    if last.decision == "equal":
        target = format_ratio(change_of(subject, limit.log_tolerance + MARGIN))
        rule = "rules" if last.trials == 1 else "rule"
        return Finding.of(Verdict.PASSED, f"{reason} {rule} out a change of {target}")
    if last.mean == NOTHING:
        reason = f"{reason}; {subject.name} was 0 in one of them"
    return Finding.of(Verdict.REGRESSED, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySideWithStored:
    """Compares the first trial with the stored baseline; re-tests side by side with the baseline's brokers."""

    first: AgainstStored
    brokers: BaselineBrokers
    final: bool = False
    """True if there is no time for another trial."""

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the trials that count for a threshold unless it is re-tested."""
        return self.first.counting(threshold, trials)

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials with the stored baseline."""
        return self.first.compare(threshold, trials, alpha)

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Judge a suspected regression based on the trials after the first one; return `first` if there are none."""
        threshold, side_by_side = first.threshold, trials[1:]
        relative = threshold.relative
        if relative is None or not side_by_side:
            return first
        judged = threshold
        if isinstance(threshold.limit, Extreme) and not threshold.limit.takes_one(threshold.operator):
            judged = dataclasses.replace(threshold, limit=relative)  # the first trial met the absolute part
        compared = SideBySide(final=self.final).compare(judged, side_by_side, alpha)
        result = result_of(judged, side_by_side, compared)
        finding, warning = judge_suspected(
            result,
            first.check.change,
            self.brokers,
            machine=machine_change(threshold.metric, trials, self.first.baseline, relative.log_tolerance),
        )
        check = dataclasses.replace(result.check, outcome=finding.outcome, reasons=finding.reasons, rerun=True)
        return ThresholdResult(threshold=threshold, check=check, unsettled=finding.unsettled, warning=warning)


def judge_suspected(
    result: ThresholdResult, stored: float | None, brokers: BaselineBrokers, *, machine: float | None
) -> tuple[Finding, Notice | None]:
    """Convert the side-by-side trials' result to the finding for the suspected regression.

    If both sides are slower than the stored baseline, also returns a warning.

    Args:
        result: the result of the side-by-side trials with the baseline's brokers.
        stored: the first trial's change from the stored values; None if unknown.
        brokers: the baseline's brokers.
        machine: both sides' change from the stored values (see `machine_change`).

    """
    finding = _with_what_is_known(result, brokers)
    cleared = not finding.unsettled and finding.outcome in (Verdict.PASSED, Verdict.IMPROVED)
    reason = _reason(finding, stored, cleared=cleared)
    if not cleared:
        return Finding.of(finding.outcome, reason, unsettled=finding.unsettled), None
    if machine is None:
        return Finding.of(Verdict.PASSED, reason), None
    return finding_without_kafka(reason, result.check.metric, machine, brokers)


def _with_what_is_known(result: ThresholdResult, brokers: BaselineBrokers) -> Finding:
    """Return the finding from the side-by-side trials.

    If the machine is known to be slower, the finding is PASSED as soon as the mean of the trials has been within the
    tolerance.
    """
    check = result.check
    is_open = check.outcome is Verdict.INCONCLUSIVE and brokers.slower_machine is not None
    if is_open and any(not exceeds(each.mean, each.tolerance) for each in check.trials):
        shown = f"the re-test of {brokers.slower_machine} found that the baseline's brokers are also slower"
        reason = f"within the tolerance side by side, which is enough because {shown}"
        return Finding.of(Verdict.PASSED, reason)
    return Finding.of(check.outcome, check.reason, unsettled=result.unsettled)


def _reason(finding: Finding, stored: float | None, *, cleared: bool) -> str:
    """Return the reason for the finding, preceded by the first trial's change."""
    reason = finding.reason
    if cleared:
        reason = f"not confirmed: {reason}"
    elif finding.outcome is Verdict.REGRESSED:
        reason = f"confirmed by {reason}"
    if stored is None:
        return reason
    return f"first trial: {format_ratio(stored)} against the stored baseline; {reason}"


def machine_change(
    subject: Metric, trials: Sequence[Measured], baseline: BaselineRounds, tolerance: float
) -> float | None:
    """Return both sides' change from the stored values; None unless it exceeds the tolerance.

    The stored values and the first trial's values come from long rounds on a single cluster. If both sides are equal,
    the first trial therefore represents both. A re-test's short rounds are slower because they share cores (by a third
    or more on two cores), so they show only whether the cause of the first trial's slowdown is gone. As in the
    comparison of both sides, trials without a reading do not count.
    """
    others = [Measured(rounds=trial.other_side or ()) for trial in trials[1:]]
    others = [each for each in others if flaw_of(subject, each.rounds, ratio=True) is None]
    if not others:
        return None
    found = [compare(subject, part, baseline) for part in (trials[:1], others)]
    shift = min(-math.inf if isinstance(each, Incomparable) else each.shift for each in found)
    return change_of(subject, shift) if exceeds(shift, tolerance) else None

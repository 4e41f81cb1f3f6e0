"""A test's verdict: judges the test's thresholds over its trials.

A relative threshold fails if the metric is worse than the baseline by more than the tolerance and noise cannot explain
the difference. A `Comparison` decides this (see `regression` and `side_by_side`). An absolute threshold fails if the
median of the rounds does not meet it (see `limits`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import each_once
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.scenarios.threshold import Threshold
from pytest_kafkaperf.verdict.limits import UPPER, ComparedRounds, ThresholdResult, result_of, rounds_of
from pytest_kafkaperf.verdict.outcome import Check, Finding, Judgement, Ungated, Verdict, worst
from pytest_kafkaperf.verdict.reasons import Reason
from pytest_kafkaperf.verdict.regression import alpha_of
from pytest_kafkaperf.verdict.scale import Measured, Rounds, flaw_of


class Comparison(Protocol):
    """An immutable method for judging the part of a threshold that refers to the baseline.

    The implementations are `AgainstStored`, which judges the first trial alone; `FreshTrials`, `UnchangedBrokers` and
    `SideBySideWithStored`, which re-test suspected regressions; `SideBySide` for a live baseline; and `NotCompared`.
    """

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the trials that count for a threshold so far."""

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials that count for a threshold with the baseline, at significance level `alpha`."""

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Judge a suspected regression based on the trials after the first one; return `first` if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """Shows the comparison with the baseline without judging it."""

    shown: Comparison
    reason: Ungated

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the trials that the comparison uses, or all trials in a calibration."""
        return trials if self.reason is Ungated.CALIBRATION else self.shown.counting(threshold, trials)

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials; the finding is MEASURED unless a value is missing or unusable as a baseline."""
        compared = self.shown.compare(threshold, trials, alpha)
        return dataclasses.replace(compared, finding=self._finding(threshold.metric, rounds_of(trials)))

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Return the first result because nothing is suspected."""
        del trials, alpha
        return first

    def _finding(self, subject: Metric, rounds: Rounds) -> Finding:
        problem = flaw_of(subject, rounds, ratio=self.reason.keeps_values)
        if problem is None:
            return Finding.of(Verdict.MEASURED, str(self.reason))
        is_missing = bool(rounds) and not self.reason.keeps_values
        return Finding.of(Verdict.INVALID if is_missing else Verdict.INCONCLUSIVE, problem)


def judge(
    thresholds: Sequence[Threshold],
    trials: Sequence[Measured],
    comparison: Comparison,
    *,
    problems: Sequence[Problem] = (),
    bounds: Collection[str] = frozenset(),
) -> Judgement:
    """Judge a test's thresholds.

    Args:
        thresholds: the thresholds of the test.
        trials: all trials so far.
        comparison: how to judge the parts of thresholds that refer to the baseline.
        problems: reasons why the measurement is not trustworthy. If there are any, the verdict is INVALID, and the
            checks are for information only. Exception: if a problem only turns a metric into a lower bound, and even
            that bound exceeds an absolute threshold, the problem is ignored.
        bounds: metrics whose values are only lower bounds. Such a value can show that a lower limit is met or an upper
            limit is exceeded, but not the opposite.

    """
    alpha = alpha_of(thresholds)
    results = [_judged(threshold, trials, comparison, alpha) for threshold in thresholds]
    if not problems:
        results = [comparison.retest(one, trials, alpha) if one.unsettled else one for one in results]
    results = [one for one in results if one.check.outcome.fails or not one.threshold.implied]
    paired = trials[0].other_side is not None
    return _concluded(results, problems, bounds, paired=paired)


def _judged(threshold: Threshold, trials: Sequence[Measured], comparison: Comparison, alpha: float) -> ThresholdResult:
    """Return a threshold's result before any suspected regression is re-tested."""
    parts = [comparison.counting(threshold, trials)]
    if _is_of_each(threshold):
        parts = [[one] for one in trials]
    return _worst([result_of(threshold, part, comparison.compare(threshold, part, alpha)) for part in parts])


def _is_of_each(threshold: Threshold) -> bool:
    """Return True if each trial must meet a threshold separately, which is the case for faults such as `errors`.

    With more trials, a sum would grow, and a mean would hide a single trial's faults.
    """
    return threshold.metric.over_rounds != "median" and threshold.relative is None


def _worst(results: Sequence[ThresholdResult]) -> ThresholdResult:
    """Return the result that takes precedence; a trial without a value does not hide another trial that fails."""
    known = [one for one in results if one.check.outcome is not Verdict.INVALID]
    certain = [one for one in known if one.check.outcome.fails]
    return max(certain or results, key=lambda one: list(Verdict).index(one.check.outcome))


def _concluded(
    results: Sequence[ThresholdResult], problems: Sequence[Problem], bounds: Collection[str], *, paired: bool
) -> Judgement:
    """Return a test's judgment, based on the results of its thresholds and the problems in its rounds."""
    exceeded = _exceeded(results)
    remaining = [problem for problem in problems if problem.metric not in exceeded]
    remaining += _doubts(results, bounds, has_problems=bool(problems))
    facts = {problem.metric: problem.fact for problem in problems if problem.metric in exceeded}
    # If an implied threshold does not have a value, a problem explains why.
    shown = [one for one in results if not (one.threshold.implied and _lacks_value(one))]
    outcomes = [one.check.outcome for one in results if not _lacks_value(one)]
    verdict = worst(outcomes) if shown else Verdict.MEASURED
    return Judgement(
        verdict=Verdict.INVALID if remaining else verdict,
        checks=tuple(_with_fact(one.check, facts.get(one.check.metric)) for one in shown),
        problems=tuple(remaining),
        unsettled=not remaining and _goes_on(results, paired=paired),
        undecided=tuple(one.threshold.expression for one in results if one.unsettled),
        warnings=each_once(one.warning for one in results if one.warning is not None),
    )


def _exceeded(results: Sequence[ThresholdResult]) -> set[str]:
    """Return the metrics that violate an upper limit, and would also do so if their true values were larger."""
    violated = [one for one in results if one.check.outcome is Verdict.VIOLATED]
    return {one.check.metric for one in violated if one.threshold.operator in UPPER}


def _doubts(results: Sequence[ThresholdResult], bounds: Collection[str], *, has_problems: bool) -> list[Problem]:
    """Return the problems with lower bounds and missing values; empty if another threshold fails anyway."""
    bounded = [one for one in results if one.check.metric in bounds and _is_doubtful(one)]
    missing = [one for one in results if _lacks_value(one)]
    doubtful = [*bounded, *missing]
    if any(one.check.outcome.fails for one in results if one not in doubtful):
        return []
    doubts = [_bounded(one.check) for one in bounded]
    return doubts if has_problems else [*doubts, *(value_missing(one.check) for one in missing)]


def _goes_on(results: Sequence[ThresholdResult], *, paired: bool) -> bool:
    """Return True if further trials can change the verdict.

    Side-by-side trials continue after an absolute threshold is violated, because the median of more rounds may meet the
    limit.
    """
    last = [one for one in results if not paired or one.check.is_relative or _is_of_each(one.threshold)]
    fails = any(one.check.outcome.fails for one in last)
    return not fails and any(one.unsettled for one in results)


def _lacks_value(result: ThresholdResult) -> bool:
    """Return True if at least one round lacks a value for a threshold's metric."""
    return result.check.outcome is Verdict.INVALID


def _is_doubtful(result: ThresholdResult) -> bool:
    """Return True if the outcome could change because the true value may be larger than the measured lower bound."""
    return not _lacks_value(result) and result.check.outcome.fails != (result.threshold.operator in UPPER)


def _with_fact(check: Check, fact: str | None) -> Check:
    return check if fact is None else dataclasses.replace(check, reasons=(*check.reasons, Reason(fact)))


def value_missing(check: Check) -> Problem:
    """Return the problem to report for a check whose metric lacks a value."""
    return Problem(Cause.VALUE_MISSING, {"expression": check.expression, "reason": check.reason})


def _bounded(check: Check) -> Problem:
    may = "meet" if check.outcome.fails else "exceed"
    return Problem(Cause.LOWER_BOUND, {"expression": check.expression, "metric": check.metric, "may": may})

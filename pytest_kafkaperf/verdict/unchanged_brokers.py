"""Re-tests of suspected regressions if neither Kafka nor its settings have changed since the stored baseline.

Brokers started for the baseline's side would be the same as the test's own, so a side-by-side comparison could only
compare the test with itself. A new trial shows instead whether the slowdown persists. Kafka is not the cause in either
case: a slowdown that is over was a disturbance, and one that persists comes from the machine, or from a change that a
comparison of brokers would not reveal either, such as another Python version. After such a change, a test with a
lasting slowdown does not pass, so a second new trial must confirm it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.core.units import counted, format_ratio
from pytest_kafkaperf.scenarios.threshold import Relative, Threshold
from pytest_kafkaperf.verdict.days import Shifts, compare
from pytest_kafkaperf.verdict.limits import ComparedRounds, ThresholdResult, result_of
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored, compared_with
from pytest_kafkaperf.verdict.scale import NOTHING, Measured, change_of, exceeds
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers, finding_without_kafka

_PERSISTS = 2
"""Number of new trials beyond the tolerance after which a slowdown persists if the machine may not be its cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnchangedBrokers:
    """Compares the first trial with the stored baseline; finds the cause of a suspected regression outside Kafka."""

    first: AgainstStored
    brokers: BaselineBrokers

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the trials that count for a threshold unless it is re-tested."""
        return self.first.counting(threshold, trials)

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials with the stored baseline."""
        return self.first.compare(threshold, trials, alpha)

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Judge a suspected regression based on the trials after the first one; return `first` if there are none.

        A value that is missing, or 0 although higher values are better, is judged like in other new trials.
        """
        threshold, fresh = first.threshold, trials[1:]
        if not fresh:
            return first
        stored = AgainstStored(baseline=self.first.baseline, confirmation="fresh")
        compared = compared_with(threshold, fresh, stored, alpha, fresh=True)
        found = compare(threshold.metric, fresh, self.first.baseline)
        warning = None
        if threshold.relative is not None and isinstance(found, Shifts) and NOTHING not in found.shifts:
            finding, warning = self._judge(threshold.relative, threshold.metric, found, first.check.change)
            compared = dataclasses.replace(compared, finding=finding)
        return dataclasses.replace(result_of(threshold, fresh, compared), warning=warning)

    def _judge(
        self, limit: Relative, subject: Metric, found: Shifts, stored: float | None
    ) -> tuple[Finding, Notice | None]:
        """Judge a limit based on the new trials; `stored` is the first trial's change from the stored values."""
        changes = [change_of(subject, shift) for shift in found.shifts]
        trials = f"{counted(len(changes), 'fresh trial')}: {', '.join(map(format_ratio, changes))}"
        before = "" if stored is None else f"first trial: {format_ratio(stored)} against the stored baseline; "
        slower = [exceeds(shift, limit.log_tolerance) for shift in found.shifts]
        if not all(slower):
            return Finding.of(Verdict.PASSED, f"{before}not confirmed by {trials}"), None
        is_machine = self.brokers.shows_machine or self.brokers.slower_machine is not None
        if len(slower) < _PERSISTS and not is_machine:
            reason = f"{before}after {trials}; the slowdown may be over in the next one"
            return Finding.of(Verdict.INCONCLUSIVE, reason, unsettled=True), None
        reason = f"{before}{trials}; Kafka and its settings are the same as in the baseline"
        return finding_without_kafka(reason, subject.name, change_of(subject, found.shift), self.brokers)

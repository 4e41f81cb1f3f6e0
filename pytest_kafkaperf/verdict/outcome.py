"""Outcomes of thresholds and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_kafkaperf.core.metrics import FINAL_METRICS, metric
from pytest_kafkaperf.core.notices import Notice, NoticeKind
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.verdict.reasons import Obstacle, Reason, joined
from pytest_kafkaperf.verdict.sequential import Look


class Verdict(StrEnum):
    """Outcome of a threshold or a test. When outcomes differ, the one defined last takes precedence."""

    PASSED = "PASSED"
    IMPROVED = "IMPROVED"
    """Better than the baseline by more than the tolerance, and by more than noise can explain."""
    MEASURED = "MEASURED"
    """A threshold that was deliberately not judged, or a test in which no threshold was judged."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """Neither passed nor failed: no comparison was possible, or the metric is worse but noise may be the cause."""
    REGRESSED = "REGRESSED"
    """Worse than the baseline by more than the tolerance, and by more than noise can explain."""
    VIOLATED = "VIOLATED"
    """An absolute threshold is not met."""
    INVALID = "INVALID"
    """The measurement is not trustworthy, or at least one round lacks a value for a metric with a threshold."""

    @property
    def fails(self) -> bool:
        """True if the test fails. INCONCLUSIVE fails only with `--kafka-strict`."""
        return self in (Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID)

    @property
    def needs_reason(self) -> bool:
        """True if reports must explain the outcome, because it fails or is INCONCLUSIVE."""
        return self.fails or self is Verdict.INCONCLUSIVE


def worst(outcomes: Sequence[Verdict]) -> Verdict:
    """Return the outcome that takes precedence; PASSED if there are none."""
    return max(outcomes, key=list(Verdict).index, default=Verdict.PASSED)


class Ungated(StrEnum):
    """Reason why thresholds relative to the baseline are not judged."""

    CALIBRATION = "calibration compares the trials with each other"
    ACCEPTED = "the values become the new baseline"
    NEW_TEST = "new test, nothing to compare with"
    BASE = "this is the base"

    @property
    def keeps_values(self) -> bool:
        """True if the values are or will become a baseline and must therefore be usable as one."""
        return self in (Ungated.CALIBRATION, Ungated.ACCEPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Outcome of a threshold, or of one of its parts."""

    outcome: Verdict
    reasons: tuple[Reason, ...] = ()
    unsettled: bool = False
    """True if another trial is needed for a decision."""

    @classmethod
    def of(cls, outcome: Verdict, fact: str, *, unsettled: bool = False) -> Finding:
        """Create a finding with a single reason."""
        return cls(outcome=outcome, reasons=(Reason(fact),), unsettled=unsettled)

    @property
    def reason(self) -> str:
        """Reasons as one text."""
        return joined(self.reasons)


_NOTEWORTHY = 0.05
"""Smallest change that reports mention although it is allowed, as a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one threshold. Values are in the metric's base unit; None if there is no value."""

    expression: str
    metric: str
    observed: float | None
    """Median of the rounds; with new trials, the median of the trials' medians; for counts such as `errors`, the sum.

    For a threshold relative to a live baseline, this is the value that differs from `baseline` by `change`.
    """
    is_upper_bound: bool = False
    """True if `observed` is an upper bound, because some values were too small to be measured."""
    limit_value: float | None
    baseline: float | None = None
    """Level of the stored baseline (see `days`), or geometric mean of the medians of the live baseline's trials."""
    change: float | None = None
    """Estimated change from the baseline: +0.3 if the value rose by 30%.

    For a stored baseline, this is the difference between `observed` and `baseline`; for a live baseline, it is the
    trimmed mean over all trials.
    """
    detectable_change: float | None = None
    """Minimum detectable change (see `detectable`): -0.12 if a 12% throughput drop is detected in 4 of 5 cases.

    This change is relative to the baseline or, for an absolute threshold, to the limit.
    """
    outcome: Verdict
    reasons: tuple[Reason, ...]
    """A reason for each part of the limit, followed by anything else that contributed to the outcome."""
    rerun: bool = False
    """True if the first trial showed a suspected regression and new trials decided the outcome."""
    interval: tuple[float, float] | None = None
    """Confidence interval for `change`; None if there were too few side-by-side trials.

    For a live baseline, this is a repeated confidence interval (see `sequential`). For a stored baseline, the interval
    is also valid for trials on other days (see `days`).
    """
    spread: tuple[float, float] | None = None
    """Minimum and maximum over the rounds that `observed` summarizes."""
    implied: bool = False
    """True if the threshold, for example `lost == 0`, was implied and not declared; such a check exists only if it
    fails."""
    is_relative: bool = False
    """True if the threshold refers to the baseline."""
    trials: tuple[Look, ...] = ()
    """The evidence after each side-by-side trial; empty for a stored baseline."""

    @property
    def reason(self) -> str:
        """All reasons as one text."""
        return joined(self.reasons)

    @property
    def is_proven(self) -> bool:
        """True if too many records are lost, duplicated or reordered, whatever else went wrong."""
        return self.outcome is Verdict.VIOLATED and self.metric in FINAL_METRICS

    @property
    def is_worse_within_limit(self) -> bool:
        """True if a threshold relative to the baseline is met although the metric has clearly become worse."""
        if self.outcome is not Verdict.PASSED or not self.is_relative or self.change is None or self.interval is None:
            return False
        low, high = self.interval
        is_worse = low > 0 if metric(self.metric).better == "lower" else high < 0
        return is_worse and abs(self.change) >= _NOTEWORTHY

    @property
    def obstacle(self) -> Obstacle | None:
        """The obstacle to the comparison if it is the only reason why the threshold is undecided."""
        return self.reasons[0].obstacle if len(self.reasons) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A test's verdict and the result of each threshold."""

    verdict: Verdict
    checks: tuple[Check, ...]
    problems: tuple[Problem, ...]
    """Reasons for the verdict INVALID; empty for other verdicts."""
    unsettled: bool = False
    """True if another trial must run because it can change the verdict."""
    undecided: tuple[str, ...] = ()
    """Expressions of the thresholds that such a trial must decide."""
    warnings: tuple[Notice, ...] = ()
    """Warnings for the user that do not fail the test."""
    doubts: tuple[Problem, ...] = ()
    """Problems that cannot have caused the failure and therefore do not make the verdict INVALID."""

    @property
    def both_slower(self) -> bool:
        """True if a side-by-side re-test found both sides equal, but slower than the stored baseline."""
        return any(notice.kind is NoticeKind.BOTH_SLOWER for notice in self.warnings)

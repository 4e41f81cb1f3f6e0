"""Comparisons with a stored baseline.

If a trial is worse than the stored baseline by more than the tolerance, the trial shows a suspected regression. Up to
`TRIALS` new trials then decide, and the first trial no longer counts. If two of the new trials are within the
tolerance, the suspicion is cleared, because the median of three trials can no longer exceed the tolerance. The
regression is confirmed if the median shift exceeds the tolerance and the noise of days, trials and rounds cannot
explain the shift (see `days`). If a run has no new trials, the first trial decides by the same rule.

If a baseline was imported from another tool, its noise is unknown, so only the shifts decide.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_ratio
from pytest_kafkaperf.scenarios.threshold import Relative, Threshold, count_gated
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import TRIALS, Shifts, compare, level_of
from pytest_kafkaperf.verdict.detectable import Confirmation, detectable_change, detectable_shift
from pytest_kafkaperf.verdict.limits import MET, ComparedRounds, ThresholdResult, result_of, rounds_of
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.reasons import Reason
from pytest_kafkaperf.verdict.scale import NOTHING, Incomparable, Measured, Rounds, change_of, exceeds, flaw_of, logs

ALPHA = 0.01
"""Significance level for a test, shared equally by its thresholds relative to the baseline (Bonferroni)."""


def alpha_of(thresholds: Iterable[Threshold]) -> float:
    """Return the significance level of each threshold relative to a baseline, all of which share a test's level."""
    return ALPHA / max(1, count_gated(thresholds))


_ENOUGH_TO_CLEAR = TRIALS // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstStored:
    """Compares the first trial with the stored baseline; leaves suspected regressions to the re-test, if any."""

    baseline: BaselineRounds
    confirmation: Confirmation = "none"
    """Method for confirming suspected regressions, which determines the minimum detectable change.

    With `none`, the first trial is decisive.
    """

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the first trial; for absolute thresholds, all trials that did not share cores with other brokers.

        Trials on shared cores are excluded, because their short rounds are slower.
        """
        if threshold.relative is None:
            return [one for one in trials if one.other_side is None]
        return trials[:1]

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials with the stored baseline."""
        return compared_with(threshold, trials, self, alpha, fresh=False)

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Return the first result because there is no re-test."""
        del trials, alpha
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshTrials:
    """Compares the first trial with the stored baseline, and re-tests suspected regressions with new trials."""

    first: AgainstStored

    def counting(self, threshold: Threshold, trials: Sequence[Measured]) -> Sequence[Measured]:
        """Return the trials that count for a threshold unless it is re-tested."""
        return self.first.counting(threshold, trials)

    def compare(self, threshold: Threshold, trials: Sequence[Measured], alpha: float) -> ComparedRounds:
        """Compare the trials with the stored baseline."""
        return self.first.compare(threshold, trials, alpha)

    def retest(self, first: ThresholdResult, trials: Sequence[Measured], alpha: float) -> ThresholdResult:
        """Judge a suspected regression based on the trials after the first one; return `first` if there are none."""
        fresh = trials[1:]
        if not fresh:
            return first
        stored = AgainstStored(baseline=self.first.baseline, confirmation="fresh")
        return result_of(first.threshold, fresh, compared_with(first.threshold, fresh, stored, alpha, fresh=True))


def compared_with(
    threshold: Threshold, trials: Sequence[Measured], stored: AgainstStored, alpha: float, *, fresh: bool
) -> ComparedRounds:
    """Compare trials with a stored baseline: either the first trial or the `fresh` trials that re-test it."""
    subject, relative, baseline = threshold.metric, threshold.relative, stored.baseline
    found, level = compare(subject, trials, baseline), level_of(subject, baseline)
    known = level if baseline.obstacle is None and baseline.imported is None else None
    least = None
    if known is not None and relative is not None and isinstance(found, Shifts):
        tolerance = relative.log_tolerance
        least = detectable_shift(known, tolerance=tolerance, confirmation=stored.confirmation, alpha=alpha)
    compared = ComparedRounds(
        finding=_finding(threshold, rounds_of(trials), stored, found, alpha, fresh=fresh),
        level=None if level is None else level.level,
        detectable_change=detectable_change(threshold, trials[0].rounds, known, least),
        stays_open=fresh,
    )
    if isinstance(found, Incomparable):
        return compared
    return dataclasses.replace(compared, shift=found.shift, interval=found.interval, rerun=fresh)


def _finding(
    threshold: Threshold,
    rounds: Rounds,
    stored: AgainstStored,
    found: Shifts | Incomparable,
    alpha: float,
    *,
    fresh: bool,
) -> Finding:
    """Return the finding for a relative limit, or the reason why it could not be compared with the stored baseline."""
    flaw = flaw_of(threshold.metric, rounds) if rounds else None
    if flaw is not None:  # the outcome is INVALID regardless of the baseline
        return Finding.of(Verdict.INVALID, flaw)
    if stored.baseline.obstacle is not None:
        return Finding(outcome=Verdict.INCONCLUSIVE, reasons=(Reason.of(stored.baseline.obstacle),))
    if isinstance(found, Incomparable):
        return Finding.of(Verdict.INCONCLUSIVE, found.reason)
    if threshold.relative is None:
        return MET
    judge_shifts = _judge_fresh if fresh else _judge_first
    return judge_shifts(threshold.relative, threshold.metric, found, stored, alpha)


def _judge_first(limit: Relative, subject: Metric, found: Shifts, stored: AgainstStored, alpha: float) -> Finding:
    """Judge a relative limit based on the first trial. `<` and `<=` are equivalent here, as are `>` and `>=`."""
    imported = stored.baseline.imported
    against = "the baseline" if imported is None else _imported_from(imported)
    text = f"{_changes(subject, found)} against {against}; {_described(limit)}"
    if stored.confirmation != "none" and exceeds(found.shift, limit.log_tolerance):
        return _open(f"{text}; suspected regression, not yet confirmed by fresh trials")
    noise = found.most_by_noise(alpha) if imported is None else None
    return _beyond_noise(limit, subject, found, (text, text, text), noise)


def _judge_fresh(limit: Relative, subject: Metric, found: Shifts, stored: AgainstStored, alpha: float) -> Finding:
    """Judge a relative limit based on all new trials so far; the first trial does not count.

    A single trial that is worse by `NOTHING` confirms the regression; a majority of trials within the tolerance clears
    the suspicion.
    """
    imported, number = stored.baseline.imported, len(found.shifts)
    against = "" if imported is None else f" against {_imported_from(imported)}"
    text = f"{counted(number, 'fresh trial')}: {_changes(subject, found)}{against}; {_described(limit)}"
    confirmed = f"confirmed by {text}"
    if NOTHING in found.shifts:
        return Finding.of(Verdict.REGRESSED, f"{confirmed}; {subject.name} was 0 in one of them")
    if is_cleared(found, limit.log_tolerance):
        return Finding.of(Verdict.PASSED, f"suspected regression, not {confirmed}")
    if number < TRIALS:
        return _open(f"suspected regression, after {text}")
    noise = found.most_by_noise(alpha) if imported is None else None
    return _beyond_noise(limit, subject, found, (text, confirmed, f"worse in {text}"), noise)


def _beyond_noise(
    limit: Relative, subject: Metric, found: Shifts, texts: tuple[str, str, str], noise: float | None
) -> Finding:
    """Return the finding for a shift and the noise that may explain it (None if the noise is unknown).

    `texts` describe the trials in three cases: within the tolerance or the noise, beyond both, or only beyond the
    tolerance.
    """
    within, beyond, suspected = texts
    worse, improved = exceeds(found.shift, limit.log_tolerance), exceeds(-found.shift, limit.log_tolerance)
    if not worse and not improved:
        return Finding.of(Verdict.PASSED, within)
    outcome = Verdict.REGRESSED if worse else Verdict.IMPROVED
    if noise is None:
        return Finding.of(outcome, beyond)
    explained = format_ratio(change_of(subject, noise if worse else -noise))
    remark = f"noise can explain up to {explained} (baseline of {counted(found.known.days, 'day')})"
    if abs(found.shift) > noise:
        return Finding.of(outcome, f"{beyond}; {remark}")
    if improved:
        return Finding.of(Verdict.PASSED, f"{within}; {remark}")
    return Finding.of(Verdict.INCONCLUSIVE, f"{suspected}; {remark}: {_NEXT_STEPS}")


_NEXT_STEPS = (
    "compare side by side with --kafka-compare, or measure the baseline on more days with --kafka-update-baselines=add"
)


def _open(reason: str) -> Finding:
    return Finding.of(Verdict.INCONCLUSIVE, reason, unsettled=True)


def is_cleared(found: Shifts, tolerance: float) -> bool:
    """Return True if further new trials could not confirm the regression."""
    return sum(not exceeds(shift, tolerance) for shift in found.shifts) >= _ENOUGH_TO_CLEAR


def _changes(subject: Metric, found: Shifts) -> str:
    return ", ".join(format_ratio(change_of(subject, each)) for each in found.shifts)


def _described(limit: Relative) -> str:
    return f"the threshold is {format_ratio(limit.factor - 1)}"


def _imported_from(tool: str) -> str:
    return f"a baseline imported from {tool} (by ratio alone, because the noise of imported results is unknown)"


_FEWEST_ROUNDS = 3
"""Minimum number of rounds for estimating a trial's noise."""


def is_clear(threshold: Threshold, trials: Sequence[Measured], baseline: BaselineRounds, *, alpha: float) -> bool:
    """Return True if every round of all trials is worse than noise can explain, and by more than twice the tolerance.

    If there is no time to confirm a suspected regression of this kind, the test fails without confirmation.

    The standard deviation of the first trial's rounds is added to twice the tolerance. `benchmarks/verdict/simulate.py`
    shows how often unchanged software exceeds this limit.
    """
    subject, limit = threshold.metric, threshold.limit
    found = compare(subject, trials, baseline)
    if not isinstance(limit, Relative) or isinstance(found, Incomparable):  # the absolute part may be met
        return False
    if min(len(trial.rounds) for trial in trials) < _FEWEST_ROUNDS:
        return False
    within = statistics.stdev(logs(subject, trials[0].rounds))
    least = found.known.level + max(2 * limit.log_tolerance + within, found.known.most_by_noise(1, alpha))
    return all(exceeds(value, least) for trial in trials for value in logs(subject, trial.rounds))

"""Evaluation of thresholds relative to a stored or a live baseline.

A trial whose shift against a stored baseline exceeds the tolerance is a suspected regression. Then up to `TRIALS` fresh
trials alone decide. Two of them within the tolerance clear it, because then the median of three cannot exceed the
tolerance. It is a regression if their median shift exceeds the tolerance, and is larger than the noise of days, trials
and rounds explains (see `days`). If the run has no fresh trials, the first trial decides by the same rule.

The noise of a baseline that was imported from another tool is unknown. Then the shifts alone decide.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_percent, format_ratio
from pytest_kafkaperf.scenarios.threshold import Relative, Threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import Comparison, compare
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.scale import NOTHING, Measured, change_of, exceeds, logs
from pytest_kafkaperf.verdict.sequential import MARGIN, Look

ALPHA = 0.01
"""Significance level of a test; its thresholds relative to the baseline share it equally (Bonferroni)."""
TRIALS = 3
"""Maximum number of fresh trials."""
_ENOUGH_TO_CLEAR = TRIALS // 2 + 1

Stage = Literal["alone", "first", "fresh"]
"""Part of the trials in the decision: the first one alone, the first one before fresh ones, or the fresh ones."""


def judge_relative(
    limit: Relative, subject: Metric, comparison: Comparison, stage: Stage, *, alpha: float, imported: str | None = None
) -> Finding:
    """Evaluate a relative limit. The operators `<` and `<=` are equivalent here, as are `>` and `>=`.

    `comparison` is that of the fresh trials so far at the stage `fresh`, else that of the first trial. `alpha` is
    the significance level of this threshold. `imported` is the tool that measured an imported baseline.
    """
    shift, tolerance = comparison.shift, limit.log_tolerance
    worse, text = exceeds(shift, tolerance), _described(limit, subject, comparison, stage, imported)
    suspected = _of_suspected(text, subject, comparison, stage, tolerance)
    if suspected is not None:
        return suspected
    if not (worse or exceeds(-shift, tolerance)):
        return Finding(outcome=Verdict.PASSED, reason=text)
    confirmed = f"confirmed by {text}" if stage == "fresh" else text
    beyond = Verdict.REGRESSED if worse else Verdict.IMPROVED
    if imported is not None:
        return Finding(outcome=beyond, reason=confirmed)
    most = comparison.most_by_noise(alpha)
    explained = format_ratio(change_of(subject, most if worse else -most))
    noise = f"noise explains up to {explained} (baseline of {counted(comparison.known.days, 'day')})"
    if abs(shift) > most:
        return Finding(outcome=beyond, reason=f"{confirmed}; {noise}")
    if not worse:
        return Finding(outcome=Verdict.PASSED, reason=f"{text}; {noise}")
    seen = f"worse in {text}" if stage == "fresh" else text
    return Finding(outcome=Verdict.INCONCLUSIVE, reason=f"{seen}; {noise}: {_NEXT_STEPS}")


def _described(limit: Relative, subject: Metric, comparison: Comparison, stage: Stage, imported: str | None) -> str:
    changes = ", ".join(format_ratio(change_of(subject, each)) for each in comparison.shifts)
    threshold = f"the threshold is {format_ratio(limit.factor - 1)}"
    if stage != "fresh":
        return f"{changes} against {'the baseline' if imported is None else _imported_from(imported)}, {threshold}"
    against = "" if imported is None else f" against {_imported_from(imported)}"
    return f"{counted(len(comparison.shifts), 'fresh trial')}: {changes}{against}; {threshold}"


def _of_suspected(text: str, subject: Metric, comparison: Comparison, stage: Stage, tolerance: float) -> Finding | None:
    """Return the finding if further trials decide a suspected regression, or settle it without noise; else None.

    A fresh trial that is worse by `NOTHING` confirms it, and most of them within the tolerance clear it.
    """
    if stage == "fresh" and NOTHING in comparison.shifts:
        return Finding(outcome=Verdict.REGRESSED, reason=f"confirmed by {text}; {subject.name} was 0 in one of them")
    if stage == "fresh" and is_cleared(comparison, tolerance):
        return Finding(outcome=Verdict.PASSED, reason=f"suspected regression, not confirmed by {text}")
    if stage == "first" and exceeds(comparison.shift, tolerance):
        reason = f"{text}; suspected regression, not yet confirmed by fresh trials"
    elif stage == "fresh" and len(comparison.shifts) < TRIALS:
        reason = f"suspected regression, after {text}"
    else:
        return None
    return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=True)


def is_cleared(comparison: Comparison, tolerance: float) -> bool:
    """Return True if further fresh trials could not confirm the regression."""
    return sum(not exceeds(shift, tolerance) for shift in comparison.shifts) >= _ENOUGH_TO_CLEAR


_NEXT_STEPS = (
    "compare side by side with --kafka-compare, or measure the baseline on more days with --kafka-update-baselines=add"
)


def judge_look(limit: Relative, subject: Metric, evidence: Look | str, *, left_out: str | None = None) -> Finding:
    """Evaluate a relative limit. The operators `<` and `<=` are equivalent here, as are `>` and `>=`.

    `left_out` is the reason why a trial does not count.
    """
    if isinstance(evidence, str):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=evidence)
    reason = f"{counted(evidence.trials, 'trial')} side by side" + (f" (left out: {left_out})" if left_out else "")
    target = format_ratio(change_of(subject, limit.log_tolerance + MARGIN))
    match evidence.decision:
        case "regressed" if evidence.mean == NOTHING:
            return Finding(outcome=Verdict.REGRESSED, reason=f"{reason}; {subject.name} was 0 in one of them")
        case "regressed":
            return Finding(outcome=Verdict.REGRESSED, reason=reason)
        case "improved":
            return Finding(outcome=Verdict.IMPROVED, reason=reason)
        case "equal":
            return Finding(outcome=Verdict.PASSED, reason=f"{reason} exclude a change of {target}")
        case "open":
            noise = "" if evidence.deviation is None else f", whose noise is {format_percent(evidence.deviation)}"
            reason = f"undecided after {reason}{noise}"
            return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=not evidence.settled)


def _imported_from(tool: str) -> str:
    return f"a baseline imported from {tool} (by ratio alone, because the noise of imported results is unknown)"


_FEWEST_ROUNDS = 3
"""Fewer rounds do not show the noise of a trial."""


def is_clear(threshold: Threshold, trials: Sequence[Measured], baseline: BaselineRounds, *, alpha: float) -> bool:
    """Return True if every round of all trials is worse than noise explains, and than twice the tolerance.

    Such a suspected regression fails without confirmation if there is no time for that.

    The standard deviation of the first trial's rounds adds to twice the tolerance.
    `benchmarks/verdict/simulate.py` shows how often unchanged software is that far off.
    """
    subject, limit = threshold.metric, threshold.limit
    found = compare(subject, trials, baseline)
    if not isinstance(limit, Relative) or isinstance(found, str):  # an absolute part may hold
        return False
    if min(len(trial.rounds) for trial in trials) < _FEWEST_ROUNDS:
        return False
    within = statistics.stdev(logs(subject, trials[0].rounds))
    least = found.known.level + max(2 * limit.log_tolerance + within, found.known.most_by_noise(1, alpha))
    return all(exceeds(value, least) for trial in trials for value in logs(subject, trial.rounds))

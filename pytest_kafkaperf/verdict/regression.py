"""Evaluation of thresholds relative to a baseline or to a reference.

A session whose Hodges-Lehmann shift against the baseline exceeds the tolerance is suspect. Then fresh sessions alone
decide (see `confirmation`). If the run has no fresh sessions, the first session decides: it is a regression if the
exact one-sided test of the shift beyond the tolerance (see `comparison`) gives p < 0.01.

The noise of a baseline that was imported from another tool is unknown. Then the shifts alone decide, without a test.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_percent, format_ratio
from pytest_kafkaperf.scenario.threshold import Relative
from pytest_kafkaperf.verdict.comparison import Comparison, change_of, exceeds, pooled
from pytest_kafkaperf.verdict.confirmation import Fresh, can_decide
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.sequential import MARGIN, Look

ALPHA = Fraction(1, 100)
"""Significance level: a difference is significant if its p is below this.

If the first session decides alone, the level is not divided by the number of thresholds (Holm correction): 5 against 5
rounds give p >= 1/252, so three thresholds at ALPHA / 3 could never fail. Fresh sessions provide enough rounds for the
correction.
"""
_FEWEST_ROUNDS = 4
"""Minimum number of current rounds against 5 of the baseline, and the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """State of the confirmation of suspects."""

    gated: int
    """Number of thresholds relative to the baseline; each of them could fail the test."""
    fresh: Fresh | None = None
    """Evaluation of the fresh sessions so far; None for the first session."""
    level: Fraction = Fraction(0)
    """Significance level for the p of the fresh sessions, after the Holm correction."""


def judge_relative(
    limit: Relative,
    subject: Metric,
    comparisons: Sequence[Comparison],
    stage: Stage | None,
    *,
    imported: str | None = None,
) -> Finding:
    """Evaluate a relative limit. The operators `<` and `<=` are equivalent here, as are `>` and `>=`.

    `comparisons` holds one comparison per session: of the fresh sessions if `stage` has any, else of the first session.
    Without a `stage`, the first session decides alone. `imported` is the tool that measured an imported baseline.
    """
    if imported is None and (problem := _too_few(comparisons[0], stage)):
        # A threshold that could never fail must not pass, whatever the values are.
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=problem)
    if stage is not None and stage.fresh is not None:
        return _judge_fresh(limit, subject, stage.fresh, stage.level, pooled(comparisons).sizes, imported=imported)
    (comparison,) = comparisons
    return _judge_first(limit, subject, comparison, imported, confirmed=stage is not None)


def judge_look(limit: Relative, subject: Metric, evidence: Look | str) -> Finding:
    """Evaluate a relative limit. The operators `<` and `<=` are equivalent here, as are `>` and `>=`."""
    if isinstance(evidence, str):
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=evidence)
    sessions = counted(evidence.sessions, "session")
    reason = f"{format_ratio(change_of(subject, evidence.mean))} against the reference in {sessions}"
    if evidence.interval is not None:
        least, most = sorted(change_of(subject, end) for end in evidence.interval)
        reason += f" ({format_ratio(least)} to {format_ratio(most)})"
    reason += f"; the threshold is {format_ratio(limit.factor - 1)}"
    target = format_ratio(change_of(subject, limit.log_tolerance + MARGIN))
    match evidence.decision:
        case "regressed":
            return Finding(outcome=Verdict.REGRESSED, reason=reason)
        case "improved":
            return Finding(outcome=Verdict.IMPROVED, reason=reason)
        case "equal":
            return Finding(outcome=Verdict.PASSED, reason=f"{reason}; a change of {target} is excluded")
        case "open":
            noise = "" if evidence.deviation is None else f", whose noise is {format_percent(evidence.deviation)}"
            reason += f"; undecided after {sessions}{noise}"
            return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=not evidence.settled)


def _judge_first(
    limit: Relative, subject: Metric, comparison: Comparison, imported: str | None, *, confirmed: bool
) -> Finding:
    shift, tolerance = comparison.shift, limit.log_tolerance
    worse, better = exceeds(shift, tolerance), exceeds(-shift, tolerance)
    against = "the baseline" if imported is None else _imported_from(imported)
    reason = f"{format_ratio(change_of(subject, shift))} against {against}, {_threshold(limit)}"
    if worse and confirmed:
        reason += "; suspected regression, not yet confirmed by fresh sessions"
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=True)
    if not (worse or better):
        return Finding(outcome=Verdict.PASSED, reason=reason)
    if imported is None:
        p = comparison.worse_p(tolerance) if worse else comparison.better_p(tolerance)
        if p >= ALPHA:
            reason += f"; not significant (p = {float(p):.3g}, not below {float(ALPHA)}; {comparison.sizes})"
            return Finding(outcome=Verdict.PASSED, reason=reason)
        reason += f"; significant (p = {float(p):.3g}, {comparison.sizes})"
    return Finding(outcome=Verdict.REGRESSED if worse else Verdict.IMPROVED, reason=reason)


def _judge_fresh(
    limit: Relative, subject: Metric, fresh: Fresh, level: Fraction, sizes: str, *, imported: str | None
) -> Finding:
    changes = ", ".join(format_ratio(change_of(subject, shift)) for shift in fresh.shifts)
    against = "" if imported is None else f" against {_imported_from(imported)}"
    sessions = f"{counted(len(fresh.shifts), 'fresh session')}: {changes}{against}; {_threshold(limit)}"
    if fresh.cleared:
        return Finding(outcome=Verdict.PASSED, reason=f"suspected regression, not confirmed by {sessions}")
    if not fresh.settled:
        reason = f"suspected regression, after {sessions}"
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=True)
    if imported is not None:
        return Finding(outcome=Verdict.REGRESSED, reason=f"confirmed by {sessions}")
    statistics = f"(p = {float(fresh.p):.3g}, {sizes})"
    if fresh.exceeds and fresh.p < level:
        return Finding(outcome=Verdict.REGRESSED, reason=f"confirmed by {sessions}; significant {statistics}")
    reason = f"suspected regression, not confirmed by {sessions}; not significant {statistics}"
    return Finding(outcome=Verdict.PASSED, reason=reason)


def _imported_from(tool: str) -> str:
    return f"a baseline imported from {tool} (by ratio alone, because the noise of imported results is unknown)"


def _threshold(limit: Relative) -> str:
    return f"the threshold is {format_ratio(limit.factor - 1)}"


def _too_few(comparison: Comparison, stage: Stage | None) -> str | None:
    """Explain that there are too few rounds to fail a test, and suggest a number; return None if there are enough."""

    def decides(rounds: int, baseline: int) -> bool:
        gated = 1 if stage is None else stage.gated
        return can_decide(rounds, baseline, gated=gated, confirmed=stage is not None, alpha=ALPHA)

    rounds, before = len(comparison.current), len(comparison.baseline)
    if decides(rounds, before):
        return None
    enough = next(number for number in itertools.count(rounds) if decides(number, max(before, _FEWEST_ROUNDS)))
    needed = next(number for number in itertools.count(before) if decides(enough, number))
    advice = [f"use rounds={enough} or more"] if enough > rounds else []
    advice += [f"make a new baseline with {needed} rounds or more"] if needed > before else []
    return f"too few rounds to prove a regression: {rounds} against {before}; {' and '.join(advice)}"

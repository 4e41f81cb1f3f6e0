"""Whether a metric is worse than the baseline by more than a tolerance: suspect, confirmed, cleared. Pure.

A session whose Hodges-Lehmann shift over the baseline (or over the reference, in pairs) exceeds the tolerance is
suspect, and fresh sessions alone decide then (see `confirmation`). Where there are none, it is broken when the exact
one-sided test of the shift beyond the tolerance (see `comparison`) gives p < 0.01.

A baseline that was imported from another tool has no noise to test against: there the shifts alone decide, of the first
session, or of the fresh ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import counted, format_ratio
from pytest_kafkaperf.scenario.threshold import Relative
from pytest_kafkaperf.verdict.comparison import Comparison, Paired, Unpaired, change_of, exceeds, pooled
from pytest_kafkaperf.verdict.confirmation import Fresh, can_decide
from pytest_kafkaperf.verdict.outcome import Finding, Verdict

ALPHA = Fraction(1, 100)
"""A difference is beyond noise when its p is below this.

Not divided over the gated metrics (Holm) where one session decides alone: 5 against 5 rounds give 1/252 at best, so
three metrics at ALPHA / 3 could never fail, and a gate would sleep. Fresh sessions give more rounds.
"""
_FEWEST_ROUNDS = 4
"""Current rounds that 5 of the baseline can decide with, and the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How far a suspect has got."""

    gated: int
    """Limits relative to the baseline, any of which could fail the test."""
    fresh: Fresh | None = None
    """What the sessions looked at say, where they are fresh ones, which decide alone."""
    level: Fraction = Fraction(0)
    """Below what their p is significant."""


def judge_relative(
    limit: Relative,
    subject: Metric,
    comparisons: Sequence[Comparison],
    stage: Stage | None,
    *,
    imported: str | None = None,
) -> Finding:
    """Judge the sessions that were compared; `<` is `<=`, noise has no edges.

    With a `stage` that has fresh sessions the comparisons are theirs; without any, one session decides alone.
    `imported` is the tool that measured the baseline, where it was another.
    """
    if imported is not None:
        return _by_ratio(limit, subject, comparisons, stage, tool=imported)
    flaw = _too_few(comparisons[0], stage)
    if flaw:
        # Whatever the values are: a limit that could never fail must not pass.
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=flaw)
    if stage is not None and stage.fresh is not None:
        return _decide_afresh(limit, subject, stage.fresh, stage.level, pooled(comparisons).sizes)
    (comparison,) = comparisons
    suspicion = None if stage is None else _suspect(limit, subject, comparison)
    return suspicion or _decide(limit, subject, comparison)


def _by_ratio(
    limit: Relative, subject: Metric, comparisons: Sequence[Comparison], stage: Stage | None, *, tool: str
) -> Finding:
    """By the shifts alone, of any number of rounds: there is no noise to ask how likely they are by chance."""
    alone = (
        f"against a baseline imported from {tool} (by ratio alone: it was measured by another tool, and its noise is "
        f"not known); {_allowed(limit)}"
    )
    if stage is not None and stage.fresh is not None:
        shown = f"{_on_fresh(subject, stage.fresh)}, {alone}"
        if stage.fresh.cleared:
            return Finding(outcome=Verdict.PASSED, reason=f"suspect at first, and not confirmed {shown}")
        if not stage.fresh.settled:
            return Finding(outcome=Verdict.INCONCLUSIVE, reason=f"suspect, {shown}", unsettled=True)
        return Finding(outcome=Verdict.REGRESSED, reason=f"confirmed {shown}")
    (comparison,) = comparisons
    shown = f"{format_ratio(change_of(subject, comparison.shift))} {alone}"
    if exceeds(comparison.shift, limit.log_tolerance):
        if stage is None:
            return Finding(outcome=Verdict.REGRESSED, reason=shown)
        reason = f"{shown}; suspect, and no fresh session has run"
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=reason, unsettled=True)
    better = exceeds(-comparison.shift, limit.log_tolerance)
    return Finding(outcome=Verdict.IMPROVED if better else Verdict.PASSED, reason=shown)


def _suspect(limit: Relative, subject: Metric, comparison: Comparison) -> Finding | None:
    """What fresh sessions are to settle; None where there is nothing."""
    if not exceeds(comparison.shift, limit.log_tolerance):
        return None
    return Finding(
        outcome=Verdict.INCONCLUSIVE,
        reason=f"{_told(subject, comparison)}, {_allowed(limit)}; suspect, and no fresh session has run",
        unsettled=True,
    )


def _decide_afresh(limit: Relative, subject: Metric, fresh: Fresh, level: Fraction, sizes: str) -> Finding:
    """By the fresh sessions alone."""
    on = _on_fresh(subject, fresh)
    if fresh.cleared:
        return Finding(outcome=Verdict.PASSED, reason=f"suspect at first, and not confirmed {on}; {_allowed(limit)}")
    if not fresh.settled:
        return Finding(outcome=Verdict.INCONCLUSIVE, reason=f"suspect, {on}; {_allowed(limit)}", unsettled=True)
    told = f"p = {float(fresh.p):.3g}, {sizes}"
    if fresh.exceeds and fresh.p < level:
        return Finding(outcome=Verdict.REGRESSED, reason=f"confirmed {on}; {_allowed(limit)}; beyond noise ({told})")
    reason = f"suspect at first, and not beyond noise {on}; {_allowed(limit)} ({told})"
    return Finding(outcome=Verdict.PASSED, reason=reason)


def _on_fresh(subject: Metric, fresh: Fresh) -> str:
    shown = ", ".join(format_ratio(change_of(subject, shift)) for shift in fresh.shifts)
    return f"on {counted(len(fresh.shifts), 'fresh session')}: {shown}"


def _decide(limit: Relative, subject: Metric, comparison: Comparison) -> Finding:
    tolerance, shift = limit.log_tolerance, comparison.shift
    change, allowed, sizes = _told(subject, comparison), _allowed(limit), comparison.sizes
    if exceeds(shift, tolerance):
        p = comparison.worse_p(tolerance)
        if p < ALPHA:
            reason = f"{change}, {allowed}; beyond noise (p = {float(p):.3g}, {sizes})"
            return Finding(outcome=Verdict.REGRESSED, reason=reason)
        reason = f"{change}, {allowed}; but not beyond noise (p = {float(p):.3g}, not < {float(ALPHA)}; {sizes})"
        return Finding(outcome=Verdict.PASSED, reason=reason)
    if exceeds(-shift, tolerance):
        p = comparison.better_p(tolerance)
        if p < ALPHA:
            reason = f"{change}, better by more than the tolerance; beyond noise (p = {float(p):.3g}, {sizes})"
            return Finding(outcome=Verdict.IMPROVED, reason=reason)
    return Finding(outcome=Verdict.PASSED, reason=f"{change}, {allowed}")


def _told(subject: Metric, comparison: Comparison) -> str:
    return f"{format_ratio(change_of(subject, comparison.shift))} against {comparison.against}"


def _allowed(limit: Relative) -> str:
    return f"the limit is {format_ratio(limit.factor - 1)}"


def _too_few(comparison: Comparison, stage: Stage | None) -> str | None:
    """Why so many rounds cannot decide, and what would do; None where they can."""

    def decides(rounds: int, baseline: int | None) -> bool:
        gated = 1 if stage is None else stage.gated
        return can_decide(rounds, baseline, gated=gated, confirmed=stage is not None, alpha=ALPHA)

    match comparison:
        case Unpaired(current=current, baseline=baseline):
            return None if decides(len(current), len(baseline)) else _too_few_rounds(current, baseline, decides)
        case Paired(differences=differences):
            pairs = len(differences)
            enough = next(number for number in itertools.count(pairs) if decides(number, None))
            return None if enough == pairs else _too_few_pairs(pairs, enough)


def _too_few_pairs(pairs: int, enough: int) -> str:
    return f"too few rounds: {counted(pairs, 'pair')} cannot decide; {enough} can: use rounds={enough} or more"


def _too_few_rounds(
    current: Sequence[float], baseline: Sequence[float], decides: Callable[[int, int | None], bool]
) -> str:
    now, before = len(current), len(baseline)
    enough = next(number for number in itertools.count(now) if decides(number, max(before, _FEWEST_ROUNDS)))
    enough_before = next(number for number in itertools.count(before) if decides(enough, number))
    advice = f"use rounds={enough} or more" if enough > now else ""
    if enough_before > before:
        advice += f"{' and ' if advice else ''}make the baseline anew with {enough_before} rounds or more"
    return f"too few rounds: {now} against {before} cannot decide; {enough} against {enough_before} can: {advice}"

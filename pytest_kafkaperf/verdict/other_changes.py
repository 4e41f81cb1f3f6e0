"""Other changes: significant changes in metrics without a threshold, which never make a test fail.

Because there are many such metrics, and none has a declared tolerance, a change is reported only if it exceeds 10% and
noise cannot explain it (see `days`), at a significance level of 1% across all metrics and both directions combined.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import CATALOGUE, Metric
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import compare, level_of_other_side
from pytest_kafkaperf.verdict.scale import Incomparable, Measured, change_of, exceeds, value_of
from pytest_kafkaperf.verdict.sequential import differences_of, look

ALPHA = 0.01
"""False-alarm rate per run, across all metrics and both directions."""
LEAST_CHANGE = 0.1
"""Smallest change to report, as a ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherChange:
    """A metric that changed. Values are in the metric's base unit."""

    metric: str
    observed: float
    """The value that differs from `baseline` by `change`."""
    baseline: float
    """Level of the stored or live baseline."""
    change: float
    """Change as a ratio: +0.3 if the value rose by 30%."""
    better: bool


def other_changes(
    trials: Sequence[Measured], baseline: BaselineRounds, *, gated: Collection[str]
) -> tuple[OtherChange, ...]:
    """Return the significant changes, worst first; for related metrics, such as latency quantiles, only the largest.

    Trials that have a live baseline are compared with it, all others with the stored baseline. Skips metrics in
    `gated`, because they have thresholds, metrics that can be zero (except the lag), and metrics that are missing, not
    finite or not positive in some round.
    """
    left_out = {*gated, *(name.replace(".throughput", ".bandwidth") for name in gated)}
    measured = {name for one in trials[0].rounds for name in one}.difference(left_out)
    subjects = [
        dataclasses.replace(each, can_be_zero=False)
        for each in CATALOGUE.values()
        if each.name in measured
        and (not each.can_be_zero or each.name.startswith("lag."))
        and not any(one.get(each.name) == 0 for trial in trials for one in trial.rounds)
    ]
    alpha = ALPHA / 2 / max(1, len(subjects))
    side_by_side = trials[0].other_side is not None
    by_family: dict[str, list[OtherChange]] = {}
    for subject in subjects:
        found = _side_by_side(subject, trials, alpha) if side_by_side else _change(subject, trials, baseline, alpha)
        if found is not None:
            by_family.setdefault(_family(subject.name), []).append(found)
    largest = (max(changes, key=_importance) for changes in by_family.values())
    return tuple(sorted(largest, key=_shift, reverse=True))


def _side_by_side(subject: Metric, trials: Sequence[Measured], alpha: float) -> OtherChange | None:
    """Return a metric's change from the live baseline if the sequential test finds it significant."""
    differences, _ = differences_of(subject, trials)
    if not differences:
        return None
    evidence = look(differences, tolerance=math.log1p(LEAST_CHANGE), alpha=alpha)
    if evidence.decision not in ("regressed", "improved"):
        return None
    known = level_of_other_side(subject, trials)
    return None if known is None else _found(subject, known.level, evidence.mean)


def _change(subject: Metric, trials: Sequence[Measured], baseline: BaselineRounds, alpha: float) -> OtherChange | None:
    """Return a metric's change from the stored baseline if it is significant."""
    comparison = compare(subject, trials, baseline)
    if isinstance(comparison, Incomparable) or not exceeds(abs(comparison.shift), math.log1p(LEAST_CHANGE)):
        return None
    if abs(comparison.shift) <= comparison.most_by_noise(alpha):
        return None
    return _found(subject, comparison.known.level, comparison.shift)


def _found(subject: Metric, level: float, shift: float) -> OtherChange:
    return OtherChange(
        metric=subject.name,
        observed=value_of(subject, level + shift),
        baseline=value_of(subject, level),
        change=change_of(subject, shift),
        better=shift < 0,
    )


def _shift(one: OtherChange) -> float:
    """Return the change on the log scale where larger is worse."""
    return abs(math.log1p(one.change)) * (-1 if one.better else 1)


def _importance(one: OtherChange) -> tuple[bool, float]:
    """Return a sort key that prefers throughput over bandwidth, and then larger changes over smaller ones."""
    return one.metric.endswith(".throughput"), abs(_shift(one))


def _family(metric: str) -> str:
    """Return the group to which a metric belongs, such as `produce.latency`; bandwidth belongs to throughput."""
    return ".".join(metric.split(".")[:2]).replace(".bandwidth", ".throughput")

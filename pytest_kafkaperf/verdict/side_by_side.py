"""Confirmation of a suspected regression, side by side with the rebuilt brokers of the baseline.

These trials decide as in any comparison with a live baseline (see `sequential`). If they find both sides equal, the
stored values differ because the machine does, or because something else differs from the baseline on both sides.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.environment import Change, Part
from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.days import compare
from pytest_kafkaperf.verdict.outcome import Finding, Verdict
from pytest_kafkaperf.verdict.scale import Measured, change_of, exceeds, flaw_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The baseline's brokers, started again."""

    common_changes: tuple[Change, ...] = ()
    """Differences from the baseline on both sides, such as the version of Python."""
    slower_machine: str | None = None
    """A test that has shown, side by side, that both sides are slower today: then a suspected regression is cleared as
    soon as the mean of its trials is within the tolerance. None if no test has."""


def judge_suspected(
    finding: Finding, subject: Metric, stored: float | None, rebuilt: Rebuilt, *, early: bool, machine: float | None
) -> tuple[Finding, str | None]:
    """Turn the finding of the side-by-side trials into that of the suspected regression, perhaps with a warning.

    Args:
        finding: of the side-by-side trials with the rebuilt brokers.
        subject: the metric.
        stored: change of the first trial against the stored values.
        rebuilt: the baseline's brokers.
        early: True if the mean so far was enough, because both sides are known to be slower.
        machine: change of both sides against the stored values (see `machine_change`).

    """
    stored_change = "" if stored is None else f"first trial: {format_ratio(stored)} against the stored baseline"
    if early:
        shown = f"{rebuilt.slower_machine} has shown that both sides are slower"
        reason = f"within the tolerance side by side, which is enough, because {shown}"
        finding = Finding(outcome=Verdict.PASSED, reason=reason)
    cleared = not finding.unsettled and finding.outcome in (Verdict.PASSED, Verdict.IMPROVED)
    way = "not confirmed: " if cleared else "confirmed by " if finding.outcome is Verdict.REGRESSED else ""
    reason = "; ".join(filter(None, (stored_change, f"{way}{finding.reason}")))
    if not cleared:
        return dataclasses.replace(finding, reason=reason), None
    if machine is None:
        return Finding(outcome=Verdict.PASSED, reason=reason), None
    shift = f"{subject.name} is {format_ratio(machine)} against the stored baseline on both sides today"
    changes = "; ".join(map(str, rebuilt.common_changes))
    if all(each.of is Part.MACHINE for each in rebuilt.common_changes):
        told = f" ({changes})" if changes else ""
        return Finding(outcome=Verdict.PASSED, reason=reason), f"the machine differs{told}: {shift}; Kafka is unchanged"
    text = f"{shift}: by the machine, or by what the rebuilt brokers cannot undo: {changes}"
    return Finding(outcome=Verdict.INCONCLUSIVE, reason=f"{reason}; {text}"), shift


def machine_change(
    subject: Metric, trials: Sequence[Measured], baseline: BaselineRounds, tolerance: float
) -> float | None:
    """Return the change of both sides against the stored values, if it is worse than the tolerance.

    The stored values are those of long rounds of one cluster, and so are those of the first trial, which is as good a
    measure of both sides if they are equal. The short rounds of the rebuilt brokers are slower on shared cores: by a
    third or more on two cores. Therefore they only show whether what slowed the first trial is over. Trials without a
    reading do not count, as in the comparison of both sides.
    """
    others = [Measured(rounds=trial.other_side or ()) for trial in trials[1:]]
    others = [each for each in others if flaw_of(subject, each.rounds, ratio=True) is None]
    if not others:
        return None
    found = [compare(subject, part, baseline) for part in (trials[:1], others)]
    shift = min(-math.inf if isinstance(each, str) else each.shift for each in found)
    return change_of(subject, shift) if exceeds(shift, tolerance) else None

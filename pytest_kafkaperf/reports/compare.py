"""The comparison of two reports by the rule that judges a test against its baseline. Pure.

The sessions of the first report are the baseline. The first session of the second report is judged; its further
sessions confirm or clear a suspect. Without further sessions, the first one decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import HEADLINES, declare, metric
from pytest_kafkaperf.reports.json_reader import Report, ReportedRound, ReportedTest
from pytest_kafkaperf.scenarios.threshold import Threshold, parse_threshold
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds, scenario_changes
from pytest_kafkaperf.verdict.comparison import Measured
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.regression import SESSIONS
from pytest_kafkaperf.verdict.verdict import judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A test that both reports contain."""

    nodeid: str
    verdict: Verdict
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    """Reasons why the verdict is INVALID or the test has no checks."""


def compare_reports(before: Report, after: Report, *, tolerance_ratio: float) -> list[Compared]:
    """Compare the tests that both reports contain, in the order of the second one.

    The thresholds are those of the second report that are relative to a baseline. A test without such a threshold is
    judged by the headline metrics, each with the given tolerance.

    Raises:
        ScenarioError: A threshold of the second report cannot be read.

    """
    for test in (*before.tests, *after.tests):
        for name, one in test.metrics.items():
            with contextlib.suppress(ScenarioError):  # the plugin's own, perhaps those of another version
                declare(name, unit=one.unit, better=one.better)
    earlier = {test.nodeid: test for test in before.tests}
    elsewhere = None
    if before.key != after.key:
        elsewhere = (
            f"the first report is from environment {before.key!r}, not {after.key!r}; "
            "the change is shown but not judged"
        )
    return [
        _compared(earlier[test.nodeid], test, elsewhere, tolerance_ratio)
        for test in after.tests
        if test.nodeid in earlier
    ]


def _compared(before: ReportedTest, after: ReportedTest, elsewhere: str | None, tolerance_ratio: float) -> Compared:
    thresholds = [each for each in (parse_threshold(check.expression) for check in after.checks) if each.relative]
    thresholds = thresholds or _headlines(before, after, tolerance_ratio)
    if not thresholds:
        verdict = Verdict.INVALID if after.problems else Verdict.INCONCLUSIVE
        notes = (*after.problems, "the two reports have no metric in common")
        return Compared(nodeid=after.nodeid, verdict=verdict, checks=(), notes=notes)
    further = _further(after)[:SESSIONS]
    judgement = judge(
        thresholds=thresholds,
        sessions=[Measured(rounds=one) for one in (_figures(after.rounds), *further)],
        baseline=_baseline(before, after, elsewhere),
        confirm=bool(further),
    )
    verdict = Verdict.INVALID if after.problems else judgement.verdict
    return Compared(nodeid=after.nodeid, verdict=verdict, checks=judgement.checks, notes=tuple(after.problems))


def _baseline(before: ReportedTest, after: ReportedTest, elsewhere: str | None) -> BaselineRounds:
    if before.problems:
        return BaselineRounds(obstacle=f"the first report's run is INVALID: {before.problems[0]}")
    changes = scenario_changes(_workload(before), _workload(after))
    if changes:
        return BaselineRounds(obstacle=f"the scenario differs from that of the first report ({'; '.join(changes)})")
    sessions = [one for one in (_figures(before.rounds), *_further(before)) if one]
    return BaselineRounds(sessions=tuple(sessions), obstacle=elsewhere)


def _workload(test: ReportedTest) -> Mapping[str, JsonValue]:
    return test.scenario if test.search is None else {**test.scenario, "capacity": ", ".join(test.search.limits)}


def _further(test: ReportedTest) -> list[tuple[Mapping[str, float], ...]]:
    """Return the further sessions that were measured like the first one.

    One with problems was repeated, or the test is INVALID. One beside the brokers of a baseline shared its cores.
    """
    alike = [one for one in test.further_sessions if test.reference is not None or not one.reference_rounds]
    return [_figures(one.rounds) for one in alike if not one.problems]


def _figures(rounds: Sequence[ReportedRound]) -> tuple[Mapping[str, float], ...]:
    return tuple(one.metrics for one in rounds)


def _headlines(before: ReportedTest, after: ReportedTest, tolerance_ratio: float) -> list[Threshold]:
    known = [{name for one in test.rounds for name in one.metrics} for test in (before, after)]
    worse = {"lower": "<= baseline +", "higher": ">= baseline -"}
    return [
        parse_threshold(f"{name} {worse[metric(name).better]} {tolerance_ratio * 100:g}%")
        for name in HEADLINES
        if all(name in each for each in known)
    ]

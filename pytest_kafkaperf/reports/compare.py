"""Two reports compared by the rule that judges a test against its baseline. Pure.

The sessions of the first report are the baseline. Of the second, the first session is judged, and its further ones are
the fresh ones that confirm or clear a suspect; where there are none, the first decides alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import HEADLINES, metric
from pytest_kafkaperf.reports.json_reader import Report, ReportedRound, ReportedTest
from pytest_kafkaperf.scenario.threshold import Relative, Threshold, parse_threshold
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds, scenario_changes
from pytest_kafkaperf.verdict.comparison import Measured
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One test of both reports."""

    nodeid: str
    verdict: Verdict
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    """Why it is INVALID, or why there is no check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportComparison:
    """What two reports say of each other."""

    tests: tuple[Compared, ...]
    """In the order of the second report."""
    gone: tuple[str, ...]
    """Tests of the first report only."""
    new: tuple[str, ...]
    """Tests of the second report only."""

    @property
    def fails(self) -> bool:
        """Whether a test regressed, or cannot be trusted."""
        return any(test.verdict.fails for test in self.tests)


def compare_reports(before: Report, after: Report, *, tolerance_ratio: float) -> ReportComparison:
    """Compare the tests that both have.

    Limits are those of the second report that speak of a baseline; a test without any has `HEADLINES`, each within the
    tolerance.

    Raises:
        ScenarioError: the second report has a limit that cannot be read.

    """
    earlier = {test.nodeid: test for test in before.tests}
    later = {test.nodeid for test in after.tests}
    elsewhere = None
    if before.key != after.key:
        elsewhere = f"of environment {before.key!r}, not {after.key!r}: the change is shown, it never counts"
    return ReportComparison(
        tests=tuple(
            _compared(earlier[test.nodeid], test, elsewhere, tolerance_ratio)
            for test in after.tests
            if test.nodeid in earlier
        ),
        gone=tuple(nodeid for nodeid in earlier if nodeid not in later),
        new=tuple(test.nodeid for test in after.tests if test.nodeid not in earlier),
    )


def _compared(before: ReportedTest, after: ReportedTest, elsewhere: str | None, tolerance_ratio: float) -> Compared:
    limits = [limit for limit in (parse_threshold(each.expression) for each in after.checks) if limit.needs_baseline]
    limits = limits or _headlines(before, after, tolerance_ratio)
    judgement = judge(
        thresholds=limits,
        session=Measured(rounds=_figures(after.rounds)),
        baseline=_baseline(before, after, elsewhere),
        fresh=[Measured(rounds=one) for one in _further(after)[:SESSIONS]] or None,
    )
    verdict = judgement.verdict if limits else Verdict.INCONCLUSIVE
    notes = after.problems if limits else (*after.problems, "there is no figure that both reports have")
    verdict = Verdict.INVALID if after.problems else verdict
    return Compared(nodeid=after.nodeid, verdict=verdict, checks=judgement.checks, notes=notes)


def _baseline(before: ReportedTest, after: ReportedTest, elsewhere: str | None) -> BaselineRounds:
    if before.problems:
        return BaselineRounds(obstacle=f"the first report's run cannot be trusted: {before.problems[0]}")
    changes = scenario_changes(before.scenario, after.scenario)
    if changes:
        return BaselineRounds(obstacle=f"the scenario is not the first report's ({'; '.join(changes)})")
    sessions = [one for one in (_figures(before.rounds), *_further(before)) if one]
    return BaselineRounds(sessions=tuple(sessions), obstacle=elsewhere)


def _further(test: ReportedTest) -> list[tuple[Mapping[str, float], ...]]:
    """The further sessions that count: one with problems was measured again, or has made the whole test INVALID."""
    return [_figures(one.rounds) for one in test.further_sessions if not one.problems]


def _figures(rounds: Sequence[ReportedRound]) -> tuple[Mapping[str, float], ...]:
    return tuple(one.metrics for one in rounds)


def _headlines(before: ReportedTest, after: ReportedTest, tolerance_ratio: float) -> list[Threshold]:
    def measures(test: ReportedTest, name: str) -> bool:
        return any(name in one.metrics for one in test.rounds)

    return [_limit(name, tolerance_ratio) for name in HEADLINES if measures(before, name) and measures(after, name)]


def _limit(name: str, tolerance_ratio: float) -> Threshold:
    """`NAME <= baseline + 10%`, or `>= baseline - 10%` where higher is better."""
    subject = metric(name)
    lower = subject.better == "lower"
    percent = f"{tolerance_ratio * 100:g}"
    return Threshold(
        expression=f"{name} {'<= baseline +' if lower else '>= baseline -'} {percent}%",
        metric=subject,
        operator="<=" if lower else ">=",
        limit=Relative(factor=1 + tolerance_ratio if lower else 1 - tolerance_ratio),
    )

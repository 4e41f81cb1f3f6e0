"""Comparison of two reports, using the same rule that judges a test against its baseline. Pure.

The base report's trials are the baseline. The head report's first trial is judged; its further trials confirm or clear
a suspected regression. Without further trials, the first one is decisive.

Tests that failed in the head run fail here as well. The exception is a REGRESSED verdict, because it refers to a
different baseline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pytest_kafkaperf.core.errors import ScenarioError, UsageError
from pytest_kafkaperf.core.metrics import HEADLINES, Better, declare, metric
from pytest_kafkaperf.reports.json_report import SCHEMA_VERSION
from pytest_kafkaperf.scenarios.fields import OtherSchemaError, parse_model
from pytest_kafkaperf.scenarios.threshold import Threshold, parse_threshold
from pytest_kafkaperf.verdict.baseline_file import MOST, BaselineRounds, scenario_changes
from pytest_kafkaperf.verdict.days import TRIALS
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Check, Verdict, worst
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A test in the head report."""

    nodeid: str
    verdict: Verdict
    checks: tuple[Check, ...]
    """The thresholds relative to the base report; empty for a new test."""
    notes: tuple[str, ...]
    """Reasons why the verdict is INVALID or the test does not have checks."""
    failures: tuple[str, ...] = ()
    """Failures in the head run that count regardless of the comparison."""

    @property
    def fails(self) -> bool:
        """True if the test is worse than in the base report or failed in the head run."""
        return self.verdict.fails or bool(self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedReports:
    """The tests in two reports."""

    tests: tuple[Compared, ...]
    """Tests that both runs measured, in the order of the head report."""
    new: tuple[Compared, ...]
    """Tests that only the head run measured."""
    missing: Mapping[str, str | None]
    """Tests that only the base run measured, by nodeid, each with a reason if the head report contains one."""
    unmeasured: Mapping[str, str]
    """Other tests that failed in the head run without a measurement; the reason for each failure, by nodeid."""

    @property
    def judges_nothing(self) -> bool:
        """True if no test could be judged even though the reports have tests in common."""
        return bool(self.tests) and all(test.verdict is Verdict.INCONCLUSIVE for test in self.tests)

    @property
    def fails(self) -> bool:
        """True if a test is worse, failed, or was not measured in the head report."""
        return bool(self.missing or self.unmeasured or any(test.fails for test in (*self.tests, *self.new)))


def compare_reports(base: Report, head: Report, *, tolerance_ratio: float) -> ComparedReports:
    """Compare the tests that both reports contain.

    This comparison uses the thresholds in the head report that are relative to a baseline. A test without such a
    threshold is judged based on its headline metrics, each with the given tolerance.

    Raises:
        ScenarioError: a threshold in the head report cannot be parsed.

    """
    _declare_metrics((*base.tests, *head.tests))
    earlier = {test.nodeid: test for test in base.tests}
    elsewhere = None
    if base.key != head.key:
        keys = {"base": base.key, "head": head.key}
        elsewhere = Obstacle(ObstacleKind.OTHER_ENVIRONMENT_REPORTED, keys)
    measured = [test for test in head.tests if test.rounds or test.problems]
    in_both = [test for test in measured if test.nodeid in earlier]
    missing = _missing(base, head, {test.nodeid for test in measured})
    failed = {one.nodeid: str(one) for one in head.unmeasured if one.fails and one.nodeid not in missing}
    return ComparedReports(
        tests=tuple(_compared(earlier[test.nodeid], test, elsewhere, tolerance_ratio) for test in in_both),
        new=tuple(_new(test) for test in measured if test.nodeid not in earlier),
        missing=missing,
        unmeasured=failed,
    )


def _declare_metrics(tests: Iterable[ReportedTest]) -> None:
    """Declare the custom metrics that tests recorded."""
    for test in tests:
        for name, one in test.metrics.items():
            with contextlib.suppress(ScenarioError):  # the plugin's own metrics, possibly from another version
                declare(name, unit=one.unit, better=one.better)


def _missing(base: Report, head: Report, measured: Collection[str]) -> dict[str, str | None]:
    reasons = {test.nodeid: "; ".join(map(str, test.notes)) for test in head.tests}
    reasons |= {one.nodeid: str(one) for one in head.unmeasured}
    wanted = [test.nodeid for test in base.tests if test.rounds]
    return {nodeid: reasons.get(nodeid) or None for nodeid in wanted if nodeid not in measured}


def _new(test: ReportedTest) -> Compared:
    verdict = worst([Verdict.MEASURED, *_own_verdicts(test)])
    notes = ("only in the head report", *map(str, test.problems))
    return Compared(nodeid=test.nodeid, verdict=verdict, checks=(), notes=notes, failures=_failures(test))


def _own_verdicts(test: ReportedTest) -> Iterator[Verdict]:
    """Yield the verdicts that do not depend on the comparison's baseline."""
    if test.problems:
        yield Verdict.INVALID
    if test.verdict is Verdict.VIOLATED and test.pytest_outcome != _EXPECTED_TO_FAIL:
        yield Verdict.VIOLATED


def _failures(test: ReportedTest) -> tuple[str, ...]:
    if test.pytest_outcome == _EXPECTED_TO_FAIL:
        return ()
    failures = [
        f"{check.expression} is VIOLATED in the head report: {check.reason}"
        for check in test.checks
        if check.verdict is Verdict.VIOLATED
    ]
    if test.pytest_outcome in _UNFINISHED:
        failures.append("the test did not end in the head run")
    if test.pytest_outcome in FAILED and not test.failed_by_verdict:
        failures.append("the test failed in the head run, but not because of its verdict: see the output of that run")
    return tuple(failures)


_EXPECTED_TO_FAIL = "xfailed"
_UNFINISHED = (None, "not run")


def _compared(base: ReportedTest, head: ReportedTest, elsewhere: Obstacle | None, tolerance_ratio: float) -> Compared:
    thresholds = [each for each in (parse_threshold(check.expression) for check in head.checks) if each.relative]
    thresholds = thresholds or _headlines(base, head, tolerance_ratio)
    own = [*_own_verdicts(head)]
    failures = _failures(head)
    if not thresholds:
        verdict = worst([Verdict.INCONCLUSIVE, *own])
        notes = (*map(str, head.problems), "the two reports have no metric in common")
        return Compared(nodeid=head.nodeid, verdict=verdict, checks=(), notes=notes, failures=failures)
    further = _further(head)[:TRIALS]
    baseline = _baseline(base, head, elsewhere)
    trials = [Measured(rounds=one) for one in (_values(head.rounds), *further)]
    first = AgainstStored(baseline=baseline, confirmation="fresh" if further else "none")
    judgement = judge(thresholds, trials, FreshTrials(first=first))
    return Compared(
        nodeid=head.nodeid,
        verdict=worst([judgement.verdict, *own]),
        checks=judgement.checks,
        notes=tuple(map(str, head.problems)),
        failures=failures,
    )


def _baseline(base: ReportedTest, head: ReportedTest, elsewhere: Obstacle | None) -> BaselineRounds:
    if base.problems:
        return BaselineRounds(obstacle=Obstacle(ObstacleKind.INVALID_REPORT, {"problem": str(base.problems[0])}))
    changes = scenario_changes(_workload(base), _workload(head))
    if changes:
        differing = {"changes": "; ".join(changes)}
        return BaselineRounds(obstacle=Obstacle(ObstacleKind.OTHER_SCENARIO_REPORTED, differing))
    trials = [one for one in (_values(base.rounds), *_further(base)) if one]
    return BaselineRounds(trials=tuple(trials), obstacle=elsewhere)


def _workload(test: ReportedTest) -> Mapping[str, JsonValue]:
    return test.scenario if test.search is None else {**test.scenario, "capacity": ", ".join(test.search.thresholds)}


def _further(test: ReportedTest) -> list[tuple[Mapping[str, float], ...]]:
    """Return the further trials that were measured in the same way as the first one.

    Trials with problems are excluded, because they were repeated or made the test INVALID. Side-by-side trials are
    excluded, because they shared cores with the baseline's brokers.
    """
    alike = [one for one in test.trials[1:] if test.live_baseline is not None or not one.baseline_rounds]
    return [_values(one.rounds) for one in alike if not one.problems]


def _values(rounds: Sequence[ReportedRound]) -> tuple[Mapping[str, float], ...]:
    return tuple(one.metrics for one in rounds)


def _headlines(base: ReportedTest, head: ReportedTest, tolerance_ratio: float) -> list[Threshold]:
    known = [{name for one in test.rounds for name in one.metrics} for test in (base, head)]
    worse = {"lower": "<= baseline +", "higher": ">= baseline -"}
    return [
        parse_threshold(f"{name} {worse[metric(name).better]} {tolerance_ratio * 100:g}%")
        for name in HEADLINES
        if all(name in each for each in known)
    ]


FAILED = ("failed", "error")
"""Pytest outcomes that make the run fail."""


class _Part(BaseModel):
    """Part of the report. Unknown fields are ignored, because fields can be added without a new format version."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ReportedRound(_Part):
    """One round."""

    metrics: dict[str, Annotated[float, Field(ge=-MOST, le=MOST, strict=True)]]
    """Metrics by name, in base units."""


class ReportedText(_Part):
    """A problem or a note."""

    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text


class ReportedTrial(_Part):
    """One trial of a test."""

    rounds: tuple[ReportedRound, ...]
    baseline_rounds: tuple[JsonValue, ...] | None
    problems: tuple[ReportedText, ...]
    """Reasons why the trial is not valid."""


class ReportedCheck(_Part):
    """One threshold."""

    expression: str
    metric: str
    change: float | None
    """Change from the baseline in that run, as a ratio."""
    verdict: Verdict
    """Verdict in that run."""
    reason: str


class ReportedMetric(_Part):
    """A metric's unit, and the direction in which it improves."""

    unit: str
    better: Better


class ReportedSearch(_Part):
    """A capacity search."""

    thresholds: tuple[str, ...]


class ReportedTest(_Part):
    """One test."""

    nodeid: str
    verdict: Verdict
    """Verdict in that run."""
    pytest_outcome: str | None
    """Outcome in pytest; None or `not run` if the test did not finish."""
    failed_by_verdict: bool
    """True if the test failed because of its verdict rather than its own code or a fixture."""
    scenario: dict[str, JsonValue]
    search: ReportedSearch | None
    live_baseline: JsonValue
    metrics: dict[str, ReportedMetric]
    trials: tuple[ReportedTrial, ...]
    checks: tuple[ReportedCheck, ...]
    problems: tuple[ReportedText, ...]
    """Reasons why the verdict is INVALID."""
    notes: tuple[ReportedText, ...]

    @property
    def rounds(self) -> tuple[ReportedRound, ...]:
        """Rounds of the first trial."""
        return self.trials[0].rounds if self.trials else ()


class ReportedEnding(_Part):
    """A test without measurements."""

    nodeid: str
    pytest_outcome: str
    """Outcome in pytest."""
    reason: str | None

    @property
    def fails(self) -> bool:
        """True if the test made the run fail."""
        return self.pytest_outcome in FAILED

    def __str__(self) -> str:
        """Return the outcome and the reason, such as `skipped: needs root`."""
        return f"{self.pytest_outcome}: {self.reason}" if self.reason else self.pytest_outcome


class Report(_Part):
    """A pytest run's report."""

    schema_version: Literal[1]
    created: str
    environment: dict[str, str]
    """The environment's key (`key`), and facts that can influence measurements."""
    tests: tuple[ReportedTest, ...]
    unmeasured: tuple[ReportedEnding, ...]

    @property
    def key(self) -> str:
        """The environment's key."""
        return self.environment.get("key", "")

    @property
    def fingerprint(self) -> dict[str, str]:
        """The facts that can influence measurements."""
        return {name: text for name, text in self.environment.items() if name != "key"}


def read_report(path: Path) -> Report:
    """Read a report.

    Raises:
        UsageError: the file cannot be read, is not a report, or uses another version of the format.

    """
    try:
        return parse_model(path.read_bytes(), Report, schema_version=SCHEMA_VERSION)
    except OSError as error:
        raise UsageError(f"cannot read report {path}: {error.strerror or error}") from None
    except OtherSchemaError as error:
        raise UsageError(f"report {path} {error}") from None
    except ValueError as error:
        raise UsageError(f"report {path} is invalid: {error}; give a report written with --kafka-report=json") from None

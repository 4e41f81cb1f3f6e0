"""JSON reports read again, and two of them compared by the rule of baselines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ScenarioError, UsageError
from pytest_kafkaperf.reports.compare import Compared, ComparedReports, Report, compare_reports, read_report
from pytest_kafkaperf.reports.json_report import json_text
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.json_reports import NODEID, P99, RATE, SCENARIO, check, perftest, problem, report, rounds, trial
from tests.support.results import bare_result, run_of, trial_at


def comparison(before: dict[str, Any], after: dict[str, Any], *, tolerance_ratio: float = 0.1) -> ComparedReports:
    reports = (Report.model_validate(each) for each in (before, after))
    return compare_reports(*reports, tolerance_ratio=tolerance_ratio)


def compared(before: dict[str, Any], after: dict[str, Any], *, tolerance_ratio: float = 0.1) -> tuple[Compared, ...]:
    return comparison(before, after, tolerance_ratio=tolerance_ratio).tests


def only(before: dict[str, Any], after: dict[str, Any]) -> Compared:
    (test,) = compared(before, after)
    return test


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (perftest(), perftest(1.5), Verdict.REGRESSED),
        (perftest(), perftest(1.05), Verdict.PASSED),
        (perftest(), perftest(0.5), Verdict.IMPROVED),
        (perftest(), perftest(1.3), Verdict.INCONCLUSIVE),
        (perftest(1.0, 1.4, 1.5, 1.6), perftest(1.5), Verdict.INCONCLUSIVE),
        (perftest(), perftest(1.5, 1.0, 1.01), Verdict.PASSED),
        (perftest(), perftest(1.5, 1.4, 1.5, 1.6), Verdict.REGRESSED),
        (perftest(), perftest(1.5, 1.4, 1.5, 1.6, 1.0, 1.0), Verdict.REGRESSED),
        (perftest(), perftest(1.5, 1.4), Verdict.INCONCLUSIVE),
        (perftest(), perftest(1.5, limit=f"{P99} <= max(baseline + 10%, 50 ms)"), Verdict.PASSED),
    ],
)
def test_two_reports_are_judged_as_a_test_and_its_baseline(before: Any, after: Any, verdict: Verdict) -> None:
    """All trials of A are the baseline; further ones of B confirm or clear the regression that its first one shows."""
    assert only(report(before), report(after)).verdict is verdict


def test_a_test_without_such_limits_has_the_tolerance_on_what_people_look_at_first() -> None:
    """Absolute limits say nothing of another report."""
    after = perftest(1.7, limit="errors == 0")
    test = only(report(perftest()), report(after))
    assert [(check.expression, check.outcome) for check in test.checks] == [
        ("produce.throughput >= baseline - 10%", Verdict.IMPROVED),
        ("produce.latency.p99 <= baseline + 10%", Verdict.REGRESSED),
    ]
    outcome = compared(report(perftest()), report(after), tolerance_ratio=0.8)
    assert [check.outcome for check in outcome[0].checks] == [Verdict.PASSED, Verdict.PASSED]
    assert outcome[0].checks[0].expression.endswith("baseline - 80%")


def test_the_threshold_on_a_metric_of_a_tests_own_says_which_direction_is_better() -> None:
    """The command runs no test, so nothing declares the metric."""
    limit = "app.rows >= baseline - 10%"
    before, after = (perftest(limit=limit, first=rounds(**{"app.rows": rows})) for rows in (900, 450))
    assert [check.outcome for check in only(report(before), report(after)).checks] == [Verdict.REGRESSED]
    assert [check.outcome for check in only(report(after), report(before)).checks] == [Verdict.IMPROVED]


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("limit", ["max(baseline + 20%, 50 ms)", "min(baseline + 900%, 300 ms)"])
def test_the_report_says_the_unit_of_a_metric_of_a_tests_own(limit: str) -> None:
    """A limit of 50 ms is 0.05 in the values."""
    known: dict[str, Any] = {"app.page": {"unit": "s", "better": "lower", "values": [], "median": None}}
    before, after = (
        perftest(limit=f"app.page <= {limit}", first=rounds(**{"app.page": page_s}), metrics=known)
        for page_s in (0.1, 0.4)
    )
    assert only(report(before), report(after)).verdict.fails


def test_trials_side_by_side_with_a_baseline_are_not_like_the_first() -> None:
    """They shared its cores, so that their values are lower on both sides."""
    further = [trial(2.0, baseline_rounds=rounds(2.0))] * 3
    cleared = perftest(trials=[trial(), *further])
    assert only(report(cleared), report(perftest(1.5))).verdict is Verdict.REGRESSED
    assert only(report(perftest()), report(cleared)).verdict is Verdict.PASSED
    slow = perftest(trials=[trial(1.2, baseline_rounds=rounds()), *further], live_baseline={"provider": "local"})
    assert only(report(perftest()), report(slow)).verdict is Verdict.REGRESSED


def test_capacities_under_other_thresholds_are_not_compared() -> None:
    """Each search has a rate of its own."""
    before, after = (perftest(search={"thresholds": [f"{P99} <= {ms} ms"], "low": 1, "high": 9}) for ms in (20, 5))
    (found,) = only(report(before), report(after)).checks
    assert found.outcome is Verdict.INCONCLUSIVE
    assert f"capacity: {P99} <= 20 ms -> {P99} <= 5 ms" in found.reason


def test_a_test_that_only_the_base_report_has_fails() -> None:
    """Deselected, deleted or renamed: nobody knows how fast it is now."""
    found = comparison(report(perftest(), perftest(nodeid="a.py::gone")), report(perftest()))
    assert (found.missing, found.fails) == ({"a.py::gone": None}, True)
    assert comparison(report(perftest()), report(perftest())).fails is False


@pytest.mark.parametrize("outcome", ["skipped", "error"])
def test_a_test_that_measured_nothing_in_the_head_report_is_missing_there(outcome: str) -> None:
    """The report knows why."""
    ending = {"nodeid": "a.py::gone", "pytest_outcome": outcome, "reason": "no schema registry"}
    found = comparison(report(perftest(), perftest(nodeid="a.py::gone")), report(perftest()) | {"unmeasured": [ending]})
    assert (found.missing, found.fails) == ({"a.py::gone": f"{outcome}: no schema registry"}, True)


def test_a_test_without_rounds_in_the_head_report_is_missing_there() -> None:
    """No time was left for it, or its only worker died: a baseline alone shows nothing."""
    found = comparison(report(perftest()), report(perftest(first=[], notes=[{"text": "no time was left"}])))
    assert (found.missing, found.fails) == ({NODEID: "no time was left"}, True)
    assert comparison(report(perftest(first=[])), report(perftest(first=[]))).missing == {}


def test_a_new_test_passes_unless_it_failed_in_its_own_run() -> None:
    """Nothing is known of it from before, but its absolute thresholds are."""
    good = perftest(nodeid="a.py::new")
    bad = good | {"verdict": "VIOLATED", "checks": [VIOLATED_CHECK]}
    unmeasured = {"nodeid": "a.py::new", "pytest_outcome": "error", "reason": "fixture 'db' failed"}
    found = comparison(report(perftest()), report(perftest(), good))
    assert ([test.nodeid for test in found.new], found.fails) == (["a.py::new"], False)
    found = comparison(report(perftest()), report(perftest(), bad))
    assert ([test.verdict for test in found.new], found.fails) == ([Verdict.VIOLATED], True)
    found = comparison(report(perftest()), report(perftest()) | {"unmeasured": [unmeasured]})
    assert (found.unmeasured, found.fails) == ({"a.py::new": "error: fixture 'db' failed"}, True)
    found = comparison(
        report(perftest()), report(perftest()) | {"unmeasured": [unmeasured | {"pytest_outcome": "skipped"}]}
    )
    assert (found.unmeasured, found.fails) == ({}, False)


VIOLATED_CHECK = check("lost == 0", "VIOLATED", "sum of 5 rounds")


@pytest.mark.parametrize(
    ("own", "verdict", "fails"),
    [
        ({"verdict": "VIOLATED", "pytest_outcome": "failed", "failed_by_verdict": True}, Verdict.VIOLATED, True),
        ({"verdict": "VIOLATED", "pytest_outcome": "xfailed"}, Verdict.PASSED, False),
        ({"verdict": "VIOLATED", "pytest_outcome": "passed"}, Verdict.VIOLATED, True),
    ],
)
def test_a_violated_test_fails_however_fast_it_is(own: dict[str, Any], verdict: Verdict, *, fails: bool) -> None:
    """Records that are lost need no time; what a test expects with `xfail` is no news."""
    checks = [*perftest()["checks"], VIOLATED_CHECK]
    test = only(report(perftest()), report(perftest(**own, checks=checks)))
    assert (test.verdict, test.fails) == (verdict, fails)
    assert test.failures == (("lost == 0 is VIOLATED in the head report: sum of 5 rounds",) if fails else ())


@pytest.mark.parametrize(
    ("own", "fails"),
    [
        ({"pytest_outcome": "failed"}, True),
        ({"pytest_outcome": "error"}, True),
        ({"pytest_outcome": None}, True),
        ({"pytest_outcome": "not run"}, True),
        ({"verdict": "REGRESSED", "pytest_outcome": "failed", "failed_by_verdict": True}, False),
        ({"verdict": "INCONCLUSIVE", "pytest_outcome": "failed", "failed_by_verdict": True}, False),
        ({"verdict": "INCONCLUSIVE", "pytest_outcome": "failed"}, True),
        ({"verdict": "INCONCLUSIVE", "pytest_outcome": "passed"}, False),
    ],
)
def test_a_test_that_failed_by_its_own_code_fails(own: dict[str, Any], *, fails: bool) -> None:
    """Wrong results come fast, too; only the comparison with another baseline is made again."""
    test = only(report(perftest()), report(perftest(**own)))
    assert (test.verdict, test.fails) == (Verdict.PASSED, fails)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            report(perftest()),
            report(perftest(1.5, scenario={**SCENARIO, "partitions": 12, "rounds": 9})),
            "the scenario differs from the base report (partitions: 6 -> 12)",
        ),
        (
            report(perftest()),
            report(perftest(1.5), key="laptop"),
            "the base report is from environment 'ci', not 'laptop'; the change is shown but not judged",
        ),
        (
            report(perftest(problems=["round 1: the broker was lost"])),
            report(perftest(1.5)),
            "the base run is INVALID: round 1: the broker was lost",
        ),
        (report(perftest(first=[])), report(perftest(1.5)), "no baseline"),
        (
            report(perftest()),
            report(perftest(1.3)),
            "+30.0% against the baseline; the threshold is +10.0%; noise can explain up to +44.0% (baseline of 1 "
            "day): compare side by side with --kafka-compare, or measure the baseline on more days with "
            "--kafka-update-baselines=add",
        ),
    ],
)
def test_what_cannot_be_compared_is_inconclusive_and_says_why(
    before: dict[str, Any], after: dict[str, Any], reason: str
) -> None:
    """Neither passed nor failed."""
    test = only(before, after)
    assert (test.verdict, [check.reason for check in test.checks]) == (Verdict.INCONCLUSIVE, [reason])


def test_a_change_against_another_environment_is_shown() -> None:
    """Who asks wants to see it."""
    (check,) = only(report(perftest()), report(perftest(1.5), key="laptop")).checks
    assert (check.baseline, check.observed) == (0.01, 0.015)
    assert check.change == pytest.approx(0.5)


def test_a_run_that_cannot_be_trusted_is_invalid_and_fails() -> None:
    """A generator that was too slow makes no Kafka fast."""
    test = only(report(perftest()), report(perftest(problems=["round 1: too slow"])))
    assert (test.verdict, test.notes) == (Verdict.INVALID, ("round 1: too slow",))


def test_a_trial_that_was_measured_again_counts_on_neither_side() -> None:
    """The machine has invalidated it."""
    invalidated = trial(9.0, problems=[problem("round 1: too slow")])
    test = perftest(1.5, 1.0, 1.0)
    test["trials"].insert(1, invalidated)
    before = perftest(trials=[trial(), invalidated])
    assert only(report(before), report(test)).verdict is Verdict.PASSED


def test_without_a_common_value_nothing_passes() -> None:
    """A base report that measured nothing is no baseline."""
    test = only(report(perftest(first=[])), report(perftest(limit=None)))
    assert (test.verdict, test.checks, test.notes) == (
        Verdict.INCONCLUSIVE,
        (),
        ("the two reports have no metric in common",),
    )


def test_a_limit_of_another_version_is_refused() -> None:
    """To leave it out would be to pass it."""
    with pytest.raises(ScenarioError, match="unknown metric 'produce.speed'"):
        compared(report(perftest()), report(perftest(limit="produce.speed <= baseline")))


# Reading


def written(folder: Path, content: Any) -> Path:
    path = folder / "report.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_what_the_plugin_writes_is_read(tmp_path: Path) -> None:
    """Both sides of the file are ours."""
    path = tmp_path / "report.json"
    run = run_of(
        [bare_result(trial_at(12, {"errors": 0.0, RATE: 5.5}), trial_at(13, {"errors": 1.0}))],
        created="2025-01-31T12:00:00+00:00",
        environment={"key": "ci", "kafka": "4.1.1"},
    )
    path.write_text(json_text(run, exit_status=0))
    found = read_report(path)
    (test,) = found.tests
    assert (found.created, found.key, found.fingerprint) == ("2025-01-31T12:00:00+00:00", "ci", {"kafka": "4.1.1"})
    assert [one.metrics for one in test.rounds] == [{"errors": 0.0, RATE: 5.5}]
    assert [one.metrics for again in test.trials[1:] for one in again.rounds] == [{"errors": 1.0}]
    assert test.scenario == SCENARIO


_NEEDED = "give a report written with --kafka-report=json"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "report {path} is invalid: not JSON: Expecting value: line 1 column 1 (char 0); " + _NEEDED),
        ("[]", "report {path} is invalid: must be a JSON object, not list; " + _NEEDED),
        (
            '{"trials": []}',
            "report {path} is invalid: schema_version is missing; created is missing; environment is missing; tests is "
            "missing; unmeasured is missing; " + _NEEDED,
        ),
        (
            {**report(), "schema_version": 2},
            "report {path} has schema_version 2, but this version of pytest-kafkaperf reads only 1; "
            "upgrade pytest-kafkaperf",
        ),
        (
            {**report(), "schema_version": 0},
            "report {path} has schema_version 0, but this version of pytest-kafkaperf reads only 1; "
            "create it again with this version",
        ),
        ({**report(), "schema_version": "1"}, "report {path} is invalid: schema_version='1': must be 1; " + _NEEDED),
        (
            report(perftest(first=[{"metrics": {"errors": float("nan")}}])),
            "report {path} is invalid: tests.0.trials.0.rounds.0.metrics.errors=nan: must be a finite number; "
            + _NEEDED,
        ),
        (
            report(perftest(nodeid=5)),
            "report {path} is invalid: tests.0.nodeid=5: must be a valid string; " + _NEEDED,
        ),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: Any, problem: str) -> None:
    """A baseline, a page of an error, half a download."""
    path = written(tmp_path, content)
    with pytest.raises(UsageError) as caught:
        read_report(path)
    assert str(caught.value) == problem.replace("{path}", str(path))


@pytest.mark.parametrize(("name", "reason"), [("absent.json", "No such file or directory"), (".", "Is a directory")])
def test_a_report_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    """With the system's reason."""
    with pytest.raises(UsageError) as caught:
        read_report(tmp_path / name)
    assert str(caught.value) == f"cannot read report {tmp_path / name}: {reason}"


def test_later_fields_are_passed_over(tmp_path: Path) -> None:
    """A report of a newer version of the same schema has more to say."""
    later: Sequence[Any] = [{**perftest(), "shiny": 1}]
    assert read_report(written(tmp_path, {**report(*later), "also": {}})).tests[0].nodeid == NODEID

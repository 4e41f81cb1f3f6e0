"""The end of a run: nothing but the verdicts decides its exit status."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED, contradictions, count_not_judged, exit_status
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.reasons import Reason
from tests.support.project import RunPytest
from tests.support.results import bare_result, rounds, trial_at

TEST = "test_perf.py::test_one"
FAILED, OK = pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.OK


def result_of(verdict: Verdict, *checks: tuple[str, Verdict], **fields: Any) -> Result:
    found = [
        Check(
            expression=f"{name} == 0",
            metric=metric(name).name,
            observed=1,
            limit_value=0,
            outcome=outcome,
            reasons=(Reason("x"),),
        )
        for name, outcome in checks
    ]
    return bare_result(trial_at(10, *rounds()), nodeid=TEST, verdict=verdict, checks=tuple(found), **fields)


def ending(outcome: Any, *, by_verdict: bool = False) -> dict[str, Ending]:
    return {TEST: Ending(nodeid=TEST, outcome=outcome, reason=None, file="", line=None, by_verdict=by_verdict)}


VIOLATED = result_of(Verdict.VIOLATED, ("lost", Verdict.VIOLATED))
OPEN = result_of(Verdict.INCONCLUSIVE, ("errors", Verdict.INCONCLUSIVE))


@pytest.mark.parametrize(
    ("result", "outcome", "strict", "lines"),
    [
        (VIOLATED, "passed", False, 1),
        (VIOLATED, "skipped", False, 1),
        (VIOLATED, "failed", False, 0),
        (VIOLATED, "xfailed", False, 0),
        (OPEN, "passed", False, 0),
        (OPEN, "passed", True, 1),
        (result_of(Verdict.REGRESSED, accepted=True), "passed", True, 0),
    ],
)
def test_a_failing_verdict_that_pytest_does_not_report_is_found(
    result: Result, outcome: str, *, strict: bool, lines: int
) -> None:
    """A hook of a conftest.py can hide a failure; the exit status must not."""
    assert len(contradictions([result], ending(outcome), strict=strict, succeeds=False)) == lines


def test_a_run_that_succeeds_has_no_failed_test() -> None:
    """`pytest.exit(returncode=0)` and hooks can say so nevertheless."""
    assert len(contradictions([VIOLATED], ending("failed"), strict=False, succeeds=True)) == 1


@pytest.mark.parametrize(
    ("result", "count"),
    [
        (result_of(Verdict.INVALID), 1),
        (result_of(Verdict.INVALID, ("produce.latency.p99", Verdict.VIOLATED)), 1),
        (result_of(Verdict.INVALID, ("errors", Verdict.VIOLATED)), 1),
        (result_of(Verdict.INVALID, ("lost", Verdict.VIOLATED)), 0),
        (OPEN, 1),
        (VIOLATED, 0),
    ],
)
def test_lost_records_are_judged_whatever_else_cannot_be_trusted(result: Result, count: int) -> None:
    """A pipeline that allows "could not be judged" must not allow data loss."""
    assert count_not_judged([(TEST, "call")], [result], ending("failed", by_verdict=True)) == count


@pytest.mark.parametrize(
    ("status", "errors", "failed", "not_judged", "expected"),
    [
        (OK, False, 0, 0, OK),
        (OK, True, 0, 0, FAILED),
        (FAILED, False, 2, 2, NOT_JUDGED),
        (FAILED, False, 2, 1, FAILED),
        (FAILED, True, 2, 2, FAILED),
        (pytest.ExitCode.INTERRUPTED, True, 1, 1, pytest.ExitCode.INTERRUPTED),
    ],
)
def test_one_rule_gives_the_exit_status(
    status: int, *, errors: bool, failed: int, not_judged: int, expected: int
) -> None:
    """CI reads nothing else."""
    assert exit_status(int(status), errors, failed=failed, not_judged=not_judged) == expected


@pytest.mark.parametrize("key", ["kafka_threshold = errors == 0", "kafka_strickt = true"])
def test_a_misspelt_ini_key_is_an_error(run_pytest: RunPytest, pytester: pytest.Pytester, key: str) -> None:
    """pytest only warns, and the gate of every test would be gone."""
    pytester.makeini(f"[pytest]\n{key}\n")
    status, out = run_pytest("def test_one(): pass")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"{key.partition(' ')[0]} in the ini file: " in out


@pytest.mark.parametrize("option", ["accept=regressed", "update-baselines", "update-baselines=new", "calibrate=2"])
def test_what_accepts_values_must_be_on_the_command_line_itself(
    run_pytest: RunPytest, pytester: pytest.Pytester, option: str
) -> None:
    """In addopts, it would accept every later slowdown as well."""
    pytester.makeini(f"[pytest]\naddopts = --kafka-{option}\n")
    assert run_pytest("def test_one(): pass")[0] == pytest.ExitCode.USAGE_ERROR
    pytester.makeini("[pytest]\n")
    assert run_pytest("def test_one(): pass", f"--kafka-{option}")[0] == OK


REPLACED = """
{marks}
@pytest.fixture
def kafka_perf():
    return lambda: None

def test_one(kafka_perf):
    kafka_perf()
"""


def test_a_fixture_of_the_same_name_is_no_gate(run_pytest: RunPytest) -> None:
    """A stub for machines without Kafka may be left behind in a conftest.py."""
    marks = 'pytestmark = pytest.mark.kafka_threshold("errors == 0")'
    assert run_pytest(REPLACED.format(marks=marks))[0] == FAILED


SKIPPED = """
@pytest.fixture
def kafka_cluster():
    pytest.skip("docker is not available")

def test_one(kafka_perf):
    kafka_perf()
"""


def test_a_strict_run_that_skips_every_perf_test_fails(run_pytest: RunPytest) -> None:
    """The gate must not disappear with the Docker daemon."""
    assert run_pytest(SKIPPED)[0] == OK
    status, out = run_pytest(SKIPPED, "--kafka-strict")
    assert status == FAILED
    assert "docker is not available" in out


UNBROKEN = """
def test_unit(): pass

def test_one(kafka_perf):
    kafka_perf()
"""


@pytest.mark.parametrize("arguments", [("-k", "test_unit"), ("no_such_file.py",)], ids=["deselected", "no file"])
def test_a_run_without_perf_tests_leaves_no_earlier_report(
    run_pytest: RunPytest, pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    """Whoever publishes the file takes it for this run's."""
    report = pytester.path / "report.md"
    report.write_text("### ✅ Kafka performance: 1 PASSED")
    run_pytest(UNBROKEN, f"--kafka-report=markdown:{report}", *arguments)
    assert not report.exists()


@pytest.mark.parametrize("option", ["--collect-only", "--fixtures", "--fixtures-per-test", "--cache-show"])
def test_a_run_that_only_shows_something_leaves_the_reports(
    run_pytest: RunPytest, pytester: pytest.Pytester, option: str
) -> None:
    """It is no run of the tests."""
    report = pytester.path / "report.md"
    report.write_text("### ✅ Kafka performance: 1 PASSED")
    status, out = run_pytest(UNBROKEN, f"--kafka-report=markdown:{report}", "-p", "cacheprovider", option)
    assert (status, report.exists()) == (OK, True), out


def test_a_file_that_cannot_be_collected_is_in_the_summary(run_pytest: RunPytest, pytester: pytest.Pytester) -> None:
    """It may be the one with the perf tests; a summary without it would look complete."""
    report = pytester.path / "report.md"
    pytester.makepyfile(test_broken="import nothing_of_this_name")
    status, _ = run_pytest(SKIPPED, "--continue-on-collection-errors", f"--kafka-report=markdown:{report}")
    assert status == FAILED
    text = report.read_text(encoding="utf-8")
    assert text.startswith("### ❌")
    assert "test_broken.py could not be collected" in text

"""A test that could not be decided is no silent green: a warning, its command, and the last line of the summary."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from pytest_kafkaperf.reports.headline import headline_of
from pytest_kafkaperf.reports.remedy import command_for
from pytest_kafkaperf.reports.wording import rows_of
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.project import INI, RunPytest
from tests.support.results import Behaviour, drawn_result, external, result

_TESTS = """
@pytest.mark.kafka_threshold("errors == 0")
def test_first(kafka_perf):
    kafka_perf()

def test_second(kafka_perf):
    kafka_perf()
"""
_COMMAND = "pytest test_perf.py::test_first --kafka-cluster=local --kafka-time-budget=1h"


def undecided(result: Result) -> str:
    """The warning that such a test gets."""
    headline = headline_of(result, strict=False)
    assert headline is not None
    return headline.in_one_line


def test_each_inconclusive_test_is_a_warning_that_ends_in_a_command(run_pytest: RunPytest) -> None:
    """Nobody reads a table of tests that passed."""
    status, out = run_pytest(_TESTS, "--kafka-cluster=local", "--kafka-time-budget=1s")
    assert status == pytest.ExitCode.OK
    lines = out.splitlines()
    warnings = [line.strip() for line in lines if "InconclusiveWarning" in line]
    assert len(warnings) == 2
    assert warnings[0].endswith(f"; give it more time: {_COMMAND}")
    assert "2 inconclusive" in lines


def test_an_inconclusive_test_passes_also_where_warnings_are_errors(run_pytest: RunPytest) -> None:
    """Many projects set that, and only `--kafka-strict` is meant to fail such tests."""
    tests = "def test_first(kafka_perf):\n    kafka_perf()\n"
    status, out = run_pytest(
        tests, "--kafka-cluster=local", "--kafka-time-budget=1s", "-W", "error::pytest.PytestWarning"
    )
    assert status == pytest.ExitCode.OK, out
    assert "1 inconclusive" in out


def test_under_strict_the_failure_ends_in_the_command(run_pytest: RunPytest) -> None:
    """It is what the developer runs next."""
    status, out = run_pytest(_TESTS, "--kafka-cluster=local", "--kafka-time-budget=1s", "--kafka-strict")
    assert status == NOT_JUDGED
    assert f"give it more time: {_COMMAND.replace(' --kafka-time', ' --kafka-strict --kafka-time')}" in map(
        str.strip, out.splitlines()
    )
    assert "InconclusiveWarning" not in out
    assert "ERROR test_perf.py::test_first - Failed: test_first could not be decided: " in out


@pytest.mark.parametrize(("folder", "path"), [(".", "test_perf.py"), ("perf", "../test_perf.py")])
def test_the_command_selects_the_test_in_the_folder_of_the_run(
    run_pytest: RunPytest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, folder: str, path: str
) -> None:
    """Even if the ini file deselects perf tests, and if paths among the options are relative to a subfolder."""
    pytester.makeini(f'{INI}addopts = -m "not kafka_perf"\n')
    pytester.path.joinpath(folder).mkdir(exist_ok=True)
    monkeypatch.chdir(pytester.path / folder)
    baselines = "--kafka-baselines=old"
    _, out = run_pytest(_TESTS, path, "-m", "kafka_perf", "--kafka-cluster=local", "--kafka-time-budget=1s", baselines)
    command = f"pytest {path}::test_first -m '' --kafka-cluster=local {baselines} --kafka-time-budget=1h"
    assert f"; give it more time: {command}" in out


def test_the_command_has_the_options_of_the_run() -> None:
    """Otherwise it would make the baseline of another cluster."""
    new = result("test_new", "produce.throughput >= baseline - 10%")
    command = "pytest tests/perf/test_orders.py::test_new --kafka-cluster=local:4.0.0 --kafka-brokers=3"
    new = dataclasses.replace(new, options={"cluster": "local:4.0.0", "brokers": "3"})
    advice = (
        "compare with this branch's base (--kafka-compare=git:merge-base), or measure one: "
        f"{command} --kafka-update-baselines"
    )
    assert undecided(new) == f"test_new could not be decided: no baseline for this test; {advice}"
    assert [row.why for row in rows_of(new, verbose=True)] == [advice]


def test_a_command_on_a_cluster_that_others_use_is_one_that_it_takes() -> None:
    """It may need the permission for a load without a limit, and other machines for the workers."""
    options = {"cluster": "k1:9092", "allow-unlimited": "true", "workers": "dask://scheduler:8786"}
    assert command_for(dataclasses.replace(external(), options=options)) == (
        "pytest tests/perf/test_orders.py::test_cluster --kafka-cluster=k1:9092 --kafka-allow-unlimited "
        "--kafka-workers=dask://scheduler:8786"
    )


def test_a_command_may_contain_semicolons(run_pytest: RunPytest) -> None:
    """They also separate reasons."""
    parametrized = "@pytest.mark.parametrize('_x', ['a; b'])\ndef test_first(_x, "
    tests = _TESTS.replace("def test_first(", parametrized)
    _, out = run_pytest(tests, "--kafka-cluster=local", "--kafka-time-budget=1s", "--kafka-strict")
    command = "pytest 'test_perf.py::test_first[a; b]' --kafka-cluster=local --kafka-strict --kafka-time-budget=1h"
    assert f"  give it more time: {command}" in out.splitlines()


def test_what_noise_may_explain_is_compared_side_by_side() -> None:
    """With the version that the baseline was measured on."""
    noisy = drawn_result("a.py::test_x", before=Behaviour(), now=Behaviour(p50_s=0.0025), limits=_LIMITS)
    checks = tuple(dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE) for check in noisy.checks)
    noisy = dataclasses.replace(noisy, verdict=Verdict.INCONCLUSIVE, checks=checks, options={})
    assert undecided(noisy).endswith(
        "; compare side by side: pytest a.py::test_x --kafka-cluster=local --kafka-compare=local:4.2.1"
    )


_LIMITS = ("produce.latency.p99 <= baseline + 20%",)


def test_a_metric_without_a_value_is_not_undecided() -> None:
    """Nobody knows whether the SLA holds, and another run would pass by the same gap."""
    assert result("test_quiet", "recovery <= 10 s").verdict is Verdict.INVALID


def test_a_limit_that_nothing_can_meet_is_no_crash_without_a_round() -> None:
    """The result is kept, with the reason why nothing was measured."""
    assert [check.outcome for check in result("test_none", "errors < 0", measured=[]).checks] == [Verdict.INCONCLUSIVE]

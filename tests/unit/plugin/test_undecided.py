"""A test that could not be decided is no silent green: a warning, its command, and the last line of the summary."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_kafkaperf.reports.again import undecided
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.project import RunPytest
from tests.support.results import Behaviour, drawn_result, result

_TESTS = """
@pytest.mark.kafka_threshold("errors == 0")
def test_first(kafka_perf):
    kafka_perf()

def test_second(kafka_perf):
    kafka_perf()
"""
_COMMAND = "pytest test_perf.py::test_first --kafka-cluster=local --kafka-time-budget=1h"


def test_each_inconclusive_test_is_a_warning_that_ends_in_a_command(run_pytest: RunPytest) -> None:
    """Nobody reads a table of tests that passed."""
    status, out = run_pytest(_TESTS, "--kafka-cluster=local", "--kafka-time-budget=1s")
    assert status == pytest.ExitCode.OK
    lines = out.splitlines()
    warnings = [line.strip() for line in lines if "InconclusiveWarning" in line]
    assert len(warnings) == 2
    assert warnings[0].endswith(f"; give it more time: {_COMMAND}")
    assert "2 inconclusive" in lines


def test_under_strict_the_failure_ends_in_the_command(run_pytest: RunPytest) -> None:
    """It is what the developer runs next."""
    status, out = run_pytest(_TESTS, "--kafka-cluster=local", "--kafka-time-budget=1s", "--kafka-strict")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert f"give it more time: {_COMMAND.replace(' --kafka-time', ' --kafka-strict --kafka-time')}" in out.splitlines()
    assert "InconclusiveWarning" not in out
    assert "ERROR test_perf.py::test_first - Failed: INCONCLUSIVE: " in out


def test_the_command_has_the_options_of_the_run() -> None:
    """Otherwise it would make the baseline of another cluster."""
    new = result("test_new", "produce.throughput >= baseline - 10%")
    assert undecided(new, {"cluster": "local", "brokers": "3"}) == (
        "INCONCLUSIVE: no baseline for this test; make one: pytest tests/perf/test_orders.py::test_new "
        "--kafka-cluster=local --kafka-brokers=3 --kafka-update-baselines"
    )


def test_what_noise_may_explain_is_compared_side_by_side() -> None:
    """With the version that the baseline was measured on."""
    noisy = drawn_result("a.py::test_x", before=Behaviour(), now=Behaviour(p50_s=0.0025), limits=_LIMITS)
    noisy = dataclasses.replace(noisy, verdict=Verdict.INCONCLUSIVE)
    assert undecided(noisy, {}).endswith(
        "; compare side by side: pytest a.py::test_x --kafka-cluster=local --kafka-reference=local:4.2.1"
    )


_LIMITS = ("produce.latency.p99 <= baseline + 20%",)

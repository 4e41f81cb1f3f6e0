"""Tests are repeated only when the load generator was too slow."""

from __future__ import annotations

import pytest

from tests.support.project import PLAIN

TESTS = """
import json, pathlib
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.runner.rounds.round import Round
from tests.support.repeats import note_report, note_rounds

TOO_SLOW = Problem(Cause.SENT_LATE, {"late": 10, "due": 500})

def fails_until(run, name):
    path = pathlib.Path(name)
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    assert len(path.read_text()) >= run

def test_slow_round():
    note_rounds([Round(metrics={}, problems=(TOO_SLOW,))])
    fails_until(3, "round")

def test_slow_report():
    trials = [{"rounds": [{"problems": [{"kind": TOO_SLOW.kind, "text": TOO_SLOW.text}]}]}]
    pathlib.Path("report.json").write_text(json.dumps({"tests": [{"trials": trials}]}))
    note_report(pathlib.Path("report.json"))
    fails_until(2, "report")

def test_slow_first_trial():
    note = f"the first trial was repeated: {TOO_SLOW.text}"
    pathlib.Path("report.json").write_text(json.dumps({"tests": [{"notes": [{"text": note}]}]}))
    note_report(pathlib.Path("report.json"))
    fails_until(2, "first")

def test_slow_repeated_round():
    repeated = {"warnings": [{"text": f"a round was repeated: {TOO_SLOW.text}"}]}
    pathlib.Path("report.json").write_text(json.dumps({"tests": [{"trials": [{"rounds": [repeated]}]}]}))
    note_report(pathlib.Path("report.json"))
    fails_until(2, "repeated")

def test_slow_brokers():
    check = {"metric": "unsent", "implied": True, "verdict": "VIOLATED", "expression": "unsent == 0", "observed": 7}
    pathlib.Path("report.json").write_text(json.dumps({"tests": [{"checks": [check]}]}))
    note_report(pathlib.Path("report.json"))
    fails_until(2, "brokers")

def test_too_often():
    note_rounds([Round(metrics={}, problems=(TOO_SLOW,))])
    fails_until(4, "often")

def test_other_problem():
    note_rounds([Round(metrics={}, problems=(Problem(Cause.CLUSTER_ERROR, {"reason": "generator too slow: no"}),))])
    fails_until(2, "other")

def test_after_a_slow_one():
    fails_until(2, "after")

def test_passes():
    note_rounds([Round(metrics={}, problems=(TOO_SLOW,))])
"""


ONCE = ["test_slow_report", "test_slow_first_trial", "test_slow_repeated_round", "test_slow_brokers"]


def test_a_failure_counts_unless_the_generator_was_too_slow(pytester: pytest.Pytester) -> None:
    """A blind repeat would hide a fault that shows now and then."""
    pytester.makepyfile(TESTS)
    run = pytester.runpytest_subprocess("-p", "tests.support.repeats", *PLAIN, "-v", "-rs")
    run.assert_outcomes(passed=6, failed=2, skipped=1)
    again = [line.split("::")[1].split()[0] for line in run.outlines if "RERUN" in line and "::" in line]
    assert again == ["test_slow_round"] * 2 + ONCE + ["test_too_often"] * 2
    run.stdout.fnmatch_lines(
        ["SKIPPED * this machine is too slow for the load of this test: generator too slow: 10 of 500*"]
    )

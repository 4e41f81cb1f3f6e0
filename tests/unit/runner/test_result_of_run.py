"""What a run leaves to its reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.core.environment import default_environment_key
from pytest_kafkaperf.runner.perf_run import PerfRun
from tests.support.results import ending, external, regression, run_of


@pytest.fixture
def perf(tmp_path: Path) -> PerfRun:
    settings = dataclasses.replace(run_of([]).settings, root=tmp_path, baselines=tmp_path / "baselines")
    return PerfRun(settings, began_s=0.0)


def test_a_run_on_two_kinds_of_clusters_has_two_environments(perf: PerfRun) -> None:
    """The terminal shows both; the JSON report has one, with the facts of the first test's cluster."""
    perf.results = [regression(), external(), regression()]
    run = perf.run_result({}, [])
    assert run.environment_keys == (default_environment_key("local"), default_environment_key("external"))
    facts = regression().cluster.fingerprint
    assert run.environment == {"key": default_environment_key("external"), **facts}


def test_a_run_without_a_result_has_an_environment(perf: PerfRun) -> None:
    """A JSON report is written even if every test failed before it measured."""
    run = perf.run_result({}, [])
    assert (run.environment, run.environment_keys) == ({"key": default_environment_key("local")}, ())


def test_what_happens_after_the_run_is_not_in_it(perf: PerfRun) -> None:
    """Reports that are drawn one after the other show the same run."""
    perf.orphans = {Path("x.json"): "test_a.py::test_gone"}
    endings, errors = {"test_a.py::test_x": ending("test_a.py::test_x", "passed")}, ["one"]
    run = perf.run_result(endings, errors)
    perf.results.append(regression())
    perf.orphans.clear()
    endings.clear()
    errors.append("two")
    assert (run.results, [*run.endings], run.errors) == ((), ["test_a.py::test_x"], ("one",))
    assert (run.orphans, run.pruned) == (("test_a.py::test_gone",), False)

"""The state that the plugin's hooks keep, without a pytest run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from pytest_kafkaperf.core.text import without_folders
from pytest_kafkaperf.plugin.conclusion import coverage_of
from pytest_kafkaperf.plugin.items import Collection
from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin

NODEID = "tests/perf/test_orders.py::test_a"


def item(nodeid: str = NODEID, **config: Any) -> Any:
    """The part of a collected perf test that hooks read."""
    file = nodeid.partition("::")[0]
    return SimpleNamespace(
        nodeid=nodeid,
        path=Path("/home/ci/project", file),
        location=(file, 6, "test_a"),
        fixturenames=["kafka_perf"],
        config=SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda _: None), **config),
    )


def plugin_of(one: Any) -> PerfPlugin:
    """The plugin of a run with this test."""
    settings: Any = SimpleNamespace()
    return PerfPlugin(one.config, Collection(), settings)


def ended(one: Any, *outcomes: Literal["passed", "failed"]) -> str:
    """The outcome in the reports of a test that runs once per outcome."""
    perf = plugin_of(one)
    for outcome in outcomes:
        for when, found in (("setup", "passed"), ("call", outcome), ("teardown", "passed")):
            report = pytest.TestReport(one.nodeid, one.location, {}, found, None, when)  # type: ignore[arg-type]
            call = pytest.CallInfo.from_call(lambda: None, when)  # type: ignore[arg-type]
            hook = perf.pytest_runtest_makereport(one, call)
            next(hook)
            with pytest.raises(StopIteration):
                hook.send(report)
    return str(perf._endings[one.nodeid].outcome)


def test_the_last_run_of_a_repeated_test_counts() -> None:
    """It also decides the exit status, and the reports must agree with that."""
    assert (ended(item(), "failed", "passed"), ended(item(), "passed", "failed")) == ("passed", "failed")


@pytest.mark.parametrize(
    ("argument", "files"),
    [
        ("perf/test_orders.py::test_a", {"tests/perf/test_other.py"}),
        ("./perf/../perf/test_orders.py::test_a[x::y]", {"tests/perf/test_other.py"}),
        ("/home/ci/project/tests/perf/test_orders.py::test_a", {"tests/perf/test_other.py"}),
        ("project.perf.test_orders::test_a", set()),
        ("perf", {"tests/perf/test_orders.py", "tests/perf/test_other.py"}),
    ],
)
def test_an_argument_for_one_test_makes_its_file_incomplete(argument: str, files: set[str]) -> None:
    """Otherwise the baselines of the other tests in the file would be reported as those of deleted tests."""
    one = item(
        args=[argument],
        invocation_params=SimpleNamespace(dir=Path("/home/ci/project/tests")),
        getoption=lambda _, default: default,
    )
    items = [one, item("tests/perf/test_other.py::test_b")]
    assert pruned(one, items) == (files, "::" not in argument)


def pruned(one: Any, items: list[Any], status: pytest.ExitCode = pytest.ExitCode.OK) -> tuple[set[str], bool]:
    """The files whose baselines may be left over, and whether they are all."""
    session: Any = SimpleNamespace(
        config=one.config, items=items, shouldstop=False, shouldfail=False, exitstatus=status
    )
    covered = coverage_of(session, Collection())
    return set(covered.files), covered.whole


def test_ctrl_c_in_the_collection_makes_all_files_incomplete() -> None:
    """pytest knows some of the tests then, or none; the others exist all the same."""
    one = item(args=[], getoption=lambda _, default: default)
    assert pruned(one, [one]) == ({"tests/perf/test_orders.py"}, True)
    for items in ([one], []):
        for status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            assert pruned(one, items, status) == (set(), False)


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/perf/test_a.py::test_rate[5k records/s]", "test_a.py::test_rate[5k records/s]"),
        ("test_a.py::test_rate[a/b::c/d]", "test_a.py::test_rate[a/b::c/d]"),
    ],
)
def test_a_name_without_folders_keeps_the_slashes_of_parameters(nodeid: str, name: str) -> None:
    """Otherwise a test of a rate would be called `s]`."""
    assert without_folders(nodeid) == name

"""What the plugin's hooks keep of a run, without one."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from pytest_kafkaperf import plugin
from pytest_kafkaperf.core.text import without_folders
from pytest_kafkaperf.plugin.collection import CollectionPlugin
from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin

NODEID = "tests/perf/test_orders.py::test_a"


def item(nodeid: str = NODEID, **config: Any) -> Any:
    """A perf test that pytest has collected, as far as hooks look at it."""
    file = nodeid.partition("::")[0]
    return SimpleNamespace(
        nodeid=nodeid,
        path=Path("/home/ci/project", file),
        location=(file, 6, "test_a"),
        fixturenames=["kafka_perf"],
        config=SimpleNamespace(**config),
    )


def plugin_of(one: Any) -> PerfPlugin:
    """The plugin of a run that has this test."""
    settings: Any = SimpleNamespace()
    return PerfPlugin(one.config, CollectionPlugin(settings))


def ended(one: Any, *outcomes: Literal["passed", "failed"]) -> str:
    """How the test ends for the reports when it is set up and run so often."""
    perf = plugin_of(one)
    for outcome in outcomes:
        for when, found in (("setup", "passed"), ("call", outcome), ("teardown", "passed")):
            report = pytest.TestReport(one.nodeid, one.location, {}, found, None, when)  # type: ignore[arg-type]
            hook = perf.pytest_runtest_makereport(one)
            next(hook)
            with pytest.raises(StopIteration):
                hook.send(report)
    return str(perf._endings[one.nodeid].outcome)


def test_of_a_test_that_is_run_again_the_last_run_counts() -> None:
    """The exit status is that of the last run, and the reports agree with it."""
    assert (ended(item(), "failed", "passed"), ended(item(), "passed", "failed")) == ("passed", "failed")


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_as_before_once_the_tests_are_read(*, enabled: bool) -> None:
    """Also where reading them failed, and where somebody had turned it off."""
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with contextlib.suppress(KeyError), plugin._without_collecting_garbage():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


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
def test_a_test_named_from_another_folder_leaves_the_others_of_its_file_out(argument: str, files: set[str]) -> None:
    """Their baselines would be told as those of tests that are gone."""
    one = item(
        args=[argument],
        invocation_params=SimpleNamespace(dir=Path("/home/ci/project/tests")),
        getoption=lambda _, default: default,
    )
    items = [one, item("tests/perf/test_other.py::test_b")]
    session: Any = SimpleNamespace(config=one.config, items=items, shouldstop=False, shouldfail=False)
    seen: dict[str, Any] = {}
    perf: Any = SimpleNamespace(prune=lambda **given: seen.update(given))
    plugin_of(one)._see_orphans(session, perf)
    assert (seen["files"], seen["whole"]) == (files, "::" not in argument)


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/perf/test_a.py::test_rate[5k records/s]", "test_a.py::test_rate[5k records/s]"),
        ("test_a.py::test_rate[a/b::c/d]", "test_a.py::test_rate[a/b::c/d]"),
    ],
)
def test_a_name_without_folders_keeps_the_slashes_of_parameters(nodeid: str, name: str) -> None:
    """A test of a rate would be called `s]`."""
    assert without_folders(nodeid) == name

"""Which tests run where: CI runs each test that the README's command leaves out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.project import PLAIN

ROOT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
TESTS = """
import pytest

@pytest.mark.story
def test_once():
    pass

def test_again():
    pass
"""


def test_what_depends_on_the_machines_speed_runs_in_ci_one_by_one() -> None:
    """A marker that nothing selects would hide the tests for ever."""
    left_out = SETTINGS["addopts"][SETTINGS["addopts"].index("-m") + 1]
    marker = left_out.removeprefix("not ")
    assert [each.partition(":")[0] for each in SETTINGS["markers"]].count(marker) == 1
    assert re.findall(rf"-m pytest -m {marker}\b([^\")]*)", CI) == [
        " tests/unit",
        " tests/unit tests/broker",
        " tests/nightly",
    ]


def test_what_is_no_story_runs_in_ci() -> None:
    """The README's command has no path, and so takes those of the settings."""
    (command,) = re.findall(r"(?m)^\.venv/bin/python -m pytest.*$", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert not re.search(r"tests|-m (?!pytest)", command)
    assert SETTINGS["testpaths"] == ["tests/unit", "tests/broker"]
    assert re.findall(r"-m 'not story and not speed' (.+)\" \| run_tests", CI) == ["tests/broker"]


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [((), 3), (("-n1",), 3), (("unit", "broker"), 4), (("broker",), 2)],
    ids=["no path", "in a worker", "both paths", "a path"],
)
def test_without_a_path_stories_alone_run_of_the_broker_tests(
    pytester: pytest.Pytester, arguments: tuple[str, ...], passed: int
) -> None:
    """Whoever names a file wants all of its tests."""
    pytester.makeini("[pytest]\ntestpaths = unit broker\nmarkers = story\n")
    for folder in ("unit", "broker"):
        path = pytester.mkpydir(folder)
        (path / f"test_{folder}.py").write_text(TESTS, encoding="utf-8")
    conftest = (ROOT / "tests" / "broker" / "conftest.py").read_text(encoding="utf-8")
    (pytester.path / "broker" / "conftest.py").write_text(conftest, encoding="utf-8")
    pytester.runpytest_inprocess(*PLAIN, *arguments).assert_outcomes(passed=passed)

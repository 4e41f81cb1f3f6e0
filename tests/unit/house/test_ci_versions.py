"""The script `.ci/versions.py`: which versions and tests it runs, and what it keeps of the results."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("ci_versions", ROOT / ".ci/versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_the_newest_patch_of_each_minor_version_is_run(script: ModuleType) -> None:
    """By number: 4.10 comes after 4.9."""
    assert script.newest_patches(["4.10.0", "4.9.2", "4.9.10", "3.9.1"]) == ["3.9.1", "4.9.10", "4.10.0"]
    pinned = script.pinned_versions(json.loads(script.PINS.read_text(encoding="ascii")))
    assert DEFAULT_VERSION in script.newest_patches(pinned)


def test_new_results_replace_old_ones_and_versions_without_a_newer_patch_stay(script: ModuleType) -> None:
    """A run of one version must not remove the others, and a replaced patch is history."""
    known = [{"version": "4.0.1", "day": "2026-01-01"}, {"version": "4.1.2", "day": "2026-01-01"}]
    row = script.Row(version="4.0.2", day="2026-02-01", passed=3, failed=0, skipped=0, took_s=9)
    found = script.merged(known, [row], ["4.0.2", "4.1.2", "4.2.0"])
    assert [(one["version"], one["day"]) for one in found] == [("4.0.2", "2026-02-01"), ("4.1.2", "2026-01-01")]


@pytest.mark.parametrize(
    ("attributes", "counts", "is_good"),
    [
        ('tests="5" failures="0" errors="0" skipped="0"', (5, 0, 0), True),
        ('tests="5" failures="1" errors="1" skipped="1"', (2, 2, 1), False),
        ('tests="5" failures="0" errors="0" skipped="5"', (0, 0, 5), False),
        ('tests="0" failures="0" errors="0" skipped="0"', (0, 0, 0), False),
    ],
)
def test_a_version_is_good_if_all_tests_ran_and_passed(
    script: ModuleType, attributes: str, counts: tuple[int, int, int], *, is_good: bool
) -> None:
    """A machine that skips them has shown nothing."""
    found = script.counted(f"<testsuites><testsuite {attributes}/></testsuites>")
    assert (found["passed"], found["failed"], found["skipped"]) == counts
    assert script.Row(version="4.0.2", day="2026-02-01", took_s=9, **found).is_good is is_good


def test_the_tests_exist(script: ModuleType) -> None:
    """Pytest would stop each version with an error."""
    for name in script.TESTS:
        path, _, rest = name.partition("::")
        function = re.escape(rest.partition("[")[0])
        assert re.search(
            rf"^def {function}\(" if rest else r"^def test_", (ROOT / path).read_text("utf-8"), re.MULTILINE
        )


def test_the_variable_is_the_one_that_tests_read(script: ModuleType) -> None:
    """Otherwise each version would be the default one."""
    assert f'os.environ.get("{script.VARIABLE}")' in (ROOT / "tests/support/versions.py").read_text(encoding="utf-8")


def test_the_results_are_those_of_versions_that_are_still_the_newest(script: ModuleType) -> None:
    """The docs publish them, the default version among them."""
    results = json.loads(script.FILE.read_text(encoding="ascii"))
    pinned = script.pinned_versions(json.loads(script.PINS.read_text(encoding="ascii")))
    versions = [one["version"] for one in results]
    assert versions == script.newest_patches(pinned)
    assert [one["version"] for one in results if one["failed"] or not one["passed"]] == []

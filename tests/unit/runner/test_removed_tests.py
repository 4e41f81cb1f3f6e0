"""Tests that a change removes: their gate would be gone without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.runner.removed_tests import perf_tests, removed_tests
from tests.support.repository import git

BASE = """
def test_kept(kafka_perf): ...
async def test_gone(tmp_path, *, kafka_perf): ...
def test_unit(): ...
def helper(kafka_perf): ...
class TestOrders:
    class TestDeep:
        def test_gone(self, kafka_perf): ...
"""


def test_functions_that_take_the_fixture_are_perf_tests() -> None:
    """Also in classes, and async ones; what cannot be parsed has none."""
    assert perf_tests(BASE) == {"test_kept", "test_gone", "TestOrders::TestDeep::test_gone"}
    assert perf_tests("def test_(kafka_perf:") == set()


@pytest.mark.parametrize("is_commit", [True, False])
def test_renamed_and_deleted_tests_are_found_in_all_files(tmp_path: Path, is_commit: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """By the commit of the base, whatever its checkout has by now, or in another checkout as it is."""
    top = tmp_path / "repository"
    root = top / "service"
    (root / "perf").mkdir(parents=True)
    git(top, "init", "--quiet")
    (root / "perf/test_a.py").write_text(BASE)
    (root / "perf/test_ü.py").write_text("def test_moved(kafka_perf): ...")
    (top / "test_other.py").write_text("def test_of_another_service(kafka_perf): ...")
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message=Test")
    commit = git(top, "rev-parse", "HEAD")
    other = tmp_path / "other"
    git(top, "worktree", "add", "--quiet", "--detach", str(other))
    (root / "perf/test_ü.py").rename(root / "perf/test_b.py")
    (root / "perf/test_a.py").write_text("def test_kept(kafka_perf): ...\ndef test_renamed(kafka_perf): ...")
    found = removed_tests(root, root, commit) if is_commit else removed_tests(root, other / "service", None)
    assert found == (
        "perf/test_a.py::TestOrders::TestDeep::test_gone",
        "perf/test_a.py::test_gone",
        "perf/test_ü.py::test_moved",
    )


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    """`path:` may lead to any folder."""
    assert removed_tests(tmp_path, tmp_path, None) == ()

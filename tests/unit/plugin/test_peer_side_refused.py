"""Revisions that are refused after the collection, and code that is its own base."""

from __future__ import annotations

import pytest

from tests.support.project import RunPytest
from tests.support.repository import git

SET_UP = "@pytest.fixture\ndef kafka_cluster():\n    pytest.skip('is set up')\n\ndef test_one(kafka_perf): ...\n"
"""A test that is skipped only after the other side would have started."""
TESTS = "@pytest.mark.skip\ndef test_one(kafka_perf): ...\n@pytest.mark.skip\ndef test_two(kafka_perf): ...\n"


def test_a_revision_that_is_not_there_is_one_error_before_any_test(run_pytest: RunPytest) -> None:
    """However many tests there are."""
    status, out = run_pytest(TESTS, "--kafka-compare=git:main")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert out.count("--kafka-compare=git:main: ") == 1
    assert "is not in a git checkout" in out


def test_tests_that_compare_nothing_need_no_revision(run_pytest: RunPytest) -> None:
    """A smoke test, and a run without perf tests, work outside of a repository, too."""
    status, out = run_pytest(SET_UP, "--kafka-compare=git:main", "--benchmark-disable", "-rs")
    assert (status, "is set up" in out) == (pytest.ExitCode.OK, True), out
    status, _ = run_pytest("def test_other(): ...", "-o", "kafka_compare=git:main")
    assert status == pytest.ExitCode.OK


def test_the_base_itself_is_announced(run_pytest: RunPytest, pytester: pytest.Pytester) -> None:
    """The estimate is of one side then, because the other one does not run."""
    git(pytester.path, "init", "--quiet", "--initial-branch=main")
    git(pytester.path, "commit", "--quiet", "--allow-empty", "--message=Begin")
    command = ("-o", "kafka_compare=git:merge-base")
    _, out = run_pytest(TESTS, *command)
    assert "kafkaperf: git:merge-base is this commit, so thresholds relative to it are not judged" in out
    _, alone = run_pytest(TESTS)
    (estimate,) = (line for line in alone.splitlines() if "2 perf tests, about" in line)
    assert estimate in out
    git(pytester.path, "checkout", "--quiet", "-b", "topic")
    git(pytester.path, "commit", "--quiet", "--allow-empty", "--message=Go on")
    _, out = run_pytest(TESTS, *command)
    assert "is this commit" not in out
    assert estimate not in out

"""`kafkaperf bisect` in a repository of two commits or three; `tests/nightly` has longer searches."""

from __future__ import annotations

import subprocess

import psutil
import pytest

from tests.support.bisected import BISECT, NODEID, TEST, bisect, history
from tests.support.orphans import becomes, ended, with_word
from tests.support.project import Project, inherited
from tests.support.repository import git


def test_the_only_commit_is_measured(project: Project) -> None:
    """There is nothing to search, but it may not be slower. A report of the user's does not replace what is read."""
    history(project, "1", "200")
    ran = bisect(project, "main~1..", NODEID, "--kafka-cluster=local", "--kafka-report=json:mine.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[0] == "1 commit, at most 1 comparison"
    assert "the first slower commit is " in ran.stdout


def test_commits_of_two_branches_have_no_order(project: Project) -> None:
    """Git would say that the fault was fixed in between."""
    history(project, "1", "1")
    git(project.folder, "checkout", "--quiet", "-b", "old", "main~1")
    project.write("number.txt", "other")
    git(project.folder, "commit", "--quiet", "--all", "--message=Go another way")
    base = git(project.folder, "rev-parse", "main~1")
    ran = bisect(project, "old..main", NODEID)
    assert f"old is not part of the bad commit's history; use commit {base} instead" in ran.stderr


def test_a_killed_search_leaves_no_process(project: Project) -> None:
    """Neither the pytest that measures a commit, nor what that has started."""
    history(project, "1", "1")
    project.write("test_perf.py", TEST.replace('"1 s"', '"1 h"'))
    command = [*BISECT, "main~1..", NODEID, "--kafka-cluster=local"]
    with subprocess.Popen(command, cwd=project.folder, env=inherited(), stdout=subprocess.DEVNULL) as process:
        started: list[int] = []

        def has_load() -> bool:
            children = psutil.Process(process.pid).children(recursive=True)
            started[:] = [one.pid for one in children]
            return bool(with_word(children, "spawn_main"))

        assert becomes(has_load)
        process.kill()
    assert becomes(lambda: all(map(ended, started)))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["main", NODEID], "bisect main: must be two commits, GOOD..BAD"),
        (["main..main", "test_perf.py"], "has no test test_perf.py; run the command in pytest's root folder"),
        (["nowhere..main", NODEID], "bisect nowhere..main: there is no commit nowhere; give a commit, branch"),
        (
            ["main..main", NODEID],
            "bisect main..main: there is no commit after the good one; give the older commit first",
        ),
        (["main..main", "tests/test_perf.py::test_moved"], "has no test tests/test_perf.py::test_moved; "),
    ],
)
def test_bad_input_is_an_error(arguments: list[str], problem: str, project: Project) -> None:
    """Before anything is measured."""
    history(project, "1")
    ran = bisect(project, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr

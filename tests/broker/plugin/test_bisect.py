"""`kafkaperf bisect`, on a repository in which one commit makes a service slower."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import service
from tests.support.orphans import becomes, ended, with_word
from tests.support.patience import RUN_S
from tests.support.project import INI, Project, inherited
from tests.support.repository import git

TEST = """
import pytest


@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="20 records/s", duration="1 s", rounds=1,
    consumers=1,
)
@pytest.mark.kafka_threshold("e2e.latency.p50 <= 500 ms")
def test_moved(kafka_app, kafka_perf):
    kafka_app(
        ["python", "service.py", "--delay-ms", open("delay.txt").read()], ready="group:mover",
        topics={"moved-in": 2, "moved-out": 2}, name="mover",
    )
    kafka_perf()
"""
NODEID = "test_perf.py::test_moved"
MAIN = "import sys; from pytest_kafkaperf.plugin.cli import main; sys.exit(main())"
BISECT = [sys.executable, "-c", MAIN, "bisect"]


def history(project: Project, *delays: str) -> None:
    """Make a commit for each delay of the service; the test is newer than all of them."""
    git(project.folder, "init", "--quiet", "--initial-branch=main")
    project.write("service.py", Path(service.__file__).read_text(encoding="utf-8"))
    project.write(".gitignore", "starts\n__pycache__\n").write("pytest.ini", INI)
    for number, delay in enumerate(delays):
        project.write("delay.txt", delay).write("number.txt", str(number))
        git(project.folder, "add", "--all")
        git(project.folder, "commit", "--quiet", f"--message=Wait {delay} ms, the {number}th commit")
    project.write("test_perf.py", TEST)


def bisect(project: Project, *arguments: str, attempts: int = 3) -> subprocess.CompletedProcess[str]:
    """Run the command in the project; repeat it if this machine was too busy for the load."""
    ran = subprocess.run(
        [*BISECT, *arguments],
        cwd=project.folder,
        env=inherited(),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    if "generator too slow" in ran.stdout and attempts > 1:
        return bisect(project, *arguments, attempts=attempts - 1)
    return ran


def test_the_first_slower_commit_is_named(project: Project) -> None:
    """The checkout of the user is not touched."""
    history(project, "1", "1", "200", "200")
    project.write("number.txt", "uncommitted")
    ran = bisect(project, "main~3..main", NODEID, "--kafka-cluster=local")
    slower = git(project.folder, "log", "-1", "--format=%h %s", "main~1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    *steps, last = ran.stdout.splitlines()
    assert last.startswith(f"the first slower commit is {slower} (Test, 20")
    assert steps[0] == "3 commits, at most 3 comparisons"
    assert any(step.startswith(f"{slower}: VIOLATED: e2e.latency.p50 ×") for step in steps)  # noqa: RUF001 - as shown
    assert git(project.folder, "status", "--porcelain").split() == ["M", "number.txt", "??", "test_perf.py"]
    assert not git(project.folder, "for-each-ref", "refs/bisect")


def test_a_last_commit_that_is_not_slower_here_names_no_commit(project: Project) -> None:
    """Git would take it for slower without a measurement, and name it with its author."""
    history(project, "1", "1", "1")
    ran = bisect(project, "main~2..", NODEID, "--kafka-cluster=local")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "the last commit was not found slower than the good one here: PASSED" in ran.stderr


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
    assert f"old is not part of the history of the bad commit; name the commit {base} instead" in ran.stderr


def test_commits_that_cannot_be_judged_are_skipped(project: Project) -> None:
    """If only such commits are left, no commit is named, and the output says why each was skipped."""
    history(project, "1", "often", "200")
    ran = bisect(project, "main~2..", NODEID, "--kafka-cluster=local")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "Wait often ms" in ran.stdout
    assert "no commit can be named, because commits were skipped for the reasons above; it is one of " in ran.stderr
    assert git(project.folder, "log", "-1", "--format=%h %s") in ran.stderr


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
        (["main", NODEID], "bisect main: two commits are needed, GOOD..BAD"),
        (["main..main", "test_perf.py"], "there is no test test_perf.py in"),
        (["nowhere..main", NODEID], "bisect nowhere..main: there is no commit nowhere; name a commit, branch"),
        (["main..main", NODEID], "bisect main..main: no commit follows the good one; name the older commit first"),
        (["main..main", "tests/test_perf.py::test_moved"], "there is no test tests/test_perf.py::test_moved in"),
    ],
)
def test_bad_input_is_an_error(arguments: list[str], problem: str, project: Project) -> None:
    """Before anything is measured."""
    history(project, "1")
    ran = bisect(project, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr

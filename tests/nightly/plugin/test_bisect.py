"""`kafkaperf bisect` over several commits, on a repository in which one of them makes a service slower."""

from __future__ import annotations

from tests.support.bisected import NODEID, bisect, history
from tests.support.project import Project
from tests.support.repository import git


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
    assert "on this machine, the last commit is not slower than the good one: PASSED" in ran.stderr


def test_commits_that_cannot_be_judged_are_skipped(project: Project) -> None:
    """If only such commits are left, no commit is named, and the output says why each was skipped."""
    history(project, "1", "often", "200")
    ran = bisect(project, "main~2..", NODEID, "--kafka-cluster=local")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "Wait often ms" in ran.stdout
    assert "cannot decide which commit it is, because commits were skipped for the reasons above; " in ran.stderr
    assert git(project.folder, "log", "-1", "--format=%h %s") in ran.stderr

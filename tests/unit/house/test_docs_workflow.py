"""The workflow that publishes the documentation: its steps, run by bash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.repository import git
from tests.support.workflows import read_workflow, run_step

DOCS = Path(__file__).parents[3] / ".github" / "workflows" / "docs.yml"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with the branches main and gh-pages, and a bundle of a newer gh-pages."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Code")
    git(origin, "checkout", "--quiet", "--orphan", "gh-pages")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Site")
    git(origin, "checkout", "--quiet", "main")
    git(origin, "clone", "--quiet", str(origin), str(clone))
    git(clone, "checkout", "--quiet", "gh-pages")
    git(clone, "commit", "--quiet", "--allow-empty", "--message=Newer site")
    git(clone, "bundle", "create", str(tmp_path / "site.bundle"), "gh-pages")
    git(clone, "checkout", "--quiet", "main")
    return clone


def _publish(clone: Path) -> int:
    variables = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(clone.parent), "GH_TOKEN": "none"}
    return run_step(DOCS, "Push the branch gh-pages", clone, variables, job="publish").returncode


def test_a_built_site_is_published(clone: Path) -> None:
    """The bundle is all that passes from the job that builds to the job that writes."""
    assert _publish(clone) == 0
    assert git(clone.parent / "origin", "log", "--format=%s", "gh-pages") == "Newer site\nSite"


def test_a_site_that_was_published_meanwhile_is_not_overwritten(clone: Path) -> None:
    """A push by force would delete the other version."""
    origin = clone.parent / "origin"
    git(origin, "checkout", "--quiet", "gh-pages")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Another version")
    git(origin, "checkout", "--quiet", "main")
    assert _publish(clone) != 0
    assert git(origin, "log", "--format=%s", "gh-pages") == "Another version\nSite"


def test_only_the_job_that_runs_no_package_may_write() -> None:
    """A package that builds the site could otherwise change the code."""
    jobs = read_workflow(DOCS)["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "publish": {"contents": "write"},
    }
    assert not any("pip" in step.get("run", "") for step in jobs["publish"]["steps"])

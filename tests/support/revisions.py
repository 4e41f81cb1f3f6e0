"""A repository of a service with a perf test, whose revisions are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import service
from tests.support.orphans import becomes
from tests.support.project import Project
from tests.support.repository import git

TEST = """
@pytest.fixture
def service(kafka_app):
    return kafka_app(
        ["python", "service.py", "--delay-ms", open("delay.txt").read()], ready="group:mover",
        topics={"moved-in": 2, "moved-out": 2}, name="mover",
    )


@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="20 records/s", duration="1 s", warmup="200 ms",
    consumers=1,
)
@pytest.mark.kafka_threshold("e2e.latency.p50 <= baseline + 30%")
def test_moved(service, kafka_perf):
    kafka_perf()
"""
RELATIVE = "e2e.latency.p50 <= baseline + 30%"
PEER = "pytest_kafkaperf.plugin.peer_side"


@pytest.fixture
def repository(project: Project) -> Project:
    """A project in a git repository: its service waits 1 ms for each record."""
    git(project.folder, "init", "--quiet", "--initial-branch=main")
    project.write("service.py", Path(service.__file__).read_text(encoding="utf-8"))
    project.write(".gitignore", "*.json\n*.xml\nstarts\n__pycache__\n")
    project.write("delay.txt", "1").test(TEST)
    commit(project, "Move records")
    return project


def commit(project: Project, subject: str) -> None:
    """Commit all files."""
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", f"--message={subject}")


def wait_for(happens: Callable[[], bool]) -> None:
    """Wait until something happens."""
    assert becomes(happens)

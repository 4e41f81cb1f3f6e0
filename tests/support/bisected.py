"""A repository in which commits make a service slower, and `kafkaperf bisect` in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import service
from tests.support.patience import RUN_S
from tests.support.project import INI, Project, inherited
from tests.support.repository import git

TEST = """
import pytest


@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="20 records/s", duration="1 s", warmup="200 ms",
    rounds=1, consumers=1,
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

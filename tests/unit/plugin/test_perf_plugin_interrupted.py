"""Ctrl-C again: after the first one pytest tears fixtures down, and those of the user can hang."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.project import Project

HANGING = """
import pathlib, signal, time

@pytest.fixture(scope="session")
def service():
    yield
    pathlib.Path("tearing-down").touch()
    time.sleep(3600)

@pytest.fixture
def kafka_cluster(service):
    return "127.0.0.1:1"

@pytest.mark.kafka_scenario(records=10)
def test_one(kafka_perf):
    signal.raise_signal(signal.SIGINT)
"""


def test_ctrl_c_ends_the_teardown_of_a_fixture_that_hangs(project: Project) -> None:
    """The plugin protects its own cleanup; the user decides how long theirs may take. The reports are written."""
    project.test(HANGING)
    with project.running() as process:
        _await(project.folder / "tearing-down")
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "ERROR: interrupted during fixture teardown, which may be incomplete" in out
    assert "Traceback" not in out
    assert (project.folder / "report.json").exists()


def test_ctrl_c_does_not_break_off_the_summary_of_a_run_that_it_has_ended(project: Project) -> None:
    """Users press it again when nothing seems to happen; a traceback would hide what was measured."""
    project.test(HANGING.replace("time.sleep(3600)", ""))
    project.write("conftest.py", "import signal\ndef pytest_terminal_summary(): signal.raise_signal(signal.SIGINT)\n")
    run = project.run()
    assert run.status == pytest.ExitCode.INTERRUPTED, run.out
    assert "Traceback" not in run.out


def _await(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} is not there"
        time.sleep(0.02)

"""The examples, run as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import Project, Run, copied_example

REPOSITORIES = ("orders-service", "orders-sink")
"""Examples that are complete repositories."""


def run_experiment(nodeid: str, folder: Path) -> None:
    """Run an experiment for one round on local brokers; it must pass."""
    run = copied_example("experiments", folder).run("--kafka-cluster=local", "--kafka-rounds=1", nodeid)
    assert run.status == pytest.ExitCode.OK, run.out
    assert set(run.verdicts.values()) <= {"PASSED", "MEASURED"}  # some have no thresholds


def run_repository(project: Project, *arguments: str) -> Run:
    """Run the tests of a repository as if its package were installed."""
    return project.run_steadily(*arguments, PYTHONPATH=str(project.folder / "src"))

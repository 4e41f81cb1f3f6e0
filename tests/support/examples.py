"""The experiments among the examples, run as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import copied_example


def run_experiment(nodeid: str, folder: Path) -> None:
    """Run an experiment for one round on local brokers; it must pass."""
    run = copied_example("experiments", folder).run("--kafka-cluster=local", "--kafka-rounds=1", nodeid)
    assert run.status == pytest.ExitCode.OK, run.out
    assert set(run.verdicts.values()) <= {"PASSED", "MEASURED"}  # some have no thresholds

"""What `kafkaperf init` writes: the first tests that a new user runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.project import Project, inherited

LOCAL = "--kafka-cluster=local"


def written(folder: Path, *arguments: str) -> Project:
    """The project that the command has written into an empty folder."""
    command = [sys.executable, "-c", "import pytest_kafkaperf.plugin.cli as cli; raise SystemExit(cli.main())"]
    subprocess.run([*command, "init", *arguments], cwd=folder, env=inherited(), check=True, timeout=PATIENCE_S)
    return Project(folder)


@pytest.mark.story
def test_the_test_of_a_service_passes_at_once(tmp_path: Path) -> None:
    """With the service that stands in for the user's: records go through it, and each comes out once."""
    run = written(tmp_path, "--service").run_steadily("tests/perf", LOCAL)
    assert (run.status, run.verdicts) == (0, {"test_orders_come_out_within_a_second": "PASSED"}), run.out
    assert "INCONCLUSIVE" not in run.out


def test_the_test_of_a_cluster_compares_two_versions_at_once(tmp_path: Path) -> None:
    """Without a baseline: both versions start, and the report names the difference."""
    run = written(tmp_path, "--cluster").run_steadily("tests/perf", LOCAL, "--kafka-rounds=2")
    assert run.status == 0, run.out
    (test,) = run.report["tests"]
    assert test["verdict"] in ("PASSED", "IMPROVED"), run.out
    assert (test["cluster"]["kafka"], test["live_baseline"]["kafka"]) == ("4.3.1", "4.1.0")
    assert "kafka: 4.1.0 -> 4.3.1" in test["changed"]

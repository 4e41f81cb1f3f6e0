"""What `kafkaperf init` writes: the first tests that a new user runs."""

from __future__ import annotations

import re
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
    project = written(tmp_path, "--service")
    (file,) = Path(tmp_path, "tests", "perf").glob("test_*.py")
    patient, count = re.subn(r"(e2e\.latency\.p\d+ <=) \d+ m?s", r"\1 60 s", file.read_text(encoding="utf-8"))
    assert count == 2, patient  # other tests run at the same time
    file.write_text(patient, encoding="utf-8")
    run = project.run_steadily("tests/perf", LOCAL)
    assert (run.status, run.verdicts) == (0, {"test_orders_come_out_within_a_second": "PASSED"}), run.out
    assert "INCONCLUSIVE" not in run.out


def test_the_test_of_a_cluster_compares_two_versions(tmp_path: Path) -> None:
    """Without a baseline: both versions start. Whether they are told apart in time depends on the machine."""
    run = written(tmp_path, "--cluster").run("tests/perf", LOCAL, "--kafka-rounds=2", "--kafka-time-budget=90s")
    assert "failed" not in run.out.splitlines()[-1], run.out
    (test,) = run.report["tests"]
    assert (test["cluster"]["kafka"], test["live_baseline"]["kafka"]) == ("4.4.0", "4.1.0")
    assert "kafka: 4.1.0 -> 4.4.0" in test["changed"]
    assert [check["verdict"] for check in test["checks"] if check["expression"] == "lost == 0"] == ["PASSED"]


@pytest.mark.speed
def test_the_test_of_a_service_passes_with_its_own_limits(tmp_path: Path) -> None:
    """As it is written."""
    run = written(tmp_path, "--service").run_steadily("tests/perf", LOCAL)
    assert (run.status, run.verdicts) == (0, {"test_orders_come_out_within_a_second": "PASSED"}), run.out


@pytest.mark.speed
def test_the_test_of_a_cluster_passes_at_once(tmp_path: Path) -> None:
    """As it is written."""
    run = written(tmp_path, "--cluster").run("tests/perf", LOCAL)
    assert (run.status, run.verdicts) == (0, {"test_the_workload_is_as_fast_as_before": "PASSED"}), run.out

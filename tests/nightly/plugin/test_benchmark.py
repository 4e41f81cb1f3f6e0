"""Saved runs of pytest-benchmark, compared by its command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.project import Project

TEST = """
@pytest.mark.benchmark(group="topics")
@pytest.mark.parametrize("record_size", [100, 1000])
@pytest.mark.kafka_scenario(rate="200 records/s", duration="500 ms", warmup="200 ms", rounds=2)
@pytest.mark.kafka_threshold("produce.latency.p50 <= 10 s")
def test_sizes(kafka_perf, record_size):
    kafka_perf()
"""


def test_two_saves_are_compared(project: Project, on_broker: str) -> None:
    """By its own command, and as a histogram."""
    project.test(TEST)
    for name in ("before", "after"):
        saved = project.run_steadily(on_broker, f"--benchmark-save={name}", "--benchmark-histogram=pictures/all")
        assert saved.status == pytest.ExitCode.OK, saved.out
    compared = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", "--columns=ops,rounds"],
        cwd=project.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert compared.returncode == 0, compared.stderr
    assert sum(line.startswith("test_sizes[100]") for line in compared.stdout.splitlines()) >= 2
    assert len([*project.folder.glob("pictures/*.svg")]) == 1

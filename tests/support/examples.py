"""The examples, run as a user runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import Project, Run, copied_example

REPOSITORIES = ("orders-service", "orders-sink")
"""Examples that are complete repositories."""
BRIEF = ("--kafka-rounds=1", "-o", "kafka_broker_warmup=0 s")
SLOWER = {
    "orders-service": (
        "src/orders_service/service.py",
        "        written = []",
        "        await asyncio.sleep(0.2)",
        "e2e.latency.p50 <= 100 ms",
    ),
    "orders-sink": (
        "src/orders_sink/sink.py",
        "                store.add(orders(messages))",
        "                stopped.wait(0.003 * len(messages))",
        "app.lag.slope <= 50 records/s",
    ),
}
"""For each repository: a file, a line of it, a line that makes it slower, and the promise that breaks."""


def run_experiment(nodeid: str, folder: Path) -> None:
    """Run an experiment for one round on local brokers; it must pass."""
    run = copied_example("experiments", folder).run("--kafka-cluster=local", "--kafka-rounds=1", nodeid)
    assert run.status == pytest.ExitCode.OK, run.out
    assert set(run.verdicts.values()) <= {"PASSED", "MEASURED"}  # some have no thresholds


def run_repository(project: Project, *arguments: str) -> Run:
    """Run the tests of a repository as if its package were installed."""
    return project.run_steadily(*arguments, PYTHONPATH=str(project.folder / "src"))


def break_promises(name: str, folder: Path) -> None:
    """Make the service of a repository slower: the promise breaks, although the service loses no order."""
    file, line, slower, promise = SLOWER[name]
    project = copied_example(name, folder)
    source = (project.folder / file).read_text(encoding="utf-8")
    assert line in source
    project.write(file, source.replace(line, f"{slower}\n{line}"))
    run = run_repository(project, *BRIEF, "-k", "within")
    (test,) = run.report["tests"]
    assert test["verdict"] == "VIOLATED", run.out
    assert promise in [check["expression"] for check in test["checks"] if check["verdict"] == "VIOLATED"]
    assert test["metrics"]["lost"]["value"] == 0

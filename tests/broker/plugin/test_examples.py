"""The examples: what users run first must work as it stands there. For README and guide see `tests/unit/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import run_experiment
from tests.support.project import Project, copied_example


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


def test_the_committed_baseline_of_another_machine_never_gates(quickstart: Project, on_broker: str) -> None:
    """Figures of two machines say nothing about each other: the change is shown and does not count."""
    run = quickstart.run(
        on_broker, "--kafka-allow-unlimited", "-k", "guard", "--kafka-rounds=2", "--kafka-environment=somewhere-else"
    )
    assert run.verdicts == {"test_throughput_guard": "INCONCLUSIVE"}, run.out
    assert "no baseline for environment 'somewhere-else'" in run.out
    (check,) = run.report["tests"][0]["checks"]
    assert check["change"] is not None


def test_the_application_keeps_its_promise_and_a_slower_one_does_not(tmp_path: Path) -> None:
    """The example guards a service through its two topics; the same test, of a service whose lookups take 0.2 s."""
    project = copied_example("app", tmp_path)
    slow = (project.folder / "test_performance.py").read_text(encoding="utf-8")
    project.write(
        "test_slow.py",
        slow.replace('"enricher.py"', '"enricher.py", "--lookup-ms", "200"').replace("test_an", "test_a"),
    )
    run = project.run("--kafka-cluster=local", "--kafka-rounds=1", "--kafka-duration=2 s", "--kafka-preheat=1 s")
    assert run.verdicts == {
        "test_an_order_is_out_within_half_a_second": "PASSED",
        "test_a_order_is_out_within_half_a_second": "VIOLATED",
    }, run.out
    before, after = (test["metrics"] for test in run.report["tests"])
    assert (before["lost"]["median"], after["lost"]["median"]) == (0, 0)
    assert 0.17 < after["e2e.latency.p50"]["median"] - before["e2e.latency.p50"]["median"] < 0.4


def test_an_experiment_runs(tmp_path: Path) -> None:
    """It has a proxy between the clients and the broker; `tests/nightly` runs experiments of other kinds."""
    run_experiment("test_durability.py", tmp_path)

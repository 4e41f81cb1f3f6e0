"""The examples: what users run first must work as it stands there. For README and guide see `tests/unit/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import run_experiment
from tests.support.project import Project, copied_example


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


def test_the_last_lines_of_the_quickstart_lead_to_a_gate(quickstart: Project, on_broker: str) -> None:
    """It is green on a new machine; whoever does what its last lines say compares with a baseline from then on."""
    brief = (on_broker, "--kafka-duration=500 ms", "--kafka-warmup=200 ms")
    first = quickstart.run_steadily(*brief)
    *_, compare, update, gate, outcome = first.out.splitlines()
    assert "2 passed" in outcome, first.out
    assert "INCONCLUSIVE" not in first.out

    ini = (quickstart.folder / "pytest.ini").read_text(encoding="utf-8")
    quickstart.write("pytest.ini", f"{ini}{compare.partition('pytest.ini: ')[2]}\n")
    made = quickstart.run(*brief, update.partition(": pytest ")[2])
    assert (made.status, len(made.baselines)) == (pytest.ExitCode.OK, 2), made.out
    assert "next: " not in made.out

    gated = quickstart.run(*brief, gate.partition(": pytest ")[2], "--kafka-no-confirm")
    relative = [
        check for test in gated.report["tests"] for check in test["checks"] if "baseline" in check["expression"]
    ]
    assert [check["change"] is not None for check in relative] == [True, True], gated.out


def test_the_application_keeps_its_promise_and_a_slower_one_does_not(tmp_path: Path) -> None:
    """The example guards a service through its two topics; the same test, of a service whose lookups take 0.2 s."""
    project = copied_example("app", tmp_path)
    slow = (project.folder / "test_performance.py").read_text(encoding="utf-8")
    project.write(
        "test_slow.py",
        slow.replace('"enricher.py"', '"enricher.py", "--lookup-ms", "200"').replace("test_an", "test_a"),
    )
    run = project.run("--kafka-cluster=local", "--kafka-rounds=1", "--kafka-duration=2 s", "-o", "kafka_preheat=1 s")
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

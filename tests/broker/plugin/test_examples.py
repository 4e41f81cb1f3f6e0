"""The examples: what users run first must work as it stands there. For README and guide see `tests/unit/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import REPOSITORIES, run_experiment, run_repository
from tests.support.project import Project, copied_example

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


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


@pytest.mark.speed
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


@pytest.mark.story
def test_the_quickstart_needs_no_broker_and_loses_nothing(quickstart: Project) -> None:
    """It starts a broker; whether latencies keep their limits depends on the machine (`tests/nightly`)."""
    run = quickstart.run(*BRIEF)
    assert [*run.verdicts] == ["test_producer_sla", "test_end_to_end_sla"], run.out
    for test in run.report["tests"]:
        assert test["cluster"]["provider"] == "local"
        assert (test["metrics"]["errors"]["value"], test["metrics"]["lost"]["value"]) == (0, 0), run.out


@pytest.mark.speed
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_green_as_it_stands(name: str, tmp_path: Path) -> None:
    """Its unit tests, and its perf tests on a broker and an application of their own."""
    run = run_repository(copied_example(name, tmp_path), "-o", "kafka_broker_warmup=0 s")
    assert run.status == pytest.ExitCode.OK, run.out
    assert run.verdicts
    assert set(run.verdicts.values()) == {"PASSED"}, run.out


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_slower_service_breaks_its_promises(name: str, tmp_path: Path) -> None:
    """A commit that makes the code slower must not pass, although the service still loses no order."""
    file, line, slower, promise = SLOWER[name]
    project = copied_example(name, tmp_path)
    source = (project.folder / file).read_text(encoding="utf-8")
    assert line in source
    project.write(file, source.replace(line, f"{slower}\n{line}"))
    run = run_repository(project, *BRIEF, "-k", "within")
    (test,) = run.report["tests"]
    assert test["verdict"] == "VIOLATED", run.out
    assert promise in [check["expression"] for check in test["checks"] if check["outcome"] == "VIOLATED"]
    assert test["metrics"]["lost"]["value"] == 0


def test_an_experiment_runs(tmp_path: Path) -> None:
    """It has a proxy between the clients and the broker; `tests/nightly` runs experiments of other kinds."""
    run_experiment("test_durability.py", tmp_path)

"""The examples: what users run first must work as it stands there. For README and guide see `tests/unit/docs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import BRIEF, break_promises
from tests.support.project import Project, copied_example


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


@pytest.mark.speed
def test_the_last_lines_of_the_quickstart_lead_to_a_gate(quickstart: Project, on_broker: str) -> None:
    """It is green on a new machine; whoever does what its last lines say compares with a baseline from then on."""
    brief = (on_broker, "--kafka-duration=500 ms", "--kafka-warmup=200 ms", "--kafka-rounds=3")
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


def test_a_slower_service_breaks_its_promises(tmp_path: Path) -> None:
    """A commit that makes the code slower must not pass; `tests/nightly` has the other repository."""
    break_promises("orders-service", tmp_path)

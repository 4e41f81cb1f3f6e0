"""The tests on the page about group protocols, copied as a reader copies them, with the service on that page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import Project
from tests.unit.docs.pages import ROOT, files_of

FILES = files_of(ROOT / "docs" / "how-to" / "compare-group-protocols.md")


@pytest.fixture
def copied(tmp_path: Path) -> Project:
    """A repository that contains every file of the page."""
    project = Project(tmp_path)
    for name, text in FILES.items():
        project.write(name, text)
    return project


@pytest.mark.speed
@pytest.mark.parametrize("name", ["test_restart", "test_crash"])
def test_an_event_is_measured_with_both_protocols(copied: Project, name: str) -> None:
    """A reader gets values for both sides, and the service works with either protocol."""
    run = copied.run_steadily(f"tests/perf/{name}.py", "--kafka-compare=local", "--kafka-rounds=1")
    assert run.verdicts == {name: "PASSED"}, run.out
    trial = run.report["tests"][0]["trials"][0]
    for side in ("rounds", "baseline_rounds"):
        assert {"app.rebalances", "app.recovery", "app.delay.max"} <= set(trial[side][0]["metrics"])


def test_the_smoke_test_runs(copied: Project) -> None:
    """The first command on the page."""
    run = copied.run("tests/perf/test_steady_load.py", "--benchmark-disable", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out

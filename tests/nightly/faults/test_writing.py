"""What goes wrong while a baseline or a report is written: the old file survives whole, or the new one is whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.disks import fill, small_disk
from tests.support.ground import Ground

from .cells import FAILED, INTERRUPTED, PASSED, WRITING_BASELINE, WRITING_REPORT
from .conftest import Table
from .faults import FAULTS, Scene, make_read_only, slow_writing
from .project import (
    AGAINST_BASELINE,
    BASELINE,
    LIMITS,
    SHORT,
    reason_in,
    verdict_in,
    write_project,
)
from .table import outcome_of
from .terminal import Run

_END_TIMEOUT_S = 60
_DISK = "256k"
_WRITING_S = 3
"""How long a write takes where it is to be interrupted."""
_UPDATE = "--kafka-update-baselines"

_FULL, _READ_ONLY = "disk full", "folder read-only"
_TOLD = {_FULL: "No space left on device", _READ_ONLY: "Read-only file system"}
_SPOIL: dict[str, Callable[[Path], None]] = {_FULL: fill, _READ_ONLY: make_read_only}


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A project, and the file in it that is written when something goes wrong."""

    phase: str
    gate: str
    """The last one before the file is written."""
    project: Path
    file: Path
    arguments: tuple[str, ...]
    ground: Ground
    broker: Cluster

    def unfinished(self) -> list[Path]:
        return list(self.file.parent.glob(".kafkaperf-*.tmp"))

    def content(self) -> bytes | None:
        return self.file.read_bytes() if self.file.exists() else None

    def run(self, *holds: str) -> Run:
        cluster = f"--kafka-cluster={self.broker.bootstrap_servers}"
        return Run(self.project, self.ground, cluster, *self.arguments, holds=holds)

    def scene(self, run: Run) -> Scene:
        return Scene(run=run, ground=self.ground, foreign=self.broker, disk=Path(), clock=Path())


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, baseline: dict[str, object], ground: Ground, broker: Cluster
) -> _Place:
    """A run that is about to replace a baseline, or a report."""
    project = tmp_path / "project"
    of_baseline = request.param == WRITING_BASELINE
    write_project(project, SHORT | {"rounds": 1}, AGAINST_BASELINE if of_baseline else LIMITS)
    file = project / (BASELINE if of_baseline else "reports/report.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(baseline if of_baseline else {"schema_version": 1, "tests": []}), encoding="utf-8")
    return _Place(
        phase=request.param,
        gate="load" if of_baseline else "reports",
        project=project,
        file=file,
        arguments=(_UPDATE,) if of_baseline else ("--kafka-report=json:reports/report.json",),
        ground=ground,
        broker=broker,
    )


@pytest.mark.parametrize(
    ("place", "status", "told", "fault"),
    [
        pytest.param(*of_file, fault, id=f"{file}-{fault}")
        for file, of_file in {
            "baseline": (WRITING_BASELINE, FAILED, "cannot write baseline "),
            "report": (WRITING_REPORT, FAILED, "cannot write the report: "),
        }.items()
        for fault in (_READ_ONLY, _FULL)
    ],
    indirect=["place"],
)
def test_a_file_that_cannot_be_written_is_told_and_the_old_baseline_survives_whole(
    place: _Place, status: int, told: str, fault: str, table: Table
) -> None:
    """A measurement took minutes: what became of it must be known, and no baseline or old report must mislead."""
    folder = place.project / place.file.relative_to(place.project).parts[0]
    before = place.file.read_bytes()
    kept = before if place.phase == WRITING_BASELINE else None
    with small_disk(folder, _DISK):
        place.file.parent.mkdir(parents=True, exist_ok=True)
        place.file.write_bytes(before)
        with place.run("load") as run:
            run.await_gate("load")
            _SPOIL[fault](folder)
            began_s = time.monotonic()
            run.open_gate("load")
            ended = run.end(within_s=_END_TIMEOUT_S)
            seconds = time.monotonic() - began_s
        after, unfinished = place.content(), place.unfinished()

    reason = reason_in(run.report, run.shown)
    assert (ended, after, unfinished) == (status, kept, []), run.shown
    assert told in reason
    assert _TOLD[fault] in reason
    assert "Traceback (most recent call last)" not in run.shown
    assert place.ground.settled() == []
    table.add(place.phase, fault, "foreign", outcome_of(status, verdict_in(run.report), reason), seconds)


@pytest.mark.parametrize(
    ("fault", "status"), [("Ctrl-C", INTERRUPTED), ("Ctrl-C twice", INTERRUPTED), ("SIGTERM", INTERRUPTED)]
)
@pytest.mark.parametrize("place", [WRITING_BASELINE, WRITING_REPORT], indirect=True)
def test_a_run_that_is_ended_while_it_writes_leaves_a_whole_file(
    place: _Place, fault: str, status: int, table: Table
) -> None:
    """The old one or the new one, and nothing next to it."""
    before, names = place.file.read_bytes(), place.ground.names()
    with place.run(place.gate) as run:
        run.await_gate(place.gate)
        with slow_writing(run.process.pid, _WRITING_S):
            run.open_gate(place.gate)
            run.await_true(place.unfinished, "nothing is being written")
            began_s = time.monotonic()
            FAULTS[fault.removesuffix(" twice")](place.scene(run))
            if fault.endswith("twice"):
                run.await_ended_or(lambda: not place.unfinished())
                run.interrupt()
            ended = run.end(within_s=_END_TIMEOUT_S)
        seconds = time.monotonic() - began_s

    after = place.file.read_bytes()
    assert ended == status, run.shown
    assert "Traceback (most recent call last)" not in run.shown
    assert json.loads(after)["schema_version"] == 1
    assert place.unfinished() == []
    assert [*place.ground.settled(), *(place.ground.names() - names)] == []
    kept = "the old file is there" if after == before else "the new file is there, whole"
    table.add(place.phase, fault, "foreign", outcome_of(status, None, kept), seconds)


def test_two_runs_that_add_to_one_baseline_at_once_are_both_in_it(
    tmp_path: Path, baseline: dict[str, object], broker: Cluster, ground: Ground, table: Table
) -> None:
    """Each has read the file before the other has written it: without a lock one trial would be lost, unnoticed."""
    shared = tmp_path / "kafka-baselines"
    file = tmp_path / BASELINE
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(baseline), encoding="utf-8")
    arguments = [f"--kafka-cluster={broker.bootstrap_servers}", f"--kafka-baselines={shared}", f"{_UPDATE}=add"]
    with ExitStack() as stack:
        runs = []
        for name in ("one", "other"):
            write_project(tmp_path / name, SHORT, LIMITS)
            run = Run(tmp_path / name, ground, *arguments, holds={"load"})
            runs.append(stack.enter_context(run))
        for run in runs:
            run.await_gate("load")
            stack.enter_context(slow_writing(run.process.pid, _WRITING_S))
        began_s = time.monotonic()
        for run in runs:
            run.open_gate("load")
        statuses = [run.end(within_s=_END_TIMEOUT_S) for run in runs]
        seconds = time.monotonic() - began_s

    assert statuses == [PASSED, PASSED], "\n".join(run.shown for run in runs)
    trials = json.loads(file.read_text(encoding="utf-8"))["trials"]
    assert len(trials) == 3
    assert sorted(path.name for path in shared.rglob("*") if path.is_file()) == [BASELINE.name]
    assert ground.settled() == []
    table.add(WRITING_BASELINE, "two runs at once", "foreign", "PASSED: the trials of both are in the file", seconds)

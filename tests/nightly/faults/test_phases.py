"""A fault in each phase of a run: the right verdict with its reason, in bounded time, and nothing is left."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.run_names import stale_groups, stale_topics
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.disks import small_disk
from tests.support.ground import SETTLE_TIMEOUT_S, Ground

from .cells import CONFIRMATION, CREATION, DRAINING, ROUND, WARMUP, Cell, cells
from .conftest import Table
from .faults import FAULTS, REQUEST_TIMEOUT_S, Scene, clock_environment
from .project import (
    AGAINST_BASELINE,
    LIMITS,
    MANY_PARTITIONS,
    PACED,
    SHORT,
    SLOWLY_DRAINED,
    TIGHT,
    reason_in,
    verdict_in,
    write_baseline,
    write_project,
)
from .terminal import Run

_DISK = "64m"
_POLL_S = 0.05

_WORKLOADS = {CREATION: PACED, WARMUP: PACED, ROUND: PACED, DRAINING: SLOWLY_DRAINED, CONFIRMATION: SHORT}
_SHOWN = {
    WARMUP: r"round 1/1  warm-up",
    ROUND: r"round 1/1  measuring",
    DRAINING: r"round 1/1  draining",
    CONFIRMATION: r"re-test, trial 2  round",
}
"""What the terminal shows in a phase."""
_MORE: dict[str, dict[str, Any]] = {
    "broker stopped for 5 s": {"producer_config": {"request_timeout_ms": REQUEST_TIMEOUT_S * 1000}},
    "quota set": {"duration": "25 s"},  # Kafka's own tool, which sets it, takes some seconds to start
}
"""What a fault takes of a workload, while it lasts."""


@dataclass(frozen=True, kw_only=True)
class _Ended:
    """A run that has ended by itself."""

    status: int
    verdict: str | None
    reason: str
    seconds: float
    """Since the fault."""
    shown: str


def _moved(baseline: str, servers: str) -> str:
    """The baseline as one of the cluster at these servers: that of another cluster would judge nothing."""
    with provision(ClusterSpec(), target=servers) as cluster:
        fingerprint = cluster.fingerprint
    moved = json.loads(baseline)
    for trial in moved["trials"]:
        trial["fingerprint"] |= fingerprint
    return json.dumps(moved)


@pytest.mark.parametrize("cell", [pytest.param(cell, id=str(cell)) for cell in cells()])
def test_a_fault_gives_its_verdict_in_time_and_leaves_nothing(
    cell: Cell, ground: Ground, tmp_path: Path, table: Table, request: pytest.FixtureRequest
) -> None:
    """Who reads the verdict must be able to believe it, and the next run must find the machine as it was."""
    foreign: Cluster | None = None
    if cell.where != "own":
        foreign = request.getfixturevalue("broker" if cell.where == "foreign" else "pair")
        ground = dataclasses.replace(ground, servers=foreign.bootstrap_servers)
    lofty = request.getfixturevalue("lofty_baseline") if cell.phase == CONFIRMATION else None
    if lofty is not None and cell.where == "pair":
        lofty = _moved(lofty, ground.servers)
    before = ground.names()
    ended = _run(cell, ground, tmp_path, foreign=foreign, baseline=lofty, before=before)

    assert (ended.status, ended.verdict) == (cell.status, cell.verdict), f"{ended.reason}\n{ended.shown[-5000:]}"
    cell.check_reason(ended.reason)
    assert "Traceback (most recent call last)" not in ended.shown
    if cell.status < 0:
        assert ground.settled() == []  # without a next run
        _live_on(ground, before)
    assert _left(ground, before) == []
    table.add_run(cell, ended.verdict, ended.reason, ended.seconds)


def _run(
    cell: Cell, ground: Ground, folder: Path, *, foreign: Cluster | None, baseline: str | None, before: set[str]
) -> _Ended:
    """Run the project until it ends by itself, with the fault in its phase."""
    project, disk = folder / "project", folder / "disk"
    fields = MANY_PARTITIONS if cell.phase == CREATION and not cell.before else _WORKLOADS[cell.phase]
    if cell.phase not in (DRAINING, CONFIRMATION):
        fields = fields | _MORE.get(cell.fault, {})
    limits = TIGHT if cell.fault == "quota set" else LIMITS
    write_project(project, fields, limits if baseline is None else AGAINST_BASELINE)
    if baseline is not None:
        write_baseline(project, baseline)
    arguments = [f"--kafka-cluster={'local' if foreign is None else foreign.bootstrap_servers}"]
    variables: dict[str, str] = {}
    with ExitStack() as stack:
        if cell.fault == "disk full":
            stack.enter_context(small_disk(disk, _DISK))
            arguments += ["-o", f"kafka_log_dirs={disk}"]
        if cell.fault.startswith("clock"):
            variables = clock_environment(folder)
        holds = {"load"} if cell.before else set[str]()
        run = stack.enter_context(Run(project, ground, *arguments, holds=holds, variables=variables))
        scene = Scene(run=run, ground=ground, foreign=foreign, disk=disk, clock=folder / "step")
        stack.enter_context(scene.undone)
        _await_phase(cell, scene, before)
        began_s = time.monotonic()
        FAULTS[cell.fault](scene)
        if cell.before:
            run.open_gate("load")
        status = run.end(within_s=cell.within_s)
        seconds = time.monotonic() - began_s
        return _Ended(
            status=status,
            verdict=verdict_in(run.report),
            reason=reason_in(run.report, run.shown),
            seconds=seconds,
            shown=run.shown,
        )


def _await_phase(cell: Cell, scene: Scene, before: set[str]) -> None:
    if cell.before:
        scene.run.await_gate("load")
    elif cell.phase == CREATION:
        scene.run.await_true(lambda: scene.ground.names() - before, "no topic shows up")
    else:
        scene.run.await_shown(_SHOWN[cell.phase])


def _left(ground: Ground, before: set[str]) -> list[str]:
    """What the run has left; a cluster takes a moment to remove a topic."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while (names := ground.names() - before) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return [*ground.settled(), *sorted(names)]


def _live_on(ground: Ground, before: set[str]) -> None:
    """What a next run does on a cluster where one could not clean up, when it is time."""
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    left = ground.names() - before
    topics, groups = stale_topics(left, later), stale_groups(left, later)
    assert sorted([*topics, *groups]) == sorted(left)
    admin = Admin(ground.servers, Access())
    for topic in topics:
        admin.delete_topic(topic)
    if groups:
        admin.delete_groups(groups)

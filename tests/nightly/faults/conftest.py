"""What the cells of the campaign share: other brokers, a baseline that no trial reaches, and the table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.files import lock_folder
from tests.support.ground import Ground

from .cells import DAEMON_STOPPED, ONE_DAEMON, ONE_TOPIC, ROUND, WRITINGS, Cell, cells
from .project import AGAINST_BASELINE, BASELINE, SHORT, write_project
from .table import Row, key_of, outcome_of, write
from .terminal import Run

_TABLE = os.environ.get("PYTEST_KAFKAPERF_FAULTS")
_MAKE_TIMEOUT_S = 90


class Table:
    """The table of the guide, where `PYTEST_KAFKAPERF_FAULTS` names its page."""

    def add(self, phase: str, fault: str, where: str, outcome: str, seconds: float) -> None:
        """Add what came of a cell that holds what it states."""
        if _TABLE is None:
            return
        order = [key_of(cell.phase, cell.fault, cell.where) for cell in cells()]
        order += [key_of(ROUND, fault, "own") for fault in (DAEMON_STOPPED, ONE_DAEMON)]
        order += [key_of(ROUND, ONE_TOPIC, "foreign"), *(key_of(*one, "foreign") for one in WRITINGS)]
        with lock_folder(Path(_TABLE).parent):
            write(Path(_TABLE), Row(phase=phase, fault=fault, where=where, outcome=outcome, seconds=seconds), order)

    def add_run(self, cell: Cell, verdict: str | None, reason: str, seconds: float) -> None:
        """The same of a run that has ended as it must."""
        self.add(cell.phase, cell.fault, cell.where, outcome_of(cell.status, verdict, reason), seconds)


@pytest.fixture(scope="session")
def table() -> Table:
    """Where cells tell what came of them."""
    return Table()


@pytest.fixture(scope="session")
def pair() -> Iterator[Cluster]:
    """Two brokers of somebody else: a partition of one can be given to the other."""
    with provision(ClusterSpec(brokers=2, heap="300m"), target="local") as cluster:
        yield cluster


@pytest.fixture
def ground(kafka: distribution.Distribution, tmp_path: Path, broker: Cluster) -> Ground:
    """Where the runs of a test live."""
    return Ground.make(tmp_path, kafka, broker.bootstrap_servers)


@pytest.fixture(scope="session")
def baseline(
    kafka: distribution.Distribution, tmp_path_factory: pytest.TempPathFactory, broker: Cluster
) -> dict[str, object]:
    """A baseline of the short workload, as a run has written it."""
    folder = tmp_path_factory.mktemp("baseline")
    ground = Ground.make(folder, kafka, broker.bootstrap_servers)
    project = folder / "project"
    write_project(project, SHORT, AGAINST_BASELINE)
    on = f"--kafka-cluster={broker.bootstrap_servers}"
    with Run(project, ground, on, "--kafka-update-baselines") as run:
        assert run.end(within_s=_MAKE_TIMEOUT_S) == pytest.ExitCode.OK, run.shown
    found: dict[str, object] = json.loads((project / BASELINE).read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def lofty_baseline(baseline: dict[str, object]) -> str:
    """The same with an absurd throughput: whatever is compared with it is suspected, however noisy the machine is."""
    text = json.dumps(baseline)
    lofty = json.loads(text)
    for one in lofty["trials"][0]["rounds"]:
        one["produce.throughput"] *= 100_000
    return json.dumps(lofty, indent=2) + "\n"

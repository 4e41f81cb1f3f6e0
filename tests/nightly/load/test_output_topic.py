"""Applications of which nothing comes out, and applications that serve several runs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.relays import DUE, THROUGH, Start, find_no_output
from tests.support.runs_at_once import run_at_once

if TYPE_CHECKING:
    from tests.support.rounds import Load


def test_an_application_that_refuses_all_records_makes_the_run_invalid(
    broker: Cluster, load: Load, relay: Start
) -> None:
    """It has a group, and reads."""
    relay("--group", "relay", "--refuse")
    metrics = find_no_output(broker, load, "no record arrived in 'relay-out': start the application")
    assert metrics["lost"] == DUE


def test_runs_at_once_count_their_own_records(broker: Cluster, relay: Start) -> None:
    """One application serves both; each run receives the records of the other, too."""
    relay("--lose", "500")
    fields = THROUGH | {"rate": 200, "duration": "5 s", "warmup": 0}
    runs = run_at_once(broker, [fields, fields | {"key": "uniform:50"}])

    counts = [tuple(run.metrics[name] for name in ("errors", "lost", "duplicated")) for run in runs]
    assert sorted(counts) == [(0, 0, 0), (0, 1, 0)]
    assert sorted(run.received for run in runs) == [999, 1000]

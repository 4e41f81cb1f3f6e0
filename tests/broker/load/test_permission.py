"""Every load on a cluster that others may use keeps to what its settings allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.loads import Phase, slice_load
from pytest_kafkaperf.runner.rounds.permission import MaxRate, Permission
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, Workers, running
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import faults
from tests.support.topic_log import Log

SHARED = Permission(servers="broker1:9092", max_rate=MaxRate(records_per_s=500))


def measured(
    cluster: Cluster, permission: Permission, load: Callable[[SideRounds, Workers], Round], **fields: object
) -> Round:
    """Run one load of a side with this permission."""
    side = SideRounds(
        dataclasses.replace(Side.of(cluster), permission=permission), Scenario.of({"rounds": 1, "warmup": 0, **fields})
    )
    with running([side], WorkerAllocation(producing=1, consuming=1)) as workers:
        return load(side, workers)


@pytest.mark.parametrize("permission", [SHARED, Permission(servers=None)], ids=["shared", "own"])
def test_a_backlog_on_a_shared_cluster_is_written_at_the_rate_of_the_load(
    broker: Cluster, log: Log, permission: Permission
) -> None:
    """At full speed it would take all of the brokers' capacity, whatever the rate of the test is."""
    fields = {"rate": "500 records/s", "records": 100, "backlog": 1000, "consumers": 1, "partitions": 1}
    fields["batch_size"] = "200 kB"  # at full speed, one batch holds the whole backlog
    one = measured(broker, permission, SideRounds.measure, **fields)
    assert (faults(one), one.metrics["lost"]) == ([], 0)
    due_ns = sorted(record.due_ns for record in log.records)[:1000]
    took_s = (due_ns[-1] - due_ns[0]) / NS_PER_S
    assert took_s == pytest.approx(999 / 500 if permission is SHARED else 0)


def _slice(side: SideRounds, workers: Workers) -> Round:
    return side.warm_up_slice(workers, slice_load(side.scenario, Phase.FULL), Phase.FULL)


@pytest.mark.parametrize(
    ("load", "fields"),
    [
        (SideRounds.measure, {"rate": "501 records/s"}),
        (SideRounds.measure, {}),
        (_slice, {"rate": "1 record/s"}),
    ],
    ids=["rate", "no rate", "warm-up"],
)
def test_no_load_starts_that_is_not_allowed(
    broker: Cluster, load: Callable[[SideRounds, Workers], Round], fields: dict[str, object]
) -> None:
    """Also one that some later code derives from the load of the test, as the warm-up is."""
    with pytest.raises(UsageError, match="may be used by others"):
        measured(broker, SHARED, load, duration="200 ms", **fields)

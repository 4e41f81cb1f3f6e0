"""The plugin's own consumers begin at a backlog, while producers go on."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.metrics import LOAD_METRICS
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.generated import order
from tests.support.quotas import quota
from tests.support.rounds import run_scenario

if TYPE_CHECKING:
    from tests.support.rounds import Load
    from tests.support.topic_log import Log

BACKLOG = 20_000


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, marks=pytest.mark.story),
        {"consumer_groups": 2, "consumers": 2, "producers": 2},
        {"transaction_size": 100},
        {"client": "record", "key": "uniform:50"},
    ],
    ids=["one consumer", "two groups", "transactions", "keyed records"],
)
def test_consumers_catch_up_with_a_backlog_under_load(broker: Cluster, load: Load, fields: dict[str, Any]) -> None:
    """What was written before the window is in none of its metrics, and in the exact counts of none of its records."""
    declared: dict[str, Any] = {"consumers": 1, "backlog": BACKLOG, "rate": 2000, "duration": "3 s"} | fields
    ran = load(broker, **declared)
    groups = declared.get("consumer_groups", 1)
    assert ran.faults == []
    assert [name for name in ran.metrics if name in LOAD_METRICS] == list(Scenario.of(declared).metrics())
    assert (ran.metrics["lost"], ran.metrics["duplicated"], ran.metrics["reordered"]) == (0, 0, 0)
    assert sum(part.received for part in ran.consumed) == groups * 6000
    assert sum(part.total for part in ran.consumed) == groups * (BACKLOG + 6600)
    assert ran.seen.log.audit is None
    assert ran.metrics["catchup"] > 0
    assert ran.metrics["lag.max"] <= BACKLOG + 6600
    longest_s = 3 + ran.metrics["produce.latency.max"]
    assert 0.99 * 6000 / longest_s <= ran.metrics["produce.throughput"] <= 1.01 * 2000
    assert ran.round.series["consume"]["first_s"] >= -1


def test_a_backlog_has_other_records_than_the_load(broker: Cluster, load: Load, log: Log) -> None:
    """An application that ignores orders which it has already seen must read all of them."""
    ran = load(broker, consumers=1, backlog=200, rate=200, duration="1 s", warmup=0, payload=order)
    orders = {json.loads(record.value)["id"] for record in log.records}
    assert (ran.faults, len(orders)) == ([], 200 + 200)


def test_a_backlog_that_cannot_be_written_is_told(own_broker: Cluster) -> None:
    """Without it, the test would measure something else."""
    seen: list[str] = []

    def end_broker(_: int, progress: Progress) -> None:
        seen.append(progress.step)
        if progress.phase == "measuring":
            for pid in own_broker.pids:
                os.kill(pid, signal.SIGKILL)

    fields = {"consumers": 1, "backlog": "1G", "rate": 100, "duration": "1 s", "rounds": 1}
    with pytest.raises(ClusterError, match=r"could not write the backlog of 1000000000 records: .*SIGKILL"):
        run_scenario(Scenario.of(fields), own_broker, on_progress=end_broker)
    assert {*seen} == {"backlog"}


@pytest.mark.speed
def test_consumers_under_a_quota_catch_up_by_arithmetic(broker: Cluster, load: Load) -> None:
    """They may read 2 MB/s, of which 0.2 MB/s come in."""
    size, rate, limit, backlog = 1000, 200, 2_000_000, 10_000
    smooth = {"consumer_config": {"max_partition_fetch_bytes": 50_000}, "partitions": 1}
    fields: dict[str, Any] = {
        "consumers": 1,
        "record_size": size,
        "rate": rate,
        "duration": "10 s",
        "warmup": 0,
        **smooth,
    }
    with quota(broker, consumer_byte_rate=limit):
        ran = load(broker, backlog=backlog, **fields)
    assert ran.faults == []
    capacity = ran.metrics["catchup.throughput"]
    assert capacity == pytest.approx(limit / (size + 40), rel=0.15)  # a quota lets a first burst through
    assert ran.metrics["catchup"] == pytest.approx(backlog / (capacity - rate), rel=0.02, abs=0.1)

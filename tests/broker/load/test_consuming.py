"""Groups that read live, and backlogs that are read afterwards: who gets which records, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.metrics import LOAD_METRICS
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from tests.support.rounds import Load, Ran


def received_by_group(ran: Ran) -> dict[int, int]:
    """Records due in the window."""
    groups = {part.group for part in ran.consumed}
    return {group: sum(part.received for part in ran.consumed if part.group == group) for group in groups}


def assert_throughput_is_from(ran: Ran, begin_ns: int | None) -> None:
    """The rate at which records came from that instant to the last of them."""
    last_ns = max(part.last_ns for part in ran.consumed if part.last_ns is not None)
    assert begin_ns is not None
    elapsed_s = (last_ns - begin_ns) / NS_PER_S
    received = sum(received_by_group(ran).values())
    assert ran.metrics["consume.throughput"] == pytest.approx(received / elapsed_s)
    assert ran.metrics["consume.bandwidth"] == pytest.approx(sum(part.bytes for part in ran.consumed) / elapsed_s)


def test_every_group_gets_every_record_live(broker: Cluster, load: Load, log: Log) -> None:
    """Fan-out: the groups do not share, their members do; throughput is that of all together."""
    ran = load(broker, rate=1000, duration="1 s", consumers=2, consumer_groups=3)

    assert ran.faults == []
    assert received_by_group(ran) == {0: 1000, 1: 1000, 2: 1000}
    assert sorted(part.group for part in ran.consumed) == [0, 0, 1, 1, 2, 2]
    assert all(part.received > 0 for part in ran.consumed)
    assert sum(part.total for part in ran.consumed) == 3 * len(log.records)
    assert sum(part.latency.total for part in ran.consumed) == 3000
    assert_throughput_is_from(ran, ran.report.start_ns)
    assert ran.metrics["lag.max"] <= 1000 * (ran.metrics["e2e.latency.max"] + 0.3)  # the latter of the warm-up


@pytest.mark.parametrize(
    "fields",
    [{}, {"transaction_size": 50, "abort_ratio": 0.3, "isolation_level": "read_committed"}],
    ids=["plain", "committed"],
)
def test_a_backlog_is_read_once_it_is_complete(broker: Cluster, load: Load, log: Log, fields: dict[str, Any]) -> None:
    """Nothing of it beforehand, warm-up aside: the window of consuming begins with the drain."""
    ran = load(broker, rate=2000, duration="1 s", consumers=2, consumer_groups=2, consume="after", **fields)

    acknowledged = sum(part.acknowledged for part in ran.produced)
    assert ran.faults == []
    assert acknowledged > 1000
    assert received_by_group(ran) == {0: acknowledged, 1: acknowledged}
    assert sum(part.total for part in ran.consumed) == 2 * len(log.committed) > 2 * acknowledged
    assert ran.report.drain_ns is not None
    assert ran.report.start_ns is not None
    assert ran.report.drain_ns - ran.report.start_ns >= 0.99 * NS_PER_S
    assert_throughput_is_from(ran, ran.report.drain_ns)
    reception = ran.round.series["consume"]
    assert reception["interval_s"] == 1
    by_second = dict(enumerate(reception["count"], start=int(reception["first_s"])))
    assert by_second.get(0, 0) == 0  # a slow machine has received nothing at all by then
    assert sum(count for second, count in by_second.items() if second > 0) >= 2 * acknowledged


def test_a_backlog_has_no_age_to_measure(broker: Cluster, load: Load) -> None:
    """Of what waited for the drain, end-to-end time and lag say nothing: the metrics are those that are announced."""
    fields: dict[str, Any] = {"records": 20_000, "consumers": 1, "consume": "after", "compression": "lz4"}
    ran = load(broker, **fields)

    assert ran.round.problems == ()
    assert received_by_group(ran) == {0: 20_000}
    assert [name for name in ran.metrics if name in LOAD_METRICS] == list(Scenario.of(fields).metrics())
    assert not [name for name in ran.metrics if name.startswith(("e2e.", "lag."))]
    assert sum(part.latency.total for part in ran.consumed) == 0
    assert set(ran.round.series["consume"]["max"]) == {None}


def test_consumers_fetch_as_they_are_told(broker: Cluster, load: Load) -> None:
    """A broker that may wait for more data holds each record back by up to that time: its words reach it."""
    waiting = {"fetch.min.bytes": 1 << 20, "fetch_max_wait_ms": 2000}
    ran = load(broker, rate=200, duration="1.5 s", partitions=1, consumers=1, consumer_config=waiting)

    assert ran.faults == []
    assert received_by_group(ran) == {0: 300}
    assert ran.metrics["e2e.latency.p50"] > 0.5
    assert ran.metrics["produce.latency.p50"] < 0.5


def test_small_fetches_deliver_every_record(broker: Cluster, load: Load) -> None:
    """A batch is larger than what the broker may send at once: it sends it all the same, one a fetch."""
    small = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 2000}
    ran = load(broker, records=2000, record_size=500, consumers=2, consumer_config=small, warmup=0)

    assert ran.round.problems == ()
    assert received_by_group(ran) == {0: 2000}

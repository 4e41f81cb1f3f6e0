"""Load on a topic that exists, while others write to it: only what is ours counts, and nothing of theirs is touched."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.runner.rounds.side_rounds import resolve_scenario
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.orphans import becomes
from tests.support.problems import problem_told
from tests.support.rounds import run_scenario
from tests.support.runs_at_once import LOST, run_at_once
from tests.support.strangers import drop_topic, groups, left_behind, make_topic, strangers, topics
from tests.support.topic_log import read_log

if TYPE_CHECKING:
    from tests.support.rounds import Load, Ran

PARTITIONS = 3
PACED: dict[str, Any] = {"rate": 2000, "duration": "1 s"}
CLOSED: dict[str, Any] = {"duration": "400 ms", "batch_size": "4 KiB"}


@pytest.fixture(scope="module")
def orders(broker: Cluster) -> Iterator[str]:
    make_topic(broker, "orders", partitions=PARTITIONS, retention_ms="3600000")
    yield "orders"
    drop_topic(broker, "orders")


def assert_only_ours(ran: Ran, group_count: int = 1) -> None:
    """Counts are those of our producers, whatever else stands in the log."""
    produced = sum(ran.report.acknowledged().values())
    in_window = sum(part.acknowledged + part.aborted for part in ran.produced)
    assert ran.faults == []
    assert [ran.metrics[name] for name in ("errors", "lost", "duplicated", "reordered")] == [0, 0, 0, 0]
    assert ran.growth > produced  # theirs are there, too
    if ran.consumed:
        assert sum(part.total for part in ran.consumed) == group_count * produced
        assert sum(part.received for part in ran.consumed) == group_count * in_window
        assert sum(part.unread for part in ran.consumed) == 0


@pytest.mark.parametrize(
    ("load_fields", "reading"),
    [
        pytest.param(PACED, {"consumers": 2, "consumer_groups": 2}, id="paced-live"),
        pytest.param(PACED | {"key": "uniform:50"}, {"consumers": 1, "consume": "after"}, id="keyed-backlog"),
        pytest.param(PACED | {"client": "record"}, {}, id="record"),
        pytest.param(CLOSED | {"compression": "lz4"}, {"consumers": 1}, id="closed-live"),
        pytest.param(CLOSED | {"producers": 2}, {}, id="closed"),
        pytest.param(
            PACED | {"transaction_size": 100, "abort_ratio": 0.2}, {"consumers": 1}, id="transactions-uncommitted"
        ),
    ],
)
def test_what_others_write_meanwhile_does_not_count(
    broker: Cluster, load: Load, orders: str, load_fields: dict[str, Any], reading: dict[str, Any]
) -> None:
    """Random values of any size, null ones, committed and aborted transactions, between our own batches."""
    with strangers(broker, orders) as others:
        ran = load(broker, topic=orders, **load_fields, **reading)

    assert all(one.written > 50 for one in others)
    assert_only_ours(ran, reading.get("consumer_groups", 1))
    if load_fields is PACED:
        longest_s = 1 + ran.metrics["produce.latency.max"]
        assert 0.99 * 2000 / longest_s <= ran.metrics["produce.throughput"] <= 1.01 * 2000
        assert sum(part.latency.total for part in ran.consumed) == 2 * 2000
        assert ran.metrics["lag.max"] <= 2000 * (ran.metrics["e2e.latency.max"] + 0.3)  # the latter of the warm-up
        assert ran.metrics["e2e.latency.p50"] < 5


def test_the_end_offsets_of_a_topic_are_read_without_a_pause(broker: Cluster, orders: str) -> None:
    """Each round reads them twice; aiokafka waits 0.1 s by default before it asks again for the leaders of a topic."""
    admin = Admin(broker.bootstrap_servers, broker.access)

    def least_s(ask: Callable[[], object]) -> float:
        took_s = []
        for _ in range(5):
            began_s = time.monotonic()
            ask()
            took_s.append(time.monotonic() - began_s)
        return min(took_s)

    assert len(admin.end_offsets(orders, PARTITIONS)) == PARTITIONS
    connecting_s = least_s(lambda: admin.is_gone(orders))
    assert least_s(lambda: admin.end_offsets(orders, PARTITIONS)) < connecting_s + 0.1


def test_committed_records_are_read_between_the_transactions_of_others(
    broker: Cluster, load: Load, orders: str
) -> None:
    """Their open transactions hold our records back for a while; none is taken for unread."""
    fields: dict[str, Any] = {"transaction_size": 50, "isolation_level": "read_committed", "consumers": 1}
    with strangers(broker, orders):
        ran = load(broker, topic=orders, **PACED, **fields)

    assert_only_ours(ran)
    assert sum(part.received for part in ran.consumed) == 2000


def test_runs_at_once_count_their_own_records(broker: Cluster, orders: str) -> None:
    """CI jobs that share a topic have the same scenarios; a loss in one of them must not be hidden by the others."""
    fields: dict[str, Any] = {"topic": orders, "rate": 300, "duration": "5 s", "warmup": "500 ms"}
    kinds: list[dict[str, Any]] = [
        {"consumers": 1, "client": "record"},
        {"consumers": 1},
        {},
        {"consumers": 1, "key": "uniform:50"},
    ]
    runs = run_at_once(broker, [fields | kind for kind in kinds], lossy=0)

    none = {"errors": 0, "lost": 0, "duplicated": 0, "reordered": 0}
    assert [run.metrics for run in runs] == [none | {"lost": len(LOST)}, none, none, none]
    assert {run.acknowledged for run in runs} == {1650}
    assert [run.received for run in runs] == [1650 - len(LOST), 1650, 0, 1650]
    assert all(run.growth > 1650 for run in runs)  # they ran at once


@pytest.mark.story
def test_a_topic_that_exists_is_left_as_it_was_and_no_group_stays(broker: Cluster, load: Load) -> None:
    """Its log is somebody's: our records are added to it, and that is all."""
    make_topic(broker, "payments")
    topics_before = topics(broker)
    for times in (1, 2):
        ran = load(broker, topic="payments", records=1000, consumers=1, consumer_groups=2, warmup=0)
        assert (ran.round.problems, left_behind(ran.round)) == ((), [])
        assert len(read_log(broker.bootstrap_servers, "payments").records) == times * 1000
    assert becomes(lambda: topics(broker) == topics_before)  # brokers hear of a removal later
    drop_topic(broker, "payments")
    assert {name for name in groups(broker) if name.startswith("kafkaperf-")} == set()


def test_partitions_and_replicas_are_those_of_the_topic(broker: Cluster, orders: str) -> None:
    """They stand in the report and in the baseline: another number of them is another workload."""
    scenario = Scenario.of({"topic": orders})

    assert resolve_scenario(scenario, broker) == scenario.model_copy(
        update={"partitions": PARTITIONS, "replication_factor": 1}
    )
    own = Scenario.of({"partitions": 7})
    assert resolve_scenario(own, broker) is own


def test_records_too_short_for_a_tag_cannot_be_told_from_those_of_others(broker: Cluster, orders: str) -> None:
    """Then nobody knows what is lost: the metrics are absent, not zero, and the round is invalid for that reason."""
    fields: dict[str, Any] = {"topic": orders, "record_size": 10, "records": 1000, "warmup": 0, "rounds": 1}
    (one,) = run_scenario(Scenario.of(fields), broker)

    assert one.metrics["errors"] == 0
    assert {"lost", "duplicated", "reordered"} & one.metrics.keys() == set()
    why = "losses are unknown: records smaller than 16 B carry no tag, so an audit cannot identify them"
    assert one.problems == (problem_told(ProblemKind.LOSSES_UNKNOWN, why),)


@pytest.mark.parametrize("transactions", [{}, {"transaction_size": 100}], ids=["plain", "transactions"])
def test_what_compaction_removes_is_not_lost(transactions: dict[str, Any]) -> None:
    """Kafka keeps the newest record of each key, as it was asked to."""
    spec = ClusterSpec.of({"config": {"log.cleaner.backoff.ms": "50"}, "heap": "256m"})
    often = {"segment_ms": "200", "min_cleanable_dirty_ratio": "0.001", "max_compaction_lag_ms": "200"}
    with provision(spec, target="local") as cluster:
        make_topic(cluster, "newest", partitions=1, cleanup_policy="compact", **often)
        fields = {"topic": "newest", "key": "uniform:10", "rate": 2000, "duration": "3 s", "rounds": 2, **transactions}
        measured = run_scenario(resolve_scenario(Scenario.of(fields), cluster), cluster)
    for one in measured:
        assert "lost" not in one.metrics
        (problem,) = one.problems
        assert problem.kind is ProblemKind.LOSSES_UNKNOWN
        assert re.match(r"losses are unknown: compaction has removed \d+ records from the topic, ", problem.text)

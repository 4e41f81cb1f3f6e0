"""What would go wrong under load is told before it, with what was asked for, what there is, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.acls import Operation
from pytest_kafkaperf.clusters.admin.preflight import Preflight, absent, needed_operations, topic_problems
from pytest_kafkaperf.clusters.admin.wire import TopicMetadata
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.payloads import Record
from pytest_kafkaperf.scenarios.scenario import Scenario

ORDERS: dict[str, Any] = {"topic": "orders"}


def keyed(index: int, _random: object) -> Record:
    return Record(key=b"%d" % index, value=b"order")


def problems(scenario: dict[str, Any], *, config: dict[str, str] | None = None, **metadata: Any) -> list[str]:
    """Of a topic of two replicas, both in sync."""
    seen: dict[str, Any] = {
        "name": "orders",
        "partitions": 6,
        "replication_factor": 2,
        "in_sync": 2,
        "config": config or {},
    } | metadata
    return list(topic_problems(Scenario.of(scenario), TopicMetadata(**seen)))


def test_a_topic_that_does_is_no_problem() -> None:
    """Whether its properties are told or not."""
    config = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "min.insync.replicas": "2"}

    assert problems(ORDERS) == problems(ORDERS, config=config) == []
    assert problems({"topic_config": {"a": "b"}}, config=config) == []


@pytest.mark.parametrize(
    ("scenario", "metadata", "expected"),
    [
        (
            ORDERS,
            {"leaderless": (1, 4), "in_sync": 0},
            "topic 'orders' has no leader for partition 1, 4: brokers of the cluster are down; start them",
        ),
        (
            {},
            {"config": {"cleanup.policy": "compact,delete"}},
            "the topic of this scenario is compacted (cleanup.policy=compact,delete), so the cluster refuses records "
            "without a key; set key, for example key='uniform:1000', or use a topic that is not compacted",
        ),
        (
            ORDERS,
            {"config": {"min.insync.replicas": "2"}, "in_sync": 1},
            "acks='all' on topic 'orders': min.insync.replicas requires 2 replicas in sync, but a partition has 1 of "
            "2; start the brokers that are down, or use acks=1",
        ),
        (
            ORDERS | {"record_size": "2 MiB", "batch_size": "1 MiB"},
            {"config": {"max.message.bytes": "1048588"}},
            "topic 'orders' takes batches of up to 1048588 B (max.message.bytes), but this scenario has "
            "batch_size=1048576 and records in batches of up to 2097226 B; use smaller ones, or raise the topic's "
            "max.message.bytes (topic_config)",
        ),
        (
            {"batch_size": "2 MiB"},
            {"config": {"max.message.bytes": "1048588"}},
            "the topic of this scenario takes batches of up to 1048588 B (max.message.bytes), but this scenario has "
            "batch_size=2097152 and records in batches of up to 174 B; use smaller ones, or raise the topic's "
            "max.message.bytes (topic_config)",
        ),
    ],
    ids=["leader", "compacted", "in sync", "record", "batch"],
)
def test_a_topic_that_does_not_do_is_told_with_what_to_do(
    scenario: dict[str, Any], metadata: dict[str, Any], expected: str
) -> None:
    """Each would be an error of each record, minutes later."""
    assert problems(scenario, **metadata) == [expected]


@pytest.mark.parametrize(
    ("scenario", "metadata"),
    [
        (ORDERS | {"key": "uniform:10"}, {"config": {"cleanup.policy": "compact"}}),
        (ORDERS | {"payload": keyed}, {"config": {"cleanup.policy": "compact"}}),  # only the function knows its keys
        (ORDERS | {"acks": 1}, {"config": {"min.insync.replicas": "2"}, "in_sync": 1}),
        (ORDERS, {"config": {"min.insync.replicas": "3"}}),  # all that there are
        (ORDERS | {"compression": "lz4"}, {"config": {"max.message.bytes": "1000"}}),  # nobody knows how far it goes
        (ORDERS | {"batch_size": 1000}, {"config": {"max.message.bytes": "1000"}}),
    ],
)
def test_what_may_do_is_not_refused(scenario: dict[str, Any], metadata: dict[str, Any]) -> None:
    """A run that would work must not be held up by a guess."""
    assert problems(scenario, **metadata) == []


def test_a_run_needs_to_read_what_it_has_to_account_for() -> None:
    """Nothing is asked of an administrator that the run does not need, but losses that it cannot count are INVALID."""
    assert needed_operations(Scenario.of({"acks": 0})) == {Operation.WRITE, Operation.DESCRIBE}
    assert needed_operations(Scenario.of({})) == {Operation.WRITE, Operation.DESCRIBE, Operation.READ}
    only_reading = Scenario.of({"topic": "orders", "producers": 0, "consumers": 1})
    assert needed_operations(only_reading) == {Operation.DESCRIBE, Operation.READ}
    assert needed_operations(Scenario.of({"consumers": 1})) == {Operation.WRITE, Operation.DESCRIBE, Operation.READ}


@pytest.mark.parametrize(
    ("visible", "hint"),
    [
        ([], ""),
        (["__consumer_offsets", "kafkaperf-20261121T140509Z-00ff12ab34cd"], ""),
        (["orders", "customers", "users"], ", did you mean 'orders'?"),
        (["users", "audit"], ", expected one of 'audit', 'users'"),
        ([f"t{n}" for n in range(99)], ", none of the 99 visible topics has a similar name"),
    ],
)
def test_a_topic_that_is_not_there_is_told_with_those_of_a_like_name(visible: list[str], hint: str) -> None:
    """A misspelt name is the most likely reason."""
    end = "" if hint.endswith("?") else ";"
    assert absent("ordrs", visible, "topic") == (
        f"topic 'ordrs' does not exist{hint}{end} create it, or leave out topic so that the run creates one"
    )


def test_an_output_topic_that_does_not_exist_is_called_by_its_field() -> None:
    """The run creates only the topic that it writes itself."""
    assert absent("price", ["prices"], "output_topic") == (
        "output_topic 'price' does not exist, did you mean 'prices'? create it, or add it to kafka_app(topics=...) so "
        "that the test creates it"
    )


def test_a_cluster_that_is_not_there_is_told() -> None:
    """Within its bound, and with its address."""
    with pytest.raises(
        ClusterError,
        match=r"^could not check the topics and groups of the load on 127\.0\.0\.1:9: KafkaConnectionError",
    ):
        Preflight("127.0.0.1:9", Access()).resolve(Scenario.of(ORDERS))

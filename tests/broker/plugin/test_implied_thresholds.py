"""Loads that a real broker refuses or does not take: they fail although no threshold was declared for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.project import Project, Run
from tests.support.strangers import drop_topic, make_topic

CONSENT = "-okafka_writable_topics=shrinking"
SHRINKING = """
import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType


async def refuse_the_rest(servers):
    partitions = [TopicPartition("shrinking", number) for number in range(3)]
    async with AIOKafkaConsumer(bootstrap_servers=servers) as reader:
        while sum((await reader.end_offsets(partitions)).values()) < 500:
            await asyncio.sleep(0.01)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, "shrinking", {{"max.message.bytes": "1000"}})]
    )
    await admin.close()


@pytest.mark.kafka_scenario(topic="shrinking", rate=500, record_size="2 KiB", duration="6 s", rounds=1, warmup=0)
@pytest.mark.kafka_threshold({thresholds})
def test_shrinking(kafka_perf, kafka_cluster):
    servers = kafka_cluster.bootstrap_servers
    kafka_perf.at("1 s", lambda: asyncio.run(refuse_the_rest(servers)))
    kafka_perf()
"""


@pytest.fixture
def shrinking(broker: Cluster) -> Iterator[None]:
    make_topic(broker, "shrinking")
    yield
    drop_topic(broker, "shrinking")


def check_of(run: Run, metric: str) -> dict[str, Any]:
    (test,) = run.report["tests"]
    (check,) = [each for each in test["checks"] if each["metric"] == metric]
    return dict(check)


@pytest.mark.usefixtures("shrinking")
def test_most_records_are_refused_and_the_test_fails(project: Project, on_broker: str) -> None:
    """A fast refusal must not improve the latencies; the action is named."""
    run = project.test(SHRINKING.format(thresholds='"produce.latency.p50 <= 10 s"')).run(
        on_broker, "-okafka_writable_topics=shrinking"
    )
    assert run.verdicts == {"test_shrinking": "VIOLATED"}, run.out
    check = check_of(run, "errors")
    assert (check["expression"], check["implied"], check["verdict"]) == ("errors == 0", True, "VIOLATED")
    refused = check["observed"]
    assert 0 < refused <= 2500  # of 3000: the topic took at least 500
    assert "kafka_perf.at('1 s')" in check["reason"]
    assert "declare a threshold on `errors`" in check["reason"]
    metrics = run.report["tests"][0]["metrics"]  # a refused record counts as if it waited until the window ends
    assert metrics["produce.latency.max"]["value"] >= refused / 500 - 0.01
    assert metrics["produce.latency.p90"]["value"] >= (refused - 300) / 500 - 0.01


@pytest.mark.usefixtures("shrinking")
def test_a_threshold_on_failed_records_replaces_the_rule(project: Project, on_broker: str) -> None:
    """A test of an outage may allow them."""
    run = project.test(SHRINKING.format(thresholds='"error_ratio <= 90%"')).run(
        on_broker, "-okafka_writable_topics=shrinking"
    )
    assert run.verdicts == {"test_shrinking": "PASSED"}, run.out


OVERLOAD = """
pytestmark = pytest.mark.kafka_scenario(rate="20k records/s", duration="1 s", rounds=1, warmup="1 s")

@pytest.mark.kafka_threshold("lost == 0")
def test_overload(kafka_perf):
    kafka_perf()

@pytest.mark.kafka_threshold("unsent <= 100k")
def test_allowed(kafka_perf):
    kafka_perf()
"""


def test_a_rate_that_the_cluster_does_not_take_fails(
    project: Project, broker: Cluster, on_broker: str, quota: Callable[..., AbstractContextManager[None]]
) -> None:
    """20k records/s were declared; without a threshold on latency or throughput, 2k would pass."""
    with quota(broker, producer_byte_rate=1_000_000):
        run = project.test(OVERLOAD).run_steadily(on_broker)
    assert run.verdicts == {"test_overload": "VIOLATED", "test_allowed": "PASSED"}, run.out
    (check,) = [each for each in run.report["tests"][0]["checks"] if each["metric"] == "unsent"]
    assert (check["expression"], check["implied"], check["verdict"]) == ("unsent == 0", True, "VIOLATED")
    assert 2_000 < check["observed"] <= 20_000


def test_a_rate_that_the_cluster_takes_leaves_nothing_unsent(project: Project, on_broker: str) -> None:
    """A pause at the end of a window is no overload."""
    run = project.test(OVERLOAD.replace("20k", "2k")).run_steadily(on_broker, "-k", "overload")
    assert run.verdicts == {"test_overload": "PASSED"}, run.out
    assert [check["metric"] for check in run.report["tests"][0]["checks"]] == ["lost"]

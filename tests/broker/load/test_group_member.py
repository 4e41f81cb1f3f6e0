"""The plugin's own consumers in a rebalance: they keep their position, and the pause agrees with aiokafka's log."""

from __future__ import annotations

import asyncio
import itertools
import logging

import aiokafka
import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.engines.aiokafka.clients import make_consumer
from pytest_kafkaperf.load.engines.aiokafka.group_member import GroupMember
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import PATIENCE_S
from tests.support.strangers import make_topic

TOPIC, KEPT = "rebalanced", "kept"
PARTITIONS, RECORDS = 2, 50
REBALANCES = 4
TOLERATED_S = 0.010
REVOKES, ASSIGNS = "Revoking previously assigned partitions", "Setting newly assigned partitions"


def member_of(cluster: Cluster, topic: str, group: str) -> GroupMember:
    scenario = Scenario.of({"topic": topic, "consumers": 1})
    return make_consumer(scenario, topic, group, cluster.bootstrap_servers, Access().arguments())


async def assigned(member: GroupMember, partitions: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(member.client.assignment()) != partitions:
            await member.client.getmany(timeout_ms=20)


def logged_pauses(records: list[logging.LogRecord]) -> list[float]:
    """The times between giving up partitions and getting others, in s, by the log of the only consumer in it."""
    told = [record for record in records if str(record.msg).startswith((REVOKES, ASSIGNS))]
    return [
        after.created - before.created
        for before, after in itertools.pairwise(told)
        if str(before.msg).startswith(REVOKES) and before.args and before.args[0]  # type: ignore[index]
    ]


def test_the_pause_of_a_rebalance_agrees_with_the_log(broker: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Another member joins and leaves; aiokafka logs when the group begins and ends each rebalance."""
    make_topic(broker, TOPIC, partitions=PARTITIONS)

    async def run() -> tuple[list[float], list[float]]:
        found: list[float] = []
        expected: list[float] = []
        member = member_of(broker, TOPIC, "rebalanced-group")
        await member.client.start()
        try:
            await assigned(member, PARTITIONS)
            for _ in range(REBALANCES):
                begun_ns = now_ns()
                caplog.clear()
                other = aiokafka.AIOKafkaConsumer(
                    bootstrap_servers=broker.bootstrap_servers, group_id="rebalanced-group"
                )
                with caplog.at_level(logging.INFO, logger="aiokafka.consumer.group_coordinator"):
                    other.subscribe([TOPIC])
                    # The other member's own log is told apart by its first assignment, before which it has none.
                    await asyncio.gather(other.start(), assigned(member, 1))
                    found.append(member.longest_pause_ns(begun_ns) / 1e9)
                    expected += logged_pauses(caplog.records)[:1]
                    await asyncio.gather(other.stop(), assigned(member, PARTITIONS))
        finally:
            await member.client.stop()
        return found, expected

    found, expected = asyncio.run(run())
    assert len(expected) == REBALANCES
    assert found == pytest.approx(expected, abs=TOLERATED_S)


def test_a_rebalance_neither_skips_nor_repeats_records(broker: Cluster) -> None:
    """Without a commit, the next owner of a partition would start at its end, and its records would count as lost."""
    make_topic(broker, KEPT, partitions=PARTITIONS)

    async def run() -> list[bytes]:
        received: list[bytes] = []
        member = member_of(broker, KEPT, "kept-group")
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        await member.client.start()
        await producer.start()
        try:
            await assigned(member, PARTITIONS)
            for partition in range(PARTITIONS):
                await member.client.position(aiokafka.TopicPartition(KEPT, partition))
            other = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="kept-group")
            other.subscribe([KEPT])
            await asyncio.gather(other.start(), assigned(member, 1))
            await other.stop()
            for number in range(RECORDS):  # before the member has got the partition back
                await producer.send_and_wait(KEPT, b"%d" % number, partition=number % PARTITIONS)
            async with asyncio.timeout(PATIENCE_S):
                while len(received) < RECORDS:
                    for records in (await member.client.getmany(timeout_ms=50)).values():
                        received += [record.value for record in records]
        finally:
            await producer.stop()
            await member.client.stop()
        return received

    received = asyncio.run(run())
    assert sorted(received) == sorted(b"%d" % number for number in range(RECORDS))

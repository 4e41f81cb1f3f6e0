"""The plugin's own consumers in a rebalance: they keep their position, and the pause agrees with aiokafka's log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Any

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
REVOKES, ASSIGNS = "Revoking previously assigned partitions", "Setting newly assigned partitions"


def member_of(cluster: Cluster, topic: str, group: str) -> GroupMember:
    scenario = Scenario.of({"topic": topic, "consumers": 1})
    return make_consumer(scenario, topic, group, cluster.bootstrap_servers, Access().arguments())


async def assigned(member: GroupMember, partitions: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(member.client.assignment()) != partitions:
            await member.client.getmany(timeout_ms=20)


def compare_pauses(
    member: GroupMember, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> list[tuple[float, float, float]]:
    """Gather each of the member's pauses (s), between the shortest and the longest that the log allows.

    aiokafka logs each event just before it tells the member, so a pause begins and ends between the log's entry and
    the end of that call.
    """
    pauses: list[tuple[float, float, float]] = []
    revoke, assign = member.on_partitions_revoked, member.on_partitions_assigned
    begun_ns, logged_s, told_s = 0, 0.0, 0.0

    def last_entry_s(text: str) -> float:
        entry = caplog.records[-1]
        assert str(entry.msg).startswith(text)
        return entry.created

    async def revoked(partitions: Collection[Any]) -> None:
        nonlocal begun_ns, logged_s, told_s
        entry_s, now = last_entry_s(REVOKES), now_ns()
        await revoke(partitions)
        if partitions and not begun_ns:
            begun_ns, logged_s, told_s = now, entry_s, time.time()

    async def assigned(partitions: Collection[Any]) -> None:
        nonlocal begun_ns
        entry_s = last_entry_s(ASSIGNS)
        await assign(partitions)
        if begun_ns:
            pause_s = member.longest_pause_ns(begun_ns) / 1e9
            pauses.append((entry_s - told_s, pause_s, time.time() - logged_s))
            begun_ns = 0

    monkeypatch.setattr(member, "on_partitions_revoked", revoked)
    monkeypatch.setattr(member, "on_partitions_assigned", assigned)
    return pauses


def test_the_pause_of_a_rebalance_agrees_with_the_log(
    broker: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another member joins and leaves; aiokafka logs when the group begins and ends each rebalance."""
    make_topic(broker, TOPIC, partitions=PARTITIONS)

    async def run() -> list[tuple[float, float, float]]:
        member = member_of(broker, TOPIC, "rebalanced-group")
        pauses = compare_pauses(member, monkeypatch, caplog)
        await member.client.start()
        try:
            await assigned(member, PARTITIONS)
            for _ in range(REBALANCES):
                other = aiokafka.AIOKafkaConsumer(
                    bootstrap_servers=broker.bootstrap_servers, group_id="rebalanced-group"
                )
                other.subscribe([TOPIC])
                await asyncio.gather(other.start(), assigned(member, 1))
                await asyncio.gather(other.stop(), assigned(member, PARTITIONS))
        finally:
            await member.client.stop()
        return pauses

    with caplog.at_level(logging.INFO, logger="aiokafka.consumer.group_coordinator"):
        pauses = asyncio.run(run())
    assert len(pauses) >= REBALANCES
    assert all(shortest_s <= pause_s <= longest_s for shortest_s, pause_s, longest_s in pauses), pauses


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

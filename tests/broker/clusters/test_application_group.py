"""The members of an application's consumer group, among them those of others, before and after its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters import application as applications
from pytest_kafkaperf.clusters.application import Application, Recipe
from pytest_kafkaperf.clusters.client.requests import group_members
from pytest_kafkaperf.clusters.spec import Cluster
from tests.support.orphans import becomes
from tests.support.strangers import make_topic

MEMBER = """
import asyncio, os, sys
from aiokafka import AIOKafkaConsumer

async def main():
    topic, group = sys.argv[1:]
    servers = os.environ["KAFKA_BOOTSTRAP_SERVERS"]
    consumer = AIOKafkaConsumer(topic, group_id=group, bootstrap_servers=servers, session_timeout_ms=6000)
    await consumer.start()
    print("joined", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
"""A consumer that does not leave its group at SIGTERM; Kafka counts it as a member for 6 s more."""
IDLE = "import pathlib, time; pathlib.Path('started').touch(); time.sleep(60)"
LATER = "import pathlib, time\nwhile not pathlib.Path('started').exists(): time.sleep(0.01)\n"


def elsewhere(broker: Cluster) -> Cluster:
    """The same brokers, as those that somebody else has started."""
    return Cluster(bootstrap_servers=broker.bootstrap_servers)


def application_of(cluster: Cluster, folder: Path, program: str, group: str, *arguments: str) -> Application:
    command = ["python", "-c", program, *arguments]
    return Application(Recipe.of({"command": command, "ready": f"group:{group}", "cwd": folder}), cluster)


def test_a_stranger_that_joins_while_an_application_starts_stays_in_the_group(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like the application's own member; to remove it would interrupt somebody else's service."""
    monkeypatch.setattr(applications, "_SESSION_TIMEOUT_S", 1)
    make_topic(broker, "theirs")
    cluster = elsewhere(broker)
    command = [sys.executable, "-c", LATER + MEMBER, "theirs", "their-group"]
    env = {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    with subprocess.Popen(command, env=env, cwd=tmp_path) as stranger:
        try:
            with application_of(cluster, tmp_path, IDLE, "their-group").open():
                _, members = group_members(cluster, "their-group")
            assert len(members) == 1
            assert group_members(cluster, "their-group") == ("Stable", members)
        finally:
            stranger.kill()


@pytest.mark.parametrize("foreign", [True, False], ids=["elsewhere", "own brokers"])
def test_a_group_has_no_dead_member_when_its_application_has_ended(
    broker: Cluster,
    tmp_path: Path,
    foreign: bool,  # noqa: FBT001 - a parameter
) -> None:
    """The next start would wait for it, and may be given up before."""
    topic, group = ("mine-there", "group-there") if foreign else ("mine-here", "group-here")
    make_topic(broker, topic)
    cluster = elsewhere(broker) if foreign else broker
    with application_of(cluster, tmp_path, MEMBER, group, topic, group).open() as application:
        assert len(group_members(cluster, group)[1]) == 1
        application.end()
        assert group_members(cluster, group) == ("Empty", set())
        application.launch()
        assert becomes(lambda: len(group_members(cluster, group)[1]) == 1)

"""The members of an application's consumer group, among them those of others, before and after its end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters import membership
from pytest_kafkaperf.clusters.admin.groups import Group, read_group
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import ApplicationError
from tests.support import careful
from tests.support.orphans import becomes
from tests.support.patience import PATIENCE_S
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


def group_of(cluster: Cluster, group: str) -> Group:
    return read_group(cluster.bootstrap_servers, cluster.access, group)


def elsewhere(broker: Cluster) -> Cluster:
    """The same brokers, as those that somebody else has started."""
    return Cluster(bootstrap_servers=broker.bootstrap_servers)


def application_of(cluster: Cluster, folder: Path, program: str, group: str, *arguments: str) -> Application:
    command = ["python", "-c", program, *arguments]
    return Application(Recipe.of({"command": command, "ready": f"group:{group}", "cwd": folder}), cluster)


@contextlib.contextmanager
def deployed(broker: Cluster, topic: str, group: str) -> Iterator[None]:
    """A service that somebody else runs in the group, with all partitions of the topic."""
    command = [sys.executable, "-c", MEMBER, topic, group]
    env = {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    with subprocess.Popen(command, env=env) as service:
        try:
            assert becomes(lambda: any(member.partitions for member in group_of(broker, group).members.values()))
            yield
        finally:
            service.kill()


def test_a_deployed_instance_in_the_group_of_an_application_is_an_error(broker: Cluster, tmp_path: Path) -> None:
    """It would do a part of the work, and the test would judge the latency of its code."""
    make_topic(broker, "deployed", partitions=6)
    with deployed(broker, "deployed", "deployed-group"):
        application = application_of(
            elsewhere(broker), tmp_path, MEMBER, "deployed-group", "deployed", "deployed-group"
        )
        with pytest.raises(
            ApplicationError, match=r"'deployed-group'.*3 of 6 partitions.*aiokafka-[\d.]+ at 127.0.0.1"
        ):
            application.open()
        assert application.pid is None


def test_a_group_that_does_not_exist_is_an_error_with_the_groups_that_have_members(
    broker: Cluster, tmp_path: Path
) -> None:
    """The group in `ready` is easily misspelled, and the service runs well in another one."""
    make_topic(broker, "prices-in", partitions=2)
    command = ["python", "-c", MEMBER, "prices-in", "price-service"]
    fields = {"command": command, "ready": "group:prices", "cwd": tmp_path, "timeout": "10 s"}
    with pytest.raises(ApplicationError) as caught:
        Application(Recipe.of(fields), broker).open()
    text = str(caught.value)
    assert "was not ready within 10 s: its consumer group 'prices' does not exist; groups with members: " in text
    assert "price-service" in text.partition("; check ready=;")[0]


def test_instances_that_the_plugin_starts_may_share_a_group(broker: Cluster, tmp_path: Path) -> None:
    """An application that is scaled out is measured as a whole."""
    make_topic(broker, "scaled", partitions=6)
    both = [application_of(broker, tmp_path, MEMBER, "scaled-group", "scaled", "scaled-group") for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for application in both:
            application.side_by_side = both
            stack.enter_context(application.open())
        assert [one.partitions for one in group_of(broker, "scaled-group").members.values()] == [3, 3]


def test_a_killed_application_starts_again_next_to_its_dead_member(broker: Cluster, tmp_path: Path) -> None:
    """Its dead member looks like somebody else's until Kafka removes it."""
    make_topic(broker, "killed", partitions=6)
    with application_of(
        elsewhere(broker), tmp_path, MEMBER, "killed-group", "killed", "killed-group"
    ).open() as application:
        application.stop(kill=True)
        application.start()
        assert [one.partitions for one in group_of(broker, "killed-group").members.values()] == [6]


def test_a_stranger_that_joins_while_an_application_starts_stays_in_the_group(
    broker: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks like the application's own member; to remove it would interrupt somebody else's service."""
    monkeypatch.setattr(membership, "_SESSION_TIMEOUT_S", 1)
    make_topic(broker, "theirs")
    cluster = elsewhere(broker)
    command = [sys.executable, "-c", LATER + MEMBER, "theirs", "their-group"]
    env = {"KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    with subprocess.Popen(command, env=env, cwd=tmp_path) as stranger:
        try:
            with application_of(cluster, tmp_path, IDLE, "their-group").open():
                members = group_of(cluster, "their-group").members
            assert [member.partitions for member in members.values()] == [3]
            found = group_of(cluster, "their-group")
            assert (found.state, found.members) == ("Stable", members)
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
        assert len(group_of(cluster, group).members) == 1
        application.end()
        found = group_of(cluster, group)
        assert (found.state, found.members) == ("Empty", {})
        application.launch()
        assert becomes(lambda: len(group_of(cluster, group).members) == 1)


def test_instances_are_ready_when_the_group_has_all_of_them(broker: Cluster, tmp_path: Path) -> None:
    """Even after one was killed, whose dead member counts until Kafka removes it, and with fewer partitions."""
    make_topic(broker, "fleet-in", partitions=6)
    make_topic(broker, "fleet-out")
    command = ["python", careful.__file__, "fleet-in", "fleet-out", "fleet"]
    fields = {"command": command, "instances": 3, "ready": "group:fleet", "timeout": f"{PATIENCE_S} s", "cwd": tmp_path}

    def shares() -> tuple[str, dict[str, int]]:
        found = group_of(broker, "fleet")
        return found.state, {one.client_id: one.partitions for one in found.members.values()}

    with Application(Recipe.of(fields), broker).open() as application:
        assert shares() == ("Stable", {"fleet-0": 2, "fleet-1": 2, "fleet-2": 2})
        application.kill(1)
        application.start(1)  # the group waits for the dead member until its timeout
        assert shares() == ("Stable", {"fleet-0": 2, "fleet-1": 2, "fleet-2": 2})
        application.scale(8)
        state, found = shares()
        assert (state, sum(found.values()), sorted(found)) == ("Stable", 6, [f"fleet-{number}" for number in range(8)])
        application.scale(1)
        assert becomes(lambda: shares() == ("Stable", {"fleet-0": 6}))
        application.end()
        assert shares() == ("Empty", {})

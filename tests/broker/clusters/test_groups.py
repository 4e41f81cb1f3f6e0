"""Groups of the protocols of Kafka 4, with consumers that other projects have written."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters.admin.admin import groups_with_members
from pytest_kafkaperf.clusters.admin.groups import Group, Protocol, read_group
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.brokers import distribution, downloads, java
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import ApplicationError
from tests.support import group_sink
from tests.support.patience import PATIENCE_S
from tests.support.strangers import make_topic
from tests.support.versions import VERSION

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress
    from tests.support.rounds import Load

PARTITIONS = 4
JOIN_S = 2
"""When another instance joins a group under load."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that run one of Kafka's own tools."""
    scratch = tmp_path_factory.mktemp("tools")
    runtime = java.find()
    kafka = distribution.installed(VERSION, java=runtime, cache=distribution.cache_folder())
    coordinate = f"org.apache.kafka:kafka-tools:{VERSION}"
    jar = downloads.fetch_one("Kafka's tools", coordinate, scratch=scratch / "fetched", target=scratch)
    return [str(runtime.path), "-Xmx128m", "-cp", os.pathsep.join(map(str, (jar, *kafka.classpath)))]


def group_of(cluster: Cluster, name: str) -> Group:
    return read_group(cluster.bootstrap_servers, cluster.access, name)


@contextlib.contextmanager
def consuming(cluster: Cluster, folder: Path, command: list[str], group: str) -> Iterator[Application]:
    """An application that is ready when its group is."""
    fields = {"command": command, "ready": f"group:{group}", "cwd": folder, "timeout": f"{PATIENCE_S} s"}
    with Application(Recipe.of(fields), cluster).open() as application:
        yield application


def check_life(cluster: Cluster, folder: Path, command: list[str], group: str) -> Group:
    """Start a consumer, kill it, start it again next to its dead member, and end it; return the group while it worked.

    Kafka counts the members of a killed consumer for up to a minute, and the next test must not wait for that.
    """
    with consuming(cluster, folder, command, group) as application:
        found = group_of(cluster, group)
        assert group in groups_with_members(cluster.bootstrap_servers, cluster.access)
        application.stop(kill=True)
        application.end()
        emptied = group_of(cluster, group)
        assert (emptied.protocol, emptied.state, emptied.members) == (found.protocol, "Empty", {})
        application.launch()
        again = group_of(cluster, group)
    assert found.epoch is not None
    assert again.epoch is not None
    assert again.epoch > found.epoch
    return found


def test_a_consumer_group_of_librdkafka(broker: Cluster, tmp_path: Path) -> None:
    """KIP-848: DescribeGroups reports such a group as dead."""
    make_topic(broker, "rdkafka", partitions=PARTITIONS)
    command = ["python", group_sink.__file__, "consumer", "rdkafka", "rdkafka-group", "0", "250"]
    found = check_life(broker, tmp_path, command, "rdkafka-group")
    assert (found.protocol, found.state) == (Protocol.CONSUMER, "Stable")
    (member,) = found.members.values()
    assert member.assignment == {("rdkafka", number) for number in range(PARTITIONS)}


def test_a_consumer_group_of_java(broker: Cluster, tmp_path: Path, tools: list[str]) -> None:
    """Java's consumer for the new protocol is new, too."""
    make_topic(broker, "java", partitions=PARTITIONS)
    consumer = [*tools, "org.apache.kafka.tools.VerifiableConsumer", "--group-protocol", "consumer"]
    command = [*consumer, "--bootstrap-server", "{bootstrap_servers}", "--topic", "java", "--group-id", "java-group"]
    found = check_life(broker, tmp_path, command, "java-group")
    assert (found.protocol, found.state) == (Protocol.CONSUMER, "Stable")
    assert [member.partitions for member in found.members.values()] == [PARTITIONS]


def test_a_share_group_of_java(broker: Cluster, tmp_path: Path, tools: list[str]) -> None:
    """KIP-932: its members have all partitions together."""
    make_topic(broker, "shared", partitions=PARTITIONS)
    consumer = [*tools, "org.apache.kafka.tools.VerifiableShareConsumer"]
    command = [*consumer, "--bootstrap-server", "{bootstrap_servers}", "--topic", "shared", "--group-id", "share-group"]
    found = check_life(broker, tmp_path, command, "share-group")
    assert (found.protocol, found.state) == (Protocol.SHARE, "Stable")
    assert [member.partitions for member in found.members.values()] == [PARTITIONS]


def test_a_group_that_does_not_exist_is_named_with_the_others(broker: Cluster, tmp_path: Path) -> None:
    """A typing error in `ready` is found by looking at the groups that are there, of whatever protocol."""
    make_topic(broker, "misnamed", partitions=PARTITIONS)
    command = ["python", group_sink.__file__, "consumer", "misnamed", "right-group", "0", "250"]
    fields = {"command": command, "ready": "group:wrong-group", "cwd": tmp_path, "timeout": "8 s"}
    with pytest.raises(ApplicationError, match=r"'wrong-group' does not exist; groups with members: .*right-group"):
        Application(Recipe.of(fields), broker).open()


@pytest.mark.speed
def test_a_rebalance_of_a_consumer_group_is_counted_and_timed(broker: Cluster, tmp_path: Path, load: Load) -> None:
    """A second instance joins under load: the first one gives up a partition, and goes on with the other."""
    make_topic(broker, "joined", partitions=2)
    command = ["python", group_sink.__file__, "consumer", "joined", "joined-group", "0", "100"]
    fields = {"command": command, "ready": "group:joined-group", "cwd": tmp_path, "timeout": f"{PATIENCE_S} s"}
    with consuming(broker, tmp_path, command, "joined-group") as first:
        second = Application(Recipe.of(fields), broker)
        second.side_by_side = first.side_by_side = (first, second)
        quiet = load(broker, topic="joined", watch_group="joined-group", rate=200, duration="2 s", warmup=0)
        assert (quiet.faults, quiet.metrics["app.rebalances"], quiet.metrics["app.rebalance.pause"]) == ([], 0, 0)
        joining = threading.Thread(target=second.open)

        def join(_: int, progress: Progress) -> None:
            if progress.phase == "measuring" and progress.elapsed_s > JOIN_S and joining.ident is None:
                joining.start()

        try:
            joined = load(
                broker,
                on_progress=join,
                topic="joined",
                watch_group="joined-group",
                rate=200,
                duration="8 s",
                warmup=0,
            )
            joining.join(PATIENCE_S)
            assert [one.partitions for one in group_of(broker, "joined-group").members.values()] == [1, 1]
        finally:
            second.close()
    assert joined.metrics["app.rebalances"] >= 1
    assert joined.metrics["lost"] == 0

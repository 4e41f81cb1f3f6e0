"""Servers that somebody else runs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import AlterConfigsRequest

from pytest_kafkaperf.clusters.admin import connection
from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision, with_config
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.external_cluster import HERE, LIKE_ELSEWHERE
from tests.support.patience import PATIENCE_S
from tests.support.rounds import within

if TYPE_CHECKING:
    from collections.abc import Iterator

HINT = (
    ". Check the address and the port in --kafka-cluster, that the brokers are up, and that their listener is "
    "a PLAINTEXT one; for TLS or a login, use --kafka-client-config=FILE, or for --kafka-compare "
    "kafka_compare_client_config in the ini file"
)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with provision(ClusterSpec.of({"config": {"log.segment.bytes": 10 << 20}}), target="local") as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    spec = ClusterSpec.of({"brokers": 3, "heap": "256m", "config": {"num.io.threads": 4, "log.retention.hours": 1}})
    with provision(spec, target="local") as cluster:
        yield cluster


def config_of(cluster: Cluster) -> dict[str, str]:
    """The broker properties among a cluster's facts."""
    return {name[7:]: text for name, text in cluster.facts.items() if name.startswith("config.")}


def change(cluster: Cluster, broker: str, properties: dict[str, str]) -> None:
    """Let these be all that is changed at run time, of one broker or (with no name) of all.

    Since 4.1 a cluster has one that cannot be taken away, with its default (KIP-966). Not what a log cleaner reads,
    such as `message.max.bytes`: it is made again with 128 MiB, for which these small heaps have no room.
    """
    kept = {} if broker else {"min.insync.replicas": "1"}

    async def changed() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **cluster.client_config)
        await admin.start()
        try:
            node = int(broker) if broker else None
            request = AlterConfigsRequest([(4, broker, list((properties | kept).items()))])
            answer = await admin._send_request(request, node)  # noqa: SLF001 - aiokafka changes no configuration in public
            assert [code for code, *_ in answer.resources] == [0]
        finally:
            await admin.close()

    asyncio.run(changed())


def after(cluster: Cluster, expected: dict[str, str]) -> dict[str, str]:
    """The properties of its brokers once they are as expected, or at last: a broker takes them from a log."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := config_of(with_config(cluster))) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_an_external_cluster_is_used_as_it_is(servers: str) -> None:
    """The same test file runs on a laptop and on staging: what cannot be applied there is told."""
    spec = ClusterSpec.of({"version": "4.0.0", "heap": "1g", "logs_in_memory": True, "config": {"num.io.threads": 4}})

    with provision(spec, target=servers) as cluster:
        assert (cluster.bootstrap_servers, cluster.provider, cluster.brokers) == (servers, "external", 1)
        assert cluster.version == "unknown"
        told = {name: fact for name, fact in cluster.facts.items() if not name.startswith("config.")}
        assert told.pop("cluster id")
        assert told == {"not applied": "version, config, heap, logs_in_memory"}
        assert cluster.pids == ()
        cluster.check()


def test_what_its_owner_changed_is_told_and_where_its_brokers_live_is_not(servers: str) -> None:
    """A foreign cluster restarted on other ports is the same cluster; one with other threads is not."""
    with provision(ClusterSpec(), target=servers) as cluster:
        assert config_of(cluster) == {
            "auto.create.topics.enable": "false",
            "controller.listener.names": "CONTROLLER",
            "group.initial.rebalance.delay.ms": "0",
            "inter.broker.listener.name": "INTERNAL",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.initial.task.delay.ms": "500",
            "log.segment.bytes": "10485760",
            "log.segment.delete.delay.ms": "100",
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "process.roles": "broker,controller",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "5",
            "share.coordinator.state.topic.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
        }


def test_an_applications_own_cluster_tells_its_properties_too(servers: str) -> None:
    """Its fixture gives an address, and a regression there has the same causes."""
    own = Cluster(
        bootstrap_servers=servers, version="4.3.1", facts={"team": "payments", "config.log.segment.bytes": "1"}
    )
    told = with_config(own)
    assert replace(told, facts=own.facts) == own
    assert told.facts["team"] == "payments"
    assert told.facts["config.log.segment.bytes"] == "10485760"
    assert with_config(told) == told


def test_a_fixtures_cluster_is_known_by_its_id_unless_the_fixture_may_have_started_it(three: Cluster) -> None:
    """Baselines of one cluster must not judge another one, but a new cluster for each run needs a baseline as well."""
    assert three.fleet is not None
    elsewhere = Cluster(bootstrap_servers=three.bootstrap_servers.replace(HERE, LIKE_ELSEWHERE))
    found = with_config(elsewhere)
    assert (found.brokers, found.facts["cluster id"]) == (3, three.fleet.cluster_id)
    here = with_config(Cluster(bootstrap_servers=three.bootstrap_servers))
    assert (here.brokers, "cluster id" in here.facts) == (3, False)
    named = with_config(replace(elsewhere, facts={"cluster id": "ci"}))
    assert (named.brokers, named.facts["cluster id"]) == (1, "ci")
    container = with_config(replace(elsewhere, facts={"image": "apache/kafka:4.1.0"}))
    assert (container.brokers, "cluster id" in container.facts) == (1, False)


def test_a_property_that_is_changed_at_run_time_is_told_from_then_on(servers: str) -> None:
    """By `kafka-configs`, on a Friday afternoon."""
    cluster = with_config(Cluster(bootstrap_servers=servers))
    assert {"num.io.threads", "num.replica.fetchers"}.isdisjoint(config_of(cluster))
    change(cluster, "1", {"num.io.threads": "5", "num.replica.fetchers": "1"})  # 1 is the default
    change(cluster, "", {"background.threads": "6"})
    changed = {**config_of(cluster), "background.threads": "6", "num.io.threads": "5"}
    assert after(cluster, changed) == changed
    change(cluster, "1", {})
    change(cluster, "", {})
    assert after(cluster, config_of(cluster)) == config_of(cluster)


def test_brokers_that_are_far_away_are_asked_concurrently(three: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, a large cluster would not be ready in time."""
    connect = AIOKafkaConnection.connect
    under_way: list[int] = []
    at_once: list[int] = []

    async def connect_slowly(self: AIOKafkaConnection) -> Any:
        under_way.append(self.port)
        at_once.append(len(under_way))
        await asyncio.sleep(1)
        under_way.remove(self.port)
        return await connect(self)

    monkeypatch.setattr(AIOKafkaConnection, "connect", connect_slowly)
    assert wait_ready(three.bootstrap_servers, brokers=3, timeout_s=PATIENCE_S) == 3
    assert max(at_once) == 3


def test_brokers_that_disagree_are_told_one_by_one(three: Cluster) -> None:
    """One broker with the old file is a cause of its own."""
    assert config_of(three) == {"log.retention.hours": "1", "num.io.threads": "4"}
    change(three, "2", {"num.io.threads": "6", "background.threads": "6"})
    changed = {
        "log.retention.hours": "1",
        "background.threads": "10 (brokers 1, 3), 6 (broker 2)",
        "num.io.threads": "4 (brokers 1, 3), 6 (broker 2)",
    }
    assert after(three, changed) == changed
    three.stop_broker(2)
    assert config_of(with_config(three)) == {"log.retention.hours": "1", "num.io.threads": "4"}


def test_a_silent_broker_does_not_hide_the_settings_of_the_others(three: Cluster) -> None:
    """Without them, each setting of the owner would look like one that was taken back."""
    if three.fleet is not None:
        three.fleet.restore()  # the broker that another test has stopped
    first = Cluster(bootstrap_servers=three.bootstrap_servers.partition(",")[0])
    three.pause_broker(3)
    try:
        with within(PATIENCE_S):
            facts = with_config(first).facts
    finally:
        three.resume_broker(3)
    assert {"config.log.retention.hours": "1", "broker settings": "unknown"}.items() <= facts.items()


def test_a_cluster_that_refuses_to_tell_its_properties_is_used_all_the_same() -> None:
    """Who may write to a topic may often not look at brokers."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with provision(ClusterSpec.of({"security": "sasl_plain", "config": config}), target="local") as cluster:
        assert config_of(cluster) == config  # as the spec says
        client = Cluster(bootstrap_servers=cluster.bootstrap_servers, access=cluster.access)
        assert with_config(client) == replace(client, facts={"broker settings": "unknown"})


def test_one_of_several_servers_is_enough_to_find_the_cluster(servers: str) -> None:
    """Bootstrap servers are there for redundancy."""
    with provision(ClusterSpec(), target=f"127.0.0.1:9,{servers}") as cluster:
        assert cluster.brokers == 1


def test_fewer_brokers_than_asked_for_are_an_error(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three brokers and one are two different measurements."""
    for limit in ("_MIN_ATTEMPT_S", "_ANSWER_TIMEOUT_S"):  # a busy broker answers the last attempt late
        monkeypatch.setattr(connection, limit, PATIENCE_S)
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(brokers=3), target=servers, connect_timeout_s=2):
        pass

    missing = "only 1 of the 3 brokers in kafka_cluster(brokers=3) are up"
    assert str(raised.value) == f"{servers} is not ready after 2 s: {missing}{HINT}"

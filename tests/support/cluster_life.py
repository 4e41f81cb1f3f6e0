"""What a cluster must do that the plugin starts, whatever the provider."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.orphans import becomes
from tests.support.patience import PATIENCE_S
from tests.support.quotas import quota
from tests.support.rounds import run_scenario
from tests.support.strangers import topics
from tests.support.versions import CHOSEN

SECURED = "sasl_scram+tls"


@contextmanager
def started(provider: str, brokers: int, security: str | None) -> Iterator[Cluster]:
    """A cluster with one property that differs from Kafka's default, and one that does not."""
    config = {"num.io.threads": 4, "num.network.threads": 3}  # another than the default, and the default
    fields = {"brokers": brokers, "security": security, "heap": "300m", "config": config, "version": CHOSEN}
    with provision(ClusterSpec.of(fields), target=provider) as cluster:
        yield cluster


def load_once(cluster: Cluster) -> Round:
    """One round with idempotent producers and a consumer."""
    scenario = Scenario.of(
        {
            "records": 5000,
            "rate": 5000,
            "warmup": 0,
            "rounds": 1,
            "consumers": 1,
            "replication_factor": min(3, cluster.brokers),
            "idempotence": True,
        }
    )
    (one,) = run_scenario(scenario, cluster)
    return one


def live_through(provider: str, brokers: int, security: str | None) -> None:
    """Start a cluster, put load on it, stop and start a broker, and remove the cluster; nothing is lost or left."""
    with started(provider, brokers, security) as cluster:
        assert (cluster.provider, cluster.brokers) == (provider, brokers)
        config = {name: fact for name, fact in cluster.facts.items() if name.startswith("config.")}
        assert config == {"config.num.io.threads": "4"}  # what the spec changed, and nothing of the provider's own
        assert re.fullmatch(r"openjdk \d+(\.\d+)+.*", cluster.facts["java"])
        addresses = cluster.bootstrap_servers.split(",")
        assert len(addresses) == brokers
        assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
        seen = wait_ready(cluster.bootstrap_servers, brokers=brokers, timeout_s=PATIENCE_S, access=cluster.access)
        assert seen == brokers

        first = load_once(cluster)
        assert first.problems == ()
        assert first.metrics["lost"] == first.metrics["duplicated"] == first.metrics["errors"] == 0

        cluster.stop_broker(brokers, kill=True)
        cluster.check()  # on purpose: nothing is lost
        cluster.start_broker(brokers)
        again = load_once(cluster)
        assert again.metrics["lost"] == again.metrics["duplicated"] == again.metrics["errors"] == 0

        assert becomes(lambda: topics(cluster) == set())  # brokers hear of a removal later

    for address in addresses:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(address[10:])), 1):
            pass


SHORT = Scenario.of({"duration": "1 s", "warmup": "200 ms", "rounds": 1, "record_size": "1 KiB", "acks": 1})


def renew(provider: str) -> None:
    """Restart the brokers of a cluster between two trials: they keep topics and quotas, and get new processes."""
    with (
        provision(ClusterSpec(config={"quota.window.num": "2"}), target=provider) as cluster,
        quota(cluster, producer_byte_rate=300_000),
    ):
        topic = f"{PREFIX}-kept"
        Admin(cluster.bootstrap_servers, cluster.access).create_topic(topic, SHORT)
        servers, processes = cluster.bootstrap_servers, cluster.pids
        Side.of(cluster).restart()
        assert cluster.bootstrap_servers == servers
        assert topic in topics(cluster)
        (ran,) = run_scenario(SHORT, cluster)
        assert ran.metrics["produce.bandwidth"] < 1_500_000
        if provider == "local":
            assert not {*cluster.pids} & {*processes}

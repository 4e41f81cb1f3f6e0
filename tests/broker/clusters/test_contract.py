"""What every provider gives: one suite for local brokers, for containers, and for the cluster of someone else."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_kafkaperf.clusters.client.readiness import wait_ready
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.runner.rounds import run_scenario
from pytest_kafkaperf.scenario.scenario import Scenario
from tests.support.strangers import topics

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SECURED = "sasl_scram+tls"
_OWNED = [
    pytest.param(
        provider,
        brokers,
        security,
        id=f"{provider}-{brokers}-{security or 'plaintext'}",
        marks=[
            *([pytest.mark.docker] if provider == "docker" else []),
            # Each provider and protocol is in one of the two that always run, and three brokers are in test_failover.
            *(
                []
                if (provider, brokers, security) in (("local", 1, None), ("docker", 1, SECURED))
                else [pytest.mark.extended]
            ),
        ],
    )
    for provider in ("local", "docker")
    for brokers in (1, 3)
    for security in (None, SECURED)
]


@contextmanager
def started(provider: str, brokers: int, security: str | None) -> Iterator[Cluster]:
    config = {"num.io.threads": 4, "num.network.threads": 3}  # another than the default, and the default
    spec = ClusterSpec.of({"brokers": brokers, "security": security, "heap": "300m", "config": config})
    with provision(spec, target=provider) as cluster:
        yield cluster


def load(cluster: Cluster) -> Round:
    scenario = Scenario.of(
        {
            "records": 5000,
            "warmup": 0,
            "rounds": 1,
            "consumers": 1,
            "replication_factor": min(3, cluster.brokers),
            "idempotence": True,
        }
    )
    (one,) = run_scenario(scenario, cluster)
    return one


@pytest.mark.parametrize(("provider", "brokers", "security"), _OWNED)
def test_a_cluster_lives_its_life(provider: str, brokers: int, security: str | None) -> None:
    """Start, ready, topics, load, a broker that stops and comes back, stop, and nothing left behind."""
    with started(provider, brokers, security) as cluster:
        assert (cluster.provider, cluster.brokers) == (provider, brokers)
        config = {name: fact for name, fact in cluster.facts.items() if name.startswith("config.")}
        assert config == {"config.num.io.threads": "4"}  # what the spec changed, and nothing of the provider's own
        assert re.fullmatch(r"openjdk \d+(\.\d+)+.*", cluster.facts["java"])
        addresses = cluster.bootstrap_servers.split(",")
        assert len(addresses) == brokers
        assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}
        seen = wait_ready(cluster.bootstrap_servers, brokers=brokers, timeout_s=30, pause_s=0.1, access=cluster.access)
        assert seen == brokers

        first = load(cluster)
        assert first.problems == ()
        assert first.metrics["lost"] == first.metrics["duplicated"] == first.metrics["errors"] == 0

        cluster.stop_broker(brokers, kill=True)
        cluster.check()  # on purpose: nothing is lost
        cluster.start_broker(brokers)
        again = load(cluster)
        assert again.metrics["lost"] == again.metrics["duplicated"] == again.metrics["errors"] == 0

        assert topics(cluster) == set()

    for address in addresses:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(address[10:])), 1):
            pass

"""A broker that goes and comes back under load."""

from __future__ import annotations

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.failover import kill_and_start_a_broker, pause_a_broker


def test_a_broker_that_is_killed_and_comes_back_loses_nothing_and_shows() -> None:
    """Three brokers, three replicas, acks=all and idempotence: Kafka promises that no record is lost."""
    kill_and_start_a_broker("local")


def test_a_paused_broker_stalls_the_load_for_as_long() -> None:
    """No connection breaks and no leader moves: only time passes."""
    pause_a_broker("local")


def test_topics_are_created_and_deleted_while_a_broker_is_down() -> None:
    """Until its timeout, the cluster may report the killed broker as its controller."""
    spec = ClusterSpec.of({"brokers": 3, "heap": "300m", "quick_compiler": True})
    with provision(spec, target="local") as cluster:
        admin = Admin(cluster.bootstrap_servers, cluster.access)
        cluster.stop_broker(2, kill=True)
        for name in map("topic-{}".format, range(5)):
            admin.create_topic(name, Scenario.of({"partitions": 1}))
            admin.delete_topic(name)

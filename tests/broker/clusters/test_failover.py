"""A broker that goes and comes back under load."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.wire import read_identity
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.failover import kill_and_start_a_broker, pause_a_broker
from tests.support.patience import PATIENCE_S


def test_a_broker_that_is_killed_and_comes_back_loses_nothing_and_shows() -> None:
    """Three brokers, three replicas, acks=all and idempotence: Kafka promises that no record is lost."""
    kill_and_start_a_broker("local")


def test_a_paused_broker_stalls_the_load_for_as_long() -> None:
    """No connection breaks and no leader moves: only time passes."""
    pause_a_broker("local")


def test_the_other_brokers_answer_while_one_is_paused_or_killed() -> None:
    """Until its timeout, the cluster may report it as its controller, or as the leader of partitions."""
    spec = ClusterSpec.of({"brokers": 3, "heap": "300m", "quick_compiler": True})
    scenario = Scenario.of({"partitions": 6, "replication_factor": 3})
    with provision(spec, target="local") as cluster:
        admin = Admin(cluster.bootstrap_servers, cluster.access)
        admin.create_topic("replicated", scenario)
        cluster.pause_broker(2)  # if it is the controller, the others wait for it before they create or delete topics
        for _ in range(5):
            assert read_identity(cluster.bootstrap_servers, cluster.access, timeout_s=PATIENCE_S)[1] >= 2
        assert admin.end_offsets("replicated", 6) == dict.fromkeys(range(6), 0)
        cluster.resume_broker(2)
        cluster.stop_broker(2, kill=True)
        for name in map("topic-{}".format, range(5)):
            admin.create_topic(name, Scenario.of({"partitions": 1}))
            admin.delete_topic(name)
        assert admin.end_offsets("replicated", 6) == dict.fromkeys(range(6), 0)


def test_a_paused_broker_is_not_paused_again() -> None:
    """The next round of a test that does not resume it would have no pause, and pass."""
    with provision(ClusterSpec(heap="300m"), target="local") as cluster:
        for _ in range(2):
            cluster.pause_broker(1)
            with pytest.raises(UsageError) as raised:
                cluster.pause_broker(1)
            assert str(raised.value) == "broker 1 is already paused; resume it first: resume_broker(1)"
            cluster.resume_broker(1)


def test_a_restart_brings_back_what_a_load_has_stopped() -> None:
    """What the test had stopped before its load stays stopped."""
    spec = ClusterSpec.of({"brokers": 3, "heap": "300m", "quick_compiler": True})
    with provision(spec, target="local") as cluster:
        fleet = cluster.fleet
        assert fleet is not None
        fleet.pause(1)
        fleet.stop(2, kill=True)
        fleet.renew()
        assert fleet.probes().keys() >= {1, 2, 3}
        fleet.pause(1)  # it is not paused any more
        fleet.resume(1)
        fleet.stop(3, kill=False)
        fleet.keep_stopped()
        fleet.renew()
        assert fleet.probes().keys() & {1, 2, 3} == {1, 2}

"""A fresh trial on local brokers, on several of them, and where a restart empties the logs."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.runner.rounds.side import Side
from tests.support.cluster_life import SHORT, renew
from tests.support.rounds import run_scenario


def test_brokers_start_again_and_what_was_set_up_stays() -> None:
    """A quota that a fixture has set is part of the test: without, a regression would be cleared."""
    renew("local")


@pytest.mark.docker
def test_the_login_is_made_again_where_a_restart_forgets_it() -> None:
    """A restart of a container empties the memory that holds its logs, and with them its SCRAM users."""
    with provision(ClusterSpec(security="sasl_scram", logs_in_memory=True, heap="300m"), target="docker") as cluster:
        Side.of(cluster).restart()
        assert [*Admin(cluster.bootstrap_servers, cluster.access).broker_properties()] == [1]


def test_all_of_several_brokers_come_back() -> None:
    """They are controllers, too: none could leave in order without a quorum. One that the test has stopped stays so."""
    with provision(ClusterSpec(brokers=3, heap="256m"), target="local") as cluster:
        cluster.stop_broker(2)
        before = {*cluster.pids}
        side = Side.of(cluster)
        side.keep_stopped()
        side.restart()
        assert len({*cluster.pids} - before) == 2
        cluster.start_broker(2)
        assert len(cluster.pids) == 3
        scenario = SHORT.model_copy(update={"replication_factor": 3, "acks": "all"})
        (ran,) = run_scenario(scenario, cluster)
        assert (ran.problems, ran.metrics["lost"]) == ((), 0)

"""Runs on a cluster that cannot be reached."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario, within

NOWHERE = Cluster(bootstrap_servers="127.0.0.1:9", brokers=1, provider="external", version="unknown")


def test_a_cluster_that_is_not_there_is_told_with_its_address() -> None:
    """The most common mistake of all."""
    with within(30), pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of({}), NOWHERE)

    text = str(raised.value)
    assert text.startswith(f"could not create topic '{PREFIX}")
    assert " on 127.0.0.1:9: KafkaConnectionError" in text


def test_a_cluster_that_does_not_answer_has_no_end_offsets() -> None:
    """The error names the topic and the address."""
    with pytest.raises(ClusterError, match=r"^could not read the end offsets of 'topic' on 127.0.0.1:9: KafkaConn"):
        Admin(NOWHERE.bootstrap_servers, NOWHERE.access).end_offsets("topic", 1)

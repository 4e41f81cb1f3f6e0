"""The topic of a test: only brokers that the plugin starts get it."""

from __future__ import annotations

from pathlib import Path

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.spans import Stopwatch
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.shared_clusters import SharedClusters
from pytest_kafkaperf.scenarios.scenario import Scenario


def test_a_cluster_that_others_run_gets_no_topic() -> None:
    """Its owners create topics; nothing is even asked, or the unreachable server would raise an error."""
    settings = read_settings({"cluster": "127.0.0.1:1"}, {}, invocation_folder=Path(), root=Path())
    clusters = SharedClusters(settings, Stopwatch())
    assert not clusters.provide_topic(Scenario.of({"topic": "orders"}), Cluster(bootstrap_servers="127.0.0.1:1"))
    clusters.delete_topics()

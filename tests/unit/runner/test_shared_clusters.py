"""What tests share: topics, which only the plugin's own brokers get, and applications, which each test finds whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.spans import Stopwatch
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.shared_clusters import SharedClusters
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import ENDLESS_S, PATIENCE_S

NOWHERE = Cluster(bootstrap_servers="127.0.0.1:1")


@pytest.fixture
def clusters() -> Iterator[SharedClusters]:
    """Those of a run on a cluster that others run, and that does not exist."""
    settings = read_settings({"cluster": "127.0.0.1:1"}, {}, invocation_folder=Path(), root=Path())
    shared = SharedClusters(settings, Stopwatch())
    yield shared
    for application in shared.applications_on(NOWHERE):
        application.close()


def shop(name: str = "shop", instances: int = 3) -> Application:
    command = ["python", "-c", f"import time; print('ready', flush=True); time.sleep({ENDLESS_S})"]
    fields = {"command": command, "instances": instances, "name": name, "timeout": f"{PATIENCE_S} s"}
    return Application(Recipe.of({**fields, "ready": "line:ready"}), NOWHERE)


def test_a_cluster_that_others_run_gets_no_topic(clusters: SharedClusters) -> None:
    """Its owners create topics; nothing is even asked, or the unreachable server would raise an error."""
    assert not clusters.provide_topic(Scenario.of({"topic": "orders"}), NOWHERE)
    clusters.delete_topics()


@pytest.mark.skipif(os.name != "posix", reason="process groups need POSIX")
def test_each_test_finds_all_instances_of_an_application(clusters: SharedClusters) -> None:
    """Whatever the test before did to them; one that it left alone is not restarted."""
    changed, scaled, whole = (clusters.opened(shop(name)) for name in ("changed", "scaled", "whole"))
    kept = [each.pid for each in whole.instances]
    changed.kill(1)
    scaled.scale(2)
    clusters.restore()
    assert changed.is_whole
    assert scaled.is_whole
    assert [each.pid for each in whole.instances] == kept


@pytest.mark.skipif(os.name != "posix", reason="process groups need POSIX")
@pytest.mark.parametrize("name", ["shop", "shop-1"])
def test_no_two_programs_have_the_same_name(clusters: SharedClusters, name: str) -> None:
    """The metrics would be those of one of them only."""
    clusters.opened(shop())
    with pytest.raises(UsageError) as caught:
        clusters.opened(shop(name, instances=1))
    assert str(caught.value) == (
        f"kafka_app: {name} is already running; give this application another name with name='NAME'"
    )

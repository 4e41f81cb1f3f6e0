"""Testcontainers' `KafkaContainer` as the value of a user's fixture `kafka_cluster`."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from testcontainers.community.kafka import KafkaContainer
from testcontainers.core.config import testcontainers_config

from pytest_kafkaperf.clusters.cluster import as_cluster
from pytest_kafkaperf.clusters.docker.daemon import image_of
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.cluster_life import load_once
from tests.support.patience import PATIENCE_S

_CONFLUENT = "/etc/confluent/docker"


@pytest.mark.docker
def test_load_runs_on_a_container_of_testcontainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that has such a fixture needs no second cluster; the container is read as those of the plugin are."""
    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)  # its image may be missing
    image = image_of(ClusterSpec())
    monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "")  # the image's name has it
    container = KafkaContainer(image).with_kwargs(user="root")
    container.kraft_enabled = True  # `with_kraft` expects a version of Confluent
    # The container's command runs the scripts of Confluent's images, which `apache/kafka` does not have.
    container.with_copy_into_container(b"", f"{_CONFLUENT}/bash-config")
    container.with_copy_into_container(b"#!/bin/sh\nexit\n", f"{_CONFLUENT}/configure", 0o755)
    container.with_copy_into_container(b"#!/bin/sh\nexec /etc/kafka/docker/run\n", f"{_CONFLUENT}/launch", 0o755)
    with ExitStack() as stack:
        stack.callback(container.stop)
        container.start(timeout=PATIENCE_S)  # the default, 30 s, is too short for a busy machine
        cluster = as_cluster(container)
        assert (cluster.provider, cluster.facts) == ("external", {"image": image})
        ran = load_once(cluster)
    assert ran.problems == ()
    assert ran.metrics["lost"] == ran.metrics["errors"] == 0
    assert {"broker.cpu", "broker.memory", "broker.network.in"} <= set(ran.metrics)

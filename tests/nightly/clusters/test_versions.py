"""Versions of Kafka besides the default one and 3.9."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec


@pytest.mark.parametrize("version", ["4.0.1", "4.1.1", "4.2.1"])
def test_another_version_is_run_where_one_is_named(version: str) -> None:
    """`--kafka-cluster=local:VERSION` picks the broker."""
    with provision(ClusterSpec(version=version), target="local") as cluster:
        assert cluster.version == version

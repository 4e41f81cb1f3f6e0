"""A Docker daemon on another machine: DOCKER_HOST, a CI job with Docker in Docker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution, jmx_exporter
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.cluster_life import SECURED, load_once
from tests.support.daemon_elsewhere import HOST, daemon_elsewhere
from tests.support.ground import labelled


@pytest.mark.docker
def test_brokers_are_reached_at_the_daemons_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Ports, certificates and JMX exporters must be those of the other machine, and the results need a caveat."""
    jar = jmx_exporter.jar(distribution.cache_folder())  # before the test has a cache of its own
    shutil.copytree(jar.parent, tmp_path / "agents")
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(tmp_path))
    spec = ClusterSpec.of({"brokers": 2, "security": SECURED, "jmx": True, "heap": "300m"})
    with daemon_elsewhere() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        with provision(spec, target="docker") as cluster:
            assert [server.rpartition(":")[0] for server in cluster.bootstrap_servers.split(",")] == [HOST, HOST]
            assert cluster.facts["host"] == HOST
            ran = load_once(cluster)
        assert [str(each.message) for each in recwarn if each.category is UserWarning] == [
            f"the brokers run on {HOST}, the machine of the Docker daemon at {address}, so all results include the "
            "network between this machine and it"
        ]
        assert ran.problems == ()
        assert ran.metrics["lost"] == ran.metrics["errors"] == 0
        assert {"broker.cpu", "broker.produce.time"} <= set(ran.metrics)
        assert labelled(tmp_path) == []

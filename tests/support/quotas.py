"""Client quotas: how an operator makes a broker slower, and how tests make a regression that is real."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.patience import PATIENCE_S

_TOOL_VERSION = "4.3.1"
"""The last version whose brokers have `kafka-configs` among their jars; it works with newer and older brokers."""


@contextmanager
def quota(cluster: Cluster, **rates: int) -> Iterator[None]:
    """Let each client send or fetch no more than that, in bytes a second, for the length of a block."""
    _configure(cluster, "--add-config", ",".join(f"{name}={rate}" for name, rate in rates.items()))
    try:
        yield
    finally:
        _configure(cluster, "--delete-config", ",".join(rates))


def _configure(cluster: Cluster, *change: str) -> None:
    runtime = java.find()
    kafka = distribution.installed(_TOOL_VERSION, java=runtime, cache=distribution.cache_folder())
    command = [str(runtime.path), "-cp", ":".join(map(str, kafka.classpath)), "kafka.admin.ConfigCommand"]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--alter", "--entity-type", "clients"]
    subprocess.run([*command, "--entity-default", *change], check=True, timeout=PATIENCE_S, capture_output=True)

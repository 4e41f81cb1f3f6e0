"""The Prometheus JMX exporter as a Java agent in the plugin's brokers: its jar, configuration and option.

The exporter publishes the broker's internal metrics over HTTP, and `probes.ExporterProbe` reads them.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from pytest_kafkaperf.clusters.brokers import downloads
from pytest_kafkaperf.clusters.brokers.distribution import fetching, refuse_links
from pytest_kafkaperf.clusters.brokers.downloads import file_name, pinned, verify_sha256

COORDINATE = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
"""Maven coordinate of the newest version under this name; later versions have a different name."""

_OTHER_RUN_TIMEOUT_S = downloads.TIMEOUT_S + 60
"""Maximum time to wait for another run that is downloading the same file."""

_REQUESTS = ("Produce", "FetchConsumer")
_TIMES = ("TotalTimeMs", "RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseSendTimeMs")
_OTHER_BEANS = (
    ("server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", "Count"),
    ("server", "KafkaRequestHandlerPool", "BrokerRequestHandlerAvgIdlePercent", "Count"),
    ("server", "ReplicaManager", "UnderReplicatedPartitions", "Value"),
    ("server", "ReplicaManager", "LeaderCount", "Value"),
    ("server", "ReplicaManager", "IsrShrinksPerSec", "Count"),
    ("controller", "KafkaController", "LastAppliedRecordOffset", "Value"),
)
"""Package, type, name and attribute of the beans to read, except those about requests."""
_BEANS = (
    *(f"kafka.network:type=RequestMetrics,name={time},request={request}" for time in _TIMES for request in _REQUESTS),
    *(f"kafka.{package}:type={kind},name={name}" for package, kind, name, _ in _OTHER_BEANS),
)
_RULES = """\
rules:
- pattern: kafka.(\\w+)<type=(\\w+), name=(\\w+), request=(\\w+)><>(Mean|Count)
  name: kafka_$1_$2_$3_$5
  labels:
    request: $4
- pattern: kafka.(\\w+)<type=(\\w+), name=(\\w+)><>(Value|Count)
  name: kafka_$1_$2_$3_$4
"""
_NAMES = (
    *(f"kafka_network_RequestMetrics_{time}_{what}" for time in _TIMES for what in ("Mean", "Count")),
    *(f"kafka_{package}_{kind}_{name}_{what}" for package, kind, name, what in _OTHER_BEANS),
)
"""Names of the metrics to read. A request for only these metrics skips Java's own and so halves the broker's work."""


def jar(cache: Path) -> Path:
    """Return the agent's jar from the cache; download it first if it is missing.

    For a cached jar, neither jgo nor the network is required. Several runs can start at the same time.

    Raises:
        ClusterError: the jar is missing and cannot be downloaded, or does not match its pin; the message contains the
            fix.

    """
    path = cache / "agents" / file_name(COORDINATE)
    refuse_links(path, cache=cache)
    if not _is_complete(path):
        with fetching(path, "the JMX exporter", cache=cache, timeout_s=_OTHER_RUN_TIMEOUT_S):
            if not _is_complete(path):  # another run may have downloaded it
                _install(path)
    advice = f"Find out what changed {path}; to download it again, delete it"
    verify_sha256(path, pinned(COORDINATE)[COORDINATE], problem="has changed", advice=advice)
    return path


def configuration() -> str:
    """Return the agent's YAML configuration, which selects only a few beans to keep scrapes small and fast."""
    beans = "".join(f"- {bean}\n" for bean in _BEANS)
    return f"includeObjectNames:\n{beans}{_RULES}"


def option(jar: Path | str, config_path: Path | str, port: int, *, host: str = "127.0.0.1") -> str:
    """Return the option for the broker's Java; in a container, the host is `0.0.0.0`."""
    return f"-javaagent:{jar}={host}:{port}:{config_path}"


def url(address: str) -> str:
    """Return the URL of an agent with this configuration at `HOST:PORT`."""
    return f"http://{address}/metrics?{'&'.join(f'name[]={name}' for name in _NAMES)}"


def _install(path: Path) -> None:
    scratch = path.with_name(f"{path.name}.partial")
    downloads.fetch_one("the JMX exporter", COORDINATE, scratch=scratch, target=path).replace(path)
    shutil.rmtree(scratch, ignore_errors=True)


def _is_complete(path: Path) -> bool:
    """Return True if the file is a complete jar, that is, if it ends with a zip file's table of contents."""
    return path.is_file() and zipfile.is_zipfile(path)

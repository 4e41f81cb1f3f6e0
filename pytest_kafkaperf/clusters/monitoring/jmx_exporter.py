"""The Prometheus JMX exporter, as an agent in the brokers that a session starts: its jar, configuration and option.

It gives what Kafka counts within a broker, over HTTP, as `probes.ExporterProbe` reads it.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from pytest_kafkaperf.clusters.local import maven
from pytest_kafkaperf.clusters.local.distribution import fetching
from pytest_kafkaperf.clusters.local.maven import file_name, pinned, refuse_other
from pytest_kafkaperf.core.errors import ClusterError

COORDINATE = "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1"
"""Maven's name of it; later versions are not under this one."""

_OTHER_SESSION_TIMEOUT_S = 120
"""How long to wait for a session that fetches it, too: one file of less than a megabyte."""

_REQUESTS = ("Produce", "FetchConsumer")
_TIMES = ("TotalTimeMs", "RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ResponseSendTimeMs")
_BEANS = (
    *(f"kafka.network:type=RequestMetrics,name={time},request={request}" for time in _TIMES for request in _REQUESTS),
    "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
    "kafka.server:type=KafkaRequestHandlerPool,name=BrokerRequestHandlerAvgIdlePercent",
    "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
    "kafka.server:type=ReplicaManager,name=LeaderCount",
    "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec",
    "kafka.controller:type=KafkaController,name=LastAppliedRecordOffset",
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
    "kafka_server_KafkaRequestHandlerPool_RequestHandlerAvgIdlePercent_Count",
    "kafka_server_KafkaRequestHandlerPool_BrokerRequestHandlerAvgIdlePercent_Count",
    "kafka_server_ReplicaManager_UnderReplicatedPartitions_Value",
    "kafka_server_ReplicaManager_LeaderCount_Value",
    "kafka_server_ReplicaManager_IsrShrinksPerSec_Count",
    "kafka_controller_KafkaController_LastAppliedRecordOffset_Value",
)
"""What the rules name what is read; to ask for these alone spares the broker half of the work, the Java figures."""


def jar(cache: Path) -> Path:
    """Give the agent's jar from the cache, fetching it first where it is missing.

    Once it is there, neither jgo nor the network is needed. Safe when two sessions start at once.

    Raises:
        ClusterError: it is not there and cannot be fetched, or it is not the jar that is pinned; says what to do.

    """
    path = cache / "agents" / file_name(COORDINATE)
    if not _is_whole(path):
        with fetching(path, "the JMX exporter", cache=cache, timeout_s=_OTHER_SESSION_TIMEOUT_S):
            if not _is_whole(path):  # another session may have been first
                _install(path)
    refuse_other(
        path,
        pinned(COORDINATE)[COORDINATE],
        what="has changed",
        advice=f"Find out what has changed {path}; to fetch it anew, delete it",
    )
    return path


def configuration() -> str:
    """Write the agent's configuration, YAML: a few beans out of thousands, so that a scrape is small and quick."""
    beans = "".join(f"- {bean}\n" for bean in _BEANS)
    return f"includeObjectNames:\n{beans}{_RULES}"


def option(jar: Path | str, config_path: Path | str, port: int, *, host: str = "127.0.0.1") -> str:
    """Write the option for the broker's Java; in a container the host is `0.0.0.0`."""
    return f"-javaagent:{jar}={host}:{port}:{config_path}"


def url(port: int) -> str:
    """Where an agent with this configuration gives its figures, seen from this machine."""
    return f"http://127.0.0.1:{port}/metrics?{'&'.join(f'name[]={name}' for name in _NAMES)}"


def _install(path: Path) -> None:
    scratch = path.with_name(f"{path.name}.partial")
    try:
        fetched = maven.fetch_one(COORDINATE, scratch=scratch)
    except maven.Unreachable as error:
        raise ClusterError(
            f"the JMX exporter is not in the cache ({path}) and cannot be fetched: "
            f"{COORDINATE} was looked for in {error.looked}: {error.reason}. "
            f"Run once with a network, or copy that file from a machine that has it"
        ) from error
    fetched.replace(path)
    shutil.rmtree(scratch, ignore_errors=True)


def _is_whole(path: Path) -> bool:
    """A zip file has its table of contents at its end: half a copy has none."""
    return path.is_file() and zipfile.is_zipfile(path)

"""The provider `local`: one real broker, KRaft combined mode, as a child process of the session."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters import broker, distribution, java
from pytest_kafkaperf.clusters.runs import PROPERTIES, run_folder
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.load.readiness import wait_ready
from pytest_kafkaperf.settings import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_kafkaperf.clusters.broker import Broker
    from pytest_kafkaperf.clusters.distribution import Distribution
    from pytest_kafkaperf.clusters.java import Java

_READY_TIMEOUT_S = 60
_READY_PAUSE_S = 0.05
_START_ATTEMPTS = 3
"""A free port can be taken by someone else before the broker binds it; then it is tried with others."""
_PORT_TAKEN = ("java.net.BindException", "Address already in use", "failed to bind")

_JVM_OPTIONS = (
    # Those of Kafka's own bin/kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS.
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    # A broker without memory must end, and make the round INVALID, not limp on.
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

_OWN_CONFIG = {
    # One broker, so one replica of the internal topics.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # 50 partitions each are created at the first use, in the middle of somebody's warm-up.
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    # Consumers of a test start at once: there is nobody to wait 3 s for.
    "group.initial.rebalance.delay.ms": "0",
    # A misspelt topic is an error.
    "auto.create.topics.enable": "false",
}
"""What differs from Kafka's defaults; a spec's `config` overrides it."""


@contextmanager
def start(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start a broker that is ready, and leave neither a process nor a file of it.

    Raises:
        ClusterError: no Java, no Kafka, or the broker did not start; says what to do.

    """
    cache = distribution.cache_folder()
    runtime = java.find()
    kafka = distribution.installed(spec.version or DEFAULT_VERSION, java=runtime, cache=cache)
    with (
        run_folder(cache / "runs") as folder,
        _started(spec, runtime=runtime, kafka=kafka, folder=folder) as (started, servers),
    ):
        yield Cluster(
            bootstrap_servers=servers,
            brokers=1,
            provider="local",
            version=kafka.version,
            facts=MappingProxyType(_facts(spec, runtime)),
            pids=(started.process.pid,),
            check=started.check,
        )


def _facts(spec: ClusterSpec, runtime: Java) -> dict[str, str]:
    config = {f"config.{name}": value for name, value in sorted(spec.config.items())}
    return {"java": runtime.description, "heap": spec.heap, **config}


@contextmanager
def _started(spec: ClusterSpec, *, runtime: Java, kafka: Distribution, folder: Path) -> Iterator[tuple[Broker, str]]:
    for attempt in range(1, _START_ATTEMPTS + 1):
        with ExitStack() as stack:
            ports = _free_ports()
            cluster_id = _lay_out(folder, kafka=kafka, ports=ports, config=spec.config)
            command = _command(runtime, kafka, heap=spec.heap, folder=folder)
            started = stack.enter_context(broker.running(command, folder=folder))
            servers = f"127.0.0.1:{ports.broker}"
            try:
                wait_ready(
                    servers,
                    brokers=1,
                    timeout_s=_READY_TIMEOUT_S,
                    pause_s=_READY_PAUSE_S,
                    still_possible=started.check,
                    cluster_id=cluster_id,
                )
            except ClusterLostError as error:
                if attempt < _START_ATTEMPTS and any(sign in str(error) for sign in _PORT_TAKEN):
                    continue
                raise ClusterError(f"Kafka {kafka.version} did not start: {error}") from None
            except ClusterError as error:
                raise ClusterError(
                    f"Kafka {kafka.version} did not start: {error}; the end of its log:\n{started.log_tail()}"
                ) from None
            yield started, servers
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ports:
    broker: int
    controller: int


def _free_ports() -> _Ports:
    """Two loopback ports that are free now."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return _Ports(broker=first.getsockname()[1], controller=second.getsockname()[1])


def _lay_out(folder: Path, *, kafka: Distribution, ports: _Ports, config: Mapping[str, str]) -> str:
    """Write configuration and a formatted data folder; gives the cluster's id.

    The id is a new one, so that a broker of another session, on a port that it was quicker to take, is not
    mistaken for this one.
    """
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.copytree(kafka.storage, folder / "data")
    (folder / "tmp").mkdir(exist_ok=True)
    cluster_id = _uuid()
    meta = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(distribution.NODE_ID),
        "directory.id": _uuid(),
    }
    (folder / "data" / "meta.properties").write_text(_as_properties(meta), encoding="ascii")
    (folder / PROPERTIES).write_text(
        _as_properties({**_OWN_CONFIG, **config, **_identity(folder, ports)}), encoding="ascii"
    )
    return cluster_id


def _identity(folder: Path, ports: _Ports) -> dict[str, str]:
    """The properties that make this broker this one, `spec.OWN_PROPERTIES`."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(distribution.NODE_ID),
        "controller.quorum.voters": f"{distribution.NODE_ID}@127.0.0.1:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports.broker},CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports.broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
    }


def _command(runtime: Java, kafka: Distribution, *, heap: str, folder: Path) -> list[str | Path]:
    return [
        runtime.path,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        *_JVM_OPTIONS,
        f"-Djava.io.tmpdir={folder / 'tmp'}",  # the native compression libraries unpack there
        "-cp",
        os.pathsep.join(map(str, kafka.classpath)),
        "kafka.Kafka",
        folder / PROPERTIES,
    ]


def _uuid() -> str:
    """A UUID as Kafka writes it: base64 without padding; Kafka refuses a leading `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _as_properties(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    """As `java.util.Properties` reads it: printable ASCII as it is, UTF-16 units for the rest."""
    if value.startswith(" "):
        return "\\" + _escaped_rest(value)
    return _escaped_rest(value)


def _escaped_rest(value: str) -> str:
    units = value.encode("utf-16-be", errors="surrogatepass")
    codes = [int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2)]
    return "".join(
        chr(code) if ord(" ") <= code <= ord("~") and code != ord("\\") else f"\\u{code:04x}" for code in codes
    )

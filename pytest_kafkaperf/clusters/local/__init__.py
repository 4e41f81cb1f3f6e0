"""The provider `local`: real brokers, KRaft combined mode, as child processes of the session."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import javaproperties

from pytest_kafkaperf.clusters.brokers.config import (
    CLIENT,
    LISTENERS,
    Node,
    Security,
    broker_properties,
    new_uuid,
    protection,
)
from pytest_kafkaperf.clusters.brokers.fleet import BrokerPlan, launched
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES, run_folder
from pytest_kafkaperf.clusters.local import distribution, java
from pytest_kafkaperf.clusters.local.process import Process
from pytest_kafkaperf.clusters.monitoring import jmx_exporter
from pytest_kafkaperf.clusters.monitoring.probes import LoopbackProbe, MachineProbe
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec, facts_of
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.local.distribution import Distribution
    from pytest_kafkaperf.clusters.local.java import Java

_HOST = "127.0.0.1"
_KEYSTORE = "keystore.pem"
_AGENT = "jmx-exporter.yml"
_PORTS = range(15_000, 30_000)
"""Below those that systems take for outgoing connections: one of these could hold the port of a stopped broker."""
_PORT_ATTEMPTS = 100

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
    # The JVM's own statistics stay in memory: nothing is left of a broker that was killed.
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


@contextmanager
def start(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start brokers that are ready, and leave neither a process nor a file of them.

    Raises:
        ClusterError: no Java, no Kafka, or a broker did not start; says what to do.

    """
    cache = distribution.cache_folder()
    runtime = java.find()
    kafka = distribution.installed(spec.version or DEFAULT_VERSION, java=runtime, cache=cache)
    security = None if spec.security is None else Security.make(spec.security, [_HOST, "localhost"])
    with ExitStack() as stack:
        folder = stack.enter_context(run_folder(cache / "runs"))
        disks = [] if spec.log_dirs is None else [Path(part.strip()).resolve() for part in spec.log_dirs.split(",")]
        for disk in disks:
            if not disk.is_dir():  # one that is misspelt would be made on another disk than the one that is meant
                raise ClusterError(f"log_dirs: there is no folder {disk}; create it on the disk that is meant")
        logs = [stack.enter_context(run_folder(disk)) for disk in disks]
        agent = jmx_exporter.jar(cache) if spec.jmx else None
        layout = Layout(
            spec=spec, runtime=runtime, kafka=kafka, security=security, agent=agent, folder=folder, logs=tuple(logs)
        )
        with launched(layout.plan, what=f"Kafka {kafka.version}", security=security) as ready:
            yield Cluster(
                bootstrap_servers=ready.bootstrap_servers,
                brokers=spec.brokers,
                provider="local",
                version=kafka.version,
                access=ready.access,
                facts=MappingProxyType({**_facts(runtime, spec), **facts_of(spec)}),
                fleet=ready.fleet,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What brokers need on disk and on their command line."""

    spec: ClusterSpec
    runtime: Java
    kafka: Distribution
    security: Security | None
    agent: Path | None
    """The JMX exporter's jar."""
    folder: Path
    logs: tuple[Path, ...] = ()
    """Folders for the logs, on other disks; none: they are in `folder`, too."""

    def plan(self) -> BrokerPlan:
        """Lay the brokers out, on ports that are free now."""
        nodes = _nodes(self.spec.brokers)
        cluster_id = new_uuid()
        return BrokerPlan(
            servers={node.id: self._server(node, nodes, cluster_id) for node in nodes},
            bootstrap_servers=",".join(node.advertised[CLIENT] for node in nodes),
            cluster_id=cluster_id,
            shared_probes={"loopback": [LoopbackProbe()], "machine": [MachineProbe()]},
        )

    def _server(self, node: Node, nodes: Sequence[Node], cluster_id: str) -> Process:
        home = self.folder / f"broker-{node.id}"
        shutil.rmtree(home, ignore_errors=True)
        (home / "tmp").mkdir(parents=True)
        folders = [logs / f"broker-{node.id}" for logs in self.logs] or [home / "data"]
        for data in folders:
            shutil.rmtree(data, ignore_errors=True)
            shutil.copytree(self.kafka.storage, data)
            meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node.id), "directory.id": new_uuid()}
            _write(data / "meta.properties", meta)
        keystore = home / _KEYSTORE
        if self.security is not None and self.security.keystore is not None:
            keystore.touch(mode=0o600)
            keystore.write_text(self.security.keystore, encoding="ascii")
        properties = broker_properties(
            node,
            nodes,
            log_folder=",".join(map(str, folders)),
            protection=protection(self.security, keystore=str(keystore)),
            config=self.spec.config,
        )
        _write(home / PROPERTIES, properties)
        redact = str if self.security is None else self.security.redact
        options, url = ([], None) if self.agent is None else _with_agent(self.agent, home)
        return Process(node.id, self._command(home, options), folder=home, exporter_url=url, redact=redact)

    def _command(self, home: Path, options: Sequence[str]) -> list[str | Path]:
        return [
            self.runtime.path,
            *options,
            f"-Xms{self.spec.heap}",
            f"-Xmx{self.spec.heap}",
            *_JVM_OPTIONS,
            f"-Djava.io.tmpdir={home / 'tmp'}",  # the native compression libraries unpack there
            "-cp",
            os.pathsep.join(map(str, self.kafka.classpath)),
            "kafka.Kafka",
            home / PROPERTIES,
        ]


def _with_agent(jar: Path, home: Path) -> tuple[list[str], str]:
    """The option that puts the JMX exporter into a broker, and where it can be read."""
    (port,) = free_ports(1)
    configuration = home / _AGENT
    configuration.write_text(jmx_exporter.configuration(), encoding="ascii")
    return [jmx_exporter.option(jar, configuration, port)], jmx_exporter.url(port)


def _facts(runtime: Java, spec: ClusterSpec) -> dict[str, str]:
    """Those of this provider. The same test file runs with every one; what has no meaning here is told."""
    return {
        "java": runtime.description,
        **({} if spec.log_dirs is None else {"log.dirs": spec.log_dirs}),
        **({} if spec.image is None else {"not applied": "image"}),
    }


def _nodes(brokers: int) -> list[Node]:
    """As many brokers, on loopback ports that are free now."""
    ports = iter(free_ports(brokers * len(LISTENERS)))
    nodes = []
    for number in range(1, brokers + 1):
        addresses = {listener: f"{_HOST}:{next(ports)}" for listener in LISTENERS}
        nodes.append(Node(id=number, bound=addresses, advertised=addresses))
    return nodes


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now, and that no client is given while a broker restarts."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            _bind_somewhere(each)
        return [each.getsockname()[1] for each in sockets]


def _bind_somewhere(unbound: socket.socket) -> None:
    for _ in range(_PORT_ATTEMPTS):
        with contextlib.suppress(OSError):
            unbound.bind((_HOST, random.choice(_PORTS)))  # noqa: S311 - not a secret
            return
    raise ClusterError(f"none of {_PORT_ATTEMPTS} ports that were tried, from {_PORTS[0]} to {_PORTS[-1]}, is free")


def _write(path: Path, properties: Mapping[str, str]) -> None:
    """Only the user may read it: it can hold passwords."""
    path.touch(mode=0o600)
    path.write_text(javaproperties.dumps(properties, timestamp=False), encoding="latin-1")

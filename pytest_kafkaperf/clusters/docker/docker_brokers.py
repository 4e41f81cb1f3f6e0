"""The `docker` provider: brokers in containers on a separate network, started with testcontainers.

Supported images are `apache/kafka` (KIP-975) and `confluentinc/cp-kafka`; both read broker properties from `KAFKA_*`
variables. Ports are published only on loopback, so other machines cannot reach a test broker. If the daemon is on
another machine (`DOCKER_HOST`), ports are published on all its addresses, and brokers advertise the address that
testcontainers uses.

If a run is killed, testcontainers' reaper removes the run's resources, provided that the reaper's image is available.
The next run with the same cache folder always removes them: a label contains the path of the run folder, whose lock
shows whether the run is alive. Runs with another cache folder remove them after their latest end, which is in another
label.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.transferable import build_transfer_tar

from pytest_kafkaperf.clusters.brokers import java, jmx_exporter
from pytest_kafkaperf.clusters.brokers.config import (
    CLIENT,
    CONTROLLER,
    INTERNAL,
    Files,
    Node,
    Security,
    broker_properties,
    new_uuid,
)
from pytest_kafkaperf.clusters.brokers.distribution import cache_folder
from pytest_kafkaperf.clusters.brokers.fleet import Fleet, launched
from pytest_kafkaperf.clusters.brokers.local_brokers import free_ports
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.docker.container import LABEL, Container, labels_of, removing, start_reaper, sweep
from pytest_kafkaperf.clusters.docker.daemon import (
    LOOPBACK,
    connection,
    get_image,
    host_of,
    image_of,
    is_confluent,
    look,
    variable,
    version_of,
)
from pytest_kafkaperf.clusters.monitoring.probes import MachineProbe
from pytest_kafkaperf.clusters.spec import COMPILER, QUICK_JVM_OPTIONS, ClusterSpec, facts_of, not_applied
from pytest_kafkaperf.core.errors import ClusterError, warn
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.text import last_lines

_PORTS = {CLIENT: 9092, CONTROLLER: 9093, INTERNAL: 9094}
"""Ports inside the container."""
_LOG_FOLDER = "/var/lib/kafka/data"
_MEMORY, _MEMORY_SIZE = "/dev/shm/kafkaperf", "8g"  # noqa: S108 - inside of the container
"""Location and size limit of in-memory logs. Every user can write there, whereas a separate tmpfs would belong to root
after a restart."""
_FILES = Files(keystore="/opt/kafkaperf/keystore.pem", keys="/opt/kafkaperf/token-keys.json")
_JVM_OPTIONS = "/opt/kafkaperf/jvm.options"
"""File with the options that choose the compilers. Unlike a container's environment, it can change between starts."""
_AGENT_JAR = "/opt/kafkaperf/jmx-exporter.jar"
_AGENT_CONFIG = "/opt/kafkaperf/jmx-exporter.yml"
_AGENT_PORT = 9404
_JAVA_PATIENCE_S = 30
_JAVA_VERSION_COMMAND = f'timeout {_JAVA_PATIENCE_S} "${{JAVA_HOME:+$JAVA_HOME/bin/}}java" -version'
"""Command that runs, for a limited time, the Java that `kafka-run-class.sh` would choose."""
_NOT_FOUND = 126, 127
"""Exit codes for a command that does not exist: 127 from a shell, 126 or 127 from Docker if the image has no shell."""


@contextmanager
def start(spec: ClusterSpec, stopwatch: Stopwatch) -> Iterator[Cluster]:
    """Start brokers, provide them once they are ready, and remove their containers and network afterwards.

    The stopwatch records download times as `Span.FETCH`.

    Raises:
        ClusterError: there is no daemon or no image, or a broker did not start; the message contains the fix.

    """
    image = image_of(spec)
    runs = cache_folder() / "runs"
    with connection() as docker, run_folder(runs) as folder, ExitStack() as stack:
        client = docker.client
        host = host_of(docker)
        security = Security.make(spec.security, [host] if host != LOOPBACK else [LOOPBACK, "localhost"])
        sweep(client, runs)
        with stopwatch.measure(Span.FETCH):
            confluent = is_confluent(get_image(client, image))
            agent = jmx_exporter.jar(cache_folder()) if spec.jmx else None
        start_reaper(client)
        labels = labels_of(folder)
        layout = _Layout(
            spec=spec,
            image=image,
            confluent=confluent,
            security=security,
            docker=docker,
            host=host,
            network=stack.enter_context(_network(docker, folder.name, labels)),
            agent=agent,
            labels=labels,
        )
        fleet = stack.enter_context(launched(layout.plan, what=image))
        facts = {**_facts(client, image, labels[LABEL]), **facts_of(spec), **not_applied(spec, "log_dirs")}
        if "java" not in facts:  # an image such as apache/kafka-native has no compiler to choose
            fleet.quick = None
            facts.pop(COMPILER, None)
        version = "unknown" if confluent else version_of(image)
        if host != LOOPBACK:
            facts["host"] = host
            warn(
                f"the brokers run on {host}, the machine of the Docker daemon at {look()[0]}, so all results include "
                "the network between this machine and it"
            )
        yield Cluster.of_fleet(fleet, provider="docker", version=version, facts=facts)


@contextmanager
def _network(docker: DockerClient, name: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Create a network; afterwards, remove it and all containers with its label, even after an interrupted start."""
    with removing(docker.client, labels):
        with without_interrupt():
            docker.client_networks_create(name, {"labels": dict(labels)})
        yield name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The containers' configuration."""

    spec: ClusterSpec
    image: str
    confluent: bool
    security: Security
    docker: DockerClient
    host: str
    """The address at which published ports can be reached."""
    network: str
    agent: Path | None
    """The JMX exporter's jar; None to run without an exporter."""
    labels: Mapping[str, str]

    def plan(self) -> Fleet:
        """Configure the brokers on ports that are currently free."""
        ports = free_ports(self.spec.brokers)  # these ports are rarely taken on another machine either
        nodes = [self._node(number, port) for number, port in enumerate(ports, 1)]
        cluster_id = new_uuid()
        return Fleet(
            servers={node.id: self._server(node, nodes, cluster_id) for node in nodes},
            bootstrap_servers=",".join(node.advertised[CLIENT] for node in nodes),
            cluster_id=cluster_id,
            security=self.security,
            quick=self.spec.quick_compiler,
            shared_probes={"machine": [MachineProbe()]} if self.host == LOOPBACK else {},
        )

    def _node(self, number: int, port: int) -> Node:
        inside = {listener: f"{_alias(number)}:{inner}" for listener, inner in _PORTS.items()}
        return Node(
            id=number,
            bound={listener: f"0.0.0.0:{inner}" for listener, inner in _PORTS.items()},
            advertised={**inside, CLIENT: self._reached(port)},
        )

    def _reached(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def _server(self, node: Node, nodes: Sequence[Node], cluster_id: str) -> _Broker:
        log_folder = _MEMORY if self.spec.logs_in_memory else _LOG_FOLDER
        properties = broker_properties(
            node, nodes, self.security, log_folder=log_folder, files=_FILES, config=self.spec.config
        )
        variables = {
            variable(name, confluent=self.confluent): javaproperties.escape(value)  # images write values unescaped
            for name, value in properties.items()
        }
        variables |= {"CLUSTER_ID": cluster_id, "KAFKA_HEAP_OPTS": f"-Xms{self.spec.heap} -Xmx{self.spec.heap}"}
        ports = {_PORTS[CLIENT]: int(node.advertised[CLIENT].rpartition(":")[2])}
        files: dict[str, bytes | Path] = {}
        if self.spec.quick_compiler is not None:
            variables["JDK_JAVA_OPTIONS"] = f"{_java_options(self.docker.client, self.image)} @{_JVM_OPTIONS}".strip()
            files[_JVM_OPTIONS] = _jvm_options(quick=self.spec.quick_compiler)
        for path, content in ((_FILES.keystore, self.security.keystore), (_FILES.keys, self.security.keys)):
            if content is not None:
                files[path] = content.encode("ascii")
        options = self.security.java_options(_FILES)
        url = None
        if self.agent is not None:
            (ports[_AGENT_PORT],) = free_ports(1)
            files |= {_AGENT_JAR: self.agent, _AGENT_CONFIG: jmx_exporter.configuration().encode("ascii")}
            options.append(jmx_exporter.option(_AGENT_JAR, _AGENT_CONFIG, _AGENT_PORT, host="0.0.0.0"))  # noqa: S104 - inside the container
            url = jmx_exporter.url(self._reached(ports[_AGENT_PORT]))
        if options:
            variables["KAFKA_OPTS"] = " ".join(options)
        create = functools.partial(self._create, _alias(node.id), variables, ports, files)
        return _Broker(f"broker {node.id}", create, exporter_url=url, redact=self.security.redact)

    def _create(
        self, alias: str, variables: Mapping[str, str], ports: Mapping[int, int], files: Mapping[str, bytes | Path]
    ) -> Any:
        """Create a container. Unlike testcontainers' own `DockerContainer`, it does not need a reaper.

        `ports` maps ports inside the container to published ones; `files` maps paths inside it to their contents.
        """
        endpoint = self.docker.client.api.create_endpoint_config(aliases=[alias])
        container = self.docker.create(
            self.image,
            environment=dict(variables),
            ports={f"{at}/tcp": (LOOPBACK, port) if self.host == LOOPBACK else port for at, port in ports.items()},
            labels=dict(self.labels),
            hostname=alias,
            shm_size=_MEMORY_SIZE if self.spec.logs_in_memory else None,
            network=self.network,
            networking_config={self.network: endpoint},
        )
        for path, content in files.items():
            container.put_archive("/", build_transfer_tar(content, path))
        return container


class _Broker(Container):
    """A broker in a container."""

    def use_compiler(self, *, quick: bool) -> None:
        """Choose the compilers of the next start."""
        with self._reporting("changed"):
            self._container.put_archive("/", build_transfer_tar(_jvm_options(quick=quick), _JVM_OPTIONS))


def _jvm_options(*, quick: bool) -> bytes:
    """Return the content of the file with JVM options."""
    return "\n".join(QUICK_JVM_OPTIONS if quick else ()).encode("ascii")


def _alias(number: int) -> str:
    return f"broker-{number}"


def _facts(client: Any, image: str, label: str) -> dict[str, str]:
    found = client.images.get(image)
    digests = found.attrs.get("RepoDigests") or [found.id]
    runtime = _java_of(client, label)
    return {
        "image": image,
        "image.digest": digests[0].rpartition("@")[2],
        **({} if runtime is None else {"java": runtime}),
        "docker": client.version()["Version"],
    }


def _java_options(client: Any, image: str) -> str:
    """Return the image's own `JDK_JAVA_OPTIONS`; empty if it has none."""
    given = client.images.get(image).attrs["Config"]["Env"] or ()
    variables: dict[str, str] = dict(each.partition("=")[::2] for each in given)
    return variables.get("JDK_JAVA_OPTIONS", "")


def _java_of(client: Any, label: str) -> str | None:
    """Return the name and version of the brokers' Java; None without Java, as in `apache/kafka-native`.

    A Java that does not answer is an error: without its version, the cluster would be taken for a different one.
    """
    container, *_ = client.containers.list(all=True, filters={"label": f"{LABEL}={label}"}, limit=1)
    result = container.exec_run(["sh", "-c", _JAVA_VERSION_COMMAND])
    if result.exit_code in _NOT_FOUND:
        return None
    output = result.output.decode("utf-8", errors="replace").strip()
    described = java.describe(output)
    if described is None:
        raise ClusterError(
            f"the Java of {container.name} did not report its version (exit code {result.exit_code} within "
            f"{_JAVA_PATIENCE_S} s): {last_lines(output) or 'no output'}; make sure that the machine is not "
            "overloaded, then run the tests again"
        )
    return described

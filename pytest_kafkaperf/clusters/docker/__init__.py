"""The provider `docker`: brokers in containers on a network of their own, started with testcontainers.

Images are `apache/kafka` (KIP-975) and `confluentinc/cp-kafka`: both read broker properties from variables `KAFKA_*`.
Ports are published on loopback only, so that other machines cannot reach a test broker.

What a killed session leaves is removed by testcontainers' reaper if its image is available, and always by the next
session with the same cache folder: a label names the run folder, and its lock shows whether the session is alive.
Sessions with another cache folder remove it after its latest end, which is another label.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import javaproperties
from docker.errors import ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from pytest_kafkaperf.clusters.brokers.config import (
    CLIENT,
    CONTROLLER,
    INTERNAL,
    Node,
    Security,
    broker_properties,
    new_uuid,
)
from pytest_kafkaperf.clusters.brokers.fleet import BrokerPlan
from pytest_kafkaperf.clusters.brokers.launch import launched
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.docker.client import (
    REQUEST_TIMEOUT_S,
    connection,
    get_image,
    image_of,
    is_confluent,
    variable,
    version_of,
)
from pytest_kafkaperf.clusters.docker.container import LABEL, Container, labelled, labels_of, remove, sweep
from pytest_kafkaperf.clusters.docker.daemon import FAILURES
from pytest_kafkaperf.clusters.local import free_ports, java
from pytest_kafkaperf.clusters.local.distribution import cache_folder
from pytest_kafkaperf.clusters.monitoring import jmx_exporter
from pytest_kafkaperf.clusters.monitoring.probes import MachineProbe
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec, facts_of, not_applied
from pytest_kafkaperf.core.signals import without_interrupt

_LOOPBACK = "127.0.0.1"
_PORTS = {CLIENT: 9092, CONTROLLER: 9093, INTERNAL: 9094}
"""Ports inside the container."""
_LOG_FOLDER = "/var/lib/kafka/data"
_KEYSTORE = "/opt/kafkaperf/keystore.pem"
_AGENT_JAR = "/opt/kafkaperf/jmx-exporter.jar"
_AGENT_CONFIG = "/opt/kafkaperf/jmx-exporter.yml"
_AGENT_PORT = 9404
_JAVA_VERSION_COMMAND = 'timeout 5 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version'
"""Runs the Java that `kafka-run-class.sh` would choose, for at most 5 s."""


@contextmanager
def start(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start brokers, provide them when they are ready, and remove their containers and network afterwards.

    Raises:
        ClusterError: there is no daemon or no image, or a broker did not start; says what to do.

    """
    image = image_of(spec)
    runs = cache_folder() / "runs"
    security = Security.make(spec.security, [_LOOPBACK, "localhost"])
    with connection() as client, run_folder(runs) as folder, ExitStack() as stack:
        sweep(client, runs)
        confluent = is_confluent(get_image(client, image))
        _disable_missing_reaper(client)
        labels = labels_of(folder)
        network = stack.enter_context(_network(client, labels))
        layout = _Layout(
            spec=spec,
            image=image,
            confluent=confluent,
            security=security,
            network=network,
            agent=jmx_exporter.jar(cache_folder()) if spec.jmx else None,
            labels=labels,
        )
        cluster = stack.enter_context(launched(layout.plan, what=image, security=security))
        facts = {**_facts(client, image, labels[LABEL]), **facts_of(spec), **not_applied(spec, "log_dirs")}
        version = "unknown" if confluent else version_of(image)
        yield replace(cluster, provider="docker", version=version, facts=MappingProxyType(facts))


def _disable_missing_reaper(client: Any) -> None:
    """Disable testcontainers' reaper Ryuk, which cleans up after killed sessions, if its image is missing.

    Testcontainers would fail otherwise.
    """
    if testcontainers_config.ryuk_disabled:
        return
    try:
        client.images.get(testcontainers_config.ryuk_image)
    except ImageNotFound:
        testcontainers_config.ryuk_disabled = True


@contextmanager
def _network(client: Any, labels: Mapping[str, str]) -> Iterator[Network]:
    """Create a network; afterwards remove it and all containers with its label, even if their start was interrupted."""
    network = Network(docker_network_kw={"labels": dict(labels)})
    try:
        with without_interrupt():
            network.create()
        yield network
    finally:
        with without_interrupt():
            for resource in labelled(client, f"{LABEL}={labels[LABEL]}"):
                remove(resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """The configuration of the containers."""

    spec: ClusterSpec
    image: str
    confluent: bool
    security: Security
    network: Network
    agent: Path | None
    """The JMX exporter's jar; None: no exporter."""
    labels: Mapping[str, str]

    def plan(self) -> BrokerPlan:
        """Configure the brokers, on ports that are free now."""
        nodes = [_node(number, port) for number, port in enumerate(free_ports(self.spec.brokers), 1)]
        cluster_id = new_uuid()
        return BrokerPlan(
            servers={node.id: self._server(node, nodes, cluster_id) for node in nodes},
            bootstrap_servers=",".join(node.advertised[CLIENT] for node in nodes),
            cluster_id=cluster_id,
            shared_probes={"machine": [MachineProbe()]},
        )

    def _server(self, node: Node, nodes: Sequence[Node], cluster_id: str) -> Container:
        properties = broker_properties(
            node,
            nodes,
            self.security,
            log_folder=_LOG_FOLDER,
            keystore=_KEYSTORE,
            config=self.spec.config,
        )
        variables = {
            variable(name, confluent=self.confluent): javaproperties.escape(value)  # images write the values unescaped
            for name, value in properties.items()
        }
        variables |= {"CLUSTER_ID": cluster_id, "KAFKA_HEAP_OPTS": f"-Xms{self.spec.heap} -Xmx{self.spec.heap}"}
        container = DockerContainer(self.image, docker_client_kw={"timeout": REQUEST_TIMEOUT_S})
        url = None if self.agent is None else _add_agent(container, self.agent)
        container.with_network(self.network).with_network_aliases(_alias(node.id))
        container.with_envs(**variables).with_kwargs(labels=dict(self.labels), hostname=_alias(node.id))
        container.ports[f"{_PORTS[CLIENT]}/tcp"] = (  # type: ignore[assignment] # what docker-py takes
            _LOOPBACK,
            int(node.advertised[CLIENT].rpartition(":")[2]),
        )
        if self.security.keystore is not None:
            container.with_copy_into_container(self.security.keystore.encode("ascii"), _KEYSTORE)
        return Container(node.id, container, exporter_url=url, redact=self.security.redact)


def _add_agent(container: DockerContainer, jar: Path) -> str:
    """Add the JMX exporter to a broker's container and return its URL."""
    (port,) = free_ports(1)
    container.with_copy_into_container(jar, _AGENT_JAR)
    container.with_copy_into_container(jmx_exporter.configuration().encode("ascii"), _AGENT_CONFIG)
    container.with_env("KAFKA_OPTS", jmx_exporter.option(_AGENT_JAR, _AGENT_CONFIG, _AGENT_PORT, host="0.0.0.0"))  # noqa: S104 - inside the container; published on loopback
    container.ports[f"{_AGENT_PORT}/tcp"] = (_LOOPBACK, port)  # type: ignore[assignment] # as above
    return jmx_exporter.url(port)


def _node(number: int, port: int) -> Node:
    inside = {listener: f"{_alias(number)}:{inner}" for listener, inner in _PORTS.items()}
    return Node(
        id=number,
        bound={listener: f"0.0.0.0:{inner}" for listener, inner in _PORTS.items()},
        advertised={**inside, CLIENT: f"{_LOOPBACK}:{port}"},
    )


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


def _java_of(client: Any, label: str) -> str | None:
    """Return the name and version of the brokers' Java; None if there is none, as in `apache/kafka-native`."""
    with contextlib.suppress(*FAILURES):
        for container in client.containers.list(filters={"label": f"{LABEL}={label}"}, limit=1):
            result = container.exec_run(["sh", "-c", _JAVA_VERSION_COMMAND])
            return java.described(result.output.decode("utf-8", errors="replace"))
    return None

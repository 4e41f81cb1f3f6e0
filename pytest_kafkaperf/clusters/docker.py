"""The provider `docker`: brokers in containers on a network of their own, by testcontainers.

Images are `apache/kafka` (KIP-975) and `confluentinc/cp-kafka`: both make a broker's properties of variables
`KAFKA_*`. Ports are published on loopback only, so a test broker is never open to the network.

What a killed session leaves is removed by testcontainers' own reaper where its image is there, and by the next session
that uses the same cache folder in any case: a label names the owner's run folder, and its lock tells who lives.
"""

from __future__ import annotations

import contextlib
import socket
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import javaproperties
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from pytest_kafkaperf import daemon
from pytest_kafkaperf.clusters import exporter, java
from pytest_kafkaperf.clusters.distribution import cache_folder
from pytest_kafkaperf.clusters.launch import Plan, launched
from pytest_kafkaperf.clusters.local import free_ports
from pytest_kafkaperf.clusters.probes import ContainerProbe, ExporterProbe, MachineProbe, Probe
from pytest_kafkaperf.clusters.properties import (
    CLIENT,
    CONTROLLER,
    INTERNAL,
    Node,
    broker_properties,
    new_uuid,
)
from pytest_kafkaperf.clusters.runs import is_alive, run_folder, without_interrupt
from pytest_kafkaperf.clusters.security import Security, protection
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec, facts_of
from pytest_kafkaperf.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.settings import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pytest_kafkaperf.load.readiness import Sight

_LABEL = "pytest-kafkaperf.run"
"""Whose a container or a network is: host and run folder of its session."""
_REPOSITORY = "apache/kafka"
_LOOPBACK = "127.0.0.1"
_PORTS = {CLIENT: 9092, CONTROLLER: 9093, INTERNAL: 9094}
"""Inside of a container."""
_LOG_FOLDER = "/var/lib/kafka/data"
_KEYSTORE = "/opt/kafkaperf/keystore.pem"
_AGENT_JAR = "/opt/kafkaperf/jmx-exporter.jar"
_AGENT_CONFIG = "/opt/kafkaperf/jmx-exporter.yml"
_AGENT_PORT = 9404
_ASK_JAVA = 'timeout 5 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version'
"""As `kafka-run-class.sh` chooses it, in at most 5 s."""
_CONFLUENT_LABEL = "io.confluent.docker"

_REQUEST_TIMEOUT_S = 60
"""Bound of one request to the daemon."""
_PULL_TIMEOUT_S = 900
_STOP_TIMEOUT_S = 30
"""For an orderly end, in which a broker hands its partitions over; then it is killed."""
_TAIL_LINES = 20
_FAILURES = (DockerException, requests.RequestException)


@contextmanager
def start(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start brokers that are ready, and leave neither a container nor a network of them.

    Raises:
        ClusterError: no daemon, no image, or a broker did not start; says what to do.

    """
    image = image_of(spec)
    runs = cache_folder() / "runs"
    security = None if spec.security is None else Security.make(spec.security, [_LOOPBACK, "localhost"])
    with _docker() as client, run_folder(runs) as folder, ExitStack() as stack:
        _sweep(client, runs)
        confluent = _is_confluent(_pulled(client, image))
        _choose_reaper(client)
        network = stack.enter_context(_network(client, _label_of(folder)))
        layout = _Layout(
            spec=spec,
            image=image,
            confluent=confluent,
            security=security,
            network=network,
            agent=exporter.jar(cache_folder()) if spec.jmx else None,
            label=_label_of(folder),
        )
        ready = stack.enter_context(launched(layout.plan, what=image, security=security))
        yield Cluster(
            bootstrap_servers=ready.bootstrap_servers,
            brokers=spec.brokers,
            provider="docker",
            version=_version_of(spec, ready.sight),
            access=ready.access,
            facts=MappingProxyType({**_facts(client, image, layout.label), **facts_of(spec), **_not_applied(spec)}),
            fleet=ready.fleet,
        )


def image_of(spec: ClusterSpec) -> str:
    """The image of a spec: as it is named where it has a tag or digest, else with the version as its tag."""
    image = spec.image or _REPOSITORY
    named = "@" in image or ":" in image.rpartition("/")[2]
    return image if named else f"{image}:{spec.version or DEFAULT_VERSION}"


def is_pulled(image: str) -> bool:
    """Whether the daemon has the image; also where there is no daemon, which is told later."""
    try:
        with _docker() as client:
            client.images.get(image)
    except ImageNotFound:
        return False
    except (ClusterError, *_FAILURES):
        return True
    return True


@contextmanager
def _docker() -> Iterator[Any]:
    """A connection to the daemon.

    Raises:
        ClusterError: there is none, or it is not on this machine.

    """
    found = daemon.look()
    if found.reason is not None:
        raise ClusterError(
            f"no Docker daemon can be used at {found.address}: {found.reason}. Start it, name another one by "
            "DOCKER_HOST, or use --kafka-cluster=local, which needs no Docker"
        )
    try:
        client = DockerClient(timeout=_REQUEST_TIMEOUT_S).client
    except _FAILURES as error:
        raise ClusterError(f"the Docker daemon at {found.address} cannot be used: {_told(error)}") from None
    try:
        yield client
    except _FAILURES as error:
        raise ClusterError(f"the Docker daemon at {found.address} failed: {_told(error)}") from None
    finally:
        client.close()


def _pulled(client: Any, image: str) -> Any:
    """The image, which is pulled where it is not there."""
    try:
        return client.images.get(image)
    except ImageNotFound:
        pass
    deadline = time.monotonic() + _PULL_TIMEOUT_S
    repository, _, tag = image.partition("@") if "@" in image else image.rpartition(":")
    try:
        for line in client.api.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in line:
                raise ClusterError(_cannot_pull(image, line["error"]))
            if time.monotonic() > deadline:
                raise ClusterError(_cannot_pull(image, f"not done within {_PULL_TIMEOUT_S} s"))
        return client.images.get(image)
    except _FAILURES as error:
        raise ClusterError(_cannot_pull(image, _told(error))) from None


def _cannot_pull(image: str, reason: str) -> str:
    return (
        f"the image {image} is not there and cannot be pulled: {reason}. Check its name (--kafka-image, "
        f"--kafka-version; the default is {_REPOSITORY}:{DEFAULT_VERSION}), log in to its registry with docker login, "
        "load it with docker load, or use --kafka-cluster=local"
    )


def _choose_reaper(client: Any) -> None:
    """Ryuk removes what a killed session leaves within seconds; without its image testcontainers would fail."""
    if testcontainers_config.ryuk_disabled:
        return
    try:
        client.images.get(testcontainers_config.ryuk_image)
    except ImageNotFound:
        testcontainers_config.ryuk_disabled = True


@contextmanager
def _network(client: Any, label: str) -> Iterator[Network]:
    """A network that goes with all that has its label: a container that Ctrl-C came between, too."""
    network = Network(docker_network_kw={"labels": {_LABEL: label}})
    try:
        with without_interrupt():
            network.create()
        yield network
    finally:
        with without_interrupt():
            for left in _labelled(client, f"{_LABEL}={label}"):
                _discard(left)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What containers are made of."""

    spec: ClusterSpec
    image: str
    confluent: bool
    security: Security | None
    network: Network
    agent: Path | None
    """The JMX exporter's jar."""
    label: str

    def plan(self) -> Plan:
        """Lay the brokers out, on ports that are free now."""
        nodes = [_node(number, port) for number, port in enumerate(free_ports(self.spec.brokers), 1)]
        cluster_id = new_uuid()
        return Plan(
            servers={node.id: self._server(node, nodes, cluster_id) for node in nodes},
            bootstrap_servers=",".join(node.advertised[CLIENT] for node in nodes),
            cluster_id=cluster_id,
            shared_probes={"machine": [MachineProbe()]},
        )

    def _server(self, node: Node, nodes: Sequence[Node], cluster_id: str) -> Container:
        properties = broker_properties(
            node,
            nodes,
            log_folder=_LOG_FOLDER,
            protection=protection(self.security, keystore=_KEYSTORE),
            config=self.spec.config,
        )
        variables = {
            _variable(name, confluent=self.confluent): javaproperties.escape(value)  # images write it as it is
            for name, value in properties.items()
        }
        variables |= {"CLUSTER_ID": cluster_id, "KAFKA_HEAP_OPTS": f"-Xms{self.spec.heap} -Xmx{self.spec.heap}"}
        container = DockerContainer(self.image, docker_client_kw={"timeout": _REQUEST_TIMEOUT_S})
        url = None if self.agent is None else _add_agent(container, self.agent)
        container.with_network(self.network).with_network_aliases(_alias(node.id))
        container.with_envs(**variables).with_kwargs(labels={_LABEL: self.label}, hostname=_alias(node.id))
        container.ports[f"{_PORTS[CLIENT]}/tcp"] = (  # type: ignore[assignment] # what docker-py takes
            _LOOPBACK,
            int(node.advertised[CLIENT].rpartition(":")[2]),
        )
        if self.security is not None and self.security.keystore is not None:
            container.with_copy_into_container(self.security.keystore.encode("ascii"), _KEYSTORE)
        redact = str if self.security is None else self.security.redact
        return Container(node.id, container, exporter_url=url, redact=redact)


class Container:
    """A broker in a container, which can be stopped and started again on the same data."""

    def __init__(
        self,
        broker: int,
        container: DockerContainer,
        *,
        exporter_url: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._broker = broker
        self._made = container
        self._exporter = None if exporter_url is None else ExporterProbe(exporter_url)
        self._redact = redact
        self._started = False

    @property
    def pid(self) -> None:
        """A container's processes are its own."""
        return

    def start(self) -> None:
        """Start it, by its own ports on loopback."""
        with self._telling("started"):
            if self._started:
                self._container.start()
            else:
                self._started = True
                with without_interrupt():  # the daemon would go on, and make a container that nobody knows
                    self._made.start()

    def stop(self, *, kill: bool) -> None:
        """End it, in order or at once."""
        with self._telling("stopped"):
            if self._status() == "paused":
                self._container.unpause()
            if kill:
                self._container.kill()
            else:
                self._container.stop(timeout=_STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze its processes."""
        with self._telling("paused"):
            self._container.pause()

    def resume(self) -> None:
        """Let them go on."""
        with self._telling("resumed"):
            self._container.unpause()

    def remove(self) -> None:
        """End it at once and remove it with its data."""
        if self._started:
            with without_interrupt(), contextlib.suppress(NotFound):
                self._made.stop()

    def check(self) -> None:
        """One request to the daemon.

        Raises:
            ClusterLostError: the container has ended or is gone; names how, and the last lines of its log.

        """
        try:
            self._container.reload()
        except NotFound:
            raise ClusterLostError(f"broker {self._broker}: its container is gone: somebody removed it") from None
        except _FAILURES as error:
            raise ClusterLostError(f"broker {self._broker}: the Docker daemon failed: {_told(error)}") from None
        if self._container.status not in ("exited", "dead"):
            return
        state = self._container.attrs["State"]
        how = "was ended for want of memory" if state["OOMKilled"] else f"exited with status {state['ExitCode']}"
        tail = self.log_tail()
        words = f"the end of its log:\n{tail}" if tail else "its log is empty"
        raise ClusterLostError(f"broker {self._broker} (container {self._container.short_id}) {how}; {words}")

    def probes(self) -> Sequence[Probe]:
        """Its container, and its exporter where it has one."""
        own = ContainerProbe(self._container)
        return [own] if self._exporter is None else [own, self._exporter]

    def log_tail(self) -> str:
        """The last lines of its log; empty where there are none."""
        try:
            log = self._container.logs(tail=_TAIL_LINES)
        except (ClusterError, *_FAILURES):
            return ""
        return self._redact(log.decode("utf-8", errors="replace").strip())

    @property
    def _container(self) -> Any:
        if not self._started:
            raise ClusterError(f"broker {self._broker} was never started")
        return self._made.get_wrapped_container()

    def _status(self) -> str:
        self._container.reload()
        return str(self._container.status)

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise ClusterError(f"broker {self._broker} could not be {what}: {_told(error)}") from None


def _add_agent(container: DockerContainer, jar: Path) -> str:
    """Put the JMX exporter into a broker; gives where it can be read."""
    (port,) = free_ports(1)
    container.with_copy_into_container(jar, _AGENT_JAR)
    container.with_copy_into_container(exporter.configuration().encode("ascii"), _AGENT_CONFIG)
    container.with_env("KAFKA_OPTS", exporter.option(_AGENT_JAR, _AGENT_CONFIG, _AGENT_PORT, host="0.0.0.0"))  # noqa: S104 - of the container; the host publishes it on loopback
    container.ports[f"{_AGENT_PORT}/tcp"] = (_LOOPBACK, port)  # type: ignore[assignment] # as above
    return exporter.url(port)


def _node(number: int, port: int) -> Node:
    inside = {listener: f"{_alias(number)}:{inner}" for listener, inner in _PORTS.items()}
    return Node(
        id=number,
        bound={listener: f"0.0.0.0:{inner}" for listener, inner in _PORTS.items()},
        advertised={**inside, CLIENT: f"{_LOOPBACK}:{port}"},
    )


def _alias(number: int) -> str:
    return f"broker-{number}"


def _variable(name: str, *, confluent: bool) -> str:
    """How an image's variables spell a property (KIP-975; Confluent's images have the last two the other way)."""
    underscore, dash = ("___", "__") if confluent else ("__", "___")
    spelt = name.replace("_", "\0").replace("-", "\1").replace(".", "_")
    return f"KAFKA_{spelt.replace(chr(0), underscore).replace(chr(1), dash).upper()}"


def _is_confluent(image: Any) -> bool:
    return _CONFLUENT_LABEL in (image.labels or {})


def _version_of(spec: ClusterSpec, sight: Sight) -> str:
    """Kafka's version: what was asked for where it decides on the image, else as the broker's features tell."""
    if spec.image is None:
        return spec.version or DEFAULT_VERSION
    from pytest_kafkaperf.load.features import version_of  # noqa: PLC0415 - brings in aiokafka

    return version_of(sight.features)


def _not_applied(spec: ClusterSpec) -> dict[str, str]:
    """The same test file runs with every provider; what has no meaning here is told."""
    return {} if spec.log_dirs is None else {"not applied": "log_dirs"}


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
    """The Java that runs the brokers, as it says itself; None where there is none, as in `apache/kafka-native`."""
    with contextlib.suppress(*_FAILURES):
        for container in client.containers.list(filters={"label": f"{_LABEL}={label}"}, limit=1):
            done = container.exec_run(["sh", "-c", _ASK_JAVA])
            return java.described(done.output.decode("utf-8", errors="replace"))
    return None


def _label_of(folder: Path) -> str:
    return f"{socket.gethostname()}:{folder}"


def _sweep(client: Any, runs: Path) -> None:
    """Remove the containers and networks of sessions that are gone; those of other hosts and caches are left alone."""
    for left in _labelled(client, _LABEL):
        label = (left.labels if hasattr(left, "labels") else left.attrs.get("Labels") or {}).get(_LABEL, "")
        name = label.rpartition("/")[2]
        if label != _label_of(runs / name) or is_alive(runs / name):
            continue
        with contextlib.suppress(APIError):  # another session sweeps, too
            _discard(left)


def _labelled(client: Any, label: str) -> list[Any]:
    """Containers first: a network that is in use stays."""
    filters = {"label": label}
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [*containers, *client.networks.list(filters=filters)]


def _discard(left: Any) -> None:
    with contextlib.suppress(NotFound):
        left.remove(force=True, v=True) if hasattr(left, "kill") else left.remove()


def _told(error: BaseException) -> str:
    return str(getattr(error, "explanation", None) or error) or type(error).__name__

"""What cluster a test asks for, and what it gets."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_access
from pytest_kafkaperf.clusters.target import IMAGE, VERSION, parse_target
from pytest_kafkaperf.core.environment import fingerprint
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import may_be_secret
from pytest_kafkaperf.scenario.fields import Config, MarkerFields

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.brokers.fleet import Fleet
    from pytest_kafkaperf.clusters.monitoring.probes import Probe


_T = TypeVar("_T")

OWN_PROPERTIES = (
    "advertised.listeners",
    "broker.id",
    "controller.*",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "listener.*",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "process.roles",
    "sasl.*",
    "security.*",
    "ssl.*",
    "zookeeper.*",
)
"""Broker properties that a provider sets itself: another value would keep the cluster from coming up."""

CONFIG = "config."
"""What the names of those facts begin with that are broker properties."""

MAX_BROKERS = 100
"""Far more than a machine can run; a misplaced port is not a number of brokers."""

_HEAP = re.compile(r"[1-9]\d*[kmgKMG]")

_PROPERTY = re.compile(r"[\w.-]+")


class ClusterSpec(MarkerFields):
    """The fields of the `kafka_cluster` marker; equal specs share one cluster in a session.

    Hashable, so that it can be the key of that sharing.
    """

    brokers: int = Field(default=1, ge=1, le=MAX_BROKERS)
    """Number of brokers."""
    version: str | None = None
    """Kafka's version, such as `4.1.0`; None: the plugin's default."""
    image: str | None = None
    """Docker image, such as `confluentinc/cp-kafka:8.0.0`; None: `apache/kafka` of the version."""
    config: Config = Field(default_factory=dict)
    """Broker properties, on top of the provider's own, in Kafka's words."""
    security: Literal["sasl_scram", "sasl_plain", "tls", "sasl_scram+tls"] | None = None
    """How clients get in; None: plaintext."""
    jmx: bool = False
    """Whether brokers tell of their work, through the JMX exporter."""
    heap: str = "512m"
    """The broker's Java heap, as in `-Xmx`."""
    log_dirs: str | None = None
    """Folders on the disks where brokers keep their logs, separated by commas as in Kafka's `log.dirs`; `local` only.
    None: the user's cache folder."""

    @field_validator("version")
    @classmethod
    def _version_in_full(cls, version: str | None) -> str | None:
        if version is not None and not VERSION.fullmatch(version):
            raise ValueError("a Kafka version has three numbers, such as '4.1.0'")
        return version

    @field_validator("image")
    @classmethod
    def _image_as_docker_takes_it(cls, image: str | None) -> str | None:
        if image is not None and not IMAGE.fullmatch(image):
            raise ValueError("an image is named as docker does, such as 'apache/kafka:4.1.0'")
        return image

    @field_validator("heap")
    @classmethod
    def _heap_as_java_takes_it(cls, heap: str) -> str:
        if not _HEAP.fullmatch(heap):
            raise ValueError("a heap is a whole number with k, m or g, such as '512m' or '1g'")
        return heap

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _log_dirs_as_kafka_takes_them(cls, log_dirs: Any) -> Any:
        if isinstance(log_dirs, Path):
            log_dirs = str(log_dirs)
        if isinstance(log_dirs, str) and not all(part.strip() for part in log_dirs.split(",")):
            raise ValueError("a folder has no name; give paths, separated by commas")
        return log_dirs

    @field_validator("config")
    @classmethod
    def _config_leaves_ours(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        misspelt = sorted(name for name in config if not _PROPERTY.fullmatch(name))
        if misspelt:
            raise ValueError(f"{_listed(misspelt)}: not the name of a broker property")
        ours = sorted(filter(_is_own, config))
        if ours:
            raise ValueError(
                f"{_listed(ours)} cannot be set, the cluster would not come up; "
                f"the plugin sets {', '.join(OWN_PROPERTIES)}"
            )
        return config

    def __hash__(self) -> int:
        return hash(
            (
                *(self.brokers, self.version, self.image, frozenset(self.config.items())),
                *(self.security, self.jmx, self.heap, self.log_dirs),
            )
        )


def _discreet(cls: type[_T]) -> type[_T]:
    """Let a class refuse its fields without a traceback that shows them: there may be a password among them."""
    initialise: Callable[..., None] = cls.__init__

    @functools.wraps(initialise)
    def initialised(self: _T, **fields: Any) -> None:
        problem = None
        try:
            initialise(self, **fields)
        except UsageError as error:
            problem = str(error)
        if problem is not None:
            fields.clear()
            object.__setattr__(self, "client_config", {})
            raise UsageError(problem)

    cls.__init__ = initialised  # type: ignore[assignment, method-assign]
    return cls


@_discreet
@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster, as the `kafka_cluster` fixture gives it."""

    bootstrap_servers: str
    """`HOST:PORT[,HOST:PORT...]`, as clients take it."""
    brokers: int = 1
    """How many brokers the cluster has."""
    provider: str = "external"
    """`local`, `docker` or `external`."""
    version: str = "unknown"
    """Kafka's version; `unknown` for a cluster that the session did not start."""
    client_config: Mapping[str, Any] = field(default_factory=dict)
    """What an aiokafka client needs besides the servers: keyword arguments. To make a cluster of your own, Java's names
    (`security.protocol`, ...) do, too."""
    access: Access = field(default_factory=Access, repr=False, compare=False)
    """The same as a value that crosses into other processes; read from `client_config` where it is not given."""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """More for the fingerprint: `java`, `heap`, `image`, and `config.NAME` for each broker property that differs from
    Kafka's default; `not applied` for fields of the spec that a foreign cluster is not given."""
    metrics_urls: tuple[str, ...] = field(default=(), repr=False)
    """Where the JMX exporters of brokers that somebody else runs can be read; there may be a password in them."""
    fleet: Fleet | None = field(default=None, repr=False, compare=False)
    """The brokers, where the session owns them."""

    def __post_init__(self) -> None:
        """Let `access` and `client_config` say the same."""
        if self.client_config and self.access == Access():
            access = read_access(self.client_config, origin="client_config", folder=Path.cwd())
            object.__setattr__(self, "access", access)
        object.__setattr__(self, "client_config", self.access.arguments())

    @property
    def pids(self) -> tuple[int, ...]:
        """The brokers' processes on this machine, where the session owns them."""
        servers = () if self.fleet is None else self.fleet.servers.values()
        return tuple(server.pid for server in servers if server.pid is not None)

    @property
    def fingerprint(self) -> dict[str, str]:
        """What figures measured on it from here may depend on, as text by name."""
        known = {"provider": self.provider, "kafka": self.version, "brokers": str(self.brokers), **self.facts}
        return fingerprint(known)

    @property
    def actions(self) -> Sequence[tuple[int, str]]:
        """What was done to brokers, each with its instant on the monotonic clock, in ns."""
        return () if self.fleet is None else tuple(self.fleet.events)

    def probes(self) -> Mapping[str | int, Sequence[Probe]]:
        """What can be read of the brokers now, by broker."""
        if self.fleet is not None:
            return self.fleet.probes()
        from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe  # noqa: PLC0415 - psutil: not on import

        return {urlsplit(url).netloc.rpartition("@")[2]: [ExporterProbe(url)] for url in self.metrics_urls}

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason when a broker that the session owns is gone; cheap."""
        if self.fleet is not None:
            self.fleet.check()

    def renew(self) -> None:
        """End all brokers and start them anew, where the session owns them: what they were told to keep, they keep.

        New processes meet the noise that lies between sessions; quotas, users and topics that a test has set up are
        still there, and so is the address.

        Raises:
            ClusterError: one did not end, or they were not ready in time.

        """
        if self.fleet is not None:
            self.fleet.renew()

    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """End a broker in order, or at once; returns when it is gone. Brokers are numbered from 1.

        Raises:
            UsageError: there is no such broker, it is stopped already, or the session does not own it.
            ClusterError: it did not end.

        """
        self._owned().stop(broker, kill=kill)

    def start_broker(self, broker: int) -> None:
        """Start a broker that was stopped, and wait until it is ready; raises as `stop_broker` does."""
        self._owned().start(broker)

    def pause_broker(self, broker: int) -> None:
        """Let a broker stand still, its connections open; raises as `stop_broker` does."""
        self._owned().pause(broker)

    def resume_broker(self, broker: int) -> None:
        """Let a broker go on that was paused; raises as `stop_broker` does."""
        self._owned().resume(broker)

    def _owned(self) -> Fleet:
        if self.fleet is None:
            raise UsageError(
                f"the brokers at {self.bootstrap_servers} are not this session's to stop or to start; "
                "use --kafka-cluster=local or docker"
            )
        return self.fleet


def facts_of(spec: ClusterSpec) -> dict[str, str]:
    """What a spec says of brokers that the session starts, for the fingerprint; what may be a secret is left out."""
    facts = {"heap": spec.heap}
    if spec.security is not None:
        facts["security"] = spec.security
    if spec.jmx:
        facts["jmx"] = "on"
    return {
        **facts,
        **{f"{CONFIG}{name}": value for name, value in sorted(spec.config.items()) if not may_be_secret(name)},
    }


def _is_own(name: str) -> bool:
    return any(name.startswith(own[:-1]) if own.endswith("*") else name == own for own in OWN_PROPERTIES)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))


_TAKEN = ("client_config", "brokers", "version")


def as_cluster(given: object) -> Cluster:
    """The cluster that it names.

    It may give a `Cluster`, the text `HOST:PORT`, or any object with `bootstrap_servers` and perhaps
    `client_config`, `brokers` and `version`.

    Raises:
        UsageError: none of these.

    """
    if isinstance(given, Cluster):
        return given
    servers = given if isinstance(given, str) else getattr(given, "bootstrap_servers", None)
    if isinstance(servers, list | tuple):
        servers = ",".join(map(str, servers))
    if not isinstance(servers, str):
        raise UsageError(
            f"the kafka_cluster fixture gave {type(given).__name__}; give a pytest_kafkaperf.Cluster, the text "
            "'HOST:PORT', or an object with 'bootstrap_servers'"
        )
    parse_target(servers)
    extra = {name: getattr(given, name) for name in _TAKEN if hasattr(given, name)}
    return Cluster(bootstrap_servers=servers, **extra)

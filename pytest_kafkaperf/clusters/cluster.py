"""A running Kafka cluster, and the values that a `kafka_cluster` fixture may return."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.client_properties import read_access
from pytest_kafkaperf.clusters.target import parse_servers
from pytest_kafkaperf.core.environment import fingerprint
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import repr_of

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.brokers.fleet import Fleet
    from pytest_kafkaperf.clusters.monitoring.probes import Probe
    from pytest_kafkaperf.clusters.monitoring.readings import Key

_T = TypeVar("_T")

_AROUND_ADDRESS = re.compile(r"^\w+://(?:[^/]*@)?|(?:/metrics)?(?:[?#].*)?$")
"""Parts of an exporter's URL to hide, such as the login; several exporters can be behind one gateway."""


def _hide_fields_in_tracebacks(cls: type[_T]) -> type[_T]:
    """Make `__init__` raise a `UsageError` whose traceback does not show the fields, which may contain a password."""
    initialise: Callable[..., None] = cls.__init__

    @functools.wraps(initialise)
    def initialised(self: _T, **fields: Any) -> None:
        problem = None
        try:
            initialise(self, **fields)
        except UsageError as error:
            problem = str(error)
        except TypeError as error:  # an unknown argument, or no argument for the servers
            problem = f"{error}; valid arguments are {', '.join(cls.__annotations__)}"
        if problem is not None:
            fields.clear()
            object.__setattr__(self, "client_config", {})
            object.__setattr__(self, "token", None)
            raise UsageError(problem)

    cls.__init__ = initialised  # type: ignore[assignment, method-assign]
    return cls


@_hide_fields_in_tracebacks
@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster, as returned by the `kafka_cluster` fixture."""

    bootstrap_servers: str
    """`HOST:PORT[,HOST:PORT...]`, for clients."""
    brokers: int = 1
    """Number of brokers."""
    provider: str = "external"
    """`local`, `docker` or `external`."""
    version: str = "unknown"
    """Kafka version; `unknown` for an external cluster."""
    client_config: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments for aiokafka clients, without the servers. A fixture that creates a `Cluster` can also use the
    Java client's names (`security.protocol`, ...)."""
    token: Callable[[], object] | None = field(default=None, repr=False, compare=False)
    """Function that returns an access token for OAUTHBEARER, as text or as a pair of the text and its expiry in
    milliseconds since 1970. It runs only in pytest's own process, and again before a token expires."""
    access: Access = field(default_factory=Access, repr=False, compare=False)
    """The same settings as a value that can be sent to other processes; read from `client_config` by default."""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Further fingerprint entries: `java`, `heap`, `image`; `config.NAME` for broker properties that differ from
    Kafka's defaults; `not applied` for fields of the spec that the provider ignores."""
    metrics_urls: tuple[str, ...] = field(default=(), repr=False)
    """URLs of an external cluster's JMX exporters; they may contain a password."""
    containers: tuple[Any, ...] = field(default=(), repr=False)
    """The brokers' containers, as docker-py objects, if a fixture started them. They provide CPU, memory and network
    measurements."""
    fleet: Fleet | None = field(default=None, repr=False, compare=False)
    """The brokers; None if the plugin did not start them."""

    def __post_init__(self) -> None:
        """Make `access` and `client_config` consistent."""
        if not isinstance(self.bootstrap_servers, str):
            given = f"Cluster(bootstrap_servers={repr_of(self.bootstrap_servers)})"
            raise UsageError(f"{given}: must be a single string, such as 'host1:9092,host2:9092'")
        if not isinstance(self.client_config, Mapping):
            given = f"Cluster(client_config=...) is a {type(self.client_config).__name__}"
            raise UsageError(f"{given}; must be a dict, such as {{'security.protocol': 'SSL'}}")
        if self.token is not None and not callable(self.token):
            given = f"Cluster(token=...) is a {type(self.token).__name__}"
            raise UsageError(f"{given}; must be a function that returns an access token")
        if (self.client_config or self.token) and self.access == Access():
            access = read_access(
                self.client_config,
                origin="client_config",
                folder=Path.cwd(),
                token=self.token,
                servers=self.bootstrap_servers,
            )
            object.__setattr__(self, "access", access)
        object.__setattr__(self, "client_config", self.access.arguments())

    @classmethod
    def of_fleet(cls, fleet: Fleet, *, provider: str, version: str, facts: Mapping[str, str]) -> Cluster:
        """Return the cluster that consists of brokers started by the plugin."""
        return cls(
            bootstrap_servers=fleet.bootstrap_servers,
            brokers=len(fleet.servers),
            access=fleet.security.access,
            fleet=fleet,
            provider=provider,
            version=version,
            facts=MappingProxyType(facts),
        )

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the brokers that the plugin started on this machine."""
        servers = () if self.fleet is None else self.fleet.servers.values()
        return tuple(server.pid for server in servers if server.pid is not None)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Properties that can affect results, as text by name."""
        known = {"provider": self.provider, "kafka": self.version, "brokers": str(self.brokers), **self.facts}
        return fingerprint(known)

    def probes(self) -> Mapping[Key, Sequence[Probe]]:
        """Return probes for the brokers that are currently running, by broker."""
        if self.fleet is not None:
            return self.fleet.probes()
        from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ExporterProbe  # noqa: PLC0415 - psutil

        probes: dict[Key, Sequence[Probe]] = {}
        addresses = Counter[str]()
        for url in dict.fromkeys(self.metrics_urls):
            address = _AROUND_ADDRESS.sub("", url)
            addresses[address] += 1
            # URLs can differ only in their scheme or query, which may contain a password.
            number = f" ({addresses[address]})" if addresses[address] > 1 else ""
            probes[f"{address}{number}"] = [ExporterProbe(url)]
        return probes | {number: [ContainerProbe(each)] for number, each in enumerate(self.containers, 1)}

    def check(self) -> None:
        """Raise `ClusterLostError` with the reason if a broker started by the plugin has exited. The check is cheap."""
        if self.fleet is not None:
            self.fleet.check()

    def stop_broker(self, broker: int, *, kill: bool = False) -> None:
        """Stop or kill a broker, and return when it has exited. Brokers are numbered from 1.

        Raises:
            UsageError: there is no such broker, it is already stopped, or the plugin did not start it.
            ClusterError: the broker did not exit.

        """
        self._owned().stop(broker, kill=kill)

    def start_broker(self, broker: int) -> None:
        """Start a stopped broker and wait until it is ready; raises the same errors as `stop_broker`."""
        self._owned().start(broker)

    def pause_broker(self, broker: int) -> None:
        """Suspend a broker and keep its connections open; raises the same errors as `stop_broker`."""
        self._owned().pause(broker)

    def resume_broker(self, broker: int) -> None:
        """Resume a paused broker; raises the same errors as `stop_broker`."""
        self._owned().resume(broker)

    def _owned(self) -> Fleet:
        if self.fleet is None:
            raise UsageError(
                f"the plugin did not start the brokers at {self.bootstrap_servers} and cannot stop or start them; "
                "use --kafka-cluster=local or --kafka-cluster=docker"
            )
        return self.fleet


_OPTIONAL_ATTRIBUTES = ("client_config", "brokers", "version", "token")


def as_cluster(given: object) -> Cluster:
    """Convert the value returned by the user's `kafka_cluster` fixture.

    Args:
        given: a `Cluster`, the text `HOST:PORT`, a started testcontainers `KafkaContainer` or another object with
            `get_bootstrap_server()`, or an object with `bootstrap_servers`. Objects may have `client_config`,
            `brokers`, `version` and `token`.

    Raises:
        UsageError: `given` is none of these.

    """
    if isinstance(given, Cluster):
        if given.fleet is None:
            shown = f"Cluster(bootstrap_servers={given.bootstrap_servers!r})"
            parse_servers(given.bootstrap_servers, where=f"the kafka_cluster fixture returned {shown}")
        return given
    extra = {name: getattr(given, name) for name in _OPTIONAL_ATTRIBUTES if hasattr(given, name)}
    servers = given if isinstance(given, str) else getattr(given, "bootstrap_servers", None)
    if servers is None and not isinstance(given, type) and hasattr(given, "get_bootstrap_server"):
        servers, found = _of_container(given)
        extra |= found
    if isinstance(servers, list | tuple):
        servers = ",".join(map(str, servers))
    if not isinstance(servers, str):
        raise UsageError(
            f"the kafka_cluster fixture returned {type(given).__name__}; return a pytest_kafkaperf.Cluster, the text "
            "'HOST:PORT', a started KafkaContainer of testcontainers or another object with 'get_bootstrap_server()', "
            "or an object with 'bootstrap_servers'"
        )
    parse_servers(servers, where=f"the kafka_cluster fixture returned {servers!r}")
    return Cluster(bootstrap_servers=servers, **extra)


def _of_container(given: Any) -> tuple[object, dict[str, Any]]:
    """Return the servers from an object such as testcontainers' `KafkaContainer`, and fields for a `Cluster`."""
    try:
        # Call this first, because it fails immediately if the container was not started; the other waits two minutes.
        containers = (given.get_wrapped_container(),) if hasattr(given, "get_wrapped_container") else ()
        servers = given.get_bootstrap_server()
    except Exception as error:  # noqa: BLE001 - Docker's, testcontainers' or the user's own
        raise UsageError(
            f"the kafka_cluster fixture returned a {type(given).__name__} that has no bootstrap server: {error}; "
            "return a started one: 'with KafkaContainer() as container: yield container'"
        ) from None
    image = getattr(given, "image", None)
    return servers, {"containers": containers, "facts": {} if image is None else {"image": str(image)}}

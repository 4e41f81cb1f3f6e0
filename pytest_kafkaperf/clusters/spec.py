"""What cluster a test asks for, and what it gets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from pytest_kafkaperf.fields import MarkerFields
from pytest_kafkaperf.scenario import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

_VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")
_HEAP = re.compile(r"[1-9]\d*[kmgKMG]")
_PROPERTY = re.compile(r"[\w.-]+")


class ClusterSpec(MarkerFields):
    """The fields of the `kafka_cluster` marker; equal specs share one cluster in a session.

    Hashable, so that it can be the key of that sharing.
    """

    brokers: int = Field(default=1, ge=1)
    """Number of brokers."""
    version: str | None = None
    """Kafka's version, such as `4.1.0`; None: the plugin's default."""
    config: Config = Field(default_factory=dict)
    """Broker properties, on top of the provider's own, in Kafka's words."""
    heap: str = "512m"
    """The broker's Java heap, as in `-Xmx`."""

    @field_validator("version")
    @classmethod
    def _version_in_full(cls, version: str | None) -> str | None:
        if version is not None and not _VERSION.fullmatch(version):
            raise ValueError("a Kafka version has three numbers, such as '4.1.0'")
        return version

    @field_validator("heap")
    @classmethod
    def _heap_as_java_takes_it(cls, heap: str) -> str:
        if not _HEAP.fullmatch(heap):
            raise ValueError("a heap is a whole number with k, m or g, such as '512m' or '1g'")
        return heap

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
        return hash((self.brokers, self.version, frozenset(self.config.items()), self.heap))


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
    """Kafka's version (of a foreign cluster the first two numbers), or `unknown` where it does not tell."""
    client_config: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What an aiokafka client needs besides the servers: keyword arguments."""
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """More for the fingerprint: `java`, `heap`, and `config.NAME` for each property of the spec; of a foreign
    cluster `metadata.version`, and `not applied` for the fields of the spec that it is not given."""
    pids: tuple[int, ...] = ()
    """The brokers' processes on this machine, where the session owns them."""
    check: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Raises `ClusterLostError` with the reason when a broker that the session owns is gone; cheap."""


def _is_own(name: str) -> bool:
    return any(name.startswith(own[:-1]) if own.endswith("*") else name == own for own in OWN_PROPERTIES)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))

"""Messages between the two pytest processes that compare revisions, as JSON lines over a socket pair."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import SecretStr, TypeAdapter

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import FixedToken
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring import probes
from pytest_kafkaperf.core.notices import Event, EventKind

PROTOCOL = 7
SOCKET = "KAFKAPERF_PEER_SOCKET"
"""Environment variable that contains the file descriptor of the peer's socket."""
ORIGIN = "KAFKAPERF_PEER_ORIGIN"
"""Environment variable that lists the measuring side's code folders, from which the peer must not import."""
INTERPRETER = "KAFKAPERF_PEER_INTERPRETER"
"""Environment variable that contains the path to the measuring side's Python interpreter."""


_MOST_CHARACTERS = 64 << 20
"""Maximum length of a message; longer lines are split, and their parts are not valid messages."""


class Channel:
    """One end of the connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lines = end.makefile("r", encoding="utf-8", errors="replace")
        self.skipped = 0
        """Number of lines received that were not messages."""
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send a message; raises OSError if the other end is closed."""
        with self._sending:
            self._socket.sendall(f"{json.dumps(message)}\n".encode())

    def receive(self) -> dict[str, Any] | None:
        """Wait for the next message; None if the connection is closed.

        Lines that are not messages are skipped, because the other side's tests may write to any open file.
        """
        with contextlib.suppress(OSError, ValueError):  # ValueError: the file is closed
            while line := self._lines.readline(_MOST_CHARACTERS):
                message = _parsed(line)
                if message is not None:
                    return message
                self.skipped += 1
        return None

    def close(self) -> None:
        """Close the connection, which makes a waiting `receive` return."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _parsed(line: str) -> dict[str, Any] | None:
    """Return the message in a line; None if it is not a message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def probes_to_json(found: Sequence[probes.Probe]) -> list[dict[str, Any]]:
    """Convert a broker's or an application's probes to JSON."""
    return [
        {"kind": "ContainerProbe", "container": one.container.id}
        if isinstance(one, probes.ContainerProbe)
        else {"kind": type(one).__name__, **{name: getattr(one, name) for name in type(one).__dataclass_fields__}}  # type: ignore[attr-defined]
        for one in found
    ]


def probes_from_json(described: Sequence[Mapping[str, Any]]) -> list[probes.Probe]:
    """Return probes that read the same processes on this side."""
    found = []
    for one in described:
        fields = {name: _container(value) if name == "container" else value for name, value in one.items()}
        found.append(getattr(probes, fields.pop("kind"))(**fields))
    return found


@functools.cache
def _container(name: str) -> Any:
    from pytest_kafkaperf.clusters.docker.daemon import container_of  # noqa: PLC0415 - only for containers

    return container_of(name)


def events_from_json(rows: Sequence[Sequence[Any]]) -> list[Event]:
    """Return the events; each one was sent as a list of fields."""
    return [Event(at_ns, EventKind(kind), *others) for at_ns, kind, *others in rows]


_FIELDS = ("bootstrap_servers", "brokers", "provider", "version", "facts", "metrics_urls")


def cluster_to_json(cluster: Cluster) -> dict[str, Any]:
    """Convert a cluster to JSON, including its secrets, but only the current token of an OAUTHBEARER login."""
    given = cluster.access
    if isinstance(given.login, OAuth):
        source = FixedToken(value=given.login.token().value)
        given = dataclasses.replace(given, login=dataclasses.replace(given.login, source=source))
    access = _revealed(dataclasses.asdict(given))
    fields = {name: getattr(cluster, name) for name in _FIELDS}
    containers = [each.id for each in cluster.containers]
    return {**fields, "facts": dict(cluster.facts), "containers": containers, "access": access}


def _revealed(value: Any) -> Any:
    """Return the value with the text of the secrets in it."""
    if isinstance(value, dict):
        return {name: _revealed(each) for name, each in value.items()}
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def cluster_from_json(described: Mapping[str, Any]) -> Cluster:
    """Return the cluster, without control over its brokers."""
    return Cluster(
        **{name: described[name] for name in _FIELDS},
        access=TypeAdapter(Access).validate_python(described["access"]),
        containers=tuple(map(_container, described["containers"])),
    )


@functools.cache
def packages() -> dict[str, str]:
    """Return the versions of all installed packages, by name."""
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions():
        if each.name:  # a partly removed package does not have a name
            found.setdefault(each.name, each.version)  # the first one is imported
    return found

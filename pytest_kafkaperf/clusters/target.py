"""The values of `--kafka-cluster` and `--kafka-reference`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cache

from pytest_kafkaperf.core.errors import UsageError, suggestion

CONNECT_TIMEOUT_S = 15
"""Default of the maximum wait until an external cluster is ready."""

DEFAULT_VERSION = "4.3.1"
"""Default Kafka version: the newest that Maven Central resolves."""

WORDS = ("auto", "local", "docker")

_EXAMPLE = "broker1:9092,broker2:9092 or [::1]:9092"

MAX_PORT = 65_535

HOST = r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+)"
"""A host name, an IPv4 address, or an IPv6 address in brackets."""

_SERVER = re.compile(rf"{HOST}:(?P<port>[0-9]{{1,9}})")

VERSION = re.compile(r"\d+\.\d+\.\d+(-\w+)?")

IMAGE = re.compile(r"[\w.:@/-]+")

_REFERENCES = (
    "local[:VERSION], docker[:IMAGE] and HOST:PORT[,HOST:PORT...], such as local:4.0.0, "
    "docker:apache/kafka:4.0.0 or broker1:9092"
)

_BARE_IPV6 = re.compile(r"[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")


@dataclass(frozen=True, slots=True)
class Auto:
    """Docker if a daemon answers, otherwise local brokers. `resolve` decides when a test needs a cluster."""

    name = "auto"


@dataclass(frozen=True, slots=True)
class Local:
    """Brokers that the session starts as processes."""

    name = "local"


@dataclass(frozen=True, slots=True)
class Docker:
    """Brokers that the session starts as containers."""

    name = "docker"


@dataclass(frozen=True, slots=True)
class External:
    """Servers of a cluster that others run."""

    name = "external"
    servers: tuple[str, ...]
    """Each is `HOST:PORT`."""


Provider = Local | Docker | External
Target = Auto | Provider


def parse_target(text: str, *, option: str = "--kafka-cluster") -> Target:
    """Parse the value of `--kafka-cluster`, or of another option with the same values.

    Raises:
        UsageError: the value is invalid; names valid values and an example.

    """
    match text.strip():
        case "auto":
            return Auto()
        case "local":
            return Local()
        case "docker":
            return Docker()
        case word:
            return _servers(word, text, option=option)


def resolve(target: Target | str) -> Provider:
    """Return the provider of a target or of its text; `auto` looks for a Docker daemon, once per process.

    Raises:
        UsageError: the text is not a target.

    """
    target = parse_target(target) if isinstance(target, str) else target
    return choose()[0] if isinstance(target, Auto) else target


@cache
def choose() -> tuple[Local | Docker, str]:
    """Resolve `auto` and return the target and the reason for the choice, as text for the user."""
    from pytest_kafkaperf.clusters.docker.daemon import look  # noqa: PLC0415 - only where nothing is named

    address, reason = look()
    if reason is None:
        return Docker(), f"a Docker daemon answers at {address}"
    return Local(), f"no Docker daemon at {address}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The value of `--kafka-reference`: the cluster that the test's own cluster is compared with."""

    target: Provider
    version: str | None = None
    """Kafka version; None: the version of the test's own cluster."""
    image: str | None = None
    """Docker image; None: the image of the test's own cluster."""

    @property
    def is_started(self) -> bool:
        """True if the session starts its brokers."""
        return not isinstance(self.target, External)

    def __str__(self) -> str:
        """Return the value for `--kafka-reference`."""
        if isinstance(self.target, External):
            return ",".join(self.target.servers)
        return ":".join(part for part in (self.target.name, self.version, self.image) if part)


def is_loopback(server: str) -> bool:
    """Return True if `HOST:PORT` is on this machine by its address or the name `localhost`; no name is looked up."""
    host = server.strip().rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_reference(text: str) -> Reference:
    """Parse the value of `--kafka-reference`: `local[:VERSION]`, `docker[:IMAGE]` or servers.

    Raises:
        UsageError: the value is invalid; names valid values and an example.

    """
    word = text.strip()
    kind, _, rest = word.partition(":")
    match kind:
        case "local" if not rest or VERSION.fullmatch(rest):
            return Reference(target=Local(), version=rest or None)
        case "local":
            raise UsageError(f"--kafka-reference={text}: a Kafka version has three numbers, such as local:4.0.0")
        case "docker" if not rest or (IMAGE.fullmatch(rest) and not rest.isdigit()):
            return Reference(target=Docker(), image=rest or None)
        case "docker":
            raise UsageError(
                f"--kafka-reference={text}: {rest!r} is not an image, such as docker:apache/kafka:4.0.0; "
                "for a server called docker, give its IP address"
            )
        case "auto":
            raise UsageError(f"--kafka-reference={text}: valid are {_REFERENCES}")
    if not _SERVER.fullmatch(word.split(",")[0].strip()):
        raise UsageError(f"--kafka-reference={text}: valid are {_REFERENCES}")
    return Reference(target=_servers(word, text, option="--kafka-reference"))


def _servers(word: str, text: str, *, option: str = "--kafka-cluster") -> External:
    return External(tuple(_server(part.strip(), f"{option}={text}") for part in word.split(",")))


def _server(server: str, given: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None:
        raise UsageError(f"{given}: {_server_problem(server)}")
    if not 1 <= int(found["port"]) <= MAX_PORT:
        raise UsageError(f"{given}: port {found['port']} of {server!r} is not from 1 to {MAX_PORT}")
    return server


def _server_problem(server: str) -> str:
    valid = f"valid are {', '.join(map(repr, WORDS))} and HOST:PORT[,HOST:PORT...], such as {_EXAMPLE}"
    if not server:
        return f"a server is missing; {valid}"
    # There is no hint for host names such as `broker1`, which is similar to `docker`.
    hint = suggestion(server, [word for word in WORDS if word[0] == server[0]])
    if hint is not None:
        return f"{hint} {valid}"
    if _BARE_IPV6.fullmatch(server):
        return f"{server!r}: an IPv6 address needs brackets; {valid}"
    if ":" not in server:
        return f"{server!r} has no port; {valid}"
    return f"{server!r} is not HOST:PORT; {valid}"

"""Where clusters come from: the texts of `--kafka-cluster` and `--kafka-reference`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pytest_kafkaperf.core.errors import UsageError, nearest

DEFAULT_VERSION = "4.3.1"
"""The Kafka that is started where none is named: the newest that resolves."""

_WORDS = ("auto", "local", "docker")

_EXAMPLE = "broker1:9092,broker2:9092 or [::1]:9092"

MAX_PORT = 65_535

HOST = r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+)"
"""A name, an IPv4 address, or an IPv6 address in brackets."""

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
    """Named servers, which the session only uses."""

    name = "external"
    servers: tuple[str, ...]
    """`HOST:PORT` each."""


Provider = Local | Docker | External
Target = Auto | Provider


def parse_target(text: str) -> Target:
    """Parse the value of `--kafka-cluster`.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    match text.strip():
        case "auto":
            return Auto()
        case "local":
            return Local()
        case "docker":
            return Docker()
        case word:
            return _servers(word, text)


def resolve(target: Target | str) -> Provider:
    """Return the provider of a target or of its text; `auto` looks for a Docker daemon, once per process.

    Raises:
        UsageError: the text is not a target.

    """
    target = parse_target(target) if isinstance(target, str) else target
    return choose()[0] if isinstance(target, Auto) else target


@cache
def choose() -> tuple[Local | Docker, str]:
    """What `auto` is here, and why, for people."""
    from pytest_kafkaperf.clusters.docker.daemon import look  # noqa: PLC0415 - only where nothing is named

    address, reason = look()
    if reason is None:
        return Docker(), f"a Docker daemon answers at {address}"
    return Local(), f"no Docker daemon at {address}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What `--kafka-reference` names: the cluster that the tests' own is compared with."""

    target: Provider
    version: str | None = None
    """Of Kafka; None: that of the test's own cluster."""
    image: str | None = None
    """None: that of the test's own cluster."""

    @property
    def is_started(self) -> bool:
        """Whether the session starts its brokers."""
        return not isinstance(self.target, External)

    def __str__(self) -> str:
        """As the option takes it."""
        if isinstance(self.target, External):
            return ",".join(self.target.servers)
        return ":".join(part for part in (self.target.name, self.version, self.image) if part)


def parse_reference(text: str) -> Reference:
    """Read the text of `--kafka-reference`: `local[:VERSION]`, `docker[:IMAGE]` or servers.

    Raises:
        UsageError: names what was given, what is valid, and an example.

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
                "a server that is called docker is named by its address"
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
        raise UsageError(f"{given}: {_what_is_wrong(server)}")
    if not 1 <= int(found["port"]) <= MAX_PORT:
        raise UsageError(f"{given}: port {found['port']} of {server!r} is not one of 1 to {MAX_PORT}")
    return server


def _what_is_wrong(server: str) -> str:
    valid = f"valid are 'auto', 'local', 'docker' and HOST:PORT[,HOST:PORT...], such as {_EXAMPLE}"
    if not server:
        return f"a server is missing; {valid}"
    alike = [word for word in _WORDS if word[0] == server[0]]  # `broker1` is a host, and not far from `docker`
    near = nearest(server, alike)
    if near.startswith("did you mean"):
        return f"{near} {valid}"
    if _BARE_IPV6.fullmatch(server):
        return f"{server!r}: an IPv6 address stands in brackets; {valid}"
    if ":" not in server:
        return f"{server!r} has no port; {valid}"
    return f"{server!r} is not HOST:PORT; {valid}"

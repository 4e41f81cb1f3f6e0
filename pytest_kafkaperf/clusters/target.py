"""Where clusters come from: the texts of `--kafka-cluster` and `--kafka-reference`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pytest_kafkaperf.core.errors import UsageError, suggestion

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


def parse_target(text: str) -> str:
    """Validate the text of `--kafka-cluster` and give it without stray spaces.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    word = text.strip()
    return word if word in _WORDS else ",".join(_servers(word, text).servers)


Target = Local | Docker | External


def read_target(text: str, *, option: str = "--kafka-cluster") -> Target:
    """Read the text of `--kafka-cluster`, or of another option; `auto` looks for a Docker daemon, once a process.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    match text.strip():
        case "auto":
            return choose()[0]
        case "local":
            return Local()
        case "docker":
            return Docker()
        case word:
            return _servers(word, text, option=option)


@cache
def choose() -> tuple[Target, str]:
    """What `auto` is here, and why, for people."""
    from pytest_kafkaperf.clusters.docker.daemon import look  # noqa: PLC0415 - only where nothing is named

    address, reason = look()
    if reason is None:
        return Docker(), f"a Docker daemon answers at {address}"
    return Local(), f"no Docker daemon at {address}: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What `--kafka-reference` names: the cluster that the tests' own is compared with."""

    target: str
    """`local`, `docker` or servers, as `--kafka-cluster` takes it."""
    version: str | None = None
    """Of Kafka; None: that of the test's own cluster."""
    image: str | None = None
    """None: that of the test's own cluster."""

    @property
    def is_started(self) -> bool:
        """Whether the session starts its brokers."""
        return self.target in ("local", "docker")

    def __str__(self) -> str:
        """As the option takes it."""
        return ":".join(part for part in (self.target, self.version, self.image) if part)


def parse_reference(text: str) -> Reference:
    """Read the text of `--kafka-reference`: `local[:VERSION]`, `docker[:IMAGE]` or servers.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    word = text.strip()
    kind, _, rest = word.partition(":")
    match kind:
        case "local" if not rest or VERSION.fullmatch(rest):
            return Reference(target=kind, version=rest or None)
        case "local":
            raise UsageError(f"--kafka-reference={text}: a Kafka version has three numbers, such as local:4.0.0")
        case "docker" if not rest or (IMAGE.fullmatch(rest) and not rest.isdigit()):
            return Reference(target=kind, image=rest or None)
        case "docker":
            raise UsageError(
                f"--kafka-reference={text}: {rest!r} is not an image, such as docker:apache/kafka:4.0.0; "
                "a server that is called docker is named by its address"
            )
        case "auto":
            raise UsageError(f"--kafka-reference={text}: valid are {_REFERENCES}")
    if not _SERVER.fullmatch(word.split(",")[0].strip()):
        raise UsageError(f"--kafka-reference={text}: valid are {_REFERENCES}")
    return Reference(target=",".join(_servers(word, text, option="--kafka-reference").servers))


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
    hint = suggestion(server, alike)
    if hint is not None:
        return f"{hint} {valid}"
    if _BARE_IPV6.fullmatch(server):
        return f"{server!r}: an IPv6 address stands in brackets; {valid}"
    if ":" not in server:
        return f"{server!r} has no port; {valid}"
    return f"{server!r} is not HOST:PORT; {valid}"

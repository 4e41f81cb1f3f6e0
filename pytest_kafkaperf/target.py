"""Where the cluster comes from: the text of `--kafka-cluster`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from pytest_kafkaperf.errors import UsageError, nearest

_WORDS = ("auto", "local", "docker")
_EXAMPLE = "broker1:9092,broker2:9092 or [::1]:9092"
_MAX_PORT = 65_535
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+):(?P<port>\d+)")
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


def read_target(text: str) -> Target:
    """Read the text of `--kafka-cluster`; `auto` looks for a Docker daemon, once a process.

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
            return _servers(word, text)


@cache
def choose() -> tuple[Target, str]:
    """What `auto` is here, and why, for people."""
    from pytest_kafkaperf import daemon  # noqa: PLC0415 - only where nothing is named

    found = daemon.look()
    if found.reason is None:
        return Docker(), f"a Docker daemon answers at {found.address}"
    return Local(), f"no Docker daemon at {found.address}: {found.reason}"


def _servers(word: str, text: str) -> External:
    return External(tuple(_server(part.strip(), text) for part in word.split(",")))


def _server(server: str, text: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None:
        raise UsageError(f"--kafka-cluster={text}: {_what_is_wrong(server)}")
    if not 1 <= int(found["port"]) <= _MAX_PORT:
        raise UsageError(f"--kafka-cluster={text}: port {found['port']} of {server!r} is not one of 1 to {_MAX_PORT}")
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

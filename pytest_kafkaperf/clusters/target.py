"""Where the cluster comes from: the text of `--kafka-cluster`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_kafkaperf.errors import UsageError, nearest

_WORDS = ("auto", "local")
_EXAMPLE = "broker1:9092,broker2:9092 or [::1]:9092"
_MAX_PORT = 65_535
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+(%\w+)?\]|[\w.-]+):(?P<port>\d+)")
_BARE_IPV6 = re.compile(r"[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")


@dataclass(frozen=True, slots=True)
class Local:
    """A broker that the session starts and stops."""


@dataclass(frozen=True, slots=True)
class External:
    """Named servers, which the session only uses."""

    servers: tuple[str, ...]
    """`HOST:PORT` each."""


def parse_target(text: str) -> str:
    """Validate the text of `--kafka-cluster` and give it without stray spaces.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    match read_target(text):
        case External(servers):
            return ",".join(servers)
        case Local():
            return text.strip()


def read_target(text: str) -> Local | External:
    """Read the text of `--kafka-cluster`; `auto` is `local` in this version.

    Raises:
        UsageError: names what was given, what is valid, and an example.

    """
    word = text.strip()
    if word in _WORDS:
        return Local()
    if word == "docker":
        raise UsageError(
            "--kafka-cluster=docker comes in a later version; use --kafka-cluster=local, "
            "which needs no Docker, or name a running cluster by --kafka-cluster=HOST:PORT"
        )
    return External(tuple(_server(part.strip(), text) for part in word.split(",")))


def _server(server: str, text: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None:
        raise UsageError(f"--kafka-cluster={text}: {_what_is_wrong(server)}")
    if not 1 <= int(found["port"]) <= _MAX_PORT:
        raise UsageError(f"--kafka-cluster={text}: port {found['port']} of {server!r} is not one of 1 to {_MAX_PORT}")
    return server


def _what_is_wrong(server: str) -> str:
    valid = f"valid are 'auto', 'local' and HOST:PORT[,HOST:PORT...], such as {_EXAMPLE}"
    if not server:
        return f"a server is missing; {valid}"
    near = nearest(server, _WORDS)
    if near.startswith("did you mean"):
        return f"{near} {valid}"
    if _BARE_IPV6.fullmatch(server):
        return f"{server!r}: an IPv6 address stands in brackets; {valid}"
    if ":" not in server:
        return f"{server!r} has no port; {valid}"
    return f"{server!r} is not HOST:PORT; {valid}"

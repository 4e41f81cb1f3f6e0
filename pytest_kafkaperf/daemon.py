"""Whether a Docker daemon is there: a look that costs a millisecond, for the header of every pytest run."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
TIMEOUT_S = 1.0
"""Bound of the look."""
_STATUS_LINE_BYTES = 64
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """What was seen of the daemon that docker's own tools would use."""

    address: str
    reason: str | None
    """Why it cannot be used; None where it can."""


def look() -> Daemon:
    """Ask the daemon whether it is there."""
    address = _address()
    parts = urlsplit(address)
    match parts.scheme:
        case "unix":
            reason = _ping_socket(parts.path)
        case "npipe":
            reason = _ping(address)
        case "tcp" | "http" | "https" if parts.hostname in _LOOPBACK:
            reason = _ping(address)
        case _:
            reason = "it is on another machine, and a test broker listens on loopback only"
    return Daemon(address=address, reason=reason)


def _address() -> str:
    """The daemon that docker's own tools, and testcontainers, would talk to."""
    home = Path.home()
    if (named := os.environ.get("DOCKER_HOST")) is not None:
        return named
    if not (home / ".testcontainers.properties").exists() and not _has_context(home / ".docker" / "config.json"):
        return "npipe:////./pipe/docker_engine" if os.name == "nt" else DEFAULT_ADDRESS
    from testcontainers.core.docker_client import get_docker_host  # noqa: PLC0415 - slow, and rarely needed

    return get_docker_host() or DEFAULT_ADDRESS


def _has_context(config: Path) -> bool:
    if "DOCKER_CONTEXT" in os.environ:
        return True
    try:
        return '"currentContext"' in config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _ping_socket(path: str) -> str | None:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(path)
            # By hand: http.client brings ssl, a third of what the plugin adds to the start of every pytest run.
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = connection.recv(_STATUS_LINE_BYTES)  # a daemon writes its head in one piece
    except FileNotFoundError:
        return "there is no such socket"
    except PermissionError:
        return "no permission to use it; is the user in the group docker?"
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:g} s"
    except OSError as error:
        return str(error) or type(error).__name__
    match answer.split(maxsplit=2):
        case [protocol, status, *_] if protocol.startswith(b"HTTP/"):
            return None if status == b"200" else f"it answers with status {status.decode(errors='replace')}"
        case _:
            return "what listens there is no Docker daemon"


def _ping(address: str) -> str | None:
    import docker  # noqa: PLC0415 - slow, and rarely needed: TLS and pipes are its business

    try:
        client = docker.from_env(timeout=TIMEOUT_S, environment={**os.environ, "DOCKER_HOST": address})
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # noqa: BLE001 - whatever it raises means that there is none
        return str(error) or type(error).__name__
    return None

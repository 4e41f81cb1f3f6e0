"""Detection of a Docker daemon."""

from __future__ import annotations

import os
from contextlib import closing
from urllib.parse import urlsplit

import docker
import requests
from docker.errors import DockerException
from testcontainers.core.docker_client import get_docker_host

from pytest_kafkaperf.core.errors import innermost

FAILURES = (DockerException, requests.RequestException)

_LOOK_TIMEOUT_S = 1

_DEFAULT_ADDRESS = "npipe:////./pipe/docker_engine" if os.name == "nt" else "unix:///var/run/docker.sock"


def look() -> tuple[str, str | None]:
    """Return the address of the Docker daemon, and the reason why it cannot run brokers; None if it can."""
    address = get_docker_host() or _DEFAULT_ADDRESS
    parts = urlsplit(address)
    on_loopback = parts.scheme != "ssh" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme not in ("unix", "npipe") and not on_loopback:
        return address, "it is on another machine, but test brokers listen on loopback only"
    try:
        environment = {**os.environ, "DOCKER_HOST": address}
        with closing(docker.from_env(timeout=_LOOK_TIMEOUT_S, environment=environment)) as client:
            client.ping()
    except FAILURES as error:
        return address, innermost(error)
    return address, None

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
_REMOTE_LOOK_TIMEOUT_S = 5

_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


def look() -> tuple[str, str | None]:
    """Return the address of the Docker daemon, and the reason why it cannot run brokers; None if it can."""
    address = get_docker_host() or _DEFAULT_ADDRESS
    timeout_s = _LOOK_TIMEOUT_S if urlsplit(address).scheme == "unix" else _REMOTE_LOOK_TIMEOUT_S
    try:
        environment = {**os.environ, "DOCKER_HOST": address}
        with closing(docker.from_env(timeout=timeout_s, environment=environment, use_ssh_client=True)) as client:
            client.ping()
    except FAILURES as error:
        return address, innermost(error)
    return address, None

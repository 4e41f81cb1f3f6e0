"""A connection to the Docker daemon, and how it fails."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import requests
from docker.errors import DockerException
from testcontainers.core.docker_client import DockerClient

from pytest_kafkaperf import daemon
from pytest_kafkaperf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST_TIMEOUT_S = 60
"""Bound of one request to the daemon."""
FAILURES = (DockerException, requests.RequestException)


@contextmanager
def connection() -> Iterator[Any]:
    """A connection to the daemon.

    Raises:
        ClusterError: there is none, or it is not on this machine.

    """
    found = daemon.look()
    if found.reason is not None:
        raise ClusterError(
            f"no Docker daemon can be used at {found.address}: {found.reason}. Start it, name another one by "
            "DOCKER_HOST, or use --kafka-cluster=local, which needs no Docker"
        )
    try:
        client = DockerClient(timeout=REQUEST_TIMEOUT_S).client
    except FAILURES as error:
        raise ClusterError(f"the Docker daemon at {found.address} cannot be used: {told(error)}") from None
    try:
        yield client
    except FAILURES as error:
        raise ClusterError(f"the Docker daemon at {found.address} failed: {told(error)}") from None
    finally:
        client.close()


def told(error: BaseException) -> str:
    """What an error says, in the daemon's own words where it has some."""
    return str(getattr(error, "explanation", None) or error) or type(error).__name__

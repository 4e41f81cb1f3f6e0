"""The Docker daemon: detection, connections and broker images."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests
from docker import from_env
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient, get_docker_host

from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, decides_version
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, innermost

FAILURES = (DockerException, requests.RequestException)

_LOOK_TIMEOUT_S = 1
_REMOTE_LOOK_TIMEOUT_S = 5

_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


def look() -> tuple[str, str | None]:
    """Return the Docker daemon's address, and the reason why the daemon cannot run brokers (None if it can)."""
    address = get_docker_host() or _DEFAULT_ADDRESS
    timeout_s = _LOOK_TIMEOUT_S if urlsplit(address).scheme == "unix" else _REMOTE_LOOK_TIMEOUT_S
    try:
        environment = {**os.environ, "DOCKER_HOST": address}
        with closing(from_env(timeout=timeout_s, environment=environment, use_ssh_client=True)) as client:
            client.ping()
    except FAILURES as error:
        return address, innermost(error)
    return address, None


_REQUEST_TIMEOUT_S = 60
"""Timeout for one request to the daemon."""

LOOPBACK = "127.0.0.1"


@contextmanager
def connection() -> Iterator[DockerClient]:
    """Connect to the daemon; docker-py's client is the `client` attribute.

    Raises:
        ClusterError: there is no daemon, or a request failed.

    """
    address, reason = look()
    if reason is not None:
        raise ClusterError(
            f"cannot use the Docker daemon at {address}: {reason}. Start it, set DOCKER_HOST to another one, "
            "or use --kafka-cluster=local, which does not need Docker"
        )
    try:
        docker = DockerClient(timeout=_REQUEST_TIMEOUT_S)
        with closing(docker.client):
            yield docker
    except FAILURES as error:
        raise ClusterError(f"the Docker daemon at {address} failed: {reason_of(error)}") from None


def container_of(name: str) -> Any:
    """Return the container with this id as a docker-py object; its connection lasts as long as this process."""
    return DockerClient(timeout=_REQUEST_TIMEOUT_S).client.containers.get(name)


def host_of(docker: DockerClient) -> str:
    """Return the address at which the daemon's published ports can be reached; `LOOPBACK` on this machine."""
    host = docker.host()
    return LOOPBACK if host in ("localhost", LOOPBACK, "::1") else host


def reason_of(error: BaseException) -> str:
    """Return the daemon's own explanation of an error if there is one; otherwise, return the error's text."""
    return str(getattr(error, "explanation", None) or error) or type(error).__name__


_REPOSITORY = "apache/kafka"

_REGISTRY = re.compile(r"([^/]*[.:][^/]*|localhost)/")
"""The first part of the name of an image that is not on Docker Hub."""

_CONFLUENT_LABEL = "io.confluent.docker"

_PULL_TIMEOUT_S = 900


def image_of(spec: ClusterSpec) -> str:
    """Return the name of the spec's image; an image without tag or digest gets the Kafka version as its tag.

    Testcontainers' prefix, `TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX`, applies to images from Docker Hub.
    """
    image = spec.image or _REPOSITORY
    if not _REGISTRY.match(image):
        image = testcontainers_config.hub_image_name_prefix + image
    return image if decides_version(image) else f"{image}:{spec.version or DEFAULT_VERSION}"


def version_of(image: str) -> str:
    """Return the Kafka version in the image's tag, or `unknown`."""
    tagged = re.search(r":(\d+\.\d+[^/:@]*)(?:@|$)", image)
    return tagged[1] if tagged else "unknown"


def is_pulled(image: str) -> bool:
    """Return True if the daemon has the image, or if there is no daemon, which is reported later."""
    with contextlib.suppress(ClusterError), connection() as docker:
        try:
            docker.client.images.get(image)
        except ImageNotFound:
            return False
    return True


def get_image(client: Any, image: str) -> Any:
    """Return the image, after pulling it if it is missing."""
    try:
        return client.images.get(image)
    except ImageNotFound:
        pass

    def pull() -> Any:
        lines = client.api.pull(image, stream=True, decode=True)  # without a timeout between lines
        errors = [line["error"] for line in lines if "error" in line]
        if errors:
            raise ClusterError(errors[0])
        return client.images.get(image)

    found = detached(pull)
    if not wait([found], _PULL_TIMEOUT_S).done:
        raise ClusterError(_cannot_pull(image, f"not complete after {_PULL_TIMEOUT_S} s"))
    error = found.exception()
    if error is not None:
        raise ClusterError(_cannot_pull(image, reason_of(error)))
    return found.result()


def _cannot_pull(image: str, reason: str) -> str:
    return (
        f"the image {image} is missing and cannot be pulled: {reason}. Check its name (for brokers, "
        f"--kafka-cluster=docker:IMAGE; the default is {_REPOSITORY}:{DEFAULT_VERSION}), log in to its registry "
        "with docker login, load it with docker load, or use --kafka-cluster=local"
    )


def is_confluent(image: Any) -> bool:
    """Return True if the image is from Confluent or based on one of Confluent's images."""
    return _CONFLUENT_LABEL in (image.labels or {})


def variable(name: str, *, confluent: bool) -> str:
    """Return a property's environment variable (KIP-975; Confluent's images encode `_` and `-` the other way round)."""
    underscore, dash = ("___", "__") if confluent else ("__", "___")
    spelling = {ord("_"): underscore, ord("-"): dash, ord("."): "_"}
    return f"KAFKA_{name.upper().translate(spelling)}"

"""A connection to the Docker daemon, and how it fails."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from docker.errors import ImageNotFound
from testcontainers.core.docker_client import DockerClient

from pytest_kafkaperf.clusters.docker.daemon import FAILURES, look
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError

REQUEST_TIMEOUT_S = 60
"""Bound of one request to the daemon."""


@contextmanager
def connection() -> Iterator[Any]:
    """A connection to the daemon.

    Raises:
        ClusterError: there is none, or it is not on this machine.

    """
    address, reason = look()
    if reason is not None:
        raise ClusterError(
            f"no Docker daemon can be used at {address}: {reason}. Start it, name another one by "
            "DOCKER_HOST, or use --kafka-cluster=local, which needs no Docker"
        )
    try:
        with closing(DockerClient(timeout=REQUEST_TIMEOUT_S).client) as client:
            yield client
    except FAILURES as error:
        raise ClusterError(f"the Docker daemon at {address} failed: {told(error)}") from None


def told(error: BaseException) -> str:
    """What an error says, in the daemon's own words where it has some."""
    return str(getattr(error, "explanation", None) or error) or type(error).__name__


_REPOSITORY = "apache/kafka"

_CONFLUENT_LABEL = "io.confluent.docker"

_PULL_TIMEOUT_S = 900


def image_of(spec: ClusterSpec) -> str:
    """The image of a spec: as it is named where it has a tag or digest, else with the version as its tag."""
    image = spec.image or _REPOSITORY
    named = "@" in image or ":" in image.rpartition("/")[2]
    return image if named else f"{image}:{spec.version or DEFAULT_VERSION}"


def version_of(image: str) -> str:
    """Return Kafka's version by the image's tag, or `unknown`."""
    tagged = re.search(r":(\d+\.\d+[^/:@]*)(?:@|$)", image)
    return tagged[1] if tagged else "unknown"


def is_pulled(image: str) -> bool:
    """Whether the daemon has the image; also where there is no daemon, which is told later."""
    try:
        with connection() as client:
            client.images.get(image)
    except ImageNotFound:
        return False
    except (ClusterError, *FAILURES):
        return True
    return True


def pulled(client: Any, image: str) -> Any:
    """The image, which is pulled where it is not there."""
    try:
        return client.images.get(image)
    except ImageNotFound:
        pass
    deadline = time.monotonic() + _PULL_TIMEOUT_S
    repository, _, tag = image.partition("@") if "@" in image else image.rpartition(":")
    try:
        for line in client.api.pull(repository, tag=tag, stream=True, decode=True):
            if "error" in line:
                raise ClusterError(_cannot_pull(image, line["error"]))
            if time.monotonic() > deadline:
                raise ClusterError(_cannot_pull(image, f"not done within {_PULL_TIMEOUT_S} s"))
        return client.images.get(image)
    except FAILURES as error:
        raise ClusterError(_cannot_pull(image, told(error))) from None


def _cannot_pull(image: str, reason: str) -> str:
    return (
        f"the image {image} is not there and cannot be pulled: {reason}. Check its name (--kafka-image, "
        f"--kafka-version; the default is {_REPOSITORY}:{DEFAULT_VERSION}), log in to its registry with docker login, "
        "load it with docker load, or use --kafka-cluster=local"
    )


def is_confluent(image: Any) -> bool:
    """Whether it is one of Confluent's, or made of one."""
    return _CONFLUENT_LABEL in (image.labels or {})


def variable(name: str, *, confluent: bool) -> str:
    """How an image's variables spell a property (KIP-975; Confluent's images have the last two the other way)."""
    underscore, dash = ("___", "__") if confluent else ("__", "___")
    spelt = name.replace("_", "\0").replace("-", "\1").replace(".", "_")
    return f"KAFKA_{spelt.replace(chr(0), underscore).replace(chr(1), dash).upper()}"

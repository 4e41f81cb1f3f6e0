"""An image of brokers: its name, how it comes here, and how its variables are spelt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound

from pytest_kafkaperf.clusters.docker.connection import FAILURES, connection, told
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.settings import DEFAULT_VERSION

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import ClusterSpec

_REPOSITORY = "apache/kafka"
_CONFLUENT_LABEL = "io.confluent.docker"
_PULL_TIMEOUT_S = 900


def image_of(spec: ClusterSpec) -> str:
    """The image of a spec: as it is named where it has a tag or digest, else with the version as its tag."""
    image = spec.image or _REPOSITORY
    named = "@" in image or ":" in image.rpartition("/")[2]
    return image if named else f"{image}:{spec.version or DEFAULT_VERSION}"


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

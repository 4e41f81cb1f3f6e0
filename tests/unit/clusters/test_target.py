"""What `--kafka-cluster` takes."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.provision import provider_of
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import Auto, Docker, External, Local, Target, parse_target
from pytest_kafkaperf.core.errors import UsageError

VALID = (
    "valid values: auto[:VERSION], local[:VERSION], docker[:VERSION or :IMAGE] and HOST:PORT[,HOST:PORT...], such as "
    "local:4.0.0, docker:apache/kafka:4.0.0, broker1:9092,broker2:9092 or [::1]:9092"
)

NO_SERVER = "is not HOST:PORT with a port from 1 to 65535;"
NO_VERSION, OR_IMAGE = "is not a Kafka version, such as 4.0.0", "or an image, such as apache/kafka:4.0.0"
TOO_OLD = (
    "the plugin starts Kafka 3.9 or newer; to test an older version, start the brokers yourself and use "
    "--kafka-cluster=HOST:PORT"
)
BY_ADDRESS = "give its IP address"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("auto", Auto()),
        (" local ", Local()),
        ("docker", Docker()),
        ("auto:4.1.0", Auto("4.1.0")),
        ("local:4.0.0", Local("4.0.0")),
        ("local:4.4.0-rc1", Local("4.4.0-rc1")),
        ("docker:4.0.0", Docker("4.0.0")),
        ("docker:apache/kafka:4.0.0", Docker(image="apache/kafka:4.0.0")),
        ("docker:reg.example:5000/kafka@sha256:0a", Docker(image="reg.example:5000/kafka@sha256:0a")),
        ("broker-1.example:9092", External(("broker-1.example:9092",))),
        ("a:9092, b:9093", External(("a:9092", "b:9093"))),
        ("[::1]:9092", External(("[::1]:9092",))),
    ],
)
def test_a_target_is_a_word_or_servers(text: str, target: Target) -> None:
    """The option and the ini key take the same text, spaces and all."""
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"'' {NO_SERVER} {VALID}"),
        ("a:9092,", f"'' {NO_SERVER} {VALID}"),
        ("localhost", f"'localhost' has no port; did you mean 'local' or 'localhost:9092'? {VALID}"),
        ("broker1", f"'broker1' has no port; did you mean 'broker1:9092'? {VALID}"),
        ("git:main", f"git is only for --kafka-compare; {VALID}"),
        ("path:../old", f"path is only for --kafka-compare; {VALID}"),
        ("broker1:kafka", f"'broker1:kafka' {NO_SERVER} {VALID}"),
        ("kafka://a:9092", f"'kafka://a:9092' {NO_SERVER} {VALID}"),
        ("::1:9092", f"'::1:9092' {NO_SERVER} {VALID}"),
        ("auto:newest", f"'newest' {NO_VERSION}; for a server called auto, {BY_ADDRESS}"),
        ("local:4", f"'4' {NO_VERSION}; for a server called local, {BY_ADDRESS}"),
        ("local:apache/kafka:4.0.0", f"'apache/kafka:4.0.0' {NO_VERSION}; for a server called local, {BY_ADDRESS}"),
        ("docker:9092", f"'9092' {NO_VERSION} {OR_IMAGE}; for a server called docker, {BY_ADDRESS}"),
        ("docker:4.0", f"'4.0' {NO_VERSION} {OR_IMAGE}; for a server called docker, {BY_ADDRESS}"),
        ("docker:", f"'' {NO_VERSION} {OR_IMAGE}; for a server called docker, {BY_ADDRESS}"),
        ("docker:latest", "'latest' is a tag without an image; write 'apache/kafka:latest'"),
        *((f"{word}:2.8.0", TOO_OLD) for word in ("auto", "local", "docker")),
        ("docker:a b", f"'a b' {NO_VERSION} {OR_IMAGE}; for a server called docker, {BY_ADDRESS}"),
        ("broker1:0", f"'broker1:0' {NO_SERVER} {VALID}"),
        ("a:9092,b:70000", f"'b:70000' {NO_SERVER} {VALID}"),
    ],
)
def test_a_target_that_cannot_be_is_refused_with_what_is_valid(text: str, problem: str) -> None:
    """The text reaches the user when pytest starts, before any load."""
    with pytest.raises(UsageError) as raised:
        parse_target(text)

    assert str(raised.value) == f"--kafka-cluster={text}: {problem}"
    with pytest.raises(UsageError) as raised:
        parse_target(text, option="--kafka-compare")
    assert str(raised.value) == f"--kafka-compare={text}: {problem}"


@pytest.mark.parametrize("image", ["confluentinc/cp-kafka", "confluentinc/cp-kafka:8.0.0"])
def test_a_declared_image_runs_in_docker_or_is_an_error(image: str) -> None:
    """Local brokers of the default version would be measured in its place, and the report would be green."""
    spec = ClusterSpec(image=image)
    assert provider_of(spec, "auto") == Docker()
    assert provider_of(spec, "docker") == Docker()
    assert provider_of(spec, "k1:9092") == External(("k1:9092",))
    with pytest.raises(UsageError, match=f"image={image!r}.*local brokers.*--kafka-cluster=docker"):
        provider_of(spec, "local")


@pytest.mark.parametrize(
    ("image", "version", "is_used"),
    [
        ("apache/kafka", "4.0.0", True),
        ("apache/kafka:4.0.0", "4.0.0", True),
        ("apache/kafka:4.1.0", "4.0.0", False),
        ("reg.example:5000/kafka", "4.0.0", True),
        ("reg.example:5000/kafka@sha256:0a", "4.0.0", False),
        ("confluentinc/cp-kafka:8.0.0", None, True),
    ],
)
def test_a_version_that_the_image_ignores_is_an_error(image: str, version: str | None, *, is_used: bool) -> None:
    """The tag decides; a test of the declared version would pass on another one."""
    spec = ClusterSpec(image=image, version=version)
    if is_used:
        assert provider_of(spec, "docker") == Docker()
    else:
        with pytest.raises(UsageError, match=f"version={version!r}.*{image!r}.*remove the version"):
            provider_of(spec, "docker")

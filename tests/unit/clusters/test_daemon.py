"""Images, properties and daemons: how a broker in a container is named and told what to be."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest
from testcontainers.core.config import testcontainers_config

from pytest_kafkaperf.clusters.docker import daemon
from pytest_kafkaperf.clusters.docker.daemon import image_of, look, variable, version_of
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.patience import ENDLESS_S, PATIENCE_S


@pytest.mark.parametrize(
    ("fields", "image"),
    [
        ({}, f"apache/kafka:{DEFAULT_VERSION}"),
        ({"version": "4.1.0"}, "apache/kafka:4.1.0"),
        ({"image": "mirror.example:5000/kafka", "version": "4.1.0"}, "mirror.example:5000/kafka:4.1.0"),
        ({"image": "confluentinc/cp-kafka:8.0.0", "version": "4.1.0"}, "confluentinc/cp-kafka:8.0.0"),
        ({"image": "apache/kafka@sha256:00ff"}, "apache/kafka@sha256:00ff"),
    ],
)
def test_the_version_is_the_tag_of_an_image_that_has_none(
    fields: dict[str, Any], image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag that somebody wrote is what they want."""
    monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "")
    assert image_of(ClusterSpec.of(fields)) == image


@pytest.mark.parametrize(
    ("given", "image"),
    [
        (None, f"mirror.example/hub/apache/kafka:{DEFAULT_VERSION}"),
        ("confluentinc/cp-kafka:8.0.0", "mirror.example/hub/confluentinc/cp-kafka:8.0.0"),
        ("other.example/kafka:4.1.0", "other.example/kafka:4.1.0"),
        ("localhost/kafka:4.1.0", "localhost/kafka:4.1.0"),
    ],
)
def test_testcontainers_prefix_applies_to_images_of_docker_hub(
    given: str | None, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Companies mirror Docker Hub, and the variable already names the mirror for other containers."""
    monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "mirror.example/hub/")
    assert image_of(ClusterSpec(image=given)) == image


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("apache/kafka:4.1.0", "4.1.0"),
        ("mirror.example:5000/kafka:4.2.0-rc1", "4.2.0-rc1"),
        ("apache/kafka:latest", "unknown"),
        ("apache/kafka@sha256:00ff", "unknown"),
        ("apache/kafka:4.1.0@sha256:00ff", "4.1.0"),
        ("127.0.0.1:5.0/kafka", "unknown"),
    ],
)
def test_the_tag_of_an_image_is_kafkas_version_where_it_is_one(image: str, version: str) -> None:
    """Nobody asks the brokers."""
    assert version_of(image) == version


@pytest.mark.parametrize(
    ("name", "apache", "confluent"),
    [
        ("log.dirs", "KAFKA_LOG_DIRS", "KAFKA_LOG_DIRS"),
        ("a_b.c", "KAFKA_A__B_C", "KAFKA_A___B_C"),
        ("x.scram-sha-512.y", "KAFKA_X_SCRAM___SHA___512_Y", "KAFKA_X_SCRAM__SHA__512_Y"),
    ],
)
def test_a_property_is_spelt_as_the_image_reads_it(name: str, apache: str, confluent: str) -> None:
    """The two families of images disagree about dashes and underscores."""
    assert variable(name, confluent=False) == apache
    assert variable(name, confluent=True) == confluent


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("unix:///nowhere/docker.sock", "FileNotFoundError: [Errno 2] No such file or directory"),
        ("tcp://127.0.0.2:1", "ConnectionRefusedError: [Errno 111] Connection refused"),
    ],
)
def test_a_daemon_that_cannot_be_used_is_told_with_the_reason_and_what_to_do(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started."""
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="docker"):
        pass
    assert str(raised.value) == (
        f"cannot use the Docker daemon at {address}: {reason}. Start it, set DOCKER_HOST to another one, or use "
        "--kafka-cluster=local, which does not need Docker"
    )


def test_a_daemon_that_does_not_answer_is_given_up_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run by `auto` waits for it."""
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        found = look()
    assert found == (f"unix://{path}", "TimeoutError: timed out")


def missing_image(name: str) -> None:
    raise docker.errors.ImageNotFound(name)


@pytest.mark.parametrize(
    ("sent", "timeout_s", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0.5, "not complete after 0.5 s"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{",
            PATIENCE_S,
            "InvalidChunkLength|Connection broken",
        ),
    ],
)
def test_a_pull_that_stands_still_or_breaks_off_is_an_error(
    sent: bytes, timeout_s: float, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its registry may not answer, which the daemon does not tell."""
    monkeypatch.setattr(daemon, "_PULL_TIMEOUT_S", timeout_s)
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener, docker.APIClient(f"unix://{path}", version="1.44") as api:
        listener.bind(str(path))
        listener.listen()
        done = threading.Event()

        def answer() -> None:
            with listener.accept()[0] as connected:
                connected.recv(4096)
                connected.send(sent)
                done.wait(0 if sent.endswith(b"{") else ENDLESS_S)

        thread = threading.Thread(target=answer)
        thread.start()
        missing = SimpleNamespace(get=missing_image)
        try:
            with pytest.raises(ClusterError, match=f"image kafka:1 is missing and cannot be pulled: .*({reason})"):
                daemon.get_image(SimpleNamespace(api=api, images=missing), "kafka:1")
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 500 Internal Server Error\r\n\r\n",
            "HTTPError: 500 Server Error: Internal Server Error for url: http+docker://localhost/version",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
        (b"", "RemoteDisconnected: Remote end closed connection without response"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "BadStatusLine: SSH-2.0-OpenSSH_9.2\r\n"),
    ],
)
def test_what_answers_and_is_no_daemon_is_not_used(
    answer: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else may listen there."""
    monkeypatch.setattr(daemon, "_LOOK_TIMEOUT_S", PATIENCE_S)
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        found = look()
        thread.join(PATIENCE_S)
    assert found == (f"unix://{path}", reason)

"""Brokers in containers: how an image is named, told what to be, and cleaned up after."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testcontainers.core.docker_client import DockerClient

from pytest_kafkaperf.clusters.docker.client import image_of, variable, version_of
from pytest_kafkaperf.clusters.docker.daemon import look
from pytest_kafkaperf.clusters.local import distribution
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from tests.support.ground import labelled

with_docker = [pytest.mark.docker, pytest.mark.broker]

_HOLD = """
import sys
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""
_TIMEOUT_S = 120


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, in force: its sweep leaves the containers of other tests alone."""
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "runs"


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
def test_the_version_is_the_tag_of_an_image_that_has_none(fields: dict[str, Any], image: str) -> None:
    """A tag that somebody wrote is what they want."""
    assert image_of(ClusterSpec.of(fields)) == image


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
        ("tcp://10.1.2.3:2375", "it is on another machine, but test brokers listen on loopback only"),
        ("ssh://host", "it is on another machine, but test brokers listen on loopback only"),
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
        "--kafka-cluster=local, which needs no Docker"
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


class TestWithDocker:
    pytestmark = with_docker

    def test_a_cluster_in_docker_is_told_apart_and_listens_on_loopback_only(self, runs: Path) -> None:
        """Its figures say nothing about those of a local one; and nobody on the network may reach it."""
        spec = ClusterSpec.of({"heap": "300m", "config": {"num.io.threads": 4}})
        with provision(spec, target="docker") as cluster:
            assert (cluster.provider, cluster.version) == ("docker", DEFAULT_VERSION)
            assert {
                "image": f"apache/kafka:{DEFAULT_VERSION}",
                "heap": "300m",
                "config.num.io.threads": "4",
            }.items() <= (dict(cluster.facts).items())
            assert set(cluster.facts) == {"image", "image.digest", "java", "docker", "heap", "config.num.io.threads"}
            assert cluster.facts["image.digest"].startswith("sha256:")
            assert cluster.facts["java"].startswith("openjdk ")
            with contextlib.closing(DockerClient().client) as client:
                (container,) = client.containers.list(filters={"label": "pytest-kafkaperf.run"})
                published = [each for each in container.ports.values() if each]
            assert [[binding["HostIp"] for binding in each] for each in published] == [["127.0.0.1"]]
            assert len(labelled(runs)) == 2  # it, and its network
        assert labelled(runs) == []

    def test_an_image_that_cannot_be_had_is_told_with_what_to_do(self, runs: Path) -> None:
        """A misspelt name, or a registry that cannot be reached."""
        spec = ClusterSpec(image="localhost:1/no-such-image:1")
        with pytest.raises(ClusterError) as raised, provision(spec, target="docker"):
            pass
        text = str(raised.value)
        assert text.startswith("the image localhost:1/no-such-image:1 is missing and cannot be pulled: ")
        assert "Check its name (--kafka-image, --kafka-version; the default is apache/kafka:" in text
        assert labelled(runs) == []

    def test_a_broker_that_cannot_start_is_told_with_the_end_of_its_log(self, runs: Path) -> None:
        """Its own words tell best."""
        spec = ClusterSpec.of({"config": {"num.io.threads": 0}})
        with pytest.raises(ClusterError) as raised, provision(spec, target="docker"):
            pass
        text = str(raised.value)
        assert text.startswith(f"apache/kafka:{DEFAULT_VERSION} did not start: broker 1 (container ")
        assert "exited with status 1; the end of its log:" in text
        assert "num.io.threads" in text
        assert labelled(runs) == []

    def test_a_container_that_dies_is_told(self, runs: Path) -> None:
        """Its round is INVALID, and the reason says why."""
        with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
            cluster.check()
            with contextlib.closing(DockerClient().client) as client:
                (container,) = client.containers.list(filters={"label": "pytest-kafkaperf.run"})
                container.kill()
                container.wait(timeout=30)
            with pytest.raises(ClusterLostError, match=r"^broker 1 \(container \w+\) exited with status 137; "):
                cluster.check()
        assert labelled(runs) == []

    @pytest.mark.slow
    def test_ctrl_c_leaves_nothing(self, runs: Path) -> None:
        """A user loses patience."""
        with _session() as process:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=_TIMEOUT_S)
        assert labelled(runs) == []

    @pytest.mark.slow
    def test_what_a_killed_session_left_is_swept_by_the_next_one_and_what_lives_is_not(self, runs: Path) -> None:
        """SIGKILL leaves no chance to clean up, and the reaper's image may not be there."""
        with _session(), _session() as killed:
            killed.kill()
            killed.wait(_TIMEOUT_S)
            assert len(labelled(runs)) == 4
            with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
                cluster.check()
                assert len(labelled(runs)) == 4  # the living session's, and our own
        assert labelled(runs) == []


@contextlib.contextmanager
def _session() -> Iterator[subprocess.Popen[str]]:
    """Another session that holds a cluster."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the session ended"
            yield process
            if process.poll() is None:
                process.communicate(timeout=_TIMEOUT_S)
        finally:
            process.kill()


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
        thread.join(10)
    assert found == (f"unix://{path}", reason)

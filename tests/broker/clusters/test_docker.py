"""Brokers in containers: how they start, fail and are cleaned up."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.docker import docker_brokers
from pytest_kafkaperf.clusters.docker.container import END_LABEL, remove, sweep
from pytest_kafkaperf.clusters.docker.daemon import image_of, is_pulled
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError
from pytest_kafkaperf.runner.rounds.side import Side
from tests.support.ground import LABEL, labelled
from tests.support.patience import PATIENCE_S

_HOLD = """
import sys
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
    print(cluster.bootstrap_servers, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, in force: its sweep leaves the containers of other tests alone."""
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "runs"


def containers_of(client: Any, runs: Path) -> list[Any]:
    """Containers of this test: others that run at the same time have the same label, with another value."""
    return [each for each in client.containers.list(filters={"label": LABEL}) if str(runs) in each.labels[LABEL]]


class TestWithDocker:
    pytestmark = pytest.mark.docker

    def test_an_image_that_must_be_pulled_is_known(self) -> None:
        """The terminal says so before the wait."""
        assert is_pulled(image_of(ClusterSpec()))
        assert not is_pulled("localhost/kafkaperf/no-such-image:1.0.0")

    def test_quiet_brokers_keep_their_logs_in_memory(self, runs: Path) -> None:
        """As with local brokers."""
        with provision(ClusterSpec(quick_compiler=True, logs_in_memory=True, heap="300m"), target="docker") as cluster:
            (container,) = containers_of(DockerClient().client, runs)
            options = "-XX:TieredStopAtLevel=1 -XX:+AlwaysPreTouch"
            assert _flag(container, "TieredStopAtLevel") == "1"
            status, listing = container.exec_run(["ls", "/dev/shm/kafkaperf"])  # noqa: S108 - in the container
            assert (status, b"meta.properties" in listing) == (0, True)
            assert (cluster.facts["compiler"], cluster.facts["logs"]) == (f"quick ({options})", "in memory")
            Side.of(cluster).restart(quick=False)  # as a trial does
            cluster.check()
            assert _flag(container, "TieredStopAtLevel") == "4"
            assert wait_ready(cluster.bootstrap_servers, brokers=1, timeout_s=PATIENCE_S) == 1

    def test_a_cluster_in_docker_is_told_apart_and_listens_on_loopback_only(self, runs: Path) -> None:
        """Its results say nothing about those of a local one; and nobody on the network may reach it."""
        spec = ClusterSpec.of({"heap": "300m", "config": {"num.io.threads": 4}})
        with provision(spec, target="docker") as cluster:
            assert (cluster.provider, cluster.version) == ("docker", DEFAULT_VERSION)
            assert {
                "image": image_of(ClusterSpec()),
                "heap": "300m",
                "config.num.io.threads": "4",
            }.items() <= (dict(cluster.facts).items())
            assert set(cluster.facts) == {"image", "image.digest", "java", "docker", "heap", "config.num.io.threads"}
            assert cluster.facts["image.digest"].startswith("sha256:")
            assert cluster.facts["java"].startswith("openjdk ")
            with contextlib.closing(DockerClient().client) as client:
                (container,) = containers_of(client, runs)
                published = [each for each in container.ports.values() if each]
            assert [[binding["HostIp"] for binding in each] for each in published] == [["127.0.0.1"]]
            assert len(labelled(runs)) == 2  # it, and its network
        assert labelled(runs) == []

    @pytest.mark.parametrize(
        "command",
        ["exit 124", "echo Killed; exit 137", "echo Picked up JAVA_TOOL_OPTIONS: -Dx=hunter2; exit 124"],
        ids=["late", "killed", "options"],
    )
    def test_a_java_that_does_not_answer_is_an_error(self, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Brokers without this fact would be other brokers than those of the baseline."""
        monkeypatch.setattr(docker_brokers, "_JAVA_VERSION_COMMAND", command)
        with pytest.raises(ClusterError) as raised, provision(ClusterSpec(heap="300m"), target="docker"):
            pass
        text = str(raised.value)
        output = "Killed" if "Killed" in command else "no output"
        assert re.match(
            rf"the Java of \S+ did not report its version \(exit code 1\d\d within 30 s\): {output}; ", text
        )

    def test_an_image_without_java_has_no_compiler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in `apache/kafka-native`."""
        monkeypatch.setattr(docker_brokers, "_JAVA_VERSION_COMMAND", "no-such-java -version")
        with provision(ClusterSpec(heap="300m", quick_compiler=True), target="docker") as cluster:
            assert {"java", "compiler"}.isdisjoint(cluster.facts)

    def test_an_image_that_cannot_be_had_is_told_with_what_to_do(self, runs: Path) -> None:
        """A misspelt name, or a registry that cannot be reached."""
        spec = ClusterSpec(image="localhost:1/no-such-image:1")
        with pytest.raises(ClusterError) as raised, provision(spec, target="docker"):
            pass
        text = str(raised.value)
        assert text.startswith("the image localhost:1/no-such-image:1 is missing and cannot be pulled: ")
        assert "Check its name (for brokers, --kafka-cluster=docker:IMAGE; the default is apache/kafka:" in text
        assert labelled(runs) == []

    def test_a_broker_that_cannot_start_is_told_with_the_end_of_its_log(self, runs: Path) -> None:
        """Its own words tell best."""
        spec = ClusterSpec.of({"config": {"num.io.threads": 0}})
        with pytest.raises(ClusterError) as raised, provision(spec, target="docker"):
            pass
        text = str(raised.value)
        assert text.startswith(f"{image_of(ClusterSpec())} did not start: broker 1 (container ")
        assert "exited with status 1; the end of its log:" in text
        assert "num.io.threads" in text
        assert labelled(runs) == []

    def test_only_our_own_containers_do_without_the_reaper(self, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user's containers of testcontainers, in the same run, keep the reaper or the error that it is missing."""
        monkeypatch.setattr(testcontainers_config, "ryuk_disabled", False)
        monkeypatch.setattr(testcontainers_config, "ryuk_image", "localhost:1/no-such-reaper:1")
        image = image_of(ClusterSpec())
        monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "")  # the image's name has it
        with provision(ClusterSpec(image=image, heap="300m"), target="docker"):
            assert len(labelled(runs)) == 2
            with pytest.raises(APIError, match="localhost:1"), DockerContainer(image, command="true"):
                pass
        assert testcontainers_config.ryuk_disabled is False

    def test_a_container_that_dies_is_told(self, runs: Path) -> None:
        """Its round is INVALID, and the reason says why."""
        with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
            cluster.check()
            with contextlib.closing(DockerClient().client) as client:
                (container,) = containers_of(client, runs)
                container.kill()
                container.wait(timeout=PATIENCE_S)
            with pytest.raises(ClusterLostError, match=r"^broker 1 \(container \w+\) exited with status 137; "):
                cluster.check()
        assert labelled(runs) == []

    def test_ctrl_c_leaves_nothing(self, runs: Path) -> None:
        """A user loses patience."""
        with _other_run() as process:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)
        assert labelled(runs) == []

    def test_what_a_killed_run_left_is_swept_by_the_next_one_and_what_lives_is_not(self, runs: Path) -> None:
        """SIGKILL leaves no chance to clean up, and the reaper's image may not be there."""
        with _other_run(), _other_run() as killed:
            killed.kill()
            killed.wait(PATIENCE_S)
            assert len(labelled(runs)) == 4
            with provision(ClusterSpec(heap="300m"), target="docker") as cluster:
                cluster.check()
                assert len(labelled(runs)) == 4  # the living run's, and our own
        assert labelled(runs) == []

    def test_another_cache_at_the_same_path_removes_nothing_before_the_end(self, runs: Path) -> None:
        """Two CI jobs in containers share a daemon: host name and path are equal, and CI may restore both caches."""
        cache, elsewhere = runs.parent, runs.parent.with_name("elsewhere")
        with _other_run(), contextlib.closing(DockerClient().client) as client:
            cache.rename(elsewhere)
            runs.mkdir(parents=True)
            sweep(client, runs)
            assert len(labelled(cache)) == 2  # the container and its network
            shutil.rmtree(cache)
            shutil.copytree(elsewhere, cache)
            sweep(client, runs)
            assert len(labelled(cache)) == 2
            shutil.rmtree(cache)
            elsewhere.rename(cache)

    @pytest.mark.parametrize(("end", "left"), [("2026-01-01T00:00:00+00:00", 0), ("2999-01-01T00:00:00+00:00", 1)])
    def test_what_another_owner_left_is_removed_after_the_latest_end(self, runs: Path, end: str, left: int) -> None:
        """A CI job's cache may be gone, and with it the only owner."""
        label = f"other:{runs}/kafkaperf-0"
        with contextlib.closing(DockerClient().client) as client:
            image = image_of(ClusterSpec())
            foreign = client.containers.create(image, "true", labels={LABEL: label, END_LABEL: end})
            try:
                sweep(client, runs)
                assert len(labelled(runs.parent)) == left
            finally:
                remove(foreign)


@contextlib.contextmanager
def _other_run() -> Iterator[subprocess.Popen[str]]:
    """Another run that holds a cluster."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the run ended"
            yield process
            if process.poll() is None:
                process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()


@pytest.mark.docker
def test_a_container_that_its_run_does_not_know_of_goes_with_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C can come when the daemon has made it and the answer is on its way."""
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(tmp_path))
    with provision(ClusterSpec(heap="300m"), target="docker"), contextlib.closing(DockerClient().client) as client:
        (known,) = (each for each in labelled(tmp_path) if hasattr(each, "kill"))
        client.containers.create(known.image, "true", labels={LABEL: known.labels[LABEL]})
        assert len(labelled(tmp_path)) == 3  # both, and the network
    assert labelled(tmp_path) == []


def _flag(container: Any, name: str) -> str:
    """The value of a JVM flag, for a program that starts as the broker does."""
    status, told = container.exec_run(["sh", "-c", f"java -XX:+PrintFlagsFinal -version | grep ' {name} '"])
    assert status == 0, told
    value: str = told.decode().splitlines()[-1].split("=")[1].split()[0]
    return value

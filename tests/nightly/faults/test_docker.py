"""Docker daemons that stop under load, or that have the brokers of two jobs at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.brokers.run_folders import run_folder
from pytest_kafkaperf.clusters.docker.container import sweep
from pytest_kafkaperf.clusters.docker.daemon import connection, image_of
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.ground import Ground

from .cells import DAEMON_STOPPED, FAILED, ONE_DAEMON, PASSED, ROUND
from .conftest import Table
from .project import LIMITS, PACED, SHORT, reason_in, verdict_in, write_project
from .table import outcome_of
from .terminal import Run

pytestmark = pytest.mark.docker

_ANSWER_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 60
_LOAD_TIMEOUT_S = 120
_END_TIMEOUT_S = 120
_POLL_S = 0.1
_BRIDGE, _ADDRESS = "kafkaperf-test", "172.31.254.1/24"


@dataclass(frozen=True, slots=True)
class _Engine:
    """Where a daemon of ours lives. Its address is short: that of a socket may have no more than 107 characters."""

    folder: Path

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/sock"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon that answers, with a bridge of its own: with none, it would remove that of the machine's daemon."""
        command = ["dockerd", f"--host={self.address}", f"--pidfile={self.folder}/pid", f"--bridge={_BRIDGE}"]
        command += [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        command += ["--iptables=false", "--ip6tables=false"]
        with contextlib.ExitStack() as stack:
            _ip("link", "add", _BRIDGE, "type", "bridge")
            stack.callback(_ip, "link", "delete", _BRIDGE)
            _ip("addr", "add", _ADDRESS, "dev", _BRIDGE)
            log = stack.enter_context((self.folder / "log").open("ab"))
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
            try:
                self._await_answer(process)
                yield process
            finally:
                process.terminate()
                process.wait(_STOP_TIMEOUT_S)

    def load(self, image: str) -> None:
        """Take an image over from the machine's own daemon."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            load = ["docker", f"--host={self.address}", "load", "--quiet"]
            subprocess.run(load, stdin=saving.stdout, check=True, timeout=_LOAD_TIMEOUT_S, capture_output=True)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        ask = ["docker", f"--host={self.address}", "info"]
        while subprocess.run(ask, check=False, capture_output=True, timeout=_ANSWER_TIMEOUT_S).returncode:
            told = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
            if process.poll() is not None:
                pytest.skip(f"no second Docker daemon can be started here:\n{told}")
            assert time.monotonic() < deadline, told
            time.sleep(_POLL_S)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def engine() -> Iterator[_Engine]:
    """An engine that nobody else uses."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("ip") is None:
        pytest.skip("only root can start a Docker daemon, and dockerd and ip must be there")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    try:
        yield _Engine(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_daemon_that_stops_ends_the_run_with_the_reason(
    engine: _Engine, ground: Ground, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can clean up then; the next run does, once there is a daemon again."""
    write_project(tmp_path / "project", PACED, LIMITS)
    variables = {"DOCKER_HOST": engine.address, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    with contextlib.ExitStack() as stack:
        with engine.running() as daemon:
            engine.load(image_of(ClusterSpec()))
            run = stack.enter_context(Run(tmp_path / "project", ground, "--kafka-cluster=docker", variables=variables))
            run.await_shown(r"round 1/1  measuring")
            began_s = time.monotonic()
            daemon.terminate()
        status = run.end(within_s=_END_TIMEOUT_S)
        seconds = time.monotonic() - began_s

    reason = reason_in(run.report, run.shown)
    # Status 1, not 10: the containers could not be removed.
    assert (status, verdict_in(run.report)) == (FAILED, "INVALID"), run.shown
    assert "broker 1" in reason or "no record was acknowledged" in reason
    assert "Traceback (most recent call last)" not in run.shown
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with engine.running():
        with connection() as docker, run_folder(ground.cache / "runs"):
            sweep(docker.client, ground.cache / "runs")
        assert ground.settled() == []
    table.add(ROUND, DAEMON_STOPPED, "own", outcome_of(status, "INVALID", reason), seconds)


def test_a_job_leaves_the_live_brokers_of_another_job_alone(
    kafka: distribution.Distribution, ground: Ground, tmp_path: Path, table: Table
) -> None:
    """Jobs in containers have the same host name and folders, and caches of their own."""
    other = Ground.make(tmp_path / "other", kafka, ground.servers)
    write_project(tmp_path / "project", PACED, LIMITS)
    write_project(tmp_path / "second", SHORT, LIMITS)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Run(tmp_path / "project", ground, "--kafka-cluster=docker", holds={"load"}))
        first.await_gate("load")
        began_s = time.monotonic()
        second = stack.enter_context(Run(tmp_path / "second", other, "--kafka-cluster=docker"))
        assert second.end(within_s=_END_TIMEOUT_S) == PASSED, second.shown
        first.open_gate("load")
        assert first.end(within_s=_END_TIMEOUT_S) == PASSED, first.shown
        seconds = time.monotonic() - began_s

    assert [*ground.settled(), *other.settled()] == []
    table.add(ROUND, ONE_DAEMON, "own", "PASSED: both", seconds)

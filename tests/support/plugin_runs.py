"""A cache of the tests' own, with the user's Kafka in it, and runs as child processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

_PROVISION = """
import json, sys
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
with provision(ClusterSpec.of(json.loads(sys.argv[1])), target="local") as cluster:
    print(json.dumps({
        "pid": cluster.pids[0], "servers": cluster.bootstrap_servers, "version": cluster.version,
        "modules": sorted(sys.modules),
    }), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class PluginRun:
    """Another run, in a process of its own, that holds a cluster until it is ended."""

    process: subprocess.Popen[str]

    def ready(self) -> dict[str, Any]:
        """What it says once its cluster is up."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the run ended: {self.process.wait(PATIENCE_S)}"
        told: dict[str, Any] = json.loads(line)
        return told

    def end(self, *, by: signal.Signals | None = None) -> int:
        """End it in order, or by a signal to its process group, as a terminal does."""
        if by is None:
            self.process.communicate(timeout=PATIENCE_S)
        else:
            os.killpg(self.process.pid, by)
        return self.process.wait(PATIENCE_S)

    def kill_supervisor(self) -> None:
        """Take from it the one who cleans up after it."""
        for child in psutil.Process(self.process.pid).children():
            if "supervisor" in " ".join(child.cmdline()):
                child.kill()


def installed(cache: Path, version: str = DEFAULT_VERSION) -> distribution.Distribution:
    """A version in this cache, fetched where it is missing."""
    return distribution.installed(version, java=java.find(), cache=cache)


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, in force."""
    cache = tmp_path / "cache"
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(cache))
    return cache


@pytest.fixture
def cache(kafka: distribution.Distribution, cold_cache: Path) -> Path:
    """A cache folder of the test's own with the default version in it, in force."""
    copied(kafka, cold_cache)
    return cold_cache


def copied(kafka: distribution.Distribution, cache: Path) -> Path:
    """Copy a version into another cache, without its content where the disk is the same; gives its folder."""

    def copy(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    return shutil.copytree(kafka.folder, cache / "kafka" / kafka.version, copy_function=copy)


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Jgo's settings name a repository where nobody listens; gives its address."""
    address = "http://127.0.0.1:9"
    settings = tmp_path / "jgo.conf"
    settings.write_text(f"[repositories]\ncentral = {address}\n", encoding="utf-8")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    return address


@pytest.fixture
def plugin_run() -> Callable[..., AbstractContextManager[PluginRun]]:
    """Start other runs; what they leave is ended after the test."""
    return _plugin_run


@contextmanager
def _plugin_run(**fields: object) -> Iterator[PluginRun]:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROVISION, json.dumps(fields)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield PluginRun(process)
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Whether a process is gone in time; a zombie that nobody collects counts as gone."""
    return _gone


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def left(cache: Path) -> Callable[[], list[str]]:
    """What is in the folder of the runs, besides the lock that runs sweep under."""
    return lambda: sorted(path.name for path in (cache / "runs").iterdir() if path.name != ".lock")

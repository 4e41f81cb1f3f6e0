"""A ground for runs that are interrupted: a cache and a folder of their own, where all that they leave is seen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
from aiokafka.admin import AIOKafkaAdminClient
from testcontainers.core.docker_client import DockerClient

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES
from pytest_kafkaperf.clusters.docker.daemon import look
from tests.support.patience import PATIENCE_S
from tests.support.plugin_runs import copied
from tests.support.strangers import group_names

if TYPE_CHECKING:
    from pathlib import Path

LABEL = "pytest-kafkaperf.run"
SETTLE_TIMEOUT_S = PATIENCE_S
"""Until processes that were killed are gone: nobody waits for them."""
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Ground:
    """Where runs live: folders for the cache, temporary files and shared memory that are theirs alone."""

    cache: Path
    temporary: Path
    shared: Path
    servers: str
    """Brokers that the runs do not own."""

    @classmethod
    def make(cls, folder: Path, kafka: distribution.Distribution, servers: str) -> Ground:
        """A new one below a folder, with Kafka in its cache."""
        cache, temporary, shared = folder / "cache", folder / "tmp", folder / "shared"
        copied(kafka, cache)
        temporary.mkdir()
        shared.mkdir()
        return cls(cache, temporary, shared, servers)

    def environment(self) -> dict[str, str]:
        """What makes a process one of these runs."""
        return {distribution.CACHE_VARIABLE: str(self.cache), "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"}

    def command(self, *words: str) -> list[str]:
        """Those that let a program have this shared memory for its own, where we may do that."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            return [*words]
        return ["unshare", "--mount", "sh", "-c", f'mount --bind "{self.shared}" /dev/shm && exec "$@"', "sh", *words]

    def left(self) -> list[str]:
        """Everything that runs have left."""
        return [*self._processes(), *self._files(), *self._in_docker()]

    def settled(self) -> list[str]:
        """The same, once what was killed is gone."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return left

    def brokers(self) -> list[psutil.Process]:
        """Broker processes of runs."""
        return [each for each in processes_of(self.temporary) if _command(each).endswith(PROPERTIES)]

    def workers(self) -> list[psutil.Process]:
        """Worker processes of runs."""
        return [each for each in processes_of(self.temporary) if "spawn_main" in _command(each)]

    def containers(self) -> list[Any]:
        """Containers of runs."""
        return [each for each in labelled(self.cache) if hasattr(each, "kill")]

    def names(self) -> set[str]:
        """Topics and groups of runs, on the brokers that they do not own."""
        return asyncio.run(_names(self.servers))

    def _processes(self) -> list[str]:
        return [f"process {each.pid}: {_command(each)[-150:]}" for each in processes_of(self.temporary)]

    def _files(self) -> list[str]:
        runs = self.cache / "runs"
        mine = [each for each in runs.glob("*") if each.name != ".lock"] if runs.exists() else []
        return [f"file {each}" for each in (*mine, *self.temporary.iterdir(), *self.shared.iterdir())]

    def _in_docker(self) -> list[str]:
        return [f"{type(each).__name__} {each.name}" for each in labelled(self.cache)]


def processes_of(temporary: Path) -> list[psutil.Process]:
    """Processes that a run started, or that its own processes started: they have its environment."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if each.environ().get("TMPDIR") == str(temporary) and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def labelled(cache: Path) -> list[Any]:
    """Containers and networks of runs with this cache."""
    if look()[1] is not None:
        return []
    with contextlib.closing(DockerClient().client) as client:
        filters = {"label": LABEL}
        found = [
            *client.containers.list(all=True, filters=filters, ignore_removed=True),
            *client.networks.list(filters=filters),
        ]
    return [each for each in found if str(cache) in (_labels(each).get(LABEL) or "")]


def _labels(each: Any) -> dict[str, str]:
    return each.attrs.get("Labels") or each.attrs.get("Config", {}).get("Labels") or {}


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


async def _names(servers: str) -> set[str]:
    """Topics and groups of runs."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        topics = await admin.list_topics()
        async with asyncio.timeout(SETTLE_TIMEOUT_S):
            groups = await group_names(admin)
    finally:
        await admin.close()
    return {name for name in itertools.chain(topics, groups) if name.startswith(PREFIX)}

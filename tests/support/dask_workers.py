"""A real Dask cluster, one of whose workers is on a machine with another clock.

Linux gives a process a monotonic clock of its own (time_namespaces(7)): to its worker everything else is elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from distributed import Client

from pytest_kafkaperf.load.allocation import WorkerAllocation
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler

AHEAD_S = 1000
"""By how much the other clock is ahead."""


@dataclass(slots=True)
class Workers:
    """A Dask cluster of processes: a scheduler and its workers."""

    port: int
    scheduler: subprocess.Popen[bytes]
    log: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def allocation(self) -> WorkerAllocation:
        return WorkerAllocation(scheduler=self.address)

    def client(self) -> Client:
        return Client(self.address, set_as_default=False)

    def add(self, *, elsewhere: bool = False, nanny: bool = False, threads: int = 1, **environment: str) -> None:
        """Start a worker, perhaps on a machine with another clock, and wait until it is known."""
        with self.client() as client:
            before = len(client.nthreads())
            own = ["unshare", "--time", f"--monotonic={AHEAD_S}", "--fork", "--kill-child"] if elsewhere else []
            self.workers.append(
                subprocess.Popen(
                    [
                        *(*own, sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"),
                        *("--host", "127.0.0.1", "--nthreads", str(threads), "--nanny" if nanny else "--no-nanny"),
                    ],
                    stderr=self.log.open("ab"),
                    env={**os.environ, "TMPDIR": str(self.log.parent), **environment},
                )
            )
            client.wait_for_workers(before + 1, timeout=PATIENCE_S)

    def worker(self, place: int) -> psutil.Process:
        """A worker's process itself."""
        process = psutil.Process(self.workers[place].pid)
        return process if "unshare" not in process.name() else process.children()[0]


@contextlib.contextmanager
def dask(folder: Path) -> Iterator[Workers]:
    """A scheduler without workers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = folder / "dask.log"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("ab") as words:
        scheduler = subprocess.Popen([*command, "--no-dashboard"], stderr=words)
    running = Workers(port=port, scheduler=scheduler, log=log)
    try:
        with Client(running.address, timeout=PATIENCE_S, set_as_default=False):
            pass
        yield running
    finally:
        for together in (running.workers, [scheduler]):  # a worker without a scheduler takes its time
            for process in together:
                process.terminate()
            for process in together:
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Three workers, the last of them on a machine with another clock; nobody may end them."""
    with dask(tmp_path_factory.mktemp("dask")) as workers:
        workers.add()
        workers.add(nanny=True)
        workers.add(elsewhere=can_be_elsewhere())
        yield workers


@functools.cache
def can_be_elsewhere() -> bool:
    """Whether a process here may have a clock of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--time", "--monotonic=1", "--fork", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def left_behind(workers: Workers) -> tuple[list[str], list[str], int]:
    """Of ours, on the scheduler: plugins, handlers and tasks."""

    def look(dask_scheduler: Scheduler) -> tuple[list[str], list[str], int]:
        plugins = [name for name in dask_scheduler.plugins if name.startswith("kafkaperf")]
        handlers = [name for name in dask_scheduler.handlers if name.startswith("kafkaperf")]
        return plugins, handlers, len(dask_scheduler.tasks)

    with workers.client() as client:
        deadline = time.monotonic() + PATIENCE_S
        while (found := client.run_on_scheduler(look))[2] and time.monotonic() < deadline:
            time.sleep(0.1)
    seen: tuple[list[str], list[str], int] = found
    return seen


def load_processes(workers: Workers) -> list[psutil.Process]:
    """Processes on the machines of a Dask cluster, which are all here, that have mapped the counters of a share."""
    return [process for process in psutil.process_iter() if _maps_counters(process, workers.log.parent)]


def _maps_counters(process: psutil.Process, folder: Path) -> bool:
    try:
        mapped = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return False
    return re.search(rf"{re.escape(str(folder))}/kafkaperf-counters-[^/]*/counters", mapped) is not None


def wait_for_load_processes(workers: Workers, *, some: bool) -> None:
    """Until there are some, or none."""
    deadline = time.monotonic() + PATIENCE_S
    while bool(load_processes(workers)) != some:
        assert time.monotonic() < deadline, load_processes(workers)
        time.sleep(0.1)

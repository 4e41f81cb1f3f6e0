"""A Dask task: it starts a worker process on its machine and synchronises the shared counters there."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import get_worker
from distributed.utils import sync
from distributed.worker import Worker, secede

from pytest_kafkaperf.load.dask.clocks import Exchange, clock_name, reading
from pytest_kafkaperf.load.dask.hosted import Task, TaskOutcome, last_words, read_outcome, start
from pytest_kafkaperf.load.dask.sync import SILENT_S, TICK_S
from pytest_kafkaperf.load.messages import Clock
from pytest_kafkaperf.load.processes import DIED
from pytest_kafkaperf.load.shared_counters import SharedCounters

_EXCHANGES = 20
"""Number of requests for the time, of which the one with the shortest round trip counts."""

_OVER = "the round ended before its worker"

_ENDING_S = 10
"""Time limit for a stopped process to end; then it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTask:
    """The input of one Dask task. Its repr appears in Dask's logs."""

    handler: str
    sync_id: str
    worker: int
    task: Task = dataclasses.field(repr=False)
    groups: int | None
    """Consumer groups of the shared counters; None if the task has no counters."""
    workers: int


def run_worker_task(worker_task: WorkerTask, samples: bytes | None) -> TaskOutcome:
    """Run a worker process on the machine of the Dask worker that executes this task."""
    worker = get_worker()
    secede()  # frees this thread's place for other shares
    with tempfile.TemporaryDirectory(prefix="kafkaperf-counters-") as folder, contextlib.ExitStack() as stack:
        counters = None
        if worker_task.groups is not None:
            counters = stack.enter_context(
                SharedCounters.create(Path(folder) / "counters", worker_task.workers, groups=worker_task.groups)
            )
        host = _Host(worker, worker_task, counters)
        if host.is_over():
            return TaskOutcome(problem=_OVER)
        process = start(_localised(worker_task.task, folder, samples, counters), folder)
        try:
            problem = host.follow(process)
        finally:
            process.kill()
            process.communicate()
        if problem is not None:
            return TaskOutcome(problem=problem)
        words = last_words(folder)
        return read_outcome(folder) or TaskOutcome(problem=f"{DIED}{f' ({words})' if words else ''}")


async def send(scheduler: Any, handler: str, **message: Any) -> Any:
    """Send a message to the scheduler's message handler, and return its answer."""
    return await getattr(scheduler, handler)(**message)


async def read_clock_by(scheduler: Any, handler: str) -> Clock:
    """Compare this machine's clock with the scheduler's, by repeated requests for the time."""
    found: list[Exchange] = []
    common = ""
    for _ in range(_EXCHANGES):
        sent_ns = time.monotonic_ns()
        answer = await send(scheduler, handler, do="clock")
        received_ns = time.monotonic_ns()
        found.append((sent_ns, answer["at_ns"], received_ns))
        common = answer["name"]
    return reading(found, name=clock_name(), host=socket.gethostname(), common=common)


async def read_clock(handler: str, dask_worker: Worker) -> Clock:
    """Compare a Dask worker's clock with the scheduler's; runs on the Dask worker."""
    return await read_clock_by(dask_worker.scheduler, handler)


def _localised(task: Task, folder: str, samples: bytes | None, counters: SharedCounters | None) -> Task:
    """Return the task with the paths of this machine."""
    argument = task.argument
    if samples is not None:
        path = Path(folder) / "samples"
        path.write_bytes(samples)
        payload = dataclasses.replace(argument.scenario.payload, path=str(path))
        scenario = argument.scenario.model_copy(update={"payload": payload})
        argument = dataclasses.replace(argument, scenario=scenario)
    if counters is not None:
        argument = dataclasses.replace(argument, counters=counters.path)
    return dataclasses.replace(task, argument=argument)


class _Host:
    """A machine's side of the synchronisation, for one process there."""

    def __init__(self, worker: Worker, worker_task: WorkerTask, counters: SharedCounters | None) -> None:
        self._dask_worker = worker
        self._worker_task = worker_task
        self._counters = counters
        self._attempt = secrets.token_hex(8)

    def is_over(self) -> bool:
        """Return True if the controller is gone, or another attempt at this share came first."""
        return bool(self._exchange().get("over"))

    def follow(self, process: subprocess.Popen[bytes]) -> str | None:
        """Synchronise the counters until the process ends; return the reason if it must be killed instead."""
        answered_s, stopped_s = time.monotonic(), None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(TICK_S)
            ended, now_s = process.poll() is not None, time.monotonic()
            try:
                answer = self._exchange()
            except (OSError, TimeoutError):
                if now_s - answered_s > SILENT_S:
                    return f"the Dask scheduler did not answer for {SILENT_S:.0f} s"
            else:
                answered_s = now_s
                if answer.get("over"):
                    return _OVER
                self._write(answer["rows"])
            if ended:
                return None
            if self._counters is not None and self._counters.stopped:
                stopped_s = stopped_s or now_s
                if now_s - stopped_s > _ENDING_S:
                    return f"a worker process did not end within {_ENDING_S} s"

    def _exchange(self) -> dict[str, Any]:
        worker = self._worker_task.worker
        cells = [] if self._counters is None else self._counters.read_row(worker)
        answer: dict[str, Any] = sync(
            self._dask_worker.loop,
            send,
            self._dask_worker.scheduler,
            self._worker_task.handler,
            do="share",
            sync_id=self._worker_task.sync_id,
            worker=worker,
            attempt=self._attempt,
            at_ns=time.monotonic_ns() + self._worker_task.task.offset_ns,
            cells=cells,
            callback_timeout=SILENT_S,
        )
        return answer

    def _write(self, rows: Sequence[Sequence[Any]]) -> None:
        if self._counters is not None:
            for worker, cells in rows:
                self._counters.write_row(worker, cells)

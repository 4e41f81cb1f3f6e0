"""A Dask task: it starts a worker process on its machine, and keeps the counters there like those elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
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

from pytest_kafkaperf.load.dask.clocks import Exchange, Reading, clock_name, host_name, reading
from pytest_kafkaperf.load.dask.hosted import Task, TaskOutcome, last_words, read_outcome, start
from pytest_kafkaperf.load.dask.sync import SILENT_S, TICK_S
from pytest_kafkaperf.load.shared_counters import SharedCounters

_EXCHANGES = 20
"""Questions for the time; the one with the shortest way counts."""

_OVER = "the round was over before its worker was"

_ENDING_S = 10
"""What processes that are told to stop get on their machine, before they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTask:
    """What one Dask task is to do. Its repr is in Dask's logs."""

    point: str
    meeting: str
    worker: int
    task: Task = dataclasses.field(repr=False)
    groups: int | None
    """Of the shared counters; None: the task has none."""
    workers: int


def run_worker_task(worker_task: WorkerTask, samples: bytes | None) -> TaskOutcome:
    """What a Dask task does, on the machine of its Dask worker."""
    worker = get_worker()
    secede()  # other shares of the load may wait for this thread's place
    with tempfile.TemporaryDirectory(prefix="kafkaperf-board-") as folder, contextlib.ExitStack() as stack:
        counters = None
        if worker_task.groups is not None:
            counters = stack.enter_context(
                SharedCounters.create(Path(folder) / "board", worker_task.workers, groups=worker_task.groups)
            )
        host = _Host(worker, worker_task, counters)
        if host.is_over():
            return TaskOutcome(problem=_OVER)
        process = start(_localised(worker_task.task, folder, samples, counters), folder)
        try:
            over = host.follow(process)
        finally:
            process.kill()
            process.communicate()
        if over is not None:
            return TaskOutcome(problem=over)
        words = last_words(folder)
        return read_outcome(folder) or TaskOutcome(
            problem=f"a worker process died: killed, out of memory, or crashed{f' ({words})' if words else ''}"
        )


async def tell(scheduler: Any, point: str, **message: Any) -> Any:
    """Tell the meeting point something, and get its answer."""
    return await getattr(scheduler, point)(**message)


async def exchanges(scheduler: Any, point: str) -> tuple[list[Exchange], str]:
    """Ask the scheduler for its time; the exchanges, and the name of its clock."""
    asked, name = [], ""
    for _ in range(_EXCHANGES):
        sent_ns = time.monotonic_ns()
        answer = await getattr(scheduler, point)(do="clock")
        received_ns = time.monotonic_ns()
        asked.append(Exchange(sent_ns=sent_ns, told_ns=answer["at_ns"], received_ns=received_ns))
        name = answer["name"]
    return asked, name


async def read_clock(point: str, dask_worker: Worker) -> Reading:
    """A Dask worker's clock against the scheduler's; run there."""
    asked, common = await exchanges(dask_worker.scheduler, point)
    return reading(asked, name=clock_name(), host=host_name(), common=common)


def _localised(task: Task, folder: str, samples: bytes | None, counters: SharedCounters | None) -> Task:
    """The task with the paths of this machine."""
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
    """A machine's side of a meeting, for one process there."""

    def __init__(self, worker: Worker, worker_task: WorkerTask, counters: SharedCounters | None) -> None:
        self._dask_worker = worker
        self._worker_task = worker_task
        self._counters = counters
        self._attempt = secrets.token_hex(8)

    def is_over(self) -> bool:
        """Whether nobody waits for this share, or another attempt at it was first."""
        return bool(self._exchange().get("over"))

    def follow(self, process: subprocess.Popen[bytes]) -> str | None:
        """Keep the counters alike until the process ends; why it is not to be waited for any longer."""
        answered_s, stopped_s = time.monotonic(), None
        while True:
            ended = _has_ended(process)
            now_s = time.monotonic()
            try:
                answer = self._exchange()
            except (OSError, TimeoutError):
                if now_s - answered_s > SILENT_S:
                    return f"the Dask scheduler was not heard of for {SILENT_S:.0f} s"
            else:
                answered_s = now_s
                if answer.get("over"):
                    return _OVER
                self._put(answer["rows"])
            if ended:
                return None
            if self._counters is not None and self._counters.stopped:
                stopped_s = stopped_s or now_s
                if now_s - stopped_s > _ENDING_S:
                    return f"a worker process did not end within {_ENDING_S} s"

    def _exchange(self) -> dict[str, Any]:
        worker = self._worker_task.worker
        cells = [] if self._counters is None else self._counters.read_row(worker)
        at_ns = time.monotonic_ns() + self._worker_task.task.offset_ns
        answer: dict[str, Any] = sync(
            self._dask_worker.loop,
            tell,
            self._dask_worker.scheduler,
            self._worker_task.point,
            do="share",
            meeting=self._worker_task.meeting,
            worker=worker,
            attempt=self._attempt,
            at_ns=at_ns,
            cells=cells,
            callback_timeout=SILENT_S,
        )
        return answer

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        if self._counters is not None:
            for worker, cells in rows:
                self._counters.write_row(worker, cells)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends within a moment."""
    try:
        process.wait(TICK_S)
    except subprocess.TimeoutExpired:
        return False
    return True

"""What a Dask task does: it starts a worker process on its machine, and keeps the board there like those elsewhere."""

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

from pytest_kafkaperf.load.board import Board
from pytest_kafkaperf.load.clocks import Exchange, Reading, clock_name, host_name, reading
from pytest_kafkaperf.load.hosted import Outcome, Task, last_words, read_outcome, start
from pytest_kafkaperf.load.meeting import SILENT_S

TICK_S = 0.05
"""Between two looks at the meeting: as old is what is seen of other machines, and once more from here to there."""
_EXCHANGES = 20
"""Questions for the time; the one with the shortest way counts."""
_OVER = "the round was over before its worker was"
_ENDING_S = 10
"""What processes that are told to stop get on their machine, before they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What one Dask task is to do. Its repr is in Dask's logs."""

    point: str
    meeting: str
    worker: int
    task: Task = dataclasses.field(repr=False)
    groups: int | None
    """Of the board; None: the task has none."""
    workers: int


def run_errand(errand: Errand, samples: bytes | None) -> Outcome:
    """What a Dask task does, on the machine of its Dask worker."""
    worker = get_worker()
    secede()  # other shares of the load may wait for this thread's place
    with tempfile.TemporaryDirectory(prefix="kafkaperf-board-") as folder, contextlib.ExitStack() as stack:
        board = None
        if errand.groups is not None:
            board = stack.enter_context(Board.create(Path(folder) / "board", errand.workers, groups=errand.groups))
        host = _Host(worker, errand, board)
        if host.is_over():
            return Outcome(problem=_OVER)
        process = start(_localised(errand.task, folder, samples, board), folder)
        try:
            over = host.follow(process)
        finally:
            process.kill()
            process.communicate()
        if over is not None:
            return Outcome(problem=over)
        words = last_words(folder)
        return read_outcome(folder) or Outcome(
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


def _localised(task: Task, folder: str, samples: bytes | None, board: Board | None) -> Task:
    """The task with the paths of this machine."""
    argument = task.argument
    if samples is not None:
        path = Path(folder) / "samples"
        path.write_bytes(samples)
        payload = dataclasses.replace(argument.scenario.payload, path=str(path))
        scenario = argument.scenario.model_copy(update={"payload": payload})
        argument = dataclasses.replace(argument, scenario=scenario)
    if board is not None:
        argument = dataclasses.replace(argument, board=board.path)
    return dataclasses.replace(task, argument=argument)


class _Host:
    """A machine's side of a meeting, for one process there."""

    def __init__(self, worker: Worker, errand: Errand, board: Board | None) -> None:
        self._dask_worker = worker
        self._errand = errand
        self._board = board
        self._attempt = secrets.token_hex(8)

    def is_over(self) -> bool:
        """Whether nobody waits for this share, or another attempt at it was first."""
        return bool(self._exchange().get("over"))

    def follow(self, process: subprocess.Popen[bytes]) -> str | None:
        """Keep the boards alike until the process ends; why it is not to be waited for any longer."""
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
            if self._board is not None and self._board.stopped:
                stopped_s = stopped_s or now_s
                if now_s - stopped_s > _ENDING_S:
                    return f"a worker process did not end within {_ENDING_S} s"

    def _exchange(self) -> dict[str, Any]:
        worker = self._errand.worker
        cells = [] if self._board is None else self._board.row(worker)
        at_ns = time.monotonic_ns() + self._errand.task.offset_ns
        answer: dict[str, Any] = sync(
            self._dask_worker.loop,
            tell,
            self._dask_worker.scheduler,
            self._errand.point,
            do="share",
            meeting=self._errand.meeting,
            worker=worker,
            attempt=self._attempt,
            at_ns=at_ns,
            cells=cells,
            callback_timeout=SILENT_S,
        )
        return answer

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        if self._board is not None:
            for worker, cells in rows:
                self._board.put(worker, cells)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends within a moment."""
    try:
        process.wait(TICK_S)
    except subprocess.TimeoutExpired:
        return False
    return True

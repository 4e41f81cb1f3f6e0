"""The controller's side of a meeting: its board is kept like those on the machines of Dask workers (see `meeting`)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Self

from pytest_kafkaperf.errors import LoadError
from pytest_kafkaperf.load.board import CONTROLLER, Board
from pytest_kafkaperf.load.errand import TICK_S
from pytest_kafkaperf.load.meeting import BEGIN_S, SILENT_S
from pytest_kafkaperf.load.rows import Rows

ANSWER_S = 10
"""Bound of any question to the scheduler or, through it, to all workers."""


class Mirror:
    """Keeps the board here like those elsewhere, in a thread, and ends what is lost; without a board, that alone."""

    def __init__(
        self,
        ask: Callable[..., dict[str, Any]],
        meeting: str,
        board: Board | None,
        futures: Sequence[Future[Any]],
        names: Sequence[str],
    ) -> None:
        self._ask = ask
        self._meeting = meeting
        self._board = board
        self._futures = futures
        self._names = names
        self._rows = Rows()
        self._answered_s = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkaperf-mirror", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(2 * ANSWER_S)

    def _run(self) -> None:
        while not self._closing.wait(TICK_S):
            cells = [] if self._board is None else self._board.row(CONTROLLER)
            try:
                answer = self._ask(do="control", meeting=self._meeting, cells=cells)
            except LoadError as error:
                if time.monotonic() - self._answered_s > SILENT_S:
                    self._fail(range(len(self._futures)), str(error))
                continue
            self._answered_s = time.monotonic()
            if answer.get("over"):
                self._fail(range(len(self._futures)), "the Dask scheduler has been started again")
                return
            self._put(answer["rows"])
            for worker, why in answer["lost"]:
                self._fail([worker], _loss(self._names[worker], why))

    def _put(self, rows: Sequence[Sequence[Any]]) -> None:
        if self._board is None:
            return
        for worker, at_ns, cells in rows:
            self._rows.add(worker, at_ns, cells)
        for worker, cells in self._rows.together().items():
            self._board.put(worker, cells)

    def _fail(self, workers: Sequence[int], reason: str) -> None:
        for worker in workers:
            with contextlib.suppress(InvalidStateError):  # it has reported
                self._futures[worker].set_exception(LoadError(reason))


def _loss(name: str, why: str) -> str:
    match why:
        case "left":
            return f"the Dask worker {name} was lost: killed, out of memory, or cut off from the scheduler"
        case "silent":
            return f"the Dask worker {name} was not heard of for {SILENT_S:.0f} s: its machine or the network is down"
        case _:
            return (
                f"the Dask worker {name} did not begin within {BEGIN_S:.0f} s: it has other work; use a Dask cluster "
                "that does nothing else meanwhile"
            )

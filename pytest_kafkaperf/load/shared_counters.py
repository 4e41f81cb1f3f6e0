"""Shared counters: how the controller and its workers meet, and how progress is seen.

A small memory-mapped file of int64 cells, each with one writer. Aligned 64-bit stores are whole on every platform
that CPython supports, so nothing locks, and a worker that dies cannot leave a lock behind.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Self


class WorkerState(IntEnum):
    """How far a worker is."""

    STARTING = 0
    READY = 1
    """Clients are connected, consumers have their partitions and positions."""
    PRODUCED = 2
    """All its producers have sent their records and know what became of them."""
    DONE = 3
    """Its consumers have read what there is. None leaves its group before all are: the others would lose positions."""


class _Control(IntEnum):
    START_NS = 0
    STOP = 1
    DRAIN_NS = 2


class Counter(IntEnum):
    """What a worker tells while it runs."""

    STATE = 0
    ASSIGNED = 1
    """Partitions that its consumers hold."""
    SENT = 2
    SETTLED = 3
    """Records whose send ended, well or not."""
    VISIBLE = 4
    """Records that consumers are to receive, as far as it is known."""
    P99_NS = 5
    """Of the produce latency in the last whole second; 0 where it is not known."""
    RECEIVED = 6
    """Records that consumers of the first group received; each further group has the next cell."""


CONTROLLER = -1
"""The number of the controller's row."""

_LINE = 8
"""Cells of a cache line: rows are whole lines, so that workers do not slow each other down."""


class SharedCounters:
    """The controller's row and one row a worker."""

    def __init__(self, path: str | Path, *, groups: int = 1) -> None:
        self.path = str(path)
        self.groups = groups
        """Consumer groups."""
        self._width = -(-(Counter.RECEIVED + groups) // _LINE) * _LINE
        self._map: mmap.mmap | None = None
        self._cells: memoryview[int] | None = None

    @classmethod
    def create(cls, path: str | Path, workers: int, *, groups: int = 1) -> SharedCounters:
        """Make the file, all zero."""
        counters = cls(path, groups=groups)
        Path(path).write_bytes(bytes((workers + 1) * counters._width * 8))
        return counters

    def __enter__(self) -> Self:
        with Path(self.path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._cells = memoryview(self._map).cast("q")
        return self

    def __exit__(self, *_: object) -> None:
        if self._cells is not None:
            self._cells.release()
        self._cells = None
        if self._map is not None:
            self._map.close()
        self._map = None

    def write(self, worker: int, cell: int, value: int) -> None:
        """Write one cell of a worker's row."""
        self._open[(worker + 1) * self._width + cell] = value

    def read(self, worker: int, cell: int) -> int:
        """Read one cell of a worker's row."""
        return self._open[(worker + 1) * self._width + cell]

    def read_row(self, worker: int) -> list[int]:
        """All cells of a row, for counters elsewhere: the state first, so that the others are as new at least."""
        return self._open[(worker + 1) * self._width : (worker + 2) * self._width].tolist()

    def write_row(self, worker: int, cells: Sequence[int]) -> None:
        """Write the row of counters elsewhere, the state last: who sees it sees what led to it."""
        first = (worker + 1) * self._width
        for cell in reversed(range(self._width)):
            self._open[first + cell] = cells[cell]

    def total(self, cell: int) -> int:
        """The sum of a cell over all workers."""
        return sum(self._open[self._width + cell :: self._width])

    def most(self, cell: int) -> int:
        """The largest of a cell over all workers."""
        return max(self._open[self._width + cell :: self._width])

    def received(self) -> list[int]:
        """Records received, by consumer group."""
        return [self.total(Counter.RECEIVED + group) for group in range(self.groups)]

    def all_reached(self, state: WorkerState) -> bool:
        """Whether every worker is at least that far."""
        return all(read >= state for read in self._open[self._width + Counter.STATE :: self._width])

    def start_at(self, start_ns: int) -> None:
        """Give all workers the instant at which the window opens."""
        self._open[_Control.START_NS] = start_ns

    @property
    def start_ns(self) -> int | None:
        """The instant at which the window opens, once it is known."""
        return self._open[_Control.START_NS] or None

    def stop(self) -> None:
        """Tell all workers to give up and report what they have."""
        self._open[_Control.STOP] = 1

    @property
    def stopped(self) -> bool:
        """Whether the round was given up."""
        return bool(self._open[_Control.STOP])

    def all_produced(self, drain_ns: int) -> None:
        """Tell consumers that nothing more will come: from that instant on read to the end offsets and report."""
        self._open[_Control.DRAIN_NS] = drain_ns

    @property
    def drain_ns(self) -> int | None:
        """The instant from which on the rest is read, once all producers are done."""
        return self._open[_Control.DRAIN_NS] or None

    @property
    def _open(self) -> memoryview[int]:
        if self._cells is None:
            raise RuntimeError("the board is used outside its `with` block")
        return self._cells

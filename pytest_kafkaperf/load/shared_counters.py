"""Shared counters, through which the controller and its workers synchronize and report progress.

The counters are a small memory-mapped file of int64 cells, each with a single writer. Aligned 64-bit stores are atomic
on every platform that CPython supports, so there are no locks that a dying worker could leave behind.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Self


class WorkerState(IntEnum):
    """Worker's progress through a round."""

    STARTING = 0
    READY = 1
    """Clients are connected, and consumers have their partitions and positions."""
    PRODUCED = 2
    """All of the worker's producers have sent their records and know the outcome of each."""
    DONE = 3
    """All of the worker's consumers have read all records. They stay in their groups until all workers are done,
    because a leaving consumer's partitions would move to other members."""


class _Control(IntEnum):
    START_NS = 0
    STOP = 1
    DRAIN_NS = 2


class Counter(IntEnum):
    """Values that a worker publishes while it runs."""

    STATE = 0
    ASSIGNED = 1
    """Partitions assigned to the worker's consumers."""
    SENT = 2
    SETTLED = 3
    """Records with a known outcome: acknowledged or failed."""
    VISIBLE = 4
    """Records that consumers are expected to receive, as far as known."""
    P99_NS = 5
    """p99 produce latency in the window so far; 0 if unknown."""
    OTHERS = 6
    """Records that consumers received but that do not belong to this round, such as output for a backlog."""
    RECEIVED = 7
    """Records received by the first group's consumers. The following cells contain the other groups' counts."""


CONTROLLER = -1
"""Index of the controller's row."""

_LINE = 8
"""Number of cells per cache line. Each row fills whole cache lines, so workers do not slow each other down."""


class SharedCounters:
    """Table with one row for the controller and one for each worker."""

    def __init__(self, path: str | Path, *, groups: int = 1) -> None:
        self.path = str(path)
        self.groups = groups
        """Number of consumer groups."""
        self._width = -(-(Counter.RECEIVED + groups) // _LINE) * _LINE
        self._map: mmap.mmap
        self._cells: memoryview[int]
        """All rows; exists only inside the `with` block."""

    @classmethod
    def create(cls, path: str | Path, workers: int, *, groups: int = 1) -> SharedCounters:
        """Create the file, with all cells set to zero."""
        counters = cls(path, groups=groups)
        Path(path).write_bytes(bytes((workers + 1) * counters._width * 8))
        return counters

    def __enter__(self) -> Self:
        with Path(self.path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._cells = memoryview(self._map).cast("q")
        return self

    def __exit__(self, *_: object) -> None:
        self._cells.release()
        self._map.close()

    def write(self, worker: int, cell: int, value: int) -> None:
        """Write one cell in a worker's row."""
        self._cells[(worker + 1) * self._width + cell] = value

    def read_row(self, worker: int) -> list[int]:
        """Return a row to copy to another machine. The state is read first, so that no other cell is older."""
        return self._cells[(worker + 1) * self._width : (worker + 2) * self._width].tolist()

    def write_row(self, worker: int, cells: Sequence[int]) -> None:
        """Write a row from another machine. The state is written last, so that no other cell is older."""
        first = (worker + 1) * self._width
        for cell in reversed(range(self._width)):
            self._cells[first + cell] = cells[cell]

    def total(self, cell: int) -> int:
        """Return the sum of a cell across all workers."""
        return sum(self._cells[self._width + cell :: self._width])

    def most(self, cell: int) -> int:
        """Return the largest value of a cell across all workers."""
        return max(self._cells[self._width + cell :: self._width])

    def received(self) -> list[int]:
        """Return the number of records received, by consumer group."""
        return [self.total(Counter.RECEIVED + group) for group in range(self.groups)]

    def all_reached(self, state: WorkerState) -> bool:
        """Return True if every worker has reached the state."""
        return all(read >= state for read in self._cells[self._width + Counter.STATE :: self._width])

    def start_at(self, start_ns: int) -> None:
        """Publish the instant at which the window opens."""
        self._cells[_Control.START_NS] = start_ns

    @property
    def start_ns(self) -> int | None:
        """Instant at which the window opens; None until the controller has set it."""
        return self._cells[_Control.START_NS] or None

    def stop(self) -> None:
        """Make all workers stop and report the results that they have so far."""
        self._cells[_Control.STOP] = 1

    @property
    def stopped(self) -> bool:
        """True once the controller has stopped the round."""
        return bool(self._cells[_Control.STOP])

    def all_produced(self, drain_ns: int) -> None:
        """Publish the end of production. From `drain_ns` on, consumers read to the end offsets and then report."""
        self._cells[_Control.DRAIN_NS] = drain_ns

    @property
    def drain_ns(self) -> int | None:
        """Instant from which consumers read the rest of the log; None until all producers have finished."""
        return self._cells[_Control.DRAIN_NS] or None

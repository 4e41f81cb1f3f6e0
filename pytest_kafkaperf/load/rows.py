"""Rows of a board that come from other machines, each with its instant: what they were at one instant.

What one machine has acknowledged and another has received would otherwise be compared at two different times, and a
tenth of a second is thousands of records of lag that was none.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

from pytest_kafkaperf.load.board import Cell, State

_KEPT = 200
"""Of a worker; some seconds: rows of a machine that is silent for longer wait for nobody."""

Row = tuple[int, Sequence[int]]
"""Instant, and cells."""


class Rows:
    """The latest rows of all workers."""

    def __init__(self) -> None:
        self._known: dict[int, collections.deque[Row]] = {}

    def add(self, worker: int, at_ns: int, cells: Sequence[int]) -> None:
        """Take a row, unless it is known already."""
        known = self._known.setdefault(worker, collections.deque(maxlen=_KEPT))
        if not known or at_ns > known[-1][0]:
            known.append((at_ns, cells))

    def together(self) -> dict[int, list[int]]:
        """All rows as of the last instant that is known of everyone; states and the like as new as they are."""
        running = [known[-1][0] for known in self._known.values() if known[-1][1][Cell.STATE] < State.DONE]
        at_ns = min(running, default=None)
        return {
            worker: [*known[-1][1]] if at_ns is None else _as_of(at_ns, known) for worker, known in self._known.items()
        }


def _as_of(at_ns: int, known: collections.deque[Row]) -> list[int]:
    """The newest row with the counts of records that it had at that instant, in proportion between two rows."""
    newest = [*known[-1][1]]
    later = next((number for number, (instant_ns, _) in enumerate(known) if instant_ns > at_ns), None)
    if later is None:
        return newest
    after_ns, after = known[later]
    before_ns, before = known[later - 1] if later else known[0]
    for cell in range(Cell.VISIBLE, len(newest)):
        if cell != Cell.P99_NS:
            gained, length_ns = after[cell] - before[cell], max(1, after_ns - before_ns)
            newest[cell] = before[cell] + gained * max(0, at_ns - before_ns) // length_ns
    return newest

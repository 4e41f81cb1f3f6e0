"""Where boards of several machines meet: on the Dask scheduler, which the controller and all workers reach.

Each party hands its row in and takes those of the others. Who is silent for long is taken for lost; and when the
controller is, so is the round.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from distributed.diagnostics.plugin import SchedulerPlugin

from pytest_kafkaperf.load.board import CONTROLLER
from pytest_kafkaperf.load.clocks import clock_name

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler

SILENT_S = 8.0
"""A party that was not heard for so long is lost."""
BEGIN_S = 30.0
"""Bound of a Dask worker's beginning with its share."""


class Meeting:
    """One round, or one audit: who takes part, and what they told last."""

    def __init__(self, addresses: list[str], *, now_s: float) -> None:
        self.addresses = addresses
        """Of the Dask worker that has each share."""
        self.gone: set[str] = set()
        """Those that the scheduler has lost since."""
        self._opened_s = self._controller_s = now_s
        self._rows: dict[int, tuple[int, list[int]]] = {}
        self._attempts: dict[int, str] = {}
        self._heard_s: dict[int, float] = {}

    def control(self, cells: list[int], *, now_s: float) -> dict[str, Any]:
        """What the controller gets for its row: those of the workers, and the shares that are lost, with why."""
        self._controller_s = now_s
        self._rows[CONTROLLER] = (0, cells)
        rows = [[worker, *row] for worker, row in self._rows.items() if worker != CONTROLLER]
        lost = {worker: why for worker in range(len(self.addresses)) if (why := self._lost(worker, now_s))}
        return {"rows": rows, "lost": list(lost.items())}

    def share(self, worker: int, attempt: str, at_ns: int, cells: list[int], *, now_s: float) -> dict[str, Any]:
        """What a worker gets for its row: all the others; nothing where nobody waits for it any more.

        A second attempt at a share is somebody's idea of repair, and would be load that nobody measures.
        """
        again = self._attempts.setdefault(worker, attempt) != attempt
        if again or now_s - self._controller_s > SILENT_S:
            return {"over": True}
        self._heard_s[worker] = now_s
        self._rows[worker] = (at_ns, cells)
        return {"rows": [[other, told] for other, (_, told) in self._rows.items() if other != worker]}

    def _lost(self, worker: int, now_s: float) -> str | None:
        if self.addresses[worker] in self.gone:
            return "left"
        if worker in self._heard_s:
            return "silent" if now_s - self._heard_s[worker] > SILENT_S else None
        return "busy" if now_s - self._opened_s > BEGIN_S else None


class MeetingPoint(SchedulerPlugin):
    """All meetings of one controller. It is there for as long as the controller is, and leaves nothing behind."""

    def __init__(self, name: str, client: str) -> None:
        self.name = name
        """Of the messages to it, and of the plugin."""
        self._client = client
        """Which of the scheduler's clients the controller is."""

    async def start(self, scheduler: Scheduler) -> None:
        """Begin to answer."""
        self._scheduler = scheduler
        self._meetings: dict[str, Meeting] = {}
        scheduler.handlers[self.name] = self._answer

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **_: Any) -> None:
        """Remember that a worker has left; one that takes its address is another."""
        del scheduler, stimulus_id
        for meeting in self._meetings.values():
            meeting.gone.add(worker)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """End with the controller, however it ended."""
        del scheduler
        if client == self._client:
            self._close()

    def _answer(self, do: str, meeting: str = "", **told: Any) -> dict[str, Any]:
        """What messages get."""
        now_s = time.monotonic()
        match do:
            case "clock":
                return {"name": clock_name(), "at_ns": time.monotonic_ns()}
            case "open":
                opened = self._meetings[meeting] = Meeting(told["addresses"], now_s=now_s)
                opened.gone = {address for address in opened.addresses if address not in self._scheduler.workers}
            case "end":
                self._meetings.pop(meeting, None)
            case "leave":
                self._close()
            case "control" if meeting in self._meetings:
                return self._meetings[meeting].control(**told, now_s=now_s)
            case "share" if meeting in self._meetings:
                return self._meetings[meeting].share(**told, now_s=now_s)
            case _:
                return {"over": True}
        return {}

    def _close(self) -> None:
        self._meetings.clear()
        self._scheduler.handlers.pop(self.name, None)
        self._scheduler.plugins.pop(self.name, None)

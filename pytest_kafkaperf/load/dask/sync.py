"""Shared counters kept alike on several machines, through the Dask scheduler, which all of them reach.

Each party hands its row in and takes those of the others. Who is silent for long is taken for lost; and when the
controller is, so is the round.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any, Self

from distributed.diagnostics.plugin import SchedulerPlugin

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.dask.clocks import clock_name
from pytest_kafkaperf.load.shared_counters import CONTROLLER, Counter, SharedCounters, WorkerState

if TYPE_CHECKING:
    from distributed.scheduler import Scheduler


TICK_S = 0.05
"""Between two looks at the meeting: as old is what is seen of other machines, and once more from here to there."""

SILENT_S = 8.0
"""A party that was not heard for so long is lost."""

BEGIN_S = 30.0
"""Bound of a Dask worker's beginning with its share."""


class SyncState:
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


class SchedulerSync(SchedulerPlugin):
    """All meetings of one controller. It is there for as long as the controller is, and leaves nothing behind."""

    def __init__(self, name: str, client: str) -> None:
        self.name = name
        """Of the messages to it, and of the plugin."""
        self._client = client
        """Which of the scheduler's clients the controller is."""

    async def start(self, scheduler: Scheduler) -> None:
        """Begin to answer."""
        self._scheduler = scheduler
        self._meetings: dict[str, SyncState] = {}
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
                opened = self._meetings[meeting] = SyncState(told["addresses"], now_s=now_s)
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


ANSWER_S = 10
"""Bound of any question to the scheduler or, through it, to all workers."""


class CounterSync:
    """Keeps the counters here like those elsewhere, in a thread, and ends what is lost; else that alone."""

    def __init__(
        self,
        ask: Callable[..., dict[str, Any]],
        meeting: str,
        counters: SharedCounters | None,
        futures: Sequence[Future[Any]],
        names: Sequence[str],
    ) -> None:
        self._ask = ask
        self._meeting = meeting
        self._counters = counters
        self._futures = futures
        self._names = names
        self._rows = AlignedCounters()
        self._answered_s = time.monotonic()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkaperf-counters", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(2 * ANSWER_S)

    def _run(self) -> None:
        while not self._closing.wait(TICK_S):
            cells = [] if self._counters is None else self._counters.read_row(CONTROLLER)
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
        if self._counters is None:
            return
        for worker, at_ns, cells in rows:
            self._rows.add(worker, at_ns, cells)
        for worker, cells in self._rows.together().items():
            self._counters.write_row(worker, cells)

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


_KEPT = 200
"""Of a worker; some seconds: rows of a machine that is silent for longer wait for nobody."""

Row = tuple[int, Sequence[int]]
"""Instant, and cells."""


class AlignedCounters:
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
        running = [known[-1][0] for known in self._known.values() if known[-1][1][Counter.STATE] < WorkerState.DONE]
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
    for cell in range(Counter.VISIBLE, len(newest)):
        if cell != Counter.P99_NS:
            gained, length_ns = after[cell] - before[cell], max(1, after_ns - before_ns)
            newest[cell] = before[cell] + gained * max(0, at_ns - before_ns) // length_ns
    return newest

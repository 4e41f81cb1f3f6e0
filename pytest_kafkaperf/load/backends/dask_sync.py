"""Synchronization of clocks and shared counters across machines through the Dask scheduler.

A machine reads the common clock by repeatedly requesting the time. The time in a response was read during the round
trip, so the error is at most half the shortest round-trip time (RFC 5905, section 10).

Each party sends its row and receives the other parties' rows. A party that is silent for too long is considered lost.
If the controller is lost, the round ends.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import Scheduler

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.messages import Clock
from pytest_kafkaperf.load.pushed_tokens import read_pushed
from pytest_kafkaperf.load.shared_counters import CONTROLLER, Counter, SharedCounters, WorkerState

DRIFT_NS = 5_000_000
DRIFT_NS_PER_S = 100_000
"""Tolerated clock drift during a round, and for each second of its load: clocks that nothing adjusts differ by up to 50
ppm each. A record that seems to arrive even earlier than this allows indicates a bug."""


Exchange = tuple[int, int, int]
"""One request for the common time: the times in ns of the request, the reply (on the common clock) and its arrival."""


def until(begin: Clock, end: Clock | None) -> Clock:
    """Return the clock with its uncertainty after a round, taking into account any second reading at its end."""
    if end is None:
        return begin
    moved_ns = abs(end.offset_ns - begin.offset_ns)
    return dataclasses.replace(begin, uncertainty_ns=max(begin.uncertainty_ns, moved_ns + end.uncertainty_ns))


def relative_to(controller: Clock, clock: Clock) -> Clock:
    """Return a worker's clock with its offset from the controller's clock."""
    offset_ns = clock.offset_ns - controller.offset_ns
    return dataclasses.replace(clock, offset_ns=offset_ns, is_here=clock.name == controller.name)


def reading(exchanges: Sequence[Exchange], *, name: str, host: str, common: str) -> Clock:
    """Compare a clock with the common clock, using the fastest exchange. The result is exact for the same clock."""
    if name == common:
        return Clock(name=name, host=host, offset_ns=0, uncertainty_ns=0)
    sent_ns, remote_ns, received_ns = min(exchanges, key=lambda one: one[2] - one[0])
    offset_ns = remote_ns - (sent_ns + received_ns) // 2
    return Clock(name=name, host=host, offset_ns=offset_ns, uncertainty_ns=-(-(received_ns - sent_ns) // 2))


def by_clock(readings: Iterable[Clock]) -> dict[str, Clock]:
    """Return the best reading of each clock, so that all processes on a machine use the same reading."""
    return {one.name: one for one in sorted(readings, key=lambda one: one.uncertainty_ns, reverse=True)}


def tolerated_ns(clock: Clock, clocks: Iterable[Clock], *, lasts_s: float) -> int:
    """Return how early another machine's record can seem to arrive on this clock; 0 if all workers share one clock.

    `lasts_s` is the longest time that the load can take.
    """
    others = [one.uncertainty_ns for one in clocks if one.name != clock.name]
    return clock.uncertainty_ns + max(others) + DRIFT_NS + round(DRIFT_NS_PER_S * lasts_s) if others else 0


def spread(readings: Mapping[str, Clock], shares: int) -> list[str]:
    """Return an address for each share. No machine gets a second share before every machine has one."""
    machines: dict[str, list[str]] = {}
    for address in sorted(readings):
        machines.setdefault(readings[address].name, []).append(address)
    turns = [
        machine[turn] for turn in range(len(readings)) for _, machine in sorted(machines.items()) if turn < len(machine)
    ]
    return [turns[share % len(turns)] for share in range(shares)]


def clock_name() -> str:
    """Return an identifier that is the same for two processes if and only if they share a monotonic clock.

    On Linux, a time namespace can offset that clock (time_namespaces(7)).
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/time")
        return f"{boot} {namespace.readlink()}" if namespace.is_symlink() else boot
    except OSError:
        return f"{uuid.getnode():x}"  # the network card's address, unique to this machine


TICK_S = 0.05
"""Synchronization interval. Values from other machines are up to two intervals old, plus the network latency."""

SILENT_S = 8.0
"""Time after which a party is considered lost if it has not sent a row."""

BEGIN_S = 30.0
"""Time limit for a Dask worker to start its share."""


_Answer = dict[str, Any]
"""Response to a message."""


class SyncState:
    """Parties in one round and their latest rows."""

    def __init__(self, addresses: list[str], *, now_s: float) -> None:
        self.addresses = addresses
        """Address of each share's Dask worker."""
        self.gone: set[str] = set()
        """Addresses of Dask workers that the scheduler has lost since the start of the round."""
        self._opened_s = self._controller_s = now_s
        self._rows: dict[int, tuple[int, list[int]]] = {}
        self._attempts: dict[int, str] = {}
        self._seen_s: dict[int, float] = {}
        self.token: str | None = None
        """Sealed content of the workers' token file; None if they do not need tokens."""

    def control(self, cells: list[int], token: str | None = None, *, now_s: float) -> dict[str, Any]:
        """Store the controller's row and any new token.

        Returns the workers' rows, and the lost shares with the reason for each.
        """
        self._controller_s = now_s
        self.token = token or self.token
        self._rows[CONTROLLER] = (0, cells)
        rows = [[worker, *row] for worker, row in self._rows.items() if worker != CONTROLLER]
        lost = {worker: why for worker in range(len(self.addresses)) if (why := self._lost(worker, now_s))}
        return {"rows": rows, "lost": list(lost.items())}

    def share(
        self, worker: int, attempt: str, at_ns: int, cells: list[int], *, now_s: float, token: str = ""
    ) -> _Answer:
        """Store a worker's row; return all other rows, or `over` if the worker must stop.

        `token` is the `digest` of the worker's token; if there is a newer one, it is returned as well.

        A Dask cluster can repeat tasks, but repeated load is not measured, so a second attempt at a share must stop.
        """
        if self._attempts.setdefault(worker, attempt) != attempt or now_s - self._controller_s > SILENT_S:
            return {"over": True}
        self._seen_s[worker] = now_s
        self._rows[worker] = (at_ns, cells)
        rows = [[other, row] for other, (_, row) in self._rows.items() if other != worker]
        is_new = self.token is not None and digest(self.token) != token
        return {"rows": rows, "token": self.token} if is_new else {"rows": rows}

    def _lost(self, worker: int, now_s: float) -> str | None:
        if self.addresses[worker] in self.gone:
            return "was lost: killed, out of memory, or cut off from the scheduler"
        if worker not in self._seen_s and now_s - self._opened_s > BEGIN_S:
            return f"did not start within {BEGIN_S:.0f} s: it is busy with other tasks; use a dedicated Dask cluster"
        if now_s - self._seen_s.get(worker, now_s) > SILENT_S:
            return f"did not answer for {SILENT_S:.0f} s: its machine or the network is down"
        return None


def seal(token: str, key: str) -> str:
    """Encrypt the content of a token file, because Dask logs messages at its most detailed level."""
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only for tokens

    return Fernet(key).encrypt(token.encode()).decode("ascii")


def unseal(sealed: str, key: str) -> str:
    """Decrypt the content of a token file."""
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only for tokens

    return Fernet(key).decrypt(sealed).decode()


def new_key() -> str:
    """Return a new key for `seal`."""
    from cryptography.fernet import Fernet  # noqa: PLC0415 - only for tokens

    return Fernet.generate_key().decode("ascii")


def digest(sealed: str) -> str:
    """Return a short text that identifies a sealed token."""
    return hashlib.sha256(sealed.encode()).hexdigest()[:16]


class SchedulerSync(SchedulerPlugin):
    """Scheduler's side of one controller's synchronization. The plugin removes itself when the controller exits."""

    def __init__(self, name: str, client: str) -> None:
        self.name = name
        """Name of the scheduler plugin and of its message handler."""
        self._client = client
        """The controller's client identifier on the scheduler."""

    async def start(self, scheduler: Scheduler) -> None:
        """Register the message handler."""
        self._scheduler = scheduler
        self._states: dict[str, SyncState] = {}
        scheduler.handlers[self.name] = self._answer

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **_: Any) -> None:
        """Record that a worker has left. A later worker with the same address is a different worker."""
        del scheduler, stimulus_id
        for state in self._states.values():
            state.gone.add(worker)

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Remove the plugin when the controller exits for any reason."""
        del scheduler
        if client == self._client:
            self._states.clear()
            self._scheduler.handlers.pop(self.name, None)
            self._scheduler.plugins.pop(self.name, None)

    def _answer(self, do: str, sync_id: str = "", **message: Any) -> dict[str, Any]:
        """Answer one message."""
        now_s = time.monotonic()
        match do:
            case "clock":
                return {"name": clock_name(), "at_ns": time.monotonic_ns()}
            case "open":
                state = self._states[sync_id] = SyncState(message["addresses"], now_s=now_s)
                state.token = message["token"]
                state.gone = {address for address in state.addresses if address not in self._scheduler.workers}
            case "end":
                self._states.pop(sync_id, None)
            case "control" if sync_id in self._states:
                return self._states[sync_id].control(**message, now_s=now_s)
            case "share" if sync_id in self._states:
                return self._states[sync_id].share(**message, now_s=now_s)
            case _:
                return {"over": True}
        return {}


ANSWER_S = 10
"""Time limit for a request to the scheduler or, through it, to all workers."""


Workers = Sequence[tuple[Future[Any], str]]
"""Each worker's future, and the name of its Dask worker."""


@contextlib.contextmanager
def synchronized(
    ask: Callable[..., dict[str, Any]], counters: SharedCounters, workers: Workers, key: str
) -> Iterator[None]:
    """Synchronize the controller's counters until the block ends, and fail the futures of lost workers.

    `ask` sends a message to the scheduler; it is called in a thread. `key` seals access tokens.
    """
    closing = threading.Event()
    thread = threading.Thread(
        target=_synchronize, args=(closing, ask, counters, workers, key), name="kafkaperf-counters", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(2 * ANSWER_S)


def _synchronize(
    closing: threading.Event, ask: Callable[..., dict[str, Any]], counters: SharedCounters, workers: Workers, key: str
) -> None:
    rows, answered_s = AlignedCounters(), time.monotonic()
    sent: str | None = None
    while not closing.wait(TICK_S):
        token = read_pushed(counters.path)
        sealed = None if token is None or token == sent else seal(token, key)
        try:
            answer = ask(do="control", cells=counters.read_row(CONTROLLER), token=sealed)
        except LoadError as error:
            if time.monotonic() - answered_s > SILENT_S:
                _fail(workers, str(error))
            continue
        answered_s, sent = time.monotonic(), token
        if answer.get("over"):
            _fail(workers, "the Dask scheduler has restarted")
            return
        for worker, at_ns, cells in answer["rows"]:
            rows.add(worker, at_ns, cells)
        for worker, cells in rows.together().items():
            counters.write_row(worker, cells)
        for worker, reason in answer["lost"]:
            _fail([workers[worker]], f"the Dask worker {workers[worker][1]} {reason}")


def _fail(workers: Workers, reason: str) -> None:
    for future, _ in workers:
        with contextlib.suppress(InvalidStateError):  # the worker has already reported
            future.set_exception(LoadError(reason))


_KEPT = 200
"""Number of rows kept per worker, enough for a few seconds. If a machine is silent for longer, older rows are
dropped."""

Row = tuple[int, Sequence[int]]
"""A row's instant and cells."""


class AlignedCounters:
    """Latest rows from all workers, aligned in time."""

    def __init__(self) -> None:
        self._known: dict[int, collections.deque[Row]] = {}

    def add(self, worker: int, at_ns: int, cells: Sequence[int]) -> None:
        """Add a row unless it is already known."""
        known = self._known.setdefault(worker, collections.deque(maxlen=_KEPT))
        if not known or at_ns > known[-1][0]:
            known.append((at_ns, cells))

    def together(self) -> dict[int, list[int]]:
        """Return all rows as of the last instant known for every running worker, but with each one's newest state."""
        running = [known[-1][0] for known in self._known.values() if known[-1][1][Counter.STATE] < WorkerState.DONE]
        at_ns = min(running, default=None)
        return {
            worker: [*known[-1][1]] if at_ns is None else _as_of(at_ns, known) for worker, known in self._known.items()
        }


def _as_of(at_ns: int, known: collections.deque[Row]) -> list[int]:
    """Return the newest row, but with record counts interpolated between two rows for the given instant."""
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

"""Dask task that runs a worker process on its machine and synchronizes the shared counters there.

The load does not run in a Dask worker thread, where an event loop, a garbage collector and other tasks would interfere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import secrets
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from distributed import get_worker
from distributed.utils import sync
from distributed.worker import Worker, secede

from pytest_kafkaperf.clusters.access.tokens import write_token_file
from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.signals import interrupt_blocked
from pytest_kafkaperf.load.backends.dask_sync import (
    SILENT_S,
    TICK_S,
    Exchange,
    clock_name,
    digest,
    reading,
    unseal,
    until,
)
from pytest_kafkaperf.load.backends.processes import begin, without_main
from pytest_kafkaperf.load.clock import set_clock
from pytest_kafkaperf.load.controller import DIED, WorkerDiedError
from pytest_kafkaperf.load.engines.engine import engine_of
from pytest_kafkaperf.load.messages import Assignment, Clock, WorkerReport
from pytest_kafkaperf.load.pushed_tokens import localized, token_path
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.scenarios.payloads import Samples

_KILL_S = 5
"""Time limit for a killed process to exit."""

_starting = threading.Lock()
"""Lock held while a thread hides `__main__`, so that no other thread picks up the replacement."""


@contextlib.contextmanager
def started(folder: str, function: Callable[..., Any], *arguments: object) -> Iterator[Connection]:
    """Call a function in a new process, and yield the pipe from which `result_of` reads the result.

    The new process is stopped at the end of the block. If this process dies, the new one removes the folder and exits.
    """
    multiprocessing.current_process().daemon = False  # Dask's workers are daemonic, so they cannot have children
    context = multiprocessing.get_context("spawn")
    results, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, folder, function, arguments), daemon=True)
    with _starting, without_main(), interrupt_blocked():
        process.start()
    sender.close()
    try:
        yield results
    finally:
        process.kill()
        process.join(_KILL_S)
        results.close()


def result_of(results: Connection) -> Any:
    """Wait for the function's result and return it.

    Raises:
        LoadError: the function failed, or the process died.

    """
    try:
        result = results.recv()
    except (EOFError, OSError):
        raise WorkerDiedError(DIED) from None
    if isinstance(result, LoadError):
        raise result
    return result


def _run(sender: Connection, folder: str, function: Callable[..., Any], arguments: Sequence[object]) -> None:
    begin(folder)
    try:
        sender.send(function(*arguments))
    except LoadError as error:
        sender.send(error)
    except Exception as error:  # noqa: BLE001 - the report must show any cause
        sender.send(LoadError(f"failed: {type(error).__name__}: {error}\n{traceback.format_exc().strip()}"))


_EXCHANGES = 20
"""Number of requests for the time. Only the request with the shortest round trip counts."""

_OVER = "the round ended before its worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One worker's share of a round, the input to a Dask task. Its repr appears in Dask's logs."""

    handler: str
    sync_id: str
    workers: int
    assignment: Assignment = dataclasses.field(repr=False)
    clock: Clock
    """This machine's clock, compared with the controller's clock."""
    before: Clock
    """This machine's clock, compared with the scheduler's clock."""
    tolerated_ns: int
    """Time by which another machine's record can seem to arrive too early."""
    key: str = dataclasses.field(repr=False)
    """Key with which access tokens in messages are sealed."""


def run_share(share: Share, samples: bytes | None) -> WorkerReport:
    """Run a worker process on the same machine as the Dask worker that executes this task.

    Raises:
        LoadError: the process failed or died, or the round ended first.

    """
    worker = get_worker()
    secede()  # frees this thread's slot for other shares
    groups = share.assignment.scenario.consumer_groups
    with (
        tempfile.TemporaryDirectory(prefix="kafkaperf-counters-") as folder,
        SharedCounters.create(Path(folder) / "counters", share.workers, groups=groups) as counters,
    ):
        host = _Host(worker, share, counters)
        host.exchange()
        assignment = _localised(share.assignment, folder, samples, counters)
        with started(folder, _work, assignment, share.clock.offset_ns, share.tolerated_ns) as results:
            report = host.follow(results)
    known = until(share.before, host.read_clock())
    report.clock = dataclasses.replace(share.clock, uncertainty_ns=known.uncertainty_ns)
    return report


async def send(scheduler: Any, handler: str, **message: Any) -> Any:
    """Send a message to the scheduler's message handler, and return its answer.

    Raises:
        LoadError: the scheduler no longer has the handler.

    """
    answer = await getattr(scheduler, handler)(**message)
    if answer is None:
        raise LoadError("the Dask scheduler has restarted or lost its client")
    return answer


async def read_clock_by(scheduler: Any, handler: str) -> Clock:
    """Compare this machine's clock with the scheduler's by repeatedly requesting the time."""
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
    """Compare a Dask worker's clock with the scheduler's; this function runs on the Dask worker."""
    return await read_clock_by(dask_worker.scheduler, handler)


def _work(assignment: Assignment, offset_ns: int, uncertainty_ns: int) -> WorkerReport:
    set_clock(offset_ns=offset_ns, uncertainty_ns=uncertainty_ns)
    return engine_of(assignment.scenario.client).work(assignment)


def _localised(assignment: Assignment, folder: str, samples: bytes | None, counters: SharedCounters) -> Assignment:
    """Return the assignment with paths on this machine."""
    scenario = assignment.scenario
    if samples is not None and isinstance(scenario.payload, Samples):
        path = Path(folder) / "samples"
        path.write_bytes(samples)
        payload = dataclasses.replace(scenario.payload, path=str(path))
        scenario = scenario.model_copy(update={"payload": payload})
    access = localized(assignment.access, counters.path)
    return dataclasses.replace(assignment, scenario=scenario, counters=counters.path, access=access)


class _Host:
    """A machine's side of the synchronization, for one process on that machine."""

    def __init__(self, worker: Worker, share: Share, counters: SharedCounters) -> None:
        self._dask_worker = worker
        self._share = share
        self._counters = counters
        self._attempt = secrets.token_hex(8)
        self._token = ""
        """Identifies the token in this machine's file; empty if there is none."""

    def follow(self, results: Connection) -> WorkerReport:
        """Synchronize the counters until the process has exited; return its report.

        Raises:
            LoadError: the process failed or died, or had to be killed.

        """
        answered_s = time.monotonic()
        while True:
            ended = results.poll(TICK_S)
            try:
                self.exchange()
                answered_s = time.monotonic()
            except (OSError, TimeoutError):
                if time.monotonic() - answered_s > SILENT_S:
                    raise LoadError(f"the Dask scheduler did not answer for {SILENT_S:.0f} s") from None
            if ended:
                report: WorkerReport = result_of(results)
                return report

    def read_clock(self) -> Clock | None:
        """Compare this machine's clock with the scheduler's; return None if that fails."""
        worker = self._dask_worker
        with contextlib.suppress(OSError, TimeoutError, LoadError):
            found: Clock = sync(worker.loop, read_clock, self._share.handler, worker, callback_timeout=SILENT_S)
            return found
        return None

    def exchange(self) -> None:
        """Send this worker's row, and write the other workers' rows and any new access token.

        Raises:
            LoadError: the controller is gone, or another attempt at this share came first.

        """
        worker = self._share.assignment.worker
        answer: dict[str, Any] = sync(
            self._dask_worker.loop,
            send,
            self._dask_worker.scheduler,
            self._share.handler,
            do="share",
            sync_id=self._share.sync_id,
            worker=worker,
            attempt=self._attempt,
            at_ns=time.monotonic_ns() + self._share.clock.offset_ns,
            cells=self._counters.read_row(worker),
            token=self._token,
            callback_timeout=SILENT_S,
        )
        if answer.get("over"):
            raise LoadError(_OVER)
        if token := answer.get("token"):
            write_token_file(Path(token_path(self._counters.path)), unseal(token, self._share.key))
            self._token = digest(token)
        for other, cells in answer["rows"]:
            self._counters.write_row(other, cells)

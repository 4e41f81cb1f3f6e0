"""Worker processes on this machine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import shutil
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Self

from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.signals import interrupt_blocked
from pytest_kafkaperf.load.audit import TIMEOUT_S, AuditTask
from pytest_kafkaperf.load.controller import DIED, WorkerDiedError
from pytest_kafkaperf.load.engines.engine import engine_of
from pytest_kafkaperf.load.messages import Assignment, Audit, WorkerReport
from pytest_kafkaperf.load.shared_counters import SharedCounters

_GIVE_UP_S = 5
"""Maximum time for idle processes to exit before they are killed."""

_MARGIN_NS = 20_000_000


class Processes:
    """Worker processes for all rounds of a test. They exit if the controller dies."""

    margin_ns = _MARGIN_NS

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor: concurrent.futures.ProcessPoolExecutor
        """Exists only inside the `with` block."""
        self._futures: list[concurrent.futures.Future[Any]] = []

    def __enter__(self) -> Self:
        # Python's resource tracker, which removes semaphores, inherits the mask.
        with interrupt_blocked(and_endings=True):
            self._executor = concurrent.futures.ProcessPoolExecutor(
                self._workers, mp_context=multiprocessing.get_context("spawn"), initializer=begin
            )
        return self

    def __exit__(self, *_: object) -> None:
        idle = all(future.done() for future in self._futures)
        _end(self._executor, patience_s=_GIVE_UP_S if idle else 0)

    @contextlib.contextmanager
    def load(
        self, assignments: Sequence[Assignment], counters: SharedCounters
    ) -> Iterator[Sequence[concurrent.futures.Future[WorkerReport]]]:
        """Hand the assignments to the processes. Each process maps the shared counters itself.

        Raises:
            WorkerDiedError: a process has already died.

        """
        del counters
        yield self._submit(engine_of(assignments[0].scenario.client).work, assignments)

    def audit(self, task: AuditTask) -> Audit:
        """Audit the log in a process; raises the same errors as `controller.WorkerBackend.audit`."""
        (future,) = self._submit(engine_of(task.scenario.client).audit, [task])
        found: Audit = future.result(timeout=TIMEOUT_S + _GIVE_UP_S)
        return found

    def _submit(self, function: Callable[[Any], Any], tasks: Sequence[object]) -> list[concurrent.futures.Future[Any]]:
        try:
            with without_main(), interrupt_blocked():
                self._futures = [self._executor.submit(function, task) for task in tasks]
        except BrokenProcessPool:
            raise WorkerDiedError(DIED) from None
        for process in _processes(self._executor):
            if process.pid is not None:
                supervisor.kill_later(process.pid)  # a stopped or hanging process does not exit by itself
        return self._futures


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Hide `__main__` while processes are spawned, which happens when assignments are submitted.

    `multiprocessing` imports the parent's main module in each child. Here, the main module is pytest or the user's
    script. Workers do not need it, and importing it could start everything again. Only one thread at a time may hide
    it, because a second thread would restore the wrong module.
    """
    with _HIDING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


_HIDING = threading.Lock()


def begin(*folders: str) -> None:
    """Initialize a worker process so that it removes the folders and exits if its parent dies."""
    # On Ctrl-C, the controller stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel, folders), daemon=True).start()


def _follow(sentinel: int, folders: Sequence[str]) -> None:
    """Exit when the parent process exits, so that no load continues unattended."""
    multiprocessing.connection.wait([sentinel])
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _end(executor: concurrent.futures.ProcessPoolExecutor, *, patience_s: float) -> None:
    """Wait up to `patience_s` for idle processes to exit, then kill the remaining ones."""
    processes = _processes(executor)
    executor.shutdown(wait=False, cancel_futures=True)
    deadline = time.monotonic() + patience_s
    for process in processes:
        # The executor's thread waits for the same processes, so `is_alive()` is wrong until it knows their status.
        if not multiprocessing.connection.wait([process.sentinel], max(0.0, deadline - time.monotonic())):
            process.kill()
            multiprocessing.connection.wait([process.sentinel], _GIVE_UP_S)
        process.join(_GIVE_UP_S)
        has_ended = multiprocessing.connection.wait([process.sentinel], 0)
        if process.pid is not None and has_ended:
            supervisor.forget(process.pid)


def _processes(executor: concurrent.futures.ProcessPoolExecutor) -> list[multiprocessing.process.BaseProcess]:
    """Return the executor's processes, which are available only in a private attribute."""
    return list((getattr(executor, "_processes", None) or {}).values())

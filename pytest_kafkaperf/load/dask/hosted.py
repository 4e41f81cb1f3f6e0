"""A worker process on a machine of a Dask cluster, started by the Dask worker.

The load does not run in a thread of the Dask worker, because that has an event loop, a garbage collector and other
tasks.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.signals import interrupt_blocked
from pytest_kafkaperf.load.processes import DIED, begin, without_main

_KILL_S = 5
"""Time limit for a killed process to end."""

_starting = threading.Lock()
"""Held while a thread hides `__main__`, so that no other thread keeps the replacement."""


@contextlib.contextmanager
def started(folder: str, function: Callable[..., Any], *arguments: object) -> Iterator[Connection]:
    """Call a function in a process, and yield the pipe of its result; `result_of` reads it.

    The process ends with the block. If this process dies, the other one removes the folder and ends.
    """
    multiprocessing.current_process().daemon = False  # Dask's workers are daemonic, which may have no children
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
    """Return the result of the function; wait for it.

    Raises:
        LoadError: the function failed, or the process died.

    """
    try:
        result = results.recv()
    except (EOFError, OSError):
        raise LoadError(DIED) from None
    if isinstance(result, LoadError):
        raise result
    return result


def _run(sender: Connection, folder: str, function: Callable[..., Any], arguments: Sequence[object]) -> None:
    begin(folder)
    try:
        sender.send(function(*arguments))
    except LoadError as error:
        sender.send(error)
    except Exception as error:  # noqa: BLE001 - the report must name any cause
        sender.send(LoadError(f"failed: {type(error).__name__}: {error}\n{traceback.format_exc().strip()}"))

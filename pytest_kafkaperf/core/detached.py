"""Calls in threads that are never joined, because a library or a server may block them for a long time."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def detached(work: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Call a function in a new daemon thread, which neither a closing event loop nor the interpreter waits for."""
    result: concurrent.futures.Future[T] = concurrent.futures.Future()
    result.set_running_or_notify_cancel()  # from now on, the future cannot be cancelled and always accepts a result

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            result.set_exception(error)

    threading.Thread(target=run, name="kafkaperf-detached", daemon=True).start()
    return result

"""Handling of Ctrl-C (SIGINT) during setup and cleanup."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


class Interruption:
    """Pytest plugin that ignores further interrupts after the first Ctrl-C has ended the session.

    A second Ctrl-C would interrupt pytest's own report with a traceback and skip the cleanup of brokers and workers.
    All cleanup steps have a time limit, so the user never waits forever.
    """

    def __init__(self, add_cleanup: Callable[[Callable[[], None]], None]) -> None:
        """Store `add_cleanup`, which registers a function to call when pytest ends."""
        self._add_cleanup = add_cleanup

    def pytest_keyboard_interrupt(self) -> None:
        """Ignore further interrupts. Pytest calls this hook before it reports the first one."""
        ignore_interrupts(self._add_cleanup)


def ignore_interrupts(add_cleanup: Callable[[Callable[[], None]], None]) -> None:
    """Ignore Ctrl-C until pytest ends; `add_cleanup` registers the function that restores the handler."""
    before = signal.getsignal(signal.SIGINT)
    if before is None:  # the handler was not installed by Python, so Python cannot restore it
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def restore() -> None:
        signal.signal(signal.SIGINT, before)

    add_cleanup(restore)


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block; the block must be short and bounded."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers, and only it receives KeyboardInterrupt
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def interrupt_blocked(*, and_endings: bool = False) -> Iterator[None]:
    """Block SIGINT, with `and_endings` also SIGTERM and SIGHUP, while the plugin spawns processes.

    The signals are delivered after the block.

    Child processes inherit the signal mask. Without it, Ctrl-C in a terminal reaches the whole foreground process group
    and a worker that still imports modules would print a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    endings = [signal.SIGTERM, signal.SIGHUP] if and_endings else []
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *endings])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)

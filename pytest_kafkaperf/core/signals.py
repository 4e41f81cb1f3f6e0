"""Handling of Ctrl-C (SIGINT) during setup and cleanup."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_PROTECTED_S = 60
"""Time after which Ctrl-C interrupts even a block that delays or ignores it."""


@contextlib.contextmanager
def ignored_interrupt(received: list[int]) -> Iterator[None]:
    """Ignore Ctrl-C, and SIGTERM that is handled like it, for a limited time; append each signal to `received`."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers, and only it receives KeyboardInterrupt
        return
    deadline = time.monotonic() + _PROTECTED_S

    def ignore(number: int, frame: FrameType | None) -> None:
        if time.monotonic() <= deadline or (before == signal.SIG_IGN and number == signal.SIGINT):
            received.append(number)
        elif callable(before):
            before(number, frame)
        else:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Delay Ctrl-C, and SIGTERM that is handled like it, until the end of the block, for at most `_PROTECTED_S`."""
    received: list[int] = []
    try:
        with ignored_interrupt(received):
            yield
    finally:
        if received:  # SIGTERM also interrupts where Ctrl-C is ignored
            signal.raise_signal(signal.SIGTERM if signal.SIGTERM in received else signal.SIGINT)


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C within the block, unless SIGTERM is already handled or ignored."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # the current handler may delay or ignore Ctrl-C
        if not callable(handler):  # shells start background jobs with SIGINT ignored
            raise KeyboardInterrupt
        handler(number, frame)

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def interrupt_blocked(*, and_endings: bool = False) -> Iterator[None]:
    """Block SIGINT while the plugin starts processes; with `and_endings`, also block SIGTERM and SIGHUP.

    Child processes inherit the signal mask. Otherwise, Ctrl-C in a terminal would reach the whole foreground process
    group, and a worker that is still importing modules would print a traceback. Blocked signals are delivered after
    the block.
    """
    endings = [signal.SIGTERM, signal.SIGHUP] if and_endings else []
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *endings])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)

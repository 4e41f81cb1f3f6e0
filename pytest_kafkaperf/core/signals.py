"""Handling of Ctrl-C (SIGINT) during setup and cleanup."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

_PROTECTED_S = 60
"""Time after which Ctrl-C interrupts a block that delays or ignores it."""


@contextlib.contextmanager
def ignored_interrupt(received: list[int]) -> Iterator[None]:
    """Ignore Ctrl-C in the block, for a bounded time, and append each to `received`."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set handlers, and only it receives KeyboardInterrupt
        return
    deadline = time.monotonic() + _PROTECTED_S

    def ignore(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > deadline and callable(before):
            before(number, frame)
        else:
            received.append(number)

    signal.signal(signal.SIGINT, ignore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, for a bounded time; the block must be short."""
    received: list[int] = []
    try:
        with ignored_interrupt(received):
            yield
    finally:
        if received:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Handle SIGTERM in the block as Ctrl-C, unless somebody else handles or ignores it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def interrupt(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # at this moment it may delay or ignore Ctrl-C
        if not callable(handler):  # a shell starts background jobs with Ctrl-C ignored
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def interrupt_blocked(*, and_endings: bool = False) -> Iterator[None]:
    """Block SIGINT, with `and_endings` also SIGTERM and SIGHUP, while the plugin spawns processes.

    The signals are delivered after the block.

    Child processes inherit the signal mask. Without it, Ctrl-C in a terminal reaches the whole foreground process group
    and a worker that still imports modules would print a traceback.
    """
    endings = [signal.SIGTERM, signal.SIGHUP] if and_endings else []
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, *endings])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)

"""What Ctrl-C does to a session that has something to clean up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interruption:
    """A plugin of pytest's: once Ctrl-C ends the session, more of them are not heard.

    Pytest would be broken off while it tells of the first one, with a traceback, and what was started would be left to
    the next run. All that is still to be done has a bound.
    """

    def __init__(self, add_cleanup: Callable[[Callable[[], None]], None]) -> None:
        """`add_cleanup` takes what is to be done when pytest ends."""
        self._add_cleanup = add_cleanup

    def pytest_keyboard_interrupt(self) -> None:
        """Called before pytest tells anything: of plugins, the last that was registered comes first."""
        hear_no_more(self._add_cleanup)


def hear_no_more(add_cleanup: Callable[[Callable[[], None]], None]) -> None:
    """Ignore Ctrl-C until pytest ends; `add_cleanup` takes what is to be done then."""
    before = signal.getsignal(signal.SIGINT)
    if before is None:  # not of Python's making, nor to be put back by it
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def listen_again() -> None:
        signal.signal(signal.SIGINT, before)

    add_cleanup(listen_again)


@contextmanager
def without_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back while something is done that is short, bounded, and not to be done by half."""
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():  # it never comes here then
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def interrupt_blocked() -> Iterator[None]:
    """Hold Ctrl-C back while processes are spawned.

    They inherit the mask: a terminal's Ctrl-C reaches the whole foreground group, and would end a worker that still
    imports with a traceback on the user's screen. The controller gets it a moment later.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)

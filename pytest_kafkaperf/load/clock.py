"""A round's clock, a time limit for its waits, and timers that are more precise than an event loop's."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from pytest_kafkaperf.core.units import NS_PER_S


@dataclass(slots=True)
class _Clock:
    """Offset of the round's clock from this machine's monotonic clock, and its uncertainty."""

    offset_ns: int = 0
    uncertainty_ns: int = 0


_clock = _Clock()
"""This process's clock, set once before any load if the controller runs on another machine. The default offset is 0."""


def set_clock(*, offset_ns: int, uncertainty_ns: int) -> None:
    """Make this process use the controller's clock, which is `offset_ns` ahead of this machine's."""
    _clock.offset_ns, _clock.uncertainty_ns = offset_ns, uncertainty_ns


def now_ns() -> int:
    """Return the time on the round's clock, which is the monotonic clock of the controller's machine."""
    return time.monotonic_ns() + _clock.offset_ns


def monotonic_ns(instant_ns: int) -> int:
    """Convert an instant on the round's clock to this machine's monotonic clock, for timers."""
    return instant_ns - _clock.offset_ns


def known_to_ns() -> int:
    """Return the uncertainty of `now_ns` relative to other machines; 0 if all workers are on one machine."""
    return _clock.uncertainty_ns


class Stall:
    """Time limit for a wait for records. The wait ends if no record arrives for `quiet_s`, or after `most_s`."""

    def __init__(self, quiet_s: float, *, most_s: float = math.inf) -> None:
        self._began_s = self._progress_s = time.monotonic()
        self._quiet_s, self._most_s = quiet_s, most_s
        self._fewest = math.inf

    def is_over(self, missing: int) -> bool:
        """Return True if the wait is over. A new minimum of `missing` counts as progress."""
        now_s = time.monotonic()
        if missing < self._fewest:
            self._fewest, self._progress_s = missing, now_s
        return now_s > min(self._progress_s + self._quiet_s, self._began_s + self._most_s)


def make_alarm() -> Timer:
    """Return the most precise timer available on this platform."""
    return _KernelTimer() if sys.platform == "linux" else Timer()


class Timer:
    """Timer that sleeps until an instant on the round's clock. It uses the event loop, accurate to a millisecond."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def until(self, deadline_ns: int) -> None:
        """Return at `deadline_ns`, or as soon as possible after that; return immediately if it has passed."""
        while (remaining_ns := deadline_ns - now_ns()) > 0:
            await asyncio.sleep(remaining_ns / NS_PER_S)


class _KernelTimer(Timer):
    """Timer based on a Linux timer descriptor (timerfd_create(2)), accurate to about ten microseconds.

    Python has supported these system calls since version 3.13. In earlier versions, the timer makes them with ctypes.
    """

    _TFD_TIMER_ABSTIME = 1
    _CLOCK_MONOTONIC = 1

    def __init__(self) -> None:
        self._fd = -1
        self._expired: asyncio.Future[None] | None = None
        self._settime: Callable[..., int] = _libc().timerfd_settime

    def __enter__(self) -> Self:
        # TFD_NONBLOCK and TFD_CLOEXEC have the same values as these flags.
        self._fd = _libc().timerfd_create(self._CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        asyncio.get_running_loop().add_reader(self._fd, self._on_expiry)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1

    async def until(self, deadline_ns: int) -> None:
        if deadline_ns <= now_ns():
            return
        self._expired = asyncio.get_running_loop().create_future()
        # struct itimerspec: interval (none), then the absolute instant (0 would disarm the timer), each in seconds and
        # nanoseconds.
        spec = struct.pack("qqqq", 0, 0, *divmod(max(1, monotonic_ns(deadline_ns)), NS_PER_S))
        if self._settime(self._fd, self._TFD_TIMER_ABSTIME, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
        await self._expired

    def _on_expiry(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # a newer deadline has replaced the one whose expiry woke the loop
            return
        if self._expired is not None and not self._expired.done():
            self._expired.set_result(None)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

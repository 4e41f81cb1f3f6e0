"""Waking up on time: event loops round to milliseconds, due times are finer."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Protocol, Self

from pytest_kafkaperf.core.units import NS_PER_S


class _Clock:
    """How far this machine's monotonic clock is from that of the round, and how well that is known."""

    __slots__ = ("offset_ns", "uncertainty_ns")

    def __init__(self) -> None:
        self.offset_ns = self.uncertainty_ns = 0


_clock = _Clock()
"""Set once, before any load, in a process on another machine than the controller's; 0 for all others."""


def set_clock(*, offset_ns: int, uncertainty_ns: int) -> None:
    """Let this process tell its instants by the controller's clock, which is so far ahead of its own."""
    _clock.offset_ns, _clock.uncertainty_ns = offset_ns, uncertainty_ns


def now_ns() -> int:
    """The one clock of a round: the controller's monotonic one, which is that of all processes of its machine."""
    return time.monotonic_ns() + _clock.offset_ns


def monotonic_ns(instant_ns: int) -> int:
    """An instant of the round's clock on this machine's own, for timers."""
    return instant_ns - _clock.offset_ns


def known_to_ns() -> int:
    """How far `now_ns` may be from what another machine's says; 0 where all are on one."""
    return _clock.uncertainty_ns


class Timer(Protocol):
    """Sleeps until an instant of the round's clock."""

    async def until(self, deadline_ns: int) -> None:
        """Return at `deadline_ns` or as soon after it as the machine can; at once when it has passed."""

    def __enter__(self) -> Self:
        """Take what the alarm needs."""

    def __exit__(self, *_: object) -> None:
        """Give it back."""


def make_alarm() -> Timer:
    """The most exact alarm of this platform."""
    return _TimerAlarm() if sys.platform == "linux" else LoopAlarm()


class LoopAlarm:
    """By the event loop, to the millisecond."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def until(self, deadline_ns: int) -> None:
        """Sleep until an instant of the clock."""
        while (remaining_ns := deadline_ns - now_ns()) > 0:
            await asyncio.sleep(remaining_ns / NS_PER_S)


class _TimerAlarm:
    """By a Linux timer descriptor on the monotonic clock, to some ten microseconds (timerfd_create(2)).

    Python has these calls from 3.13 on; ctypes reaches them before.
    """

    _TFD_NONBLOCK = os.O_NONBLOCK
    _TFD_CLOEXEC = os.O_CLOEXEC if hasattr(os, "O_CLOEXEC") else 0
    _TFD_TIMER_ABSTIME = 1
    _CLOCK_MONOTONIC = 1

    def __init__(self) -> None:
        self._fd = -1
        self._rang: asyncio.Future[None] | None = None
        self._settime: Callable[..., int] = _libc().timerfd_settime

    def __enter__(self) -> Self:
        self._fd = _libc().timerfd_create(self._CLOCK_MONOTONIC, self._TFD_NONBLOCK | self._TFD_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        asyncio.get_running_loop().add_reader(self._fd, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1

    async def until(self, deadline_ns: int) -> None:
        if deadline_ns <= now_ns():
            return
        self._rang = asyncio.get_running_loop().create_future()
        # struct itimerspec: interval (none), then the absolute instant, of which 0 would be none; both seconds and
        # nanoseconds.
        spec = struct.pack("qqqq", 0, 0, *divmod(max(1, monotonic_ns(deadline_ns)), NS_PER_S))
        if self._settime(self._fd, self._TFD_TIMER_ABSTIME, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
        await self._rang

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # the loop saw an expiry that a newer deadline has replaced
            return
        if self._rang is not None and not self._rang.done():
            self._rang.set_result(None)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

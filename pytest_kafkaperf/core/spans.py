"""Spans that show where a test's time goes, and the stopwatch that measures them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

from pytest_kafkaperf.core.units import NS_PER_S


class Span(StrEnum):
    """Part of a test's running time. Members are in the order in which a test runs."""

    FETCH = "fetch"
    """Downloading and verifying Kafka, or pulling its image."""
    START = "start"
    """Starting brokers, restarting them for further trials, or connecting to a running cluster."""
    SETUP = "setup"
    """Starting applications, and waiting for the other side in a code comparison."""
    PROBE = "probe"
    """The entire short load that determines how many workers the scenario needs."""
    WARM_UP = "warm_up"
    """All loads that warm up the brokers before the first round."""
    TOPIC = "topic"
    """Creating and deleting each load's topic, and checking permissions."""
    CONNECT = "connect"
    """Starting worker processes and connecting their clients, up to the first record."""
    WINDOW = "window"
    """The load: the backlog, the scenario's own warm-up, and the measured window."""
    DRAIN = "drain"
    """Waiting after the window until consumers and applications have read the remaining records."""
    AUDIT = "audit"
    """Comparing the acknowledged records with the log."""
    JUDGE = "judge"
    """Evaluating the measurements and judging the thresholds."""
    PAUSE = "pause"
    """Waiting between trials (`kafka_trial_gap`)."""
    OTHER = "other"
    """Everything else, such as the user's fixtures and the test's own code."""


_WHOLE = (Span.PROBE, Span.WARM_UP)
"""Spans that are not subdivided."""


class Stopwatch:
    """Stopwatch that divides a test's time into spans: each moment since `restart` belongs to exactly one span."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._owner = threading.RLock()
        """Lock held by the thread that is measuring a block."""
        self.restart()

    def restart(self) -> None:
        """Discard all spans at the start of a test."""
        self._spent_ns = dict.fromkeys(Span, 0)
        self._span = Span.OTHER
        self._since_ns = self._now_ns()

    @contextlib.contextmanager
    def measure(self, span: Span) -> Iterator[None]:
        """Attribute the time spent in the block to `span`, except for time that the block attributes to other spans.

        A block on another thread is not measured, because its time already belongs to the span being measured.
        """
        if self._span in _WHOLE or not self._owner.acquire(blocking=False):
            yield
            return
        before = self._span
        self._switch(span, self._now_ns())
        try:
            yield
        finally:
            self._switch(before, self._now_ns())
            self._owner.release()

    def begin(self, span: Span, *, at_ns: int | None = None) -> None:
        """Attribute the time from now on to `span`, until the enclosing `measure` ends.

        If the span started earlier, `at_ns` is its start time.
        """
        if self._span in _WHOLE or not self._owner.acquire(blocking=False):
            return
        self._switch(span, self._now_ns() if at_ns is None else at_ns)
        self._owner.release()

    def seconds(self) -> dict[Span, float]:
        """Return the seconds spent in each span; their sum is the time since the last `restart`."""
        self._switch(self._span, self._now_ns())
        return {span: spent_ns / NS_PER_S for span, spent_ns in self._spent_ns.items()}

    def _switch(self, span: Span, at_ns: int) -> None:
        at_ns = max(self._since_ns, min(at_ns, self._now_ns()))
        self._spent_ns[self._span] += at_ns - self._since_ns
        self._span, self._since_ns = span, at_ns

"""The stopwatch: it divides the time of a test into spans without a gap or an overlap."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass

import pytest

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.units import NS_PER_S


@dataclass
class Clock:
    """A clock that a test sets."""

    now_s: float = 100.0

    def __call__(self) -> int:
        return round(self.now_s * NS_PER_S)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stopwatch(clock: Clock) -> Stopwatch:
    return Stopwatch(clock)


def spent(stopwatch: Stopwatch) -> dict[str, float]:
    """The spans that took any time."""
    return {str(span): seconds for span, seconds in stopwatch.seconds().items() if seconds}


def test_an_inner_block_does_not_count_twice(stopwatch: Stopwatch, clock: Clock) -> None:
    """Kafka is downloaded while its brokers start: the sum must stay the time that passed."""
    clock.now_s += 1
    with stopwatch.measure(Span.START):
        clock.now_s += 2
        with stopwatch.measure(Span.FETCH):
            clock.now_s += 4
        clock.now_s += 8
    clock.now_s += 16
    assert spent(stopwatch) == {"start": 10, "fetch": 4, "other": 17}


@pytest.mark.parametrize("whole", [Span.WARM_UP, Span.PROBE])
def test_loads_of_a_warm_up_are_not_divided(stopwatch: Stopwatch, clock: Clock, whole: Span) -> None:
    """`window` must be the time of the rounds alone, which only the scenario decides."""
    with stopwatch.measure(whole):
        with stopwatch.measure(Span.TOPIC):
            clock.now_s += 1
            stopwatch.begin(Span.WINDOW)
            clock.now_s += 2
        clock.now_s += 4
    clock.now_s += 8
    assert spent(stopwatch) == {str(whole): 7, "other": 8}


def test_a_span_can_begin_in_the_past(stopwatch: Stopwatch, clock: Clock) -> None:
    """When a load has ended, its report shows when the first record was sent."""
    with stopwatch.measure(Span.TOPIC):
        clock.now_s += 1
        stopwatch.begin(Span.CONNECT)
        clock.now_s += 10
        stopwatch.begin(Span.WINDOW, at_ns=round(103 * NS_PER_S))
        stopwatch.begin(Span.DRAIN, at_ns=round(109 * NS_PER_S))
        clock.now_s += 4
    assert spent(stopwatch) == {"topic": 1, "connect": 2, "window": 6, "drain": 6}


@pytest.mark.parametrize(("at_s", "connect_s"), [(50, 0), (500, 10)])
def test_an_instant_outside_of_the_current_span_is_cut(
    stopwatch: Stopwatch, clock: Clock, at_s: int, connect_s: int
) -> None:
    """A load that broke off may report a start that it did not reach; no span becomes negative."""
    stopwatch.begin(Span.CONNECT)
    clock.now_s += 10
    stopwatch.begin(Span.WINDOW, at_ns=at_s * NS_PER_S)
    clock.now_s += 1
    assert stopwatch.seconds()[Span.CONNECT] == connect_s
    assert stopwatch.seconds()[Span.WINDOW] == 11 - connect_s


def test_a_block_that_fails_ends_its_span(stopwatch: Stopwatch, clock: Clock) -> None:
    """A cluster error ends a trial, and the test goes on."""
    with contextlib.suppress(ClusterError), stopwatch.measure(Span.TOPIC):
        stopwatch.begin(Span.WINDOW)
        clock.now_s += 1
        raise ClusterError("a broker has ended")
    clock.now_s += 2
    assert spent(stopwatch) == {"window": 1, "other": 2}


def test_another_thread_changes_nothing_while_a_block_is_measured(stopwatch: Stopwatch, clock: Clock) -> None:
    """A test may start an application while its load runs in a thread; the load would lose its time."""

    def application() -> None:
        with stopwatch.measure(Span.SETUP):
            stopwatch.begin(Span.DRAIN)
            clock.now_s += 1

    with stopwatch.measure(Span.WINDOW):
        thread = threading.Thread(target=application)
        thread.start()
        thread.join()
        clock.now_s += 2
    assert spent(stopwatch) == {"window": 3}


def test_each_test_begins_at_zero(stopwatch: Stopwatch, clock: Clock) -> None:
    """The brokers of an earlier test are no time of this one."""
    with stopwatch.measure(Span.START):
        clock.now_s += 1
    stopwatch.restart()
    clock.now_s += 2
    assert spent(stopwatch) == {"other": 2}
    assert list(stopwatch.seconds()) == list(Span)

"""Tickets from a keytab, which are renewed in time, whatever the KDC does."""

from __future__ import annotations

import threading

import pytest

from pytest_kafkaperf.clusters.access.tickets import Tickets
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.orphans import becomes
from tests.support.patience import PATIENCE_S

LIFE_S = 100.0


class Kdc:
    """Gives a number instead of a ticket; may be slow or down."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.given = 0
        self.is_down = False
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Semaphore(0)

    def fetch(self) -> tuple[int, float]:
        self.asked.release()
        assert self.answers.wait(PATIENCE_S)
        if self.is_down:
            raise ClusterError("no answer")
        self.given += 1
        return self.given, LIFE_S

    def tickets(self) -> Tickets:
        return Tickets(self.fetch, clock=lambda: self.now_s)


def test_a_ticket_is_used_until_most_of_its_life_has_passed() -> None:
    """A request for each login would burden the KDC."""
    kdc = Kdc()
    tickets = kdc.tickets()
    kdc_was_asked = []
    for kdc.now_s in (0.0, 30.0, 59.0):
        kdc_was_asked.append(tickets.current())
    assert kdc_was_asked == [1, 1, 1]
    kdc.now_s = 60.0
    assert tickets.current() in (1, 2)
    assert becomes(lambda: tickets.current() == 2)
    assert kdc.given == 2


def test_a_slow_kdc_delays_no_login_while_the_ticket_is_valid() -> None:
    """Brokers close connections that do not log in again in time."""
    kdc = Kdc()
    tickets = kdc.tickets()
    tickets.current()
    kdc.answers.clear()
    kdc.now_s = 60.0
    assert [tickets.current() for _ in range(5)] == [1] * 5
    kdc.now_s = 70.0  # later than the pause after a failed renewal
    assert tickets.current() == 1
    kdc.answers.set()
    assert becomes(lambda: tickets.current() == 2)
    assert kdc.given == 2


def test_a_failed_renewal_is_repeated_until_the_ticket_expires() -> None:
    """A KDC may be restarted during a load."""
    kdc = Kdc()
    tickets = kdc.tickets()
    tickets.current()
    kdc.is_down = True
    kdc.asked = threading.Semaphore(0)
    for kdc.now_s in (60.0, 65.0, 70.0):
        assert becomes(lambda: tickets.current() == 1 and kdc.asked.acquire(blocking=False))
    kdc.now_s = LIFE_S
    with pytest.raises(ClusterError, match="no answer"):
        tickets.current()
    kdc.is_down = False
    assert tickets.current() == 2


def test_the_first_ticket_is_waited_for() -> None:
    """There is nothing to log in with before."""
    kdc = Kdc()
    kdc.is_down = True
    tickets = kdc.tickets()
    with pytest.raises(ClusterError, match="no answer"):
        tickets.current()
    kdc.is_down = False
    assert tickets.current() == 1

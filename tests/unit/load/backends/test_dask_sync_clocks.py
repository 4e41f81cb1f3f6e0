"""Clocks of several machines: what exchanges say of them, and what that is worth."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.backends.dask_sync import (
    DRIFT_NS,
    DRIFT_NS_PER_S,
    by_clock,
    clock_name,
    reading,
    relative_to,
    spread,
    tolerated_ns,
    until,
)
from pytest_kafkaperf.load.messages import Clock


def read(name: str = "a", *, offset_ns: int = 0, uncertainty_ns: int = 0) -> Clock:
    return Clock(name=name, host=f"host-{name}", offset_ns=offset_ns, uncertainty_ns=uncertainty_ns)


@given(
    ahead_ns=st.integers(-(10**15), 10**15),
    ways=st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**8)), min_size=1, max_size=30),
)
def test_the_clock_is_where_it_is_said_to_be(ahead_ns: int, ways: list[tuple[int, int]]) -> None:
    """However long questions and answers take, and however unlike each other: the truth is within the bound."""
    exchanges = [
        (at_ns, at_ns + to_ns + ahead_ns, at_ns + to_ns + from_ns)
        for at_ns, (to_ns, from_ns) in zip(range(0, 10**12, 10**9), ways, strict=False)
    ]
    found = reading(exchanges, name="a", host="h", common="b")

    assert abs(found.offset_ns - ahead_ns) <= found.uncertainty_ns
    assert found.uncertainty_ns <= (min(to_ns + from_ns for to_ns, from_ns in ways) + 1) / 2 + 1


def test_a_clock_is_exactly_itself() -> None:
    """Processes of the scheduler's machine need no exchange to know its time."""
    exchange = (0, 900, 1000)
    assert reading([exchange], name="a", host="h", common="a") == Clock(
        name="a", host="h", offset_ns=0, uncertainty_ns=0
    )


def test_processes_of_one_machine_take_its_clock_for_the_same() -> None:
    """Two readings of one clock differ by chance, and would make a latency between two processes inexact."""
    worse, better = read(offset_ns=10, uncertainty_ns=9), read(offset_ns=12, uncertainty_ns=4)
    assert by_clock([worse, better, read("b")]) == {"a": better, "b": read("b")}


@pytest.mark.parametrize(
    ("end", "uncertainty_ns"),
    [
        (None, 100),
        (read(offset_ns=5000, uncertainty_ns=80), 100),
        (read(offset_ns=5300, uncertainty_ns=80), 380),
        (read(offset_ns=4600, uncertainty_ns=150), 550),
    ],
)
def test_what_clocks_drift_in_a_round_is_part_of_the_bound(end: Clock | None, uncertainty_ns: int) -> None:
    """What was read at its beginning is used to its end."""
    begin = read(offset_ns=5000, uncertainty_ns=100)
    assert until(begin, end) == read(offset_ns=5000, uncertainty_ns=uncertainty_ns)


def test_instants_are_those_of_the_controller() -> None:
    """All clocks are compared with the scheduler's; what is told is the controller's time."""
    controller, worker = read("c", offset_ns=1000, uncertainty_ns=3), read("w", offset_ns=-500, uncertainty_ns=4)
    clock = relative_to(controller, worker)

    assert (clock.offset_ns, clock.uncertainty_ns, clock.is_here) == (-1500, 4, False)
    assert relative_to(controller, controller) == replace(controller, offset_ns=0, is_here=True)


def test_what_seems_to_come_too_early_is_borne_between_machines_only() -> None:
    """By one clock it is a mistake of ours."""
    one, other = read("a", uncertainty_ns=3), read("b", uncertainty_ns=4)
    assert tolerated_ns(one, [one, one], lasts_s=3600) == 0
    assert tolerated_ns(one, [one, other], lasts_s=0) == 3 + 4 + DRIFT_NS


def test_clocks_may_drift_more_in_a_longer_load() -> None:
    """Quartz clocks that nothing adjusts differ by up to 100 ppm."""
    one, other = read("a"), read("b")
    assert tolerated_ns(one, [one, other], lasts_s=600) == DRIFT_NS + 600 * DRIFT_NS_PER_S


def test_a_machine_gets_a_second_share_when_all_have_one() -> None:
    """The load is to come from as many machines as there are, and from as many Dask workers."""
    readings = {"1": read("a"), "2": read("a"), "3": read("b"), "4": read("a")}
    assert spread(readings, 3) == ["1", "3", "2"]
    assert spread(readings, 6) == ["1", "3", "2", "4", "1", "3"]
    assert spread(readings, 0) == []


def test_a_clock_has_one_name() -> None:
    """The same for all processes here, or they would be taken for those of two machines."""
    told = "from pytest_kafkaperf.load.backends.dask_sync import clock_name; print(clock_name())"
    other = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == clock_name() != ""

"""Outages and backlogs: the time that a group, or a consumer, needs until its lag is what it was."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import Consumed, Produced, WorkerReport
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.observations import observed
from tests.support.problems import problem_told

START_NS = 50 * NS_PER_S
POLL_S = 0.1
RATE = 100
LOAD_S = 30.0
KNOWN = tuple(itertools.product((200, 300, 1000), (0.1, 0.25, 1.0)))
"""Capacities in records/s, and commit intervals in s."""


def scenario(backlog: int = 0, **fields: Any) -> Scenario:
    """One group on a topic of one partition."""
    return Scenario.of(
        {"topic": "orders", "watch_group": "billing", "rate": RATE, "duration": f"{LOAD_S} s", "backlog": backlog}
        | fields
    )


def served(
    *,
    capacity: float,
    commit_s: float,
    downs: tuple[tuple[float, float], ...] = (),
    backlog: int = 0,
    under_way: int = 0,
) -> GroupOffsets:
    """Readings of a group that takes so many records a second, in steps of a millisecond, unless it is down.

    It commits at an interval, and when it is stopped, but not the last records, which are still under way.
    """
    step_s, done, committed = 0.001, 0.0, 0
    rows = []
    for step in range(round(2 * LOAD_S / step_s)):
        at_s = step * step_s
        end = backlog + round(min(at_s, LOAD_S) * RATE)
        if not any(since < at_s <= until for since, until in downs):
            done = min(end, done + capacity * step_s)
            if step % round(commit_s / step_s) == 0 or any(abs(since - at_s) < step_s / 2 for since, _ in downs):
                committed = max(committed, int(done + 1e-6) - (under_way if at_s < LOAD_S else 0))
        if step % round(POLL_S / step_s) == 1:
            rows.append((START_NS + round(at_s * NS_PER_S), [committed], [end]))
    return GroupOffsets.of(rows, 1)


def report(offsets: GroupOffsets, *events: tuple[float, str], backlog: int = 0) -> Observations:
    """A round with the records of the load, after those of the backlog."""
    places = np.array([(0, backlog, RATE * LOAD_S, START_NS, START_NS + LOAD_S * NS_PER_S)], dtype=np.int64)
    produced = Produced(
        acknowledged=round(RATE * LOAD_S),
        sent=round(RATE * LOAD_S),
        first_due_ns=START_NS,
        last_ack_ns=START_NS + round(LOAD_S * NS_PER_S),
    )
    produced.places.frombytes(places.tobytes())
    return observed(
        workers=[WorkerReport(produced=[produced])],
        start_ns=START_NS,
        growth={},
        groups={"billing": offsets},
        application_events=[
            Event(START_NS + round(at_s * NS_PER_S), EventKind(kind), "service") for at_s, kind in events
        ],
    )


@pytest.mark.parametrize(("capacity", "commit_s"), KNOWN)
@pytest.mark.parametrize("down_s", [2.0, 5.0])
def test_what_was_missed_is_caught_up_with_by_arithmetic(capacity: float, commit_s: float, down_s: float) -> None:
    """What came in during the outage, and since, is worked off by the capacity beyond the rate."""
    stopped_s = 4.0
    events = [(stopped_s, "stopped"), (stopped_s + 0.5, "started"), (stopped_s + down_s, "ready")]
    offsets = served(capacity=capacity, commit_s=commit_s, downs=((stopped_s, stopped_s + down_s),))
    found = fold(report(offsets, *events), scenario())
    assert found.problems == ()
    expected_s = down_s + down_s * RATE / (capacity - RATE)
    tolerated_s = commit_s + POLL_S
    assert found.metrics["app.recovery"] == pytest.approx(expected_s, abs=tolerated_s, rel=0.02)
    assert found.metrics["app.start"] == pytest.approx(down_s - 0.5 + commit_s / 2, abs=commit_s / 2 + POLL_S)
    if expected_s - down_s > 10 * tolerated_s:
        assert found.metrics["app.recovery.throughput"] == pytest.approx(capacity, rel=0.1)


@pytest.mark.parametrize(("capacity", "commit_s"), KNOWN)
def test_a_backlog_is_caught_up_with_by_arithmetic(capacity: float, commit_s: float) -> None:
    """Also of an application that the plugin did not start; the level is that of two commit intervals then."""
    offsets = served(capacity=capacity, commit_s=commit_s, backlog=1500)
    found = fold(report(offsets, backlog=1500), scenario(backlog=1500))
    assert found.problems == ()
    expected_s = 1500 / (capacity - RATE)
    assert found.metrics["app.recovery"] == pytest.approx(expected_s, abs=commit_s + POLL_S, rel=0.02)
    if expected_s > 10 * (commit_s + POLL_S):
        assert found.metrics["app.recovery.throughput"] == pytest.approx(capacity, rel=0.1)
    assert "app.start" not in found.metrics


def test_an_application_that_is_started_for_a_backlog_counts_from_the_start_of_the_window() -> None:
    """Its start is part of what users wait for."""
    offsets = served(capacity=300, commit_s=0.25, downs=((0, 3),), backlog=600)
    found = fold(report(offsets, (0.0, "started"), (3, "ready"), backlog=600), scenario(backlog=600))
    assert found.metrics["app.start"] == pytest.approx(3.125, abs=0.25)
    assert found.metrics["app.recovery"] == pytest.approx((600 + 300 * 3) / 200, abs=0.35)
    assert found.metrics["app.recovery.throughput"] == pytest.approx(300, rel=0.05)


def test_of_two_outages_the_time_counts_from_the_first_until_after_the_last() -> None:
    """In between, the lag may have been back for a moment."""
    downs = ((4.0, 6.0), (12.0, 14.0))
    events = [(at_s, text) for since, until in downs for at_s, text in ((since, "stopped"), (until, "started"))]
    found = fold(report(served(capacity=300, commit_s=0.1, downs=downs), *events), scenario())
    assert found.metrics["app.recovery"] == pytest.approx(11, abs=0.2)


@pytest.mark.parametrize(
    ("capacity", "events", "downs"),
    [
        (105, [(4.0, "stopped"), (6.0, "started")], ((4.0, 6.0),)),
        (1000, [(4.0, "stopped")], ((4.0, 1000.0),)),
        (1000, [(4.0, "killed"), (29.9, "started")], ((4.0, 29.9),)),
    ],
    ids=["too slow", "never started", "started too late"],
)
def test_one_that_does_not_recover_under_load_makes_the_round_invalid(
    capacity: float, events: list[tuple[float, str]], downs: tuple[tuple[float, float], ...]
) -> None:
    """After the load every lag ends: that says nothing about the time that it takes while records come in."""
    found = fold(report(served(capacity=capacity, commit_s=0.25, downs=downs), *events), scenario())
    (problem,) = found.problems
    assert problem == problem_told(
        ProblemKind.NOT_CAUGHT_UP,
        "group 'billing' had not caught up when the load ended, so app.recovery is at least 25.9 s; use a longer "
        "duration (at least the outage and the threshold together) or a lower rate",
        "app.recovery",
    )
    assert found.metrics["app.recovery"] == pytest.approx(25.9, abs=0.1)
    assert "app.recovery.throughput" not in found.metrics


@pytest.mark.parametrize(("stopped_s", "commit_s"), [(0.0, 0.25), (0.5, 2.0), (3.0, 2.0), (9.0, 4.0), (4.0, 0.1)])
def test_the_time_before_the_stop_may_be_short(stopped_s: float, commit_s: float) -> None:
    """Records are under way at each commit, so the lag is never 0, and its peaks vary with the readings."""
    down_s = 2.0
    events = [(stopped_s, "stopped"), (stopped_s, "started"), (stopped_s + down_s, "ready")]
    downs = ((stopped_s, stopped_s + down_s),)
    found = fold(report(served(capacity=300, commit_s=commit_s, downs=downs, under_way=20), *events), scenario())
    assert found.problems == ()
    assert found.metrics["app.recovery"] == pytest.approx(down_s * 1.5, abs=commit_s + 2 * POLL_S)


def test_a_restart_before_the_window_is_none_of_it() -> None:
    """Fresh trials restart applications."""
    found = fold(report(served(capacity=300, commit_s=0.25), (-2.0, "stopped"), (-1.0, "started")), scenario())
    assert [name for name in found.metrics if name.startswith(("app.start", "app.recovery"))] == []


def test_of_two_groups_the_one_that_was_down_longer_counts() -> None:
    """A group whose application was not stopped is back at once."""
    one = report(served(capacity=300, commit_s=0.25, downs=((4.0, 6.0),)), (4.0, "stopped"), (5.0, "started"))
    both = dataclasses.replace(one, groups={**one.groups, "audit": served(capacity=1000, commit_s=0.1)})
    alone = fold(one, scenario()).metrics
    found = fold(both, scenario(watch_group=["billing", "audit"])).metrics
    assert {name: found[name] for name in ("app.recovery", "app.start")} == {
        name: alone[name] for name in ("app.recovery", "app.start")
    }


def own(readings: GroupOffsets) -> Observations:
    """A round of the plugin's own consumers."""
    consumed = Consumed(received=1, last_ns=START_NS + 1)
    produced = Produced(acknowledged=1, sent=1, first_due_ns=START_NS, last_ack_ns=START_NS + 1)
    workers = [WorkerReport(produced=[produced], consumed=[consumed])]
    return observed(workers=workers, start_ns=START_NS, growth={}, catch_up=readings)


def test_consumers_catch_up_by_arithmetic() -> None:
    """Like a group that commits at each reading."""
    catching = Scenario.of({"consumers": 1, "rate": RATE, "backlog": 1500})
    found = fold(own(served(capacity=300, commit_s=0.1, backlog=1500)), catching)
    assert found.metrics["catchup"] == pytest.approx(1500 / 200, abs=0.2)
    assert found.metrics["catchup.throughput"] == pytest.approx(300, rel=0.05)


def test_consumers_that_do_not_catch_up_make_the_round_invalid() -> None:
    """The rate is all that they can read."""
    catching = Scenario.of({"consumers": 1, "rate": RATE, "backlog": 1500})
    readings = served(capacity=RATE, commit_s=0.1, backlog=1500)
    short = GroupOffsets(at_ns=readings.at_ns[:50], committed=readings.committed[:50], ends=readings.ends[:50])
    found = fold(own(short), catching)
    assert (
        problem_told(
            ProblemKind.NOT_CAUGHT_UP,
            "the consumers had not caught up when the load ended, so catchup is at least 4.9 s; use a longer duration "
            "(at least the outage and the threshold together) or a lower rate",
            "catchup",
        )
        in found.problems
    )
    assert found.metrics["catchup"] == pytest.approx(4.9, abs=0.1)

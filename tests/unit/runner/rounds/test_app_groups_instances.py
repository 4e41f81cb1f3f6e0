"""Applications that lose or get some of their instances: when is every partition processed again?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import Produced, WorkerReport
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.observations import observed

START_NS = 50 * NS_PER_S
POLL_S = 0.1
RATE = 50
"""Of each partition, in records/s."""
LOAD_S = 30.0
PARTITIONS = 3
SCENARIO = Scenario.of(
    {"topic": "orders", "watch_group": "billing", "rate": PARTITIONS * RATE, "duration": f"{LOAD_S} s"}
)
LOST_S = 4.0


def served(
    down: dict[int, tuple[float, float]], *, capacity: float, commit_s: float, until_s: float = LOAD_S
) -> GroupOffsets:
    """Readings of a group that takes so many records a second of each partition, but for those that are down.

    The partitions get records until a time.
    """
    step_s, rows = 0.001, []
    done, committed = np.zeros(PARTITIONS), np.zeros(PARTITIONS, dtype=np.int64)
    for step in range(round(2 * LOAD_S / step_s)):
        at_s = step * step_s
        end = round(min(at_s, until_s) * RATE)
        for partition in range(PARTITIONS):
            since, until = down.get(partition, (0.0, 0.0))
            if not since < at_s <= until:
                done[partition] = min(end, done[partition] + capacity * step_s)
                if step % round(commit_s / step_s) == 0:
                    committed[partition] = int(done[partition] + 1e-6)
        if step % round(POLL_S / step_s) == 1:
            rows.append((START_NS + round(at_s * NS_PER_S), committed.tolist(), [end] * PARTITIONS))
    return GroupOffsets.of(rows, PARTITIONS)


def event(at_s: float, kind: EventKind, *, took_s: float | None = 0.0, subject: str = "shop-1") -> Event:
    """An action on an instance while others run, or with None on all of them."""
    at_ns = START_NS + round(at_s * NS_PER_S)
    return Event(at_ns, kind, subject, "", None if took_s is None else at_ns + round(took_s * NS_PER_S))


def folded(offsets: GroupOffsets, *events: Event) -> Round:
    count = round(RATE * LOAD_S)
    last_ns = START_NS + round(LOAD_S * NS_PER_S)
    rows = [(partition, 0, count, START_NS, last_ns) for partition in range(PARTITIONS)]
    total: dict[str, Any] = {"acknowledged": PARTITIONS * count, "sent": PARTITIONS * count}
    produced = Produced(**total, first_due_ns=START_NS, last_ack_ns=last_ns)
    produced.places.frombytes(np.array(rows, dtype=np.int64).tobytes())
    seen: Observations = observed(
        workers=[WorkerReport(produced=[produced])],
        start_ns=START_NS,
        growth={},
        groups={"billing": offsets},
        application_events=events,
    )
    return fold(seen, SCENARIO)


@pytest.mark.parametrize("commit_s", [0.1, 0.25, 1.0])
@pytest.mark.parametrize("down_s", [2.0, 8.0])
def test_a_partition_that_nobody_processes_is_not_recovered(commit_s: float, down_s: float) -> None:
    """The others keep committing, and the lag exceeds its usual peak only after a while."""
    offsets = served({1: (LOST_S, LOST_S + down_s)}, capacity=200, commit_s=commit_s)
    found = folded(offsets, event(LOST_S, EventKind.KILLED))
    assert found.problems == ()
    expected_s = down_s + down_s * RATE / (200 - RATE)
    assert found.metrics["app.recovery"] == pytest.approx(expected_s, abs=commit_s + 2 * POLL_S, rel=0.1)
    assert "app.start" not in found.metrics


def test_a_loss_that_is_noticed_at_once_still_takes_until_each_partition_has_a_commit() -> None:
    """A time of 0 would say that the instance was not lost."""
    found = folded(served({}, capacity=200, commit_s=0.25), event(LOST_S, EventKind.KILLED))
    assert 0.1 <= found.metrics["app.recovery"] <= 0.25 + 2 * POLL_S


def test_a_partition_that_is_never_processed_again_makes_the_round_invalid() -> None:
    """Two of three partitions are, which would look like a recovery in the sum for a while."""
    found = folded(served({1: (LOST_S, 1000.0)}, capacity=200, commit_s=0.25), event(LOST_S, EventKind.KILLED))
    assert [problem.kind for problem in found.problems] == [ProblemKind.NOT_CAUGHT_UP]
    assert found.metrics["app.recovery"] == pytest.approx(LOAD_S - LOST_S, abs=0.2)


def test_an_idle_partition_does_not_hold_up_the_recovery() -> None:
    """No record arrives after the loss, so nothing is missing."""
    offsets = served({1: (LOST_S, 1000.0)}, capacity=200, commit_s=0.1, until_s=LOST_S - 1)
    found = folded(offsets, event(LOST_S, EventKind.KILLED))
    assert found.problems == ()
    assert found.metrics["app.recovery"] <= 2 * POLL_S


def test_what_an_instance_commits_while_it_stops_proves_nothing() -> None:
    """It goes on for the 3 s that it takes to stop, and its partitions wait for 3 s more."""
    offsets = served({1: (LOST_S + 3, LOST_S + 6)}, capacity=200, commit_s=0.25)
    found = folded(offsets, event(LOST_S, EventKind.STOPPED, took_s=3.0))
    assert found.metrics["app.recovery"] == pytest.approx(6 + 3 * RATE / (200 - RATE), abs=0.5)


def test_the_time_lasts_until_after_the_last_of_several_changes() -> None:
    """Here one instance is killed and comes back, and the application was ready 2 s after that."""
    events = [
        event(LOST_S, EventKind.KILLED),
        event(LOST_S + 8, EventKind.STARTED),
        event(LOST_S + 10, EventKind.READY),
    ]
    found = folded(served({1: (LOST_S, LOST_S + 2)}, capacity=1000, commit_s=0.25), *events)
    assert 10 < found.metrics["app.recovery"] < 10.5


def test_an_outage_of_all_instances_after_the_loss_of_one_counts_as_one() -> None:
    """The time of the start is that of the last outage."""
    down = (LOST_S + 2, LOST_S + 5)
    whole = [
        event(at_s, kind, took_s=None, subject="shop")
        for at_s, kind in zip(down, (EventKind.STOPPED, EventKind.STARTED), strict=True)
    ]
    offsets = served(dict.fromkeys(range(PARTITIONS), down), capacity=200, commit_s=0.25)
    found = folded(offsets, event(LOST_S, EventKind.KILLED), *whole)
    assert found.metrics["app.start"] == pytest.approx(0.25, abs=0.25)
    assert found.metrics["app.recovery"] == pytest.approx(5 + 3 * RATE / (200 - RATE), abs=0.6)

"""How many worker processes a scenario gets, and what each of them runs."""

from __future__ import annotations

import collections
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.allocation import WorkerAllocation, decided, describe_workers, shares, undecidable
from pytest_kafkaperf.load.messages import WorkerShare
from pytest_kafkaperf.scenarios.scenario import Scenario

RATE = 10_000
SCENARIO = Scenario.of({"rate": RATE, "producers": 4, "consumers": 3, "consumer_groups": 2})


def sending(cpu_s: float, *, records: int = RATE, host: str | None = None) -> WorkerShare:
    """What one worker took for a second of the load."""
    return WorkerShare(host=host, producers=4, consumers=0, cpu_s=cpu_s, busy_ratio=0.9, sent=records, received=0)


def receiving(cpu_s: float, *, records: int = 2 * RATE, host: str | None = None) -> WorkerShare:
    return WorkerShare(host=host, producers=0, consumers=6, cpu_s=cpu_s, busy_ratio=0.9, sent=0, received=records)


@pytest.mark.parametrize("producers", [1, 2, 5, 1000])
@pytest.mark.parametrize(("consumers", "groups"), [(0, 1), (1, 1), (3, 1), (1, 4), (7, 3)])
def test_every_producer_and_consumer_is_in_one_worker(producers: int, consumers: int, groups: int) -> None:
    """Reading does not delay sending: they are in different processes, at most as many as cores of each kind."""
    fields: dict[str, Any] = {"producers": producers} | ({"consumers": consumers} if consumers else {})
    divided = shares(Scenario.of(fields | ({"consumer_groups": groups} if consumers else {})), WorkerAllocation(), 4)

    assert sorted(number for numbers, _ in divided for number in numbers) == list(range(producers))
    members = collections.Counter(group for _, members in divided for group in members)
    assert members == (dict.fromkeys(range(groups), consumers) if consumers else {})
    assert all(bool(numbers) != bool(members) for numbers, members in divided)
    assert sum(bool(numbers) for numbers, _ in divided) == min(producers, 4)
    sizes = [len(numbers) for numbers, _ in divided if numbers]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("allocation", "kinds"),
    [
        (WorkerAllocation(), (4, 5)),
        (WorkerAllocation(producing=1, consuming=2), (1, 2)),
        (WorkerAllocation(producing=9, consuming=9), (4, 6)),
        (WorkerAllocation(scheduler="a:1"), (4, 5)),
    ],
    ids=str,
)
def test_there_are_no_more_workers_of_a_kind_than_asked_for_and_than_clients(
    allocation: WorkerAllocation, kinds: tuple[int, int]
) -> None:
    """A worker without a client would be one more process for nothing."""
    divided = shares(SCENARIO, allocation, 5)
    assert (sum(bool(one) for one, _ in divided), sum(bool(other) for _, other in divided)) == kinds


@pytest.mark.parametrize(
    ("fields", "cores", "reason"),
    [
        ({"rate": RATE}, 8, "one worker of each kind serves all clients"),
        ({"rate": RATE, "consumers": 1}, 8, "one worker of each kind serves all clients"),
        ({"rate": RATE, "producers": 2}, 1, "one worker of each kind serves all clients"),
        ({"producers": 2}, 8, "without a rate, one worker per client, up to the number of cores"),
        (
            {"rate": RATE, "producers": 2, "topic": "orders"},
            8,
            "no probe on an existing topic: one worker per client, up to the number of cores",
        ),
        ({"rate": RATE, "producers": 2}, 8, None),
        ({"rate": RATE, "consumers": 2}, 8, None),
        ({"rate": RATE, "consumers": 1, "consumer_groups": 2}, 8, None),
    ],
    ids=str,
)
def test_a_probe_is_made_where_there_is_something_to_decide(
    fields: dict[str, Any], cores: int, reason: str | None
) -> None:
    """It takes some seconds, and a topic of its own."""
    assert undecidable(Scenario.of(fields), cores) == reason


@pytest.mark.parametrize(
    ("trial", "allocation"),
    [
        (
            [sending(0.12), receiving(0.31)],
            WorkerAllocation(producing=1, consuming=1, reason="one of each kind would need 12% and 31% of a core"),
        ),
        (
            [sending(0.5), receiving(0.5)],
            WorkerAllocation(producing=1, consuming=1, reason="one of each kind would need 50% and 50% of a core"),
        ),
        (
            [sending(0.51), receiving(1.4)],
            WorkerAllocation(
                producing=2,
                consuming=3,
                reason="one of each kind would need 51% and 140% of a core",
            ),
        ),
        (
            [sending(1.0, records=RATE // 2), receiving(0.9, records=RATE)],  # as much as one could
            WorkerAllocation(
                producing=4,
                consuming=4,
                reason="one of each kind would need 200% and 180% of a core",
            ),
        ),
        (
            [sending(9.0), receiving(9.0)],
            WorkerAllocation(
                producing=4,
                consuming=6,
                reason="one of each kind would need 900% and 900% of a core",
            ),
        ),
        (
            [sending(0.0, records=0), receiving(0.0, records=0)],
            WorkerAllocation(reason="the probe moved no records: one worker per client, up to the number of cores"),
        ),
    ],
)
def test_there_are_as_many_workers_as_keep_each_half_idle(
    trial: list[WorkerShare], allocation: WorkerAllocation
) -> None:
    """Fewer make records wait for each other; more disturb the brokers on the same machine."""
    assert decided(SCENARIO, trial, 6) == allocation


def test_one_kind_is_told_alone() -> None:
    """Nothing is said of consumers that there are not."""
    scenario = Scenario.of({"rate": RATE, "producers": 4})
    assert decided(scenario, [sending(1.4)], 2) == WorkerAllocation(producing=2, reason="one would need 140% of a core")


def test_a_backlog_has_as_many_readers_as_there_are_cores() -> None:
    """It is read as fast as it goes: what a trial at the rate takes says nothing of it."""
    fields = {"rate": RATE, "producers": 4, "consumers": 3, "consume": "after"}
    assert decided(Scenario.of(fields), [sending(0.2), receiving(0.2)], 8) == WorkerAllocation(
        producing=1, reason="one would need 20% of a core"
    )
    assert undecidable(Scenario.of(fields | {"producers": 1}), 8) == "one worker of each kind serves all clients"


@given(cpu_s=st.floats(0.0, 100.0), cores=st.integers(1, 64), records=st.integers(1, 10**7))
def test_there_is_never_a_worker_too_many(cpu_s: float, cores: int, records: int) -> None:
    """One at least, and no more than clients and cores."""
    allocation = decided(SCENARIO, [sending(cpu_s, records=records), receiving(cpu_s)], cores)
    assert allocation.producing is not None
    assert allocation.consuming is not None
    assert 1 <= allocation.producing <= min(4, cores)
    assert 1 <= allocation.consuming <= min(6, cores)


@pytest.mark.parametrize(
    ("allocation", "worked", "text"),
    [
        (WorkerAllocation(), [sending(0.1)], "1 producing worker process"),
        (
            WorkerAllocation(reason="one would need 140% of a core"),
            [sending(0.1), sending(0.1)],
            "2 producing worker processes: one would need 140% of a core",
        ),
        (
            WorkerAllocation(reason="--kafka-workers=dask://a"),
            [sending(0.1, host="b"), receiving(0.1, host="a"), receiving(0.1, host="b")],
            "1 producing and 2 consuming worker processes on a, b: --kafka-workers=dask://a",
        ),
    ],
)
def test_what_worked_is_told_with_the_reason(
    allocation: WorkerAllocation, worked: list[WorkerShare], text: str
) -> None:
    """A value that depends on the generator can be asked what it was made by."""
    assert describe_workers(allocation, worked) == text

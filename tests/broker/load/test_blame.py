"""Who is to blame for a load that was not reached: a generator that is late is INVALID, a slow cluster is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from tests.support.rounds import Once, Stall, workers

if TYPE_CHECKING:
    from tests.support.rounds import Load

BATCH: dict[str, Any] = {}
KEYED: dict[str, Any] = {"key": "uniform:100"}
RECORD: dict[str, Any] = {"client": "record"}
TRANSACTION: dict[str, Any] = {"transaction_size": 5000}


@pytest.mark.speed
@pytest.mark.parametrize("kind", [BATCH, KEYED, RECORD, TRANSACTION], ids=["batch", "keyed", "record", "transaction"])
def test_a_starved_generator_makes_the_round_invalid(broker: Cluster, load: Load, kind: dict[str, Any]) -> None:
    """The worker stood still and the cluster had room: what was due meanwhile is late, and says nothing of Kafka."""
    stalls: list[Stall] = []

    def starve() -> None:
        (worker,) = workers()
        stalls.append(Stall((worker.pid,), 0.6))
        stalls[0].begin()

    once = Once(starve, after_s=0.2)
    ran = load(broker, rate=1000, duration="2 s", linger="20 ms", on_progress=once, **kind)
    (stall,) = stalls
    stall.join()

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.GENERATOR_TOO_SLOW
    # A busy machine adds other programs as a possible reason.
    assert " of 2000 records were sent late although the in-flight limit allowed sending them; " in problem.text
    assert problem.text.endswith("; use more producers, larger records or a lower rate, or give the machine more cores")
    assert once.done_s is not None
    assert ran.report.start_ns is not None
    began_s = once.done_s - ran.report.start_ns / NS_PER_S
    expected = 1000 * (min(2, began_s + stall.lasted_s - 0.1) - began_s)  # what is due in the last 100 ms is not late
    # Fewer where answers were awaited as the worker stopped: it sees only afterwards that they came.
    assert 0.4 * expected - 20 <= sum(part.late for part in ran.produced) <= 1.5 * expected + 100
    assert sum(part.latency.total for part in ran.produced) == 2000
    assert ran.metrics["produce.latency.max"] >= 0.55
    if kind is not TRANSACTION:  # where a record waits for the commit anyway
        assert max(ran.round.least.values(), default=0.0) < 0.1  # nothing of the pause is said to be Kafka's


def test_a_starved_generator_does_not_hide_a_cluster_that_is_much_too_slow(
    broker: Cluster, load: Load, quota: Callable[..., AbstractContextManager[None]]
) -> None:
    """Of seconds of latency, a pause of half a second explains little."""
    stalls: list[Stall] = []

    def starve() -> None:
        (worker,) = workers()
        stalls.append(Stall((worker.pid,), 0.5))
        stalls[0].begin()

    with quota(broker, producer_byte_rate=100_000):
        ran = load(broker, rate=1000, duration="2 s", warmup=0, record_size=500, on_progress=Once(starve, after_s=0.1))
    stalls[0].join()
    assert ran.metrics["produce.latency.p50"] > 1
    if ran.round.problems:  # the pause may fall into one of the cluster's own
        assert [problem.kind for problem in ran.round.problems] == [ProblemKind.GENERATOR_TOO_SLOW]
        assert ran.round.least["produce.latency.p99"] > 0.2


def test_a_cluster_slower_than_the_rate_is_a_valid_round_with_high_latency(
    broker: Cluster, load: Load, quota: Callable[..., AbstractContextManager[None]]
) -> None:
    """The load is what was asked for; what the cluster made of it is the result. For each kind of producer."""
    with quota(broker, producer_byte_rate=300_000):
        runs = [
            load(broker, rate=1000, duration="800 ms", warmup=0, record_size=1000, **kind)
            for kind in (BATCH, KEYED, RECORD)
        ]

    for ran in runs:
        assert ran.faults == []
        assert ran.metrics["produce.throughput"] < 700
        assert ran.metrics["produce.latency.max"] > 0.8
        assert ran.metrics["unsent"] == sum(part.missing + part.overdue for part in ran.produced)
        assert sum(part.latency.total for part in ran.produced) == 800  # those never sent count, too
        assert sum(part.missing + part.acknowledged for part in ran.produced) == 800
        assert sum(max(part.late, part.behind) for part in ran.produced) < 200


def test_a_rate_beyond_the_generator_is_never_the_clusters_fault(broker: Cluster, load: Load) -> None:
    """No machine sends so many records a second: the round is invalid, and ends in time."""
    ran = load(broker, rate=50e6, duration="20 ms", warmup=0)

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.GENERATOR_TOO_SLOW

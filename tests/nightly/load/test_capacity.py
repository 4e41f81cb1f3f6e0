"""The capacity of real brokers, where it is known: a client quota says what they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round, StepOutcome
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from tests.support.quotas import quota
from tests.support.rounds import run_scenario

QUOTA_BYTES = 20_000_000
RECORD_BYTES = 1024


@pytest.fixture
def limited() -> Iterator[Cluster]:
    """A broker whose quotas average over 3 s: with Kafka's own 11 s a search takes long warm-ups, and a test 6 min."""
    with provision(ClusterSpec(config={"quota.window.num": "3"}), target="local") as cluster:
        yield cluster


def search(cluster: Cluster, limits: Sequence[str], *, low: float, high: float, **fields: object) -> Round:
    """One search."""
    scenario = Scenario.of({"record_size": RECORD_BYTES, "duration": "3 s", "warmup": "1 s", "rounds": 1} | fields)
    plan = SearchPlan(limits=tuple(map(parse_threshold, limits)), low=low, high=high)
    (only,) = run_scenario(scenario, cluster, plan=plan)
    return only


@pytest.mark.speed
@pytest.mark.timeout(900)
def test_the_capacity_under_a_quota_is_the_quota(limited: Cluster) -> None:
    """Within 5%, although it counts more bytes than those of values, and latency rises near to it."""
    warm = Scenario.of({"record_size": RECORD_BYTES, "duration": "5 s", "rounds": 1})
    run_scenario(warm, limited)  # a cold JVM is slow
    with quota(limited, producer_byte_rate=QUOTA_BYTES):
        found = search(limited, ["produce.latency.p99 <= 50 ms", "errors == 0"], low=8_000, high=500_000)
    assert found.problems == ()
    assert found.metrics["capacity"] * RECORD_BYTES == pytest.approx(QUOTA_BYTES, rel=0.05)
    assert not found.at_least


def test_what_consumers_cannot_keep_up_with_is_no_capacity(limited: Cluster) -> None:
    """Producers are acknowledged at twice what consumers get; the search says who fell behind."""
    with quota(limited, consumer_byte_rate=QUOTA_BYTES // 4):
        found = search(limited, ["errors == 0", "lag.end <= 5000"], low=10_000, high=20_000, consumers=1)
    (problem,) = found.problems
    assert problem.kind is ProblemKind.CAPACITY_NOT_FOUND
    assert problem.text.startswith("no rate met the thresholds: at the lowest rate, 10k records/s")
    told = [
        step for step in found.steps if step.outcome is not StepOutcome.DISTURBED
    ]  # others may use the machine, too
    assert [step.outcome for step in told] == [StepOutcome.BROKEN] * 3
    for step in told:
        assert step.metrics["produce.throughput"] == pytest.approx(10_000, rel=0.2)
        assert step.metrics["lag.end"] > 5000

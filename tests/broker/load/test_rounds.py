"""Whole rounds on a real broker: what was asked for is what was sent, counted and read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.loads import Phase, slice_load
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario
from tests.support.strangers import topic_properties, topics

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress
    from tests.support.rounds import Load


@pytest.mark.story
def test_a_closed_loop_sends_exactly_the_asked_records(broker: Cluster, load: Load) -> None:
    """Counts agree everywhere: the workers', the log's, the report's."""
    ran = load(broker, records=20_001, producers=2, warmup="4 s")  # longer than a stall of the machine

    assert ran.round.problems == ()
    assert sum(part.acknowledged for part in ran.produced) == 20_001
    assert sorted(part.sent for part in ran.produced) == [10_000, 10_001]
    assert sum(part.latency.total for part in ran.produced) == 20_001
    assert sum(ran.report.acknowledged().values()) == ran.growth > 20_001  # and the warm-up
    assert len(ran.report.acknowledged()) == 6
    assert (ran.metrics["lost"], ran.metrics["duplicated"], ran.metrics["errors"]) == (0, 0, 0)


@pytest.mark.parametrize("consumers", [pytest.param(1, marks=pytest.mark.story), 7])
def test_an_open_loop_makes_its_rate_and_every_record_is_timed_end_to_end(
    broker: Cluster, load: Load, consumers: int
) -> None:
    """No record is skipped, by producers or consumers; more consumers than partitions included."""
    ran = load(broker, rate=2000, duration="1 s", producers=3, consumers=consumers)

    assert ran.faults == []
    assert sum(part.sent + part.missing for part in ran.produced) == 2000
    assert sum(part.latency.total for part in ran.produced) == 2000
    assert sum(part.delay.total for part in ran.produced) == 2000
    longest_s = 1 + ran.metrics["produce.latency.max"]
    assert 0.99 * 2000 / longest_s <= ran.metrics["produce.throughput"] <= 1.01 * 2000
    assert len(ran.consumed) == consumers
    assert sum(part.received for part in ran.consumed) == 2000
    assert sum(part.latency.total for part in ran.consumed) == 2000
    assert sum(part.bytes for part in ran.consumed) == 200_000
    assert sum(part.total for part in ran.consumed) == ran.growth
    assert 0 < ran.metrics["e2e.latency.p50"] <= ran.metrics["e2e.latency.max"]
    assert (ran.metrics["lost"], ran.metrics["duplicated"]) == (0, 0)


def test_an_open_loop_can_end_by_its_number_of_records(broker: Cluster, load: Load) -> None:
    """A rate and a number: the window is as long as they make it."""
    ran = load(broker, records=500, rate=1000, producers=3, warmup=0)

    assert ran.faults == []
    assert sorted(part.sent for part in ran.produced) == [166, 167, 167]
    assert ran.growth == 500
    assert ran.metrics["produce.throughput"] <= 1010


def test_linger_is_part_of_the_latency(broker: Cluster, load: Load) -> None:
    """A record waits for half of it on average: people tune it to see this."""
    without, with_linger = (load(broker, rate=200, duration="2 s", linger=linger) for linger in (0, "1 s"))

    difference_s = with_linger.metrics["produce.latency.p50"] - without.metrics["produce.latency.p50"]
    assert 0.2 < difference_s < 2


@pytest.mark.story
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_kind_of_acknowledgement_works(broker: Cluster, load: Load, acks: object) -> None:
    """With acks=0 nobody promises anything, so nothing is said of losses."""
    ran = load(broker, records=3000, acks=acks, warmup="100 ms")

    assert ran.round.problems == ()
    assert sum(part.acknowledged for part in ran.produced) == 3000
    assert ("lost" in ran.metrics) == (acks != 0)


def test_large_records_reach_every_partition(broker: Cluster, load: Load) -> None:
    """The bound of unacknowledged bytes must not leave partitions without load."""
    ran = load(broker, records=24, record_size=900_000, partitions=40, rate=40, warmup="1 s")

    assert len(ran.report.acknowledged()) == 40


@pytest.mark.parametrize("rate", [None, 200])
def test_records_that_the_broker_refuses_are_errors_with_their_reason(
    broker: Cluster, load: Load, rate: int | None
) -> None:
    """A misconfigured topic shows at once, not as a hang. How far records compress, nobody knows before."""
    fields: dict[str, Any] = {"topic_config": {"max.message.bytes": "1000"}, "compression": "lz4"}
    ran = load(broker, duration="500 ms", rate=rate, record_size=5000, warmup="100 ms", **fields)

    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.NOTHING_ACKNOWLEDGED
    assert problem.text.startswith("no record in the window was acknowledged: MessageSizeTooLargeError (")
    assert ran.metrics["errors"] > 0
    assert ran.metrics["duplicated"] == 0


@pytest.mark.story
def test_rounds_follow_each_other_on_one_topic(broker: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    """Each round counts its own records only, and nobody writes into the terminal."""
    rounds = run_scenario(Scenario.of({"records": 2000, "rounds": 3, "warmup": "100 ms", "consumers": 2}), broker)

    assert [(one.problems, one.metrics["lost"], one.metrics["duplicated"]) for one in rounds] == [((), 0, 0)] * 3
    assert capfd.readouterr() == ("", "")


def test_a_scenario_runs_inside_a_running_event_loop(broker: Cluster) -> None:
    """pytest-asyncio and friends run tests on a loop of their own."""

    async def test() -> int:
        return len(run_scenario(Scenario.of({"records": 100, "rounds": 1, "warmup": 0}), broker))

    assert asyncio.run(test()) == 1


def test_a_topic_that_cannot_be_is_refused_with_the_brokers_reason(broker: Cluster) -> None:
    """The user reads the cluster's own words."""
    with pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of({"replication_factor": 3}), broker)
    text = str(raised.value)
    assert text.startswith(
        f"the cluster at {broker.bootstrap_servers} rejected the topic of this scenario (partitions=6, "
        "replication_factor=3, retention.ms="
    )
    assert "target replication factor of 3 cannot be reached" in text
    assert text.endswith(
        "; change partitions, replication_factor or topic_config, or use an existing topic: topic='NAME'"
    )

    with pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of({"topic_config": {"no.such.option": 1}}), broker)
    assert "no.such.option=1): Unknown topic config name: no.such.option; change " in str(raised.value)


@pytest.mark.parametrize("topic_config", [{}, {"retention.ms": "86400000"}])
def test_brokers_delete_the_records_of_a_killed_run_within_hours(
    broker: Cluster, load: Load, topic_config: dict[str, str]
) -> None:
    """An hour after the latest end of the run, and never by size: the audit reads the whole log."""
    found: dict[str, str] = {}

    def look(*_: object) -> None:
        if found:
            return
        (topic,) = [name for name in topics(broker) if name.startswith(PREFIX)]
        found.update(topic_properties(broker, topic))

    load(broker, rate=100, duration="1.5 s", topic_config=topic_config, on_progress=look)
    retention_ms = int(found["retention.ms"])
    assert 3_600_000 < retention_ms < 2 * 3_600_000 if not topic_config else retention_ms == 86_400_000
    assert found["retention.bytes"] == "-1"


def test_a_slice_of_the_warm_up_is_no_round_and_runs_no_action(broker: Cluster) -> None:
    """A broker that an action stops must not be gone before the first round; nor may it stop once for each slice."""
    done: list[str] = []
    scenario = Scenario.of({"duration": "500 ms", "warmup": 0, "rounds": 1})
    side = SideRounds(Side.of(broker, actions=[Action(0.0, lambda: done.append("now"))]), scenario)
    with running([side], WorkerAllocation(producing=1, consuming=1)) as workers:
        measured = side.warm_up_slice(workers, slice_load(scenario, Phase.FULL), Phase.FULL)
        assert (done, side.rounds) == ([], [])
        assert measured.metrics["broker.cpu_per_record"] > 0
        assert measured.compiler[1] is not None
        side.measure(workers)
    assert (done, len(side.rounds)) == (["now"], 1)


@pytest.mark.speed
def test_the_cost_of_the_brokers_is_their_cpu_time_by_record(broker: Cluster, load: Load) -> None:
    """By the process's own counters at the edges of the window: warm-up and connections are outside of it."""
    process = psutil.Process(*broker.pids)

    def cpu_s() -> float:
        times = process.cpu_times()
        return times.user + times.system

    def error() -> float:
        edges: dict[str, float] = {}

        def note(_: int, progress: Progress) -> None:
            edges.setdefault(progress.phase, cpu_s())

        began_s = cpu_s()
        ran = load(broker, duration="3 s", warmup="500 ms", producers=1, on_progress=note)
        ended_s = cpu_s()
        cost_s = ran.metrics["broker.cpu_per_record"] * sum(part.acknowledged for part in ran.produced) / 1e6
        assert cost_s < ended_s - began_s
        # Where nothing is left to wait for, draining is over before it is shown.
        return abs(cost_s / (edges.get("draining", ended_s) - edges["measuring"]) - 1)

    assert any(error() < 0.1 for _ in range(3))  # a busy machine may show a phase late

"""End-to-end time through an application: what goes in is known for its own when it comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import Count
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support import relay as application
from tests.support.relays import DUE, MIDDLE, OUT, THROUGH, WARM, Start, find_no_output, running_relay
from tests.support.rounds import Once, run_scenario
from tests.support.strangers import groups, on_a_loop
from tests.support.topic_log import read_log

if TYPE_CHECKING:
    from tests.support.rounds import Load


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"client": "record"},
        {"key": "uniform:50", "headers": {"trace": "1"}},
        {"compression": "lz4", "record_size": 5},
        {"consumers": 2, "consumer_groups": 2, "producers": 2},
    ],
    ids=["batches", "records", "keyed", "short", "groups"],
)
def test_each_record_is_timed_when_it_comes_out(
    broker: Cluster, load: Load, relay: Start, fields: dict[str, Any]
) -> None:
    """The header tells which is which, whatever the values are."""
    relay()
    ran = load(broker, **{**THROUGH, **fields})
    assert ran.faults == []
    assert [ran.metrics[name] for name in ("errors", "lost", "duplicated")] == [0, 0, 0]
    assert "reordered" not in ran.metrics
    groups = fields.get("consumer_groups", 1)
    assert sum(part.latency.total for part in ran.consumed) == groups * DUE
    longest_s = 2 + ran.metrics["e2e.latency.max"]
    assert 0.99 * groups * DUE / longest_s <= ran.metrics["consume.throughput"] <= 1.01 * groups * 300
    assert 0 < ran.metrics["e2e.latency.p50"] < 5


def test_values_are_left_as_they_are(broker: Cluster, relay: Start, tmp_path: Path) -> None:
    """An application that reads JSON must get JSON."""
    samples = tmp_path / "orders.jsonl"
    samples.write_text('{"id": 1}\n{"id": 22, "customer": "c"}\n', encoding="utf-8")
    relay()
    scenario = Scenario.of({**THROUGH, "payload": f"file:{samples}", "rounds": 1})
    (one,) = run_scenario(scenario, broker)
    assert one.problems == ()
    assert one.metrics["lost"] == 0
    records = list(read_log(broker.bootstrap_servers, OUT).records)
    assert {record.value for record in records} == {b'{"id": 1}', b'{"id": 22, "customer": "c"}'}
    assert {tuple(name for name, _ in record.headers) for record in records} == {("kafkaperf-tag",)}


@pytest.mark.speed
@pytest.mark.usefixtures("relay")
def test_a_slower_application_shows_by_how_much(broker: Cluster, load: Load) -> None:
    """100 ms more in it are 100 ms more end to end; a busy machine only adds to that, so the least of three counts."""

    def least_p50_s() -> float:
        runs = [load(broker, **THROUGH | {"duration": "1 s"}) for _ in range(3)]
        assert [ran.faults for ran in runs] == [[], [], []]
        return min(ran.metrics["e2e.latency.p50"] for ran in runs)

    with running_relay(broker):
        before_s = least_p50_s()
    with running_relay(broker, "--delay-ms", "100"):
        after_s = least_p50_s()
    assert after_s - before_s == pytest.approx(0.100, abs=0.040)


@pytest.mark.story
def test_a_record_that_does_not_come_out_is_lost(broker: Cluster, load: Load, relay: Start) -> None:
    """A limit on `lost` says whether an application may; the run is valid."""
    relay("--lose", str(MIDDLE))
    ran = load(broker, **THROUGH)
    assert ran.faults == []
    assert (ran.metrics["lost"], ran.metrics["duplicated"]) == (1, 0)
    assert ran.metrics["app.output_ratio"] == pytest.approx(1 - 1 / DUE)
    assert [notice for notice in ran.round.warnings if notice.kind is NoticeKind.OUTPUT_MISSING] == [
        Notice(Remark.OUTPUT_MISSING, {"records": Count(1, "record"), "output_topic": "relay-out"})
    ]


def test_of_an_application_that_hangs_only_a_bound_of_the_latency_is_known(
    broker: Cluster, load: Load, relay: Start
) -> None:
    """Its slowest records have not come out, and those that have are quick."""
    relay("--hang-after", str(WARM + DUE))
    ran = load(broker, **THROUGH | {"duration": "4 s"})
    assert ran.faults == []
    assert DUE - WARM <= ran.metrics["lost"] <= DUE  # of twice as many
    assert {"e2e.latency.mean", "e2e.latency.p99", "e2e.latency.max"} <= {*ran.round.at_least}
    assert "e2e.latency.p50" not in ran.round.at_least
    assert Remark.OUTPUT_ENDED in [notice.remark for notice in ran.round.warnings]


def test_a_rebalance_of_the_consumers_hides_what_the_application_lost(
    broker: Cluster, load: Load, relay: Start
) -> None:
    """After it they read from the end of the log on, and what came out meanwhile is not the application's loss."""

    async def take_a_part() -> None:
        (group,) = (name for name in groups(broker) if name.startswith(PREFIX))
        async with AIOKafkaConsumer(OUT, bootstrap_servers=broker.bootstrap_servers, group_id=group) as member:
            for _ in range(20):
                await member.getone()

    relay()
    interrupt = Once(lambda: on_a_loop(take_a_part()))
    ran = load(broker, **THROUGH | {"duration": "6 s"}, on_progress=interrupt)
    assert interrupt.done_s is not None
    assert "lost" not in ran.metrics
    assert [(problem.kind, problem.text) for problem in ran.faults] == [
        (
            ProblemKind.LOSSES_UNKNOWN,
            "losses are unknown: the plugin's consumers had to rejoin their group under load, and may have skipped or "
            "repeated records",
        )
    ]


@pytest.mark.story
def test_a_record_that_comes_out_again_is_duplicated(broker: Cluster, load: Load, relay: Start) -> None:
    """It is timed once."""
    relay("--repeat", str(MIDDLE))
    ran = load(broker, **THROUGH)
    assert (ran.faults, ran.metrics["lost"], ran.metrics["duplicated"]) == ([], 0, 1)
    assert sum(part.latency.total for part in ran.consumed) == DUE


def test_a_function_finds_the_record_that_went_in(broker: Cluster, load: Load, relay: Start) -> None:
    """For applications that drop headers."""
    relay("--wrap")
    ran = load(broker, **THROUGH, identify={"input": "value:16", "output": application.unwrapped})
    assert (ran.faults, ran.metrics["lost"], ran.metrics["duplicated"]) == ([], 0, 0)
    assert sum(part.latency.total for part in ran.consumed) == DUE


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (application.failing, "tests.support.relay.failing failed at offset"),
        (application.wrong_type, "tests.support.relay.wrong_type returned int; return the 16 bytes of the tag"),
    ],
)
def test_a_function_that_goes_wrong_is_named(
    broker: Cluster, load: Load, relay: Start, function: Any, told: str
) -> None:
    """It is the test's own code."""
    relay()
    ran = load(broker, **THROUGH, identify={"input": "value:16", "output": function})
    assert any(told in problem.text for problem in ran.round.problems)


@pytest.mark.usefixtures("relay")
def test_an_output_topic_must_exist(broker: Cluster) -> None:
    """It is the application's: the plugin creates none."""
    scenario = Scenario.of({**THROUGH, "output_topic": "relay-ou"})
    with pytest.raises(ClusterError, match="topic 'relay-ou' does not exist, did you mean 'relay-out'"):
        run_scenario(scenario, broker)


@pytest.mark.usefixtures("relay")
def test_where_no_application_runs_the_run_is_invalid(broker: Cluster, load: Load) -> None:
    """Somebody has forgotten to start it."""
    metrics = find_no_output(broker, load, "no record arrived in 'relay-out': start the application")
    assert metrics["lost"] == DUE


def test_an_application_that_drops_headers_makes_the_run_invalid(broker: Cluster, load: Load, relay: Start) -> None:
    """The records are all in the output, and nobody knows which are which."""
    relay("--wrap")
    told = f"no record came out with the header 'kafkaperf-tag', but {DUE} other records arrived in 'relay-out'"
    assert "lost" not in find_no_output(broker, load, told)

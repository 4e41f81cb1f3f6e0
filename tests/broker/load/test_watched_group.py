"""An application of which only its consumer group is seen: what is measured agrees with what it is known to take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.metrics import LOAD_METRICS
from pytest_kafkaperf.core.notices import Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load import schedule
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario
from tests.support.sink import running_sink
from tests.support.strangers import drop_topic, make_topic
from tests.support.topic_log import read_log

if TYPE_CHECKING:
    from tests.support.rounds import Load

DELAY_S = 0.020
COMMIT_S = 0.25
POLL_S = 0.1
TOPIC, GROUP = "sink-orders", "sink"
WATCHED: dict[str, Any] = {"topic": TOPIC, "watch_group": GROUP, "warmup": 0}


@pytest.fixture
def topic(broker: Cluster) -> Iterator[str]:
    """A topic of one partition, so that its records are processed one after the other."""
    make_topic(broker, TOPIC, partitions=1)
    yield TOPIC
    drop_topic(broker, TOPIC)


@pytest.mark.speed
@pytest.mark.usefixtures("topic")
def test_what_a_slow_application_takes_agrees_with_arithmetic(broker: Cluster, load: Load) -> None:
    """It takes 50 of 100 records/s, so record i is done 20 ms + 10 ms * i after it was due."""
    rate, duration_s = 100, 4
    with running_sink(broker.bootstrap_servers, TOPIC, GROUP, delay_ms=DELAY_S * 1000, commit_ms=COMMIT_S * 1000):
        ran = load(broker, **WATCHED, rate=rate, duration=f"{duration_s} s")
    records = rate * duration_s
    last_s = records * DELAY_S - (records - 1) / rate
    assert (ran.faults, ran.metrics["lost"]) == ([], 0)
    expected = {
        "app.lag.max": rate * duration_s - duration_s / DELAY_S,
        "app.lag.end": rate * duration_s - duration_s / DELAY_S,
        "app.lag.slope": rate - 1 / DELAY_S,
        "app.throughput": 1 / DELAY_S,
        "app.delay.p50": (DELAY_S + last_s) / 2,
        "app.delay.max": last_s,
        "app.drain": last_s,
    }
    tolerated_s = COMMIT_S + POLL_S
    beyond = {
        "app.lag.max": tolerated_s / DELAY_S,
        "app.lag.end": tolerated_s / DELAY_S,
        "app.throughput": tolerated_s / (records * DELAY_S) / DELAY_S,
        "app.lag.slope": 2 * tolerated_s / duration_s / DELAY_S,
    }
    for name, value in expected.items():
        assert ran.metrics[name] == pytest.approx(value, abs=0.02 * value + beyond.get(name, tolerated_s)), name
    assert [name for name in ran.metrics if name in LOAD_METRICS] == list(
        Scenario.of({**WATCHED, "rate": rate, "duration": f"{duration_s} s"}).metrics()
    )


@pytest.mark.speed
@pytest.mark.usefixtures("topic")
def test_an_application_that_keeps_up_commits_within_its_interval(broker: Cluster, load: Load) -> None:
    """Each record takes 20 ms, and waits for the next commit."""
    with running_sink(broker.bootstrap_servers, TOPIC, GROUP, delay_ms=DELAY_S * 1000, commit_ms=500):
        ran = load(broker, **WATCHED, rate=25, duration="4 s")
    assert ran.faults == []
    assert ran.round.commit_interval_s == pytest.approx(0.5, abs=POLL_S)
    assert ran.metrics["app.delay.p50"] == pytest.approx(DELAY_S + 0.25 + POLL_S / 2, abs=0.25)
    assert ran.metrics["app.lag.slope"] == pytest.approx(0, abs=2)
    assert ran.metrics["app.throughput"] == pytest.approx(25, rel=0.15)
    assert ran.metrics["app.drain"] <= DELAY_S + 0.5 + 5 * POLL_S


@pytest.mark.parametrize(
    "fields",
    [
        {"transaction_size": 10, "abort_ratio": 0.2},
        {"key": "uniform:50", "producers": 2},
        {"client": "record"},
        pytest.param({"consumers": 1, "rate": 100}, marks=pytest.mark.story),
        {"rate": None, "records": 500, "duration": None},
    ],
    ids=["transactions", "keyed", "records", "with consumers", "closed loop"],
)
def test_the_drain_ends_with_the_last_record(broker: Cluster, load: Load, topic: str, fields: dict[str, Any]) -> None:
    """Markers of transactions take offsets, too."""
    with running_sink(broker.bootstrap_servers, topic, GROUP, delay_ms=1, commit_ms=200):
        ran = load(broker, **WATCHED | {"rate": 100, "duration": "2 s"} | fields)
    assert ran.faults == []
    assert ran.metrics["app.drain"] < 30  # where the limit ends it, a minute
    assert Remark.NOT_COMMITTED not in [notice.remark for notice in ran.round.warnings]
    assert (ran.metrics["lost"], ran.metrics["duplicated"]) == (0, 0)


@pytest.mark.usefixtures("topic")
def test_values_reach_the_application_as_they_are(broker: Cluster, tmp_path: Path) -> None:
    """A sink reads JSON; the tag that the exact counts need is in a header."""
    samples = tmp_path / "orders.jsonl"
    samples.write_text('{"id": 1, "customer": "somebody"}\n', encoding="utf-8")
    with running_sink(broker.bootstrap_servers, TOPIC, GROUP, delay_ms=0, commit_ms=100):
        fields = {**WATCHED, "payload": f"file:{samples}", "rate": 200, "duration": "1 s", "rounds": 1}
        (one,) = run_scenario(Scenario.of(fields), broker)
    assert (one.problems, one.metrics["lost"], one.metrics["duplicated"]) == ((), 0, 0)
    records = list(read_log(broker.bootstrap_servers, TOPIC).records)
    assert [json.loads(record.value) for record in records] == [{"id": 1, "customer": "somebody"}] * 200


@pytest.mark.speed
@pytest.mark.usefixtures("topic")
def test_of_two_groups_the_slower_one_counts(broker: Cluster, load: Load) -> None:
    """Both read the same records."""
    servers = broker.bootstrap_servers
    with (
        running_sink(servers, TOPIC, "quick", delay_ms=0, commit_ms=100),
        running_sink(servers, TOPIC, GROUP, delay_ms=20, commit_ms=COMMIT_S * 1000),
    ):
        ran = load(broker, **WATCHED | {"watch_group": ["quick", GROUP]}, rate=100, duration="2 s")
    assert ran.faults == []
    assert ran.metrics["app.drain"] == pytest.approx(2, abs=0.04 + COMMIT_S + POLL_S)
    assert ran.metrics["app.throughput"] == pytest.approx(50, rel=0.15)


@pytest.mark.usefixtures("topic")
def test_a_group_that_does_not_exist_is_named_before_the_load(broker: Cluster) -> None:
    """With the one that was meant."""
    with (
        running_sink(broker.bootstrap_servers, TOPIC, "billing-sink"),
        pytest.raises(
            ClusterError, match="group 'biling-sink' does not exist, did you mean 'billing-sink'.? start the"
        ),
    ):
        run_scenario(Scenario.of({**WATCHED, "watch_group": "biling-sink", "rounds": 1}), broker)
    assert list(read_log(broker.bootstrap_servers, TOPIC).records) == []


@pytest.mark.usefixtures("topic")
def test_a_group_that_commits_nothing_makes_the_run_invalid(
    broker: Cluster, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is alive, and nobody knows what it does."""
    monkeypatch.setattr(schedule, "DRAIN_TIMEOUT_S", 1)
    with running_sink(broker.bootstrap_servers, TOPIC, GROUP, commit_ms=0):
        ran = load(broker, **WATCHED, rate=100, duration="1 s")
    assert [problem.kind for problem in ran.round.problems] == [ProblemKind.NO_COMMIT]
    assert str(ran.round.problems[0]).startswith(f"group {GROUP!r} has committed nothing on topic {TOPIC!r}")

"""Reading of what a topic holds, without a record that is written."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import aiokafka
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.metrics import LOAD_METRICS
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.recorder import merged
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.strangers import drop_topic, make_topic, on_a_loop

if TYPE_CHECKING:
    from tests.support.rounds import Load

TOPIC, PARTITIONS, RECORDS = "archive", 3, 9000
READ: dict[str, Any] = {"producers": 0, "topic": TOPIC, "consumers": 2}


@pytest.fixture
def topic(broker: Cluster) -> Iterator[str]:
    make_topic(broker, TOPIC, partitions=PARTITIONS)
    yield TOPIC
    drop_topic(broker, TOPIC)


def write(broker: Cluster, *values: bytes | None, ahead_s: int = 0) -> None:
    """As another application does, whose clock may be ahead."""
    stamp_ms = round((time.time() + ahead_s) * 1000)

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number, value in enumerate(values):
                await producer.send(TOPIC, value, key=b"12345678", partition=number % PARTITIONS, timestamp_ms=stamp_ms)

    on_a_loop(send())


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("groups", [pytest.param(1, marks=pytest.mark.story), 2])
def test_all_that_is_there_is_read_and_nothing_is_written(broker: Cluster, load: Load, groups: int) -> None:
    """Values may be empty, short, or of any content."""
    write(broker, *[None, b"", b"short", bytes(100), b"x" * 1000, b"\xff" * 16] * (RECORDS // 6))
    before = Admin(broker.bootstrap_servers, broker.access).end_offsets(TOPIC, PARTITIONS)
    ran = load(broker, **READ, consumer_groups=groups)
    after = Admin(broker.bootstrap_servers, broker.access).end_offsets(TOPIC, PARTITIONS)
    assert ran.faults == []
    assert before == after
    assert sum(before.values()) == RECORDS
    assert sum(part.received for part in ran.consumed) == groups * RECORDS
    measured = [name for name in Scenario.of(READ).metrics() if not name.startswith("e2e.")]  # all are older
    assert [name for name in ran.metrics if name in LOAD_METRICS] == measured
    size = ran.metrics["consume.bandwidth"] / ran.metrics["consume.throughput"]
    assert size == pytest.approx(8 + (5 + 100 + 1000 + 16) / 6, rel=0.001)


@pytest.mark.usefixtures("topic")
def test_records_that_come_in_while_it_reads_are_timed(broker: Cluster, load: Load) -> None:
    """The large backlog is on another partition, so that they are read meanwhile."""
    write(broker, *[b"x" * 1000, *[None] * (PARTITIONS - 1)] * 50_000)
    ended = threading.Event()
    created: list[float] = []

    async def go_on() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            while not ended.is_set():
                created.append(time.time())
                await producer.send_and_wait(TOPIC, b"new", partition=1)
                await asyncio.sleep(0.002)

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(on_a_loop, go_on())
        try:
            ran = load(broker, **{**READ, "consumers": 1})
        finally:
            ended.set()
            writing.result(30)
    latency = merged([part.latency for part in ran.consumed])
    assert 0 < latency.total < sum(at_s >= created[0] + 0.5 for at_s in created)  # a warm-up comes first
    assert 0 <= ran.metrics["e2e.latency.p50"] < 2


@pytest.mark.usefixtures("topic")
def test_records_of_a_clock_that_is_ahead_have_no_latency(broker: Cluster, load: Load) -> None:
    """Their age would be 0, which meets every threshold."""
    write(broker, *[b"x"] * 300, ahead_s=20)
    ran = load(broker, **READ)
    assert ran.faults == []
    assert [name for name in ran.metrics if name.startswith("e2e.latency")] == []
    assert ran.round.clock_skew_s is not None
    assert 0 < ran.round.clock_skew_s <= 20


@pytest.mark.usefixtures("topic")
def test_an_empty_topic_is_no_measurement(broker: Cluster, load: Load) -> None:
    """The text says why."""
    ran = load(broker, **READ)
    assert [(problem.kind, str(problem)) for problem in ran.round.problems] == [
        (ProblemKind.RECORDS_UNREAD, "nothing was read from topic 'archive', because it is empty")
    ]

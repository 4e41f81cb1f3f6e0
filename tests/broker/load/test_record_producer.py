"""`client="record"`: what an application on aiokafka gets that sends record by record."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES
from tests.support.problems import problem_told
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from tests.support.rounds import Load

HEADERS = {"trace": "ä1"}
STORED_HEADERS = (("trace", "ä1".encode()),)


@pytest.mark.story
def test_a_closed_loop_sends_exactly_the_asked_records_one_by_one(broker: Cluster, load: Load, log: Log) -> None:
    """As many, as large, as compressed and with the headers that a load of batches would have."""
    fields: dict[str, Any] = {"records": 3001, "producers": 2, "consumers": 1, "headers": HEADERS, "payload": "zeros"}
    fields["warmup"] = "4 s"  # longer than a stall of the machine
    ran = load(broker, client="record", compression="gzip", **fields)

    assert ran.round.problems == ()
    assert sorted(part.sent for part in ran.produced) == [1500, 1501]
    assert sum(part.latency.total for part in ran.produced) == 3001
    assert sum(part.received for part in ran.consumed) == sum(part.latency.total for part in ran.consumed) == 3001
    assert sum(part.total for part in ran.consumed) == len(log.records) == ran.growth > 3001
    assert {(record.headers, record.value[TAG_BYTES:]) for record in log.records} == {
        (STORED_HEADERS, bytes(100 - TAG_BYTES))
    }
    assert {batch.codec for batch in log.batches} == {"gzip"}
    for producer in range(2):
        indexes = sorted(record.index for record in log.records if record.producer == producer)
        assert indexes == list(range(len(indexes)))


def test_an_open_loop_sends_each_record_when_it_is_due(broker: Cluster, load: Load, log: Log) -> None:
    """Sizes are mixed as asked, and batches are the client's own: by its linger, up to its size."""
    mix = {"100 B": 3, "400 B": 1}
    fields: dict[str, Any] = {"record_size": mix, "batch_size": 2000, "linger": "50 ms", "client": "record"}
    ran = load(broker, rate=2000, duration="1 s", warmup=0, producers=2, **fields)

    assert ran.faults == []
    assert sorted(part.sent for part in ran.produced) == [1000, 1000]
    assert sum(part.latency.total for part in ran.produced) == 2000
    assert sum(part.delay.total for part in ran.produced) == 2000
    assert ran.metrics["produce.latency.p50"] > 0.01
    sizes = collections.Counter(len(record.value) for record in log.records)
    assert sizes.keys() == {100, 400}
    assert sizes[100] == pytest.approx(1500, rel=0.1)
    assert sum(part.bytes for part in ran.produced) == sum(size * count for size, count in sizes.items())
    batches = [sum(len(record.value) for record in batch.records) for batch in log.batches]
    assert max(batches) <= 2000
    assert sum(batches) / len(batches) > 800


def test_records_that_the_client_itself_refuses_are_errors(broker: Cluster, load: Load) -> None:
    """A parameter of the client that the scenario passes on, in Kafka's words."""
    config = {"max.request.size": 500}
    ran = load(broker, client="record", duration="300 ms", rate=500, record_size=1000, warmup=0, producer_config=config)

    text = "no record in the window was acknowledged: MessageSizeTooLargeError (150 records)"
    assert ran.round.problems == (problem_told(ProblemKind.NOTHING_ACKNOWLEDGED, text),)
    assert ran.metrics["errors"] == 150


def test_without_acknowledgements_sending_is_all_that_is_measured(broker: Cluster, load: Load) -> None:
    """acks=0: nobody says that a record stands in the log."""
    ran = load(broker, client="record", records=1000, acks=0)

    assert ran.round.problems == ()
    assert sum(part.acknowledged for part in ran.produced) == 1000
    assert "lost" not in ran.metrics

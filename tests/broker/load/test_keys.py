"""Records with keys: which keys, how often, in which partition, and in which order."""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.partitioner import murmur2

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.topic_log import Log, Record

if TYPE_CHECKING:
    from tests.support.rounds import Load

CLOSED: dict[str, Any] = {"warmup": 0}
OPEN: dict[str, Any] = {"rate": 4000, "warmup": "200 ms"}
SIGMAS = 5
"""By which a count may miss its expected value: the draws are seeded, and still random."""


def number_of(record: Record) -> int:
    """A key is a 64-bit integer, as Kafka's LongSerializer writes it."""
    assert record.key is not None
    assert len(record.key) == 8
    return int.from_bytes(record.key, signed=True)


def partition_of(key: bytes, partitions: int) -> int:
    """As Kafka's default partitioner has it, by aiokafka's own murmur2."""
    positive: int = murmur2(key) & 0x7FFFFFFF
    return positive % partitions


def assert_drawn(records: list[Record], shares: dict[int, float]) -> None:
    """Keys come as often as their shares say, within the noise of so many draws."""
    counts = collections.Counter(map(number_of, records))
    assert counts.keys() <= shares.keys()
    for key, share in shares.items():
        expected = share * len(records)
        assert abs(counts[key] - expected) <= SIGMAS * math.sqrt(expected * (1 - share)) + 1, (key, counts[key])


def assert_in_their_partitions_in_order(log: Log, partitions: int) -> None:
    """Each key's records are in the partition that Java's producer takes, in the order of their producer."""
    last: dict[tuple[int, int], int] = {}
    for record in log.records:
        assert record.key is not None
        assert record.partition == partition_of(record.key, partitions)
        whose = (record.partition, record.producer)
        assert record.index > last.get(whose, -math.inf)
        last[whose] = record.index


@pytest.mark.parametrize(
    ("loop", "client"),
    [
        pytest.param(CLOSED, "batch", id="closed-batch"),
        pytest.param(OPEN, "batch", id="open-batch", marks=pytest.mark.story),
        pytest.param(OPEN, "record", id="open-record"),
    ],
)
def test_keys_come_equally_often_and_go_where_kafka_puts_them(
    broker: Cluster, load: Load, log: Log, loop: dict[str, Any], client: str
) -> None:
    """What an application sends for a key stays in order, in one partition; the load is spread as its keys are."""
    fields = loop | {"producers": 2, "consumers": 1, "partitions": 5}
    ran = load(broker, records=4000, key="uniform:40", client=client, **fields)

    assert ran.faults == []
    assert len(log.records) == ran.growth
    assert_in_their_partitions_in_order(log, partitions=5)
    assert_drawn(log.records, dict.fromkeys(range(40), 1 / 40))
    assert sum(part.acknowledged for part in ran.produced) == sum(part.received for part in ran.consumed) == 4000
    assert sum(part.latency.total for part in ran.produced) == 4000
    assert sum(part.bytes for part in ran.produced) == sum(part.bytes for part in ran.consumed) == 4000 * (8 + 100)
    assert (ran.metrics["lost"], ran.metrics["duplicated"], ran.metrics["reordered"]) == (0, 0, 0)
    assert ran.seen.log.audit is None


def test_a_zipf_load_has_its_hot_keys(broker: Cluster, load: Load, log: Log) -> None:
    """Hot partitions are what people ask for it: key k comes in proportion to 1 / (k + 1) ** s."""
    ran = load(broker, records=20_000, key="zipf:1000:1.2", warmup=0)

    weights = [(key + 1) ** -1.2 for key in range(1000)]
    assert ran.round.problems == ()
    assert_in_their_partitions_in_order(log, partitions=6)
    assert_drawn(log.records, {key: weight / sum(weights) for key, weight in enumerate(weights)})
    counts = collections.Counter(map(number_of, log.records))
    assert [key for key, _ in counts.most_common(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("loop", "client"),
    [
        pytest.param(CLOSED, "record", id="closed-record"),
        pytest.param(OPEN | {"warmup": 0}, "batch", id="open-batch"),
    ],
)
def test_sequential_keys_come_once_each(
    broker: Cluster, load: Load, log: Log, loop: dict[str, Any], client: str
) -> None:
    """Over all producers: a compacted topic keeps every record."""
    ran = load(broker, records=2000, key="sequential", producers=3, client=client, **loop)

    assert ran.faults == []
    assert sorted(map(number_of, log.records)) == list(range(2000))
    assert_in_their_partitions_in_order(log, partitions=6)


def test_records_with_keys_linger_for_their_batch(broker: Cluster, load: Load, log: Log) -> None:
    """Each partition gathers its own batch: linger is part of the latency, and makes the batches larger."""
    ran = load(broker, rate=1000, duration="1 s", key="uniform:100", partitions=2, linger="100 ms")

    assert ran.faults == []
    assert ran.metrics["produce.latency.p50"] > 0.02
    assert len(log.records) / len(log.batches) > 15  # 500 records a second and partition in 0.1 s are 50

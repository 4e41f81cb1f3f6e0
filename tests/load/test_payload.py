"""What records hold, on its way through aiokafka's own batches."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.kafka import BatchedRecords, ReceivedBatch
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.scenario import Scenario

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def scenario(**fields: Any) -> Scenario:
    return Scenario.of({"record_size": 100, "consumers": 1, **fields})


def builder_of(payload: Payload, dues_ns: list[int], *, first: int = 0, size: int = 1 << 20, codec: int = 0) -> Any:
    builder = BatchBuilder(size, codec)
    assert payload.fill(builder, first=first, dues_ns=dues_ns, timestamp_ms=1_700_000_000_000) == len(dues_ns)
    return builder


def received(data: bytes, *, fetch_offset: int = 0) -> list[ReceivedBatch]:
    records = BatchedRecords(TopicPartition("t", 0), MemoryRecords(data), [], fetch_offset, None, None, True, 0)
    return list(records)


def values(builder: Any) -> list[bytes]:
    return [record.value for record in MemoryRecords(bytes(builder._build())).next_batch()]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_due_time_and_origin_come_back_from_a_batch(codec: int) -> None:
    """End-to-end latency rests on this tag; with any compression."""
    payload = Payload(scenario(), producer=3, seed=1)
    dues_ns = [10**15 + 7 * k for k in range(50)]
    (batch,) = received(bytes(builder_of(payload, dues_ns, first=1000, codec=codec)._build()))

    assert batch.tags.dtype == np.int64
    assert batch.tags[:, 0].tolist() == dues_ns
    assert batch.tags[:, 1].tolist() == [(3 << 48) + 1000 + k for k in range(50)]
    assert batch.size_bytes == 50 * 100


def test_the_origin_of_a_warm_up_record_names_its_producer() -> None:
    """Indexes below zero must not spill into the producer's bits."""
    (batch,) = received(bytes(builder_of(Payload(scenario(), producer=999, seed=1), [5], first=-1)._build()))

    assert int(batch.tags[0, 1]) >> 48 == 999


def test_a_fetch_that_begins_inside_a_batch_gives_the_rest_of_it() -> None:
    """Brokers send whole batches; records read before must not count twice."""
    data = bytes(builder_of(Payload(scenario(), producer=0, seed=1), list(range(10)))._build())
    (batch,) = received(data, fetch_offset=4)

    assert batch.tags[:, 0].tolist() == [4, 5, 6, 7, 8, 9]
    assert batch.size_bytes == 600


def test_a_damaged_batch_is_an_error() -> None:
    """Figures of corrupt data are none."""
    data = bytearray(builder_of(Payload(scenario(), producer=0, seed=1), [1, 2, 3])._build())
    data[-1] ^= 1

    with pytest.raises(CorruptRecordException, match="wrong CRC"):
        received(bytes(data))


@pytest.mark.parametrize("consumers", [0, 1])
@pytest.mark.parametrize("record_size", [16, 17, 100, 5000, 3 << 20])
def test_every_value_has_the_asked_size(record_size: int, consumers: int) -> None:
    """With the tag or without: bandwidth is counted by it."""
    payload = Payload(scenario(record_size=record_size, consumers=consumers), producer=0, seed=1)

    assert {len(value) for value in values(builder_of(payload, [1, 2, 3], size=1 << 24))} == {record_size}


def test_the_same_seed_makes_the_same_records_and_another_does_not() -> None:
    """A round can be repeated byte by byte; producers do not send the same."""

    def sent(producer: int, seed: int) -> list[bytes]:
        return values(builder_of(Payload(scenario(consumers=0), producer=producer, seed=seed), [0] * 20))

    assert sent(0, 1) == sent(0, 1)
    assert sent(0, 1) != sent(0, 2)
    assert sent(0, 1) != sent(1, 1)


@pytest.mark.parametrize(
    ("record_size", "batch_size"), [(20, 16 << 10), (100, 16 << 10), (100, 1 << 20), (10_000, 1 << 20)]
)
def test_records_do_not_compress(record_size: int, batch_size: int) -> None:
    """Compression costs what it would cost on real data, and saves nothing that it would not."""
    made = scenario(record_size=record_size, batch_size=batch_size, consumers=0)
    payload = Payload(made, producer=0, seed=1)
    data = b"".join(values(builder_of(payload, [0] * (batch_size // record_size), size=2 * batch_size)))

    assert len(gzip.compress(data)) > 0.99 * len(data)
    zstd = builder_of(payload, [0] * (batch_size // record_size), size=2 * batch_size, codec=CODECS["zstd"])
    assert len(zstd._build()) > 0.97 * len(data)


def test_a_batch_takes_what_fits_and_one_record_always() -> None:
    """A record larger than a batch travels alone, as with Kafka's own producer."""
    payload = Payload(scenario(consumers=0), producer=0, seed=1)
    small, tiny = BatchBuilder(1000, 0), BatchBuilder(10, 0)

    taken = payload.fill(small, first=0, dues_ns=[0] * 50, timestamp_ms=0)
    assert 1 < taken < 10
    assert small.record_count() == taken
    assert payload.fill(tiny, first=0, dues_ns=[0] * 50, timestamp_ms=0) == 1


def test_values_that_are_too_short_for_a_tag_are_counted_without_one() -> None:
    """Somebody else may write to a topic."""
    builder = BatchBuilder(1000, 0)
    builder.append(timestamp=0, key=None, value=b"short")
    builder.append(timestamp=0, key=b"key", value=None)
    (batch,) = received(bytes(builder._build()))

    assert batch.tags.shape == (0, 2)
    assert batch.size_bytes == 5

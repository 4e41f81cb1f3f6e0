"""What stands in the log is what the scenario asked for: number, sizes, content, headers and times of records."""

from __future__ import annotations

import collections
import time
import zlib
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.rounds import Load


@pytest.mark.story
def test_the_log_holds_the_asked_records_and_nothing_else(broker: Cluster, load: Load, log: Log) -> None:
    """An independent reader counts what the engine says, made when it says, with the headers that were asked for."""
    headers = {"trace": "ä1", "empty": ""}
    began_ms = time.time_ns() // 1_000_000
    ran = load(broker, records=3000, producers=2, headers=headers, warmup=0)
    ended_ms = time.time_ns() // 1_000_000

    assert ran.round.problems == ()
    assert len(log.records) == ran.growth == 3000
    assert {record.partition for record in log.records} == set(range(6))
    assert {(record.key, len(record.value), record.headers) for record in log.records} == {
        (None, 100, (("trace", "ä1".encode()), ("empty", b"")))
    }
    assert all(began_ms <= record.timestamp_ms <= ended_ms for record in log.records)
    assert {(batch.codec, batch.transactional, batch.producer_id) for batch in log.batches} == {(None, False, -1)}


def test_random_values_are_all_different_and_cannot_be_compressed(broker: Cluster, load: Load, log: Log) -> None:
    """A codec that finds a pattern would make the cluster look faster than it is."""
    ran = load(broker, records=3000, record_size=200, warmup=0)

    bodies = [record.value[TAG_BYTES:] for record in log.records]
    assert ran.round.problems == ()
    assert len(set(bodies)) == 3000
    assert len(zlib.compress(b"".join(bodies))) >= 3000 * (200 - TAG_BYTES)


@pytest.mark.story
@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_delivers_every_record(broker: Cluster, load: Load, log: Log, codec: str | None) -> None:
    """What is compressed must come back, tag and all, and must have been compressed by what was asked for."""
    ran = load(broker, records=3000, compression=codec, payload="zeros", consumers=1, warmup="100 ms")

    assert ran.round.problems == ()
    assert sum(part.received for part in ran.consumed) == 3000
    assert {batch.codec for batch in log.batches} == {codec}
    assert {record.value[TAG_BYTES:] for record in log.records} == {bytes(100 - TAG_BYTES)}


def test_a_mix_of_sizes_is_in_the_log_in_its_shares(broker: Cluster, load: Load, log: Log) -> None:
    """Ten thousand records of one producer hold the weights exactly; bandwidth counts what was really sent."""
    mix = {"100 B": 0.7, "1 KiB": 0.2, "5000 B": 0.1}
    ran = load(broker, records=10_000, record_size=mix, consumers=1, warmup=0)

    sizes = collections.Counter(len(record.value) for record in log.records)
    assert ran.round.problems == ()
    assert sizes == {100: 7000, 1024: 2000, 5000: 1000}
    assert sum(part.bytes for part in ran.produced) == sum(part.bytes for part in ran.consumed)
    assert sum(part.bytes for part in ran.consumed) == sum(size * count for size, count in sizes.items())
    assert {len(record.value) for record in log.of(0)} == {100, 1024, 5000}


def test_records_larger_than_a_batch_travel_alone(broker: Cluster, load: Load, log: Log) -> None:
    """As with Kafka's own producer; small ones next to them still share batches."""
    mix = {"20 kB": 1, "100 B": 9}
    ran = load(broker, records=2000, record_size=mix, batch_size=1000, consumers=1, warmup=0)

    assert ran.round.problems == ()
    assert sum(part.received for part in ran.consumed) == 2000
    batches = [[len(record.value) for record in batch.records] for batch in log.batches]
    assert all(sizes == [20_000] or sum(sizes) <= 1000 for sizes in batches)
    assert max(map(len, batches)) > 5


def test_samples_come_from_their_file_one_as_often_as_another(
    broker: Cluster, load: Load, log: Log, tmp_path: Path
) -> None:
    """Real data compresses as real data does: all of it is used, whole, but for the tag of a batch's first record."""
    samples = [bytes([letter]) * size for letter, size in zip(b"abcde", (20, 300, 300, 2000, 50), strict=True)]
    file = tmp_path / "samples"
    file.write_bytes(b"||".join([*samples, b""]))  # with a delimiter at the end, as people have it
    ran = load(broker, records=2000, payload={"file": str(file), "delimiter": "||"}, warmup=0)

    assert ran.round.problems == ()
    found = collections.Counter(record.value[TAG_BYTES:] for record in log.records)
    assert found == {sample[TAG_BYTES:]: 400 for sample in samples}
    later = {record.value for batch in log.batches for record in batch.records[1:]}
    assert later == set(samples)


def test_samples_too_small_for_a_tag_are_left_as_they_are(
    broker: Cluster, load: Load, log: Log, tmp_path: Path
) -> None:
    """Nobody reads, so nothing needs to be written into them."""
    file = tmp_path / "samples"
    file.write_text("a\nbb\n\nccc\n", encoding="ascii")
    ran = load(broker, records=300, payload=f"file:{file}", warmup=0)

    assert ran.round.problems == ()
    assert collections.Counter(record.value for record in log.records) == {b"a": 100, b"bb": 100, b"ccc": 100}


def test_samples_too_small_for_a_tag_are_refused_with_consumers(broker: Cluster, load: Load, tmp_path: Path) -> None:
    """End-to-end time could not be told: the round says so, and what to do."""
    file = tmp_path / "samples"
    file.write_text("a\n", encoding="ascii")
    ran = load(broker, records=300, payload=f"file:{file}", consumers=1)

    assert [problem.text for problem in ran.round.problems] == [
        f"the samples in file:{file} include values smaller than 16 B, but with consumers, end-to-end timing writes "
        "16 B into each; use longer samples, or consumers=0",
    ]

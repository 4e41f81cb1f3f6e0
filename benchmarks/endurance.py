"""Half an hour of load, checked from outside: `python benchmarks/endurance.py`.

This is a pytest run as users start it: a load with a rate on three local brokers, three replicas, a consumer group of
two, one round. It checks, independently of the measured program:

- Memory is flat: it compares the median resident memory of pytest and of each worker in the last tenth of the run with
  that in the second tenth. Memory grows by a few MiB until the time series, of about 300 intervals, is full.
- Due times do not drift against the clock: an independent client reads the first and the last seconds of the topic. The
  due time of each record (its tag) must match the rate. The time from there to the wall clock of the send (the record's
  timestamp, in whole ms) must be the same at the beginning and at the end, except for the drift between the monotonic
  and the wall clock of this machine.
- Each record of the window was read once and gave one sample of end-to-end latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from resident import WORKER, Sampler

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.units import parse_time
from pytest_kafkaperf.scenarios.scenario import Scenario

DURATION = "30 min"
RATE = 2000
PARTITIONS = 6
BROKERS = 3
TOPIC = "endurance"
FLAT_RATIO = 1.1
"""The ratio above which memory counts as growing."""
DRIFT_S = 0.001
LEAST_S = 200
READ_RATIO = 1 / 30
"""The share of the run that is read at its beginning and at its end."""
TENTHS = 10
NS_PER_S = 1_000_000_000

_SAMPLE_S = 0.5
_SPARE_S = 120
"""Time for the start and the end of the run."""
_READ_TIMEOUT_S = 300

_TEST = """
import secrets

import pytest

secrets.randbits = lambda _: 0  # no nonce in the tags: the topic has no other writer, and the benchmark reads them

@pytest.mark.kafka_scenario(
    topic={topic!r}, rate={rate}, record_size=200, duration="{duration} s", warmup="5 s", rounds=1,
    consumers=2,
)
@pytest.mark.kafka_threshold("lost == 0", "duplicated == 0", "errors == 0")
def test_endurance(kafka_perf):
    kafka_perf()
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """One record of the window, as an independent client has read it."""

    index: int
    due_ns: int
    """By this machine's monotonic clock."""
    sent_ms: int
    """By this machine's wall clock."""


def main() -> int:
    """Measure and print. Return 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", default=DURATION, help=f"duration of the load (default: {DURATION})")
    parser.add_argument("--rate", type=int, default=RATE, help=f"records a second (default: {RATE})")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help=f"of the topic (default: {PARTITIONS})")
    parser.add_argument("--brokers", type=int, default=BROKERS, help=f"and replicas (default: {BROKERS})")
    options = parser.parse_args()
    duration_s = parse_time(options.duration)
    if duration_s < LEAST_S:
        sys.exit(f"--duration={options.duration} is too short: use at least {LEAST_S} s, for the records of its ends")
    print(f" {os.cpu_count()} cores; on average {os.getloadavg()[0]:.1f} processes ran before this one")
    with provision(ClusterSpec(brokers=options.brokers, heap="400m"), target="local") as cluster:
        shape = Scenario.of({"partitions": options.partitions, "replication_factor": options.brokers})
        Admin(cluster.bootstrap_servers, cluster.access).create_topic(TOPIC, shape)
        apart_ns = _clocks_apart_ns()
        with (
            tempfile.TemporaryDirectory() as folder,
            Sampler("-m pytest", _SAMPLE_S) as ours,
            Sampler(WORKER, _SAMPLE_S) as workers,
        ):
            (one,) = _run(Path(folder), cluster.bootstrap_servers, rate=options.rate, duration_s=duration_s)
        apart_ns = _clocks_apart_ns() - apart_ns
        first, last = asyncio.run(_read(cluster.bootstrap_servers, options.partitions, duration_s * READ_RATIO))
    held = [
        *(_show_memory("pytest", samples) for samples in ours.samples.values()),
        *(_show_memory("worker", samples) for samples in workers.samples.values()),
        _show_drift(first, last, rate=options.rate, apart_ns=apart_ns),
        _show_counts(one, expected=round(options.rate * duration_s)),
    ]
    return int(not all(held))


def _run(folder: Path, servers: str, *, rate: int, duration_s: float) -> list[dict[str, Any]]:
    """Return the rounds of a pytest run, from its JSON report."""
    (folder / "test_endurance.py").write_text(
        _TEST.format(topic=TOPIC, rate=rate, duration=duration_s), encoding="utf-8"
    )
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=0"]
    command += [f"--kafka-cluster={servers}", "-o", "kafka_broker_warmup=0 s", f"--kafka-report=json:{report}"]
    ended = subprocess.run(  # noqa: S603 - pytest, on a file of this benchmark
        command, cwd=folder, timeout=duration_s + _SPARE_S, check=False, capture_output=True, text=True
    )
    if ended.returncode:
        sys.exit(ended.stdout + ended.stderr)
    (test,) = json.loads(report.read_text(encoding="utf-8"))["tests"]
    rounds: list[dict[str, Any]] = test["trials"][0]["rounds"]
    return rounds


def _clocks_apart_ns() -> int:
    return statistics.median_low(time.time_ns() - time.monotonic_ns() for _ in range(1001))


async def _read(servers: str, partitions: int, seconds: float) -> tuple[list[Sent], list[Sent]]:
    """Read the records that were sent in the first seconds of the window, and in its last."""
    async with asyncio.timeout(_READ_TIMEOUT_S):
        consumer = AIOKafkaConsumer(bootstrap_servers=servers)
        await consumer.start()
        try:
            places = [TopicPartition(TOPIC, partition) for partition in range(partitions)]
            consumer.assign(places)
            begun = await consumer.beginning_offsets(places)
            ended = await consumer.end_offsets(places)
            (opened,) = [await _sent_at(consumer, place, begun[place]) for place in places[:1]]
            closed = max([await _sent_at(consumer, place, ended[place] - 1) for place in places])
            first = await _between(consumer, dict(begun), ended, until_ms=opened + round(seconds * 1000))
            found = await consumer.offsets_for_times(dict.fromkeys(places, closed - round(seconds * 1000)))
            begun = {place: at.offset for place, at in found.items() if at is not None}
            last = await _between(consumer, begun, ended, until_ms=closed)
        finally:
            await consumer.stop()
    return first, last


async def _sent_at(consumer: Any, place: TopicPartition, offset: int) -> int:
    consumer.seek(place, offset)
    timestamp: int = (await consumer.getone(place)).timestamp
    return timestamp


async def _between(
    consumer: Any, begun: dict[TopicPartition, int], ended: dict[TopicPartition, int], *, until_ms: int
) -> list[Sent]:
    """Read records from these offsets that were sent by then, without those of the warm-up."""
    found = []
    for place, offset in begun.items():
        consumer.seek(place, offset)
    left = {place for place in begun if begun[place] < ended[place]}
    while left:
        for place, records in (await consumer.getmany(*left, timeout_ms=1000)).items():
            found += [_sent(record.value, record.timestamp) for record in records if record.timestamp <= until_ms]
            if records[-1].timestamp > until_ms or records[-1].offset + 1 >= ended[place]:
                left.discard(place)
    return [one for one in found if one.index >= 0]


def _sent(value: bytes, timestamp_ms: int) -> Sent:
    return Sent(index=int.from_bytes(value[10:16], signed=True), due_ns=int.from_bytes(value[:8]), sent_ms=timestamp_ms)


def _show_memory(name: str, samples: list[int]) -> bool:
    """Return True if the memory of one process is flat; print the median of each tenth of the run."""
    some = max(1, len(samples) // TENTHS)
    tenths = [statistics.median(samples[place * some : (place + 1) * some] or samples) for place in range(TENTHS)]
    growth = tenths[-1] / tenths[1]
    print(f" {name}, MiB: {' '.join(f'{tenth / 2**20:.1f}' for tenth in tenths)}; {growth:.3f}x")
    return growth <= FLAT_RATIO


def _middle(values: list[int]) -> float:
    """Return the mean of the middle half: finer than the steps of the median, and insensitive to late records."""
    ordered = sorted(values)
    return statistics.fmean(ordered[len(ordered) // 4 : 3 * len(ordered) // 4] or ordered)


def _show_drift(first: list[Sent], last: list[Sent], *, rate: int, apart_ns: int) -> bool:
    """Return True if due times match the rate, and do not drift against the clock."""
    origin = min(first, key=lambda one: one.index)
    off_ns = max(
        abs(one.due_ns - origin.due_ns - (one.index - origin.index) * NS_PER_S // rate) for one in (*first, *last)
    )
    delays = [_middle([one.sent_ms * 1_000_000 - one.due_ns for one in some]) for some in (first, last)]
    drift_s = (delays[1] - delays[0] - apart_ns) / NS_PER_S
    passed_s = (last[-1].due_ns - origin.due_ns) / NS_PER_S
    looked = f"{len(first):,} and {len(last):,} records, {passed_s:.0f} s apart"
    print(f" due times: at most {off_ns} ns from the rate's, of {looked}")
    print(f" against the clock: {drift_s * 1e6:+.0f} us (clocks drifted {apart_ns / 1000:+.0f} us apart)")
    return off_ns <= 1 and abs(drift_s) < DRIFT_S


def _show_counts(one: dict[str, Any], *, expected: int) -> bool:
    """Return True if each record of the window was read and timed once."""
    sent = sum(share["sent"] for share in one["workers"])
    read = sum(share["received"] for share in one["workers"])
    problems = [each["text"] for each in (*one["problems"], *one["warnings"])]
    print(f" records: {sent:,} sent, {read:,} read and timed, {expected:,} due; {'; '.join(problems) or 'no problem'}")
    p50_ms, p99_ms = (one["metrics"][f"e2e.latency.{name}"] * 1000 for name in ("p50", "p99"))
    print(f" end to end: p50 {p50_ms:.2f} ms, p99 {p99_ms:.1f} ms")
    return sent == read == expected and not one["problems"]


if __name__ == "__main__":
    sys.exit(main())

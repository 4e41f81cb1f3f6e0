"""The catalogue of metrics: name, base unit, which way is better. The one list; reports and limits read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.errors import ScenarioError, nearest
from pytest_kafkaperf.units import Unit

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a round."""

    name: str
    unit: Unit
    better: Better
    meaning: str
    summed: bool = False
    """Over the rounds the sum counts, not the median."""
    can_be_zero: bool = False
    """Has no ratio to a baseline: takes absolute limits only."""


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
"""The quantiles of every latency family, by the last part of the metric's name."""


def _latencies(family: str, meaning: str) -> list[Metric]:
    return [
        Metric(name=f"{family}.{part}", unit=Unit.SECONDS, better="lower", meaning=f"{meaning}: {part}")
        for part in ("mean", *QUANTILES, "max")
    ]


def _broker(name: str, unit: Unit, meaning: str, *, better: Better = "lower", can_be_zero: bool = False) -> Metric:
    return Metric(name=f"broker.{name}", unit=unit, better=better, meaning=meaning, can_be_zero=can_be_zero)


_PARTS = {
    "time": "in all",
    "queue": "in the request queue",
    "local": "at the leader",
    "remote": "waiting for followers, or for data",
    "send": "sending the answer",
}


def _request_times(kind: str, meaning: str) -> list[Metric]:
    """Kafka counts whole milliseconds, so these can be zero."""
    return [
        _broker(f"{kind}.{part}", Unit.SECONDS, f"time of {meaning} {where}, mean", can_be_zero=True)
        for part, where in _PARTS.items()
    ]


CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in [
        Metric(
            name="produce.throughput",
            unit=Unit.RECORD_RATE,
            better="higher",
            meaning="records due in the window and acknowledged, by the window's length",
        ),
        Metric(
            name="produce.bandwidth",
            unit=Unit.BYTE_RATE,
            better="higher",
            meaning="key and value bytes of those records, by the window's length",
        ),
        *_latencies("produce.latency", "from due (closed loop: from the append) to the acknowledgement"),
        *_latencies("produce.delay", "actual minus intended send"),
        Metric(
            name="consume.throughput",
            unit=Unit.RECORD_RATE,
            better="higher",
            meaning="records due in the window and received, by the time until the last of them came",
        ),
        Metric(
            name="consume.bandwidth",
            unit=Unit.BYTE_RATE,
            better="higher",
            meaning="key and value bytes of those records, by the same time",
        ),
        *_latencies("e2e.latency", "from due (closed loop: from the append) to the consumer having the record"),
        Metric(
            name="lag.max",
            unit=Unit.RECORDS,
            better="lower",
            can_be_zero=True,
            meaning="end offset minus consumer position, the most seen in the window",
        ),
        Metric(
            name="lag.end",
            unit=Unit.RECORDS,
            better="lower",
            can_be_zero=True,
            meaning="end offset minus consumer position when the last record of the window was due",
        ),
        Metric(
            name="errors",
            unit=Unit.RECORDS,
            better="lower",
            summed=True,
            can_be_zero=True,
            meaning="records whose send failed for good",
        ),
        Metric(
            name="lost",
            unit=Unit.RECORDS,
            better="lower",
            summed=True,
            can_be_zero=True,
            meaning="records acknowledged and not in the log; absent with acks=0",
        ),
        Metric(
            name="duplicated",
            unit=Unit.RECORDS,
            better="lower",
            summed=True,
            can_be_zero=True,
            meaning="records in the log beyond those acknowledged, unknown outcomes set aside; absent with acks=0",
        ),
        Metric(
            name="reordered",
            unit=Unit.RECORDS,
            better="lower",
            summed=True,
            can_be_zero=True,
            meaning=(
                "records that stand in the log behind later ones of the same producer and partition; absent with acks=0"
            ),
        ),
        Metric(
            name="client.cpu",
            unit=Unit.CPU_COST,
            better="lower",
            meaning="user and system seconds of the worker processes in the window, per million records",
        ),
        Metric(
            name="capacity",
            unit=Unit.RECORD_RATE,
            better="higher",
            meaning="the highest rate that holds the limits of `kafka_perf.capacity()`: records/s acknowledged at it",
        ),
        Metric(
            name="recovery",
            unit=Unit.SECONDS,
            better="lower",
            can_be_zero=True,
            meaning=(
                "from what was done to a broker, or a leader that moved, until latency was as before; in rounds with "
                "such an event"
            ),
        ),
        _broker("cpu", Unit.CORES, "CPU of all brokers together, mean"),
        _broker("cpu.max", Unit.CORES, "CPU of the busiest broker in its busiest second"),
        _broker("memory", Unit.BYTES, "resident memory of all brokers together, the most seen"),
        _broker("disk.read", Unit.BYTE_RATE, "read from disk by all brokers", can_be_zero=True),
        _broker("disk.write", Unit.BYTE_RATE, "written to disk by all brokers", can_be_zero=True),
        _broker("network.in", Unit.BYTE_RATE, "received by all brokers; local: all of the loopback", can_be_zero=True),
        _broker("network.out", Unit.BYTE_RATE, "sent by all brokers; local: all of the loopback", can_be_zero=True),
        _broker(
            "handlers.idle",
            Unit.RATIO,
            "idle share of the request handlers of the busiest broker",
            better="higher",
            can_be_zero=True,
        ),
        _broker(
            "under_replicated", Unit.COUNT, "partitions with replicas out of sync, the most seen", can_be_zero=True
        ),
        _broker("isr_shrinks", Unit.COUNT, "how often replicas fell out of sync", can_be_zero=True),
        *_request_times("produce", "produce requests"),
        *_request_times("fetch", "consumers' fetch requests"),
    ]
}


HOST_METRICS = tuple(
    f"broker.{name}" for name in ("cpu", "cpu.max", "memory", "disk.read", "disk.write", "network.in", "network.out")
)
"""What is measured of brokers that the session starts, from outside."""
JMX_METRICS = tuple(name for name in CATALOGUE if name.startswith("broker.") and name not in HOST_METRICS)
"""What brokers tell of themselves, through the JMX exporter."""
EVENT_METRICS = ("recovery",)
"""What is measured in rounds in which something happened to a broker."""
SEARCH_METRICS = ("capacity",)
"""What `kafka_perf.capacity()` measures."""
HEADLINES = (
    *SEARCH_METRICS,
    "produce.throughput",
    "produce.latency.p50",
    "produce.latency.p99",
    "consume.throughput",
    "e2e.latency.p50",
    "e2e.latency.p99",
)
"""What people look at first."""
LOAD_METRICS = tuple(
    name for name in CATALOGUE if not name.startswith("broker.") and name not in (*EVENT_METRICS, *SEARCH_METRICS)
)
"""What the load itself gives."""


def metric(name: str) -> Metric:
    """Look a metric up.

    Raises:
        ScenarioError: no metric of that name; names the nearest.

    """
    found = CATALOGUE.get(name)
    if found is None:
        raise ScenarioError(f"unknown metric {name!r}; {nearest(name, CATALOGUE)}")
    return found

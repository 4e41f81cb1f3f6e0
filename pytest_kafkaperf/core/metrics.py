"""The catalogue of metrics: name, base unit, which way is better. The one list; reports and limits read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.core.errors import ScenarioError, nearest
from pytest_kafkaperf.core.units import Unit

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


def _higher(name: str, unit: Unit, meaning: str) -> Metric:
    return Metric(name=name, unit=unit, better="higher", meaning=meaning)


def _lower(name: str, unit: Unit, meaning: str) -> Metric:
    return Metric(name=name, unit=unit, better="lower", meaning=meaning)


def _lower_or_zero(name: str, unit: Unit, meaning: str) -> Metric:
    return Metric(name=name, unit=unit, better="lower", can_be_zero=True, meaning=meaning)


def _records(name: str, meaning: str) -> Metric:
    """A count of records that went wrong, over all rounds."""
    return Metric(name=name, unit=Unit.RECORDS, better="lower", summed=True, can_be_zero=True, meaning=meaning)


def _latencies(family: str, meaning: str) -> list[Metric]:
    return [_lower(f"{family}.{part}", Unit.SECONDS, f"{meaning}: {part}") for part in ("mean", *QUANTILES, "max")]


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
        _lower_or_zero(f"broker.{kind}.{part}", Unit.SECONDS, f"time of {meaning} {where}, mean")
        for part, where in _PARTS.items()
    ]


_RATE, _BYTES = Unit.RECORD_RATE, Unit.BYTE_RATE
_METRICS = (
    _higher("produce.throughput", _RATE, "records due in the window and acknowledged, by the window's length"),
    _higher("produce.bandwidth", _BYTES, "key and value bytes of those records, by the window's length"),
    *_latencies("produce.latency", "from due (closed loop: from the append) to the acknowledgement"),
    *_latencies("produce.delay", "actual minus intended send"),
    _higher(
        "consume.throughput", _RATE, "records due in the window and received, by the time until the last of them came"
    ),
    _higher("consume.bandwidth", _BYTES, "key and value bytes of those records, by the same time"),
    *_latencies("e2e.latency", "from due (closed loop: from the append) to the consumer having the record"),
    _lower_or_zero("lag.max", Unit.RECORDS, "end offset minus consumer position, the most seen in the window"),
    _lower_or_zero(
        "lag.end", Unit.RECORDS, "end offset minus consumer position when the last record of the window was due"
    ),
    _records("errors", "records whose send failed for good"),
    _records("lost", "records acknowledged and not in the log; absent with acks=0"),
    _records(
        "duplicated", "records in the log beyond those acknowledged, unknown outcomes set aside; absent with acks=0"
    ),
    _records(
        "reordered",
        "records that stand in the log behind later ones of the same producer and partition; absent with acks=0",
    ),
    _lower(
        "client.cpu",
        Unit.CPU_COST,
        "user and system seconds of the worker processes in the window, per million records",
    ),
    _higher(
        "capacity",
        _RATE,
        "the highest rate that holds the limits of `kafka_perf.capacity()`: records/s acknowledged at it",
    ),
    _lower_or_zero(
        "recovery",
        Unit.SECONDS,
        "from what was done to a broker, or a leader that moved, until latency was as before; in rounds with "
        "such an event",
    ),
    _lower("broker.cpu", Unit.CORES, "CPU of all brokers together, mean"),
    _lower("broker.cpu.max", Unit.CORES, "CPU of the busiest broker in its busiest second"),
    _lower("broker.memory", Unit.BYTES, "resident memory of all brokers together, the most seen"),
    _lower_or_zero("broker.disk.read", _BYTES, "read from disk by all brokers"),
    _lower_or_zero("broker.disk.write", _BYTES, "written to disk by all brokers"),
    _lower_or_zero("broker.network.in", _BYTES, "received by all brokers; local: all of the loopback"),
    _lower_or_zero("broker.network.out", _BYTES, "sent by all brokers; local: all of the loopback"),
    Metric(
        name="broker.handlers.idle",
        unit=Unit.RATIO,
        better="higher",
        can_be_zero=True,
        meaning="idle share of the request handlers of the busiest broker",
    ),
    _lower_or_zero("broker.under_replicated", Unit.COUNT, "partitions with replicas out of sync, the most seen"),
    _lower_or_zero("broker.isr_shrinks", Unit.COUNT, "how often replicas fell out of sync"),
    *_request_times("produce", "produce requests"),
    *_request_times("fetch", "consumers' fetch requests"),
)
CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _METRICS}


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

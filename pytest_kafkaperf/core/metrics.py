"""The metric catalog: name, base unit and direction of every metric that tests and reports use."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from pytest_kafkaperf.core.errors import ScenarioError, did_you_mean, ending_alike, nearest, suggestion, words_of
from pytest_kafkaperf.core.units import Unit, unit_of

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of a round."""

    name: str
    unit: str
    """Base unit (`Unit`); for a custom metric, possibly a custom unit."""
    better: Better
    meaning: str
    over_rounds: Literal["median", "sum", "mean"] = "median"
    """Method for aggregating the rounds' values into the test's value. Fault metrics do not use the median, because it
    would hide faults that occur in only one round."""
    can_be_zero: bool = False
    """True if the value can be zero. A ratio to a zero baseline is undefined, so only absolute thresholds are
    allowed."""
    trial_noise: float = 0.0
    """Minimum standard deviation between trials (on a log scale) to assume until it has been measured. It is set for
    metrics that vary more between trials than between rounds."""

    @property
    def is_own(self) -> bool:
        """True for a custom metric."""
        return self.name not in _PLUGINS

    @property
    def worse(self) -> str:
        """Word for a change for the worse: `slower` for a duration, or a rate for which higher is better."""
        is_rate = self.unit.endswith("/s") and self.better == "higher"
        return "slower" if is_rate or self.unit == Unit.SECONDS else "worse"

    def aggregate(self, values: Sequence[float]) -> float:
        """Aggregate the values of at least one round into the test's value."""
        match self.over_rounds:
            case "sum":
                return math.fsum(values)
            case "mean":
                return statistics.fmean(values)
            case "median":
                return statistics.median(values)


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
"""Quantiles for every latency metric, by the last part of the metric's name."""
FEWEST_RECORDS = {"p99.99": 10_000}
"""Minimum number of records in a round for a quantile; with fewer records, the quantile would equal `max`."""


def bounded_latencies(family: str, missing_ratio: float) -> list[str]:
    """Return the latency metrics whose values are only lower bounds if this share of the records has no latency yet."""
    over = [part for part, quantile in QUANTILES.items() if missing_ratio > 1 - quantile]
    return [f"{family}.{part}" for part in ("mean", *over, "max")]


def _higher(name: str, unit: str, meaning: str, *, can_be_zero: bool = False) -> Metric:
    return Metric(name=name, unit=unit, better="higher", can_be_zero=can_be_zero, meaning=meaning)


def _lower(name: str, unit: str, meaning: str, *, can_be_zero: bool = False) -> Metric:
    return Metric(name=name, unit=unit, better="lower", can_be_zero=can_be_zero, meaning=meaning)


def _lower_or_zero(name: str, unit: Unit, meaning: str) -> Metric:
    return _lower(name, unit, meaning, can_be_zero=True)


def _fault_count(name: str, meaning: str) -> Metric:
    return replace(_lower_or_zero(name, Unit.RECORDS, meaning), over_rounds="sum")


LOG_FACTS = ("lost", "duplicated", "reordered")
"""Metrics that are valid even if the round is INVALID. `errors` and `unsent` are not: a broker that another program
killed, or that is not warm yet, can cause both."""


def _latencies(family: str, meaning: str) -> list[Metric]:
    return [_lower(f"{family}.{part}", Unit.SECONDS, f"{meaning}: {part}") for part in ("mean", *QUANTILES, "max")]


_REQUEST_PHASES = {
    "time": "in total",
    "queue": "in the request queue",
    "local": "at the leader",
    "remote": "spent waiting for followers or for data",
    "send": "spent sending the response",
}


def _request_times(kind: str, requests: str) -> list[Metric]:
    """Return the time metrics for one kind of request. They can be zero, because Kafka counts whole milliseconds."""
    return [
        _lower_or_zero(f"broker.{kind}.{part}", Unit.SECONDS, f"mean time of {requests} {phase}")
        for part, phase in _REQUEST_PHASES.items()
    ]


_RATE, _BYTES = Unit.RECORD_RATE, Unit.BYTE_RATE
_METRICS = (
    _higher(
        "produce.throughput", _RATE, "acknowledged records in the window, divided by the time until the last of them"
    ),
    _higher("produce.bandwidth", _BYTES, "bytes in the keys and values of these records, divided by the same time"),
    _higher(
        "produce.throughput.steadiness",
        Unit.RATIO,
        "acknowledged records/s in the last third of the window, divided by those in the whole window (medians over "
        "its seconds)",
        can_be_zero=True,
    ),
    *_latencies(
        "produce.latency", "time from when a record is due (closed loop: is appended) until it is acknowledged"
    ),
    *_latencies("produce.delay", "time from when a batch is full or has lingered until it is sent"),
    _higher(
        "consume.throughput",
        _RATE,
        "received records that were due in the window, divided by the time until the last of them arrived",
    ),
    _higher("consume.bandwidth", _BYTES, "bytes in the keys and values of these records, divided by the same time"),
    *_latencies(
        "e2e.latency", "time from when a record is due (closed loop: is appended) until the consumer receives it"
    ),
    _lower(
        "e2e.latency.p99.steadiness",
        Unit.RATIO,
        "p99 of the end-to-end latency in the last third of the window, divided by that in the whole window (medians "
        "over its seconds)",
    ),
    _lower_or_zero("lag.max", Unit.RECORDS, "highest lag in the window (records acknowledged but not received)"),
    _lower_or_zero("lag.end", Unit.RECORDS, "lag at the due time of the window's last record"),
    _lower_or_zero(
        "rebalance.pause",
        Unit.SECONDS,
        "longest time in which one of the plugin's own consumers had no partitions, because its group was rebalanced; "
        "0 without a rebalance",
    ),
    _lower_or_zero(
        "catchup",
        Unit.SECONDS,
        "time from the start of the window, when consumers start to read the backlog, until they have caught up with "
        "the producers",
    ),
    _higher("catchup.throughput", _RATE, "records/s that the slowest consumer group receives while it catches up"),
    _lower_or_zero(
        "app.lag.max", Unit.RECORDS, "the group's highest lag in the window (end offset minus committed offset)"
    ),
    _lower_or_zero("app.lag.end", Unit.RECORDS, "the group's lag at the due time of the window's last record"),
    _lower_or_zero("app.lag.slope", _RATE, "growth of the group's lag over the window; 0 if it keeps up"),
    _higher(
        "app.throughput",
        _RATE,
        "offsets that the group committed, divided by the time until it commits the last record",
    ),
    *_latencies("app.delay", "time from when a record is due until the group's first commit that covers it"),
    _lower_or_zero(
        "app.drain", Unit.SECONDS, "time from the last acknowledgement until the group commits the last record"
    ),
    _lower_or_zero(
        "app.rebalances",
        Unit.COUNT,
        "rebalances of the group that were seen in the window; in a classic group, quick ones may be missed",
    ),
    _lower_or_zero(
        "app.rebalance.pause",
        Unit.SECONDS,
        "longest time in which the group committed nothing for a partition with a lag, while it was rebalanced; "
        "if it is not longer than the commit interval, only this upper bound is known; 0 without a rebalance",
    ),
    _lower_or_zero(
        "app.start",
        Unit.SECONDS,
        "time from the application's last start in the window, when none of its instances was running, to its group's "
        "first commit",
    ),
    _lower_or_zero(
        "app.recovery",
        Unit.SECONDS,
        "time from the first stop of the application or of one of its instances, or from the start of a window with a "
        "`backlog`, until the group's lag is back to normal",
    ),
    _higher(
        "app.recovery.throughput", _RATE, "offsets/s that the group commits between its first commit and its recovery"
    ),
    replace(
        _higher(
            "app.output_ratio",
            Unit.RATIO,
            "expected records that reached `output_topic`, divided by all that are expected for the window; if "
            "`expect` is a range, share of the acknowledged records that led to any output",
        ),
        over_rounds="mean",
    ),
    _fault_count(
        "app.dead_letters",
        "records that were written to `dead_letter_topic` from the start of the load to its end; if they were written "
        "in transactions, each transaction's marker counts as well",
    ),
    _fault_count("errors", "records that could not be sent even after all retries"),
    replace(
        _lower_or_zero(
            "error_ratio", Unit.RATIO, "`errors` in the window, divided by the number of records in the window"
        ),
        over_rounds="mean",
    ),
    _fault_count(
        "unsent",
        "due records that the cluster had not accepted one second after the window; if the test stops or starts a "
        "broker in the round, records that it never accepted",
    ),
    _fault_count("lost", "acknowledged records that are missing from the log; absent with acks=0"),
    _fault_count(
        "duplicated",
        "surplus records in the log, not counting records with an unknown outcome; absent with acks=0",
    ),
    _fault_count(
        "reordered",
        "records that follow a later record of the same producer in a partition's log; absent with acks=0",
    ),
    _lower(
        "client.cpu_per_record",
        Unit.CPU_COST,
        "the workers' user and system CPU time in the window, per million records",
    ),
    _higher(
        "capacity", _RATE, "acknowledged records/s at the highest rate that meets the thresholds of a capacity search"
    ),
    _lower_or_zero(
        "recovery",
        Unit.SECONDS,
        "longest time from a broker event or leader change (or the first action before it) until latency is back to "
        "normal; only in rounds with such an event; a lower bound if the round ends earlier",
    ),
    _lower("app.cpu", Unit.CORES, "mean CPU usage of all `kafka_app` applications together, including child processes"),
    _lower("app.memory", Unit.BYTES, "highest resident memory of all `kafka_app` applications together"),
    _lower(
        "broker.cpu_per_record",
        Unit.CPU_COST,
        "user and system CPU time of all brokers together in the window, per million acknowledged records",
    ),
    _lower("broker.cpu", Unit.CORES, "mean CPU usage of all brokers together"),
    _lower("broker.cpu.max", Unit.CORES, "CPU usage of the busiest broker in its busiest second"),
    replace(
        _lower("broker.memory", Unit.BYTES, "highest resident memory of all brokers together"),
        trial_noise=0.1,  # measured in 14 baselines: 6% between rounds, and 4% to 19% between trials
    ),
    _lower_or_zero("broker.disk.read", _BYTES, "bytes per second that all brokers read from disk"),
    _lower_or_zero("broker.disk.write", _BYTES, "bytes per second that all brokers wrote to disk"),
    _lower_or_zero("broker.network.in", _BYTES, "bytes per second that all brokers received; only in containers"),
    _lower_or_zero("broker.network.out", _BYTES, "bytes per second that all brokers sent; only in containers"),
    _higher(
        "broker.handlers.idle",
        Unit.RATIO,
        "share of time that the busiest broker's request handlers are idle",
        can_be_zero=True,
    ),
    _lower_or_zero("broker.under_replicated", Unit.COUNT, "highest number of partitions with out-of-sync replicas"),
    _lower_or_zero("broker.isr_shrinks", Unit.COUNT, "number of times that a replica fell out of sync"),
    *_request_times("produce", "produce requests"),
    *_request_times("fetch", "consumers' fetch requests"),
)
CATALOGUE: dict[str, Metric] = {metric.name: metric for metric in _METRICS}


HOST_METRICS = tuple(
    f"broker.{name}"
    for name in ("cpu_per_record", "cpu", "cpu.max", "memory", "disk.read", "disk.write", "network.in", "network.out")
)
"""Metrics of brokers that the plugin starts, measured from outside."""
JMX_METRICS = tuple(name for name in CATALOGUE if name.startswith("broker.") and name not in HOST_METRICS)
"""Metrics that brokers publish through the JMX exporter."""
PROCESS_METRICS = ("app.cpu", "app.memory")
"""Metrics of applications that `kafka_app` starts."""
EVENT_METRICS = ("recovery", "app.start", "app.recovery", "app.recovery.throughput")
"""Metrics of rounds in which brokers or applications stop or start. The `app` metrics require a watched group."""
LOSS_METRICS = ("lost", "app.output_ratio")
"""Metrics that make a test fail because of lost records."""
FINAL_METRICS = (*LOG_FACTS, "app.output_ratio")
"""Metrics whose limits are judged only once: slow brokers do not affect them, and a repetition does not undo them."""
STEADINESS_METRICS = ("produce.throughput.steadiness", "e2e.latency.p99.steadiness")
"""Metrics that compare the end of a window with the whole."""
SHORTEST_STEADY_S = 10
"""Minimum length of a window for these metrics, so that the last third has at least three seconds."""
SEARCH_METRICS = ("capacity",)
"""Metrics of `kafka_perf.capacity()`."""
HEADLINES = (
    *SEARCH_METRICS,
    "produce.throughput",
    "produce.latency.p50",
    "produce.latency.p99",
    "consume.throughput",
    "e2e.latency.p50",
    "e2e.latency.p99",
)
"""Most important metrics, which summaries show."""
LOAD_METRICS = tuple(
    name for name in CATALOGUE if not name.startswith(("broker.", *PROCESS_METRICS, *EVENT_METRICS, *SEARCH_METRICS))
)
"""Metrics that the load generator measures."""
READING_METRICS = tuple(
    name for name in LOAD_METRICS if name.startswith(("consume.", "e2e.")) and name not in STEADINESS_METRICS
)
"""Metrics of a load that only reads what a topic contains."""


_PLUGINS = tuple(CATALOGUE)
"""Names of the plugin's own metrics."""
_OWN_NAME = re.compile(r"app(\.\w+)+", re.ASCII)
"""Pattern of custom metric names."""
_RESEMBLES = 0.88
"""Minimum similarity at which a name counts as misspelled. It allows one or two wrong letters; `gpu` is not `cpu`."""


def metric(name: str, better: Better = "lower") -> Metric:
    """Look up a metric by name.

    A custom metric that has not been recorded yet gets the direction `better` and no unit.

    Raises:
        ScenarioError: the catalog has no metric with this name; the message suggests similar names.

    """
    found = CATALOGUE.get(name)
    if found is not None:
        return found
    near = _near_miss(name)
    if near is None and name.startswith("app."):
        return _own(name, "", better)
    raise ScenarioError(f"unknown metric {name!r}; {near or _hint(name)}")


def declare(name: str, *, unit: str, better: Better) -> None:
    """Add a custom metric to the catalog. The metric is never removed, because reports look it up by name.

    Raises:
        ScenarioError: the name or the direction is invalid, or another test uses a different unit or direction.
        UnitError: the unit is invalid.

    """
    if better not in get_args(Better):
        raise ScenarioError(f"invalid better={better!r}: must be 'lower' or 'higher'")
    own = _own(name, unit_of(unit), better)
    near = _near_miss(name)
    if near is not None:
        raise ScenarioError(f"invalid custom metric name {name!r}: {near} If not, use a less similar name")
    known = CATALOGUE.setdefault(name, own)
    if known != own:
        raise ScenarioError(
            f"{name} has unit={str(known.unit)!r} and better={known.better!r} in another test of this run; use the "
            "same values here, or another name"
        )


def plugins_like(name: str) -> list[str]:
    """Return the plugin's metrics that `name` could refer to, most important first."""
    names = list(dict.fromkeys([*HEADLINES, *_PLUGINS]))
    last = words_of(name)[-1]
    return ending_alike(name, names) or [
        known for known in names if last in words_of(known) or (name and known.startswith(name))
    ]


def _near_miss(name: str) -> str | None:
    """Return a hint if `name` is misspelled, has metric words in another order, or is a prefix of several metrics."""
    near = suggestion(name, _PLUGINS, similarity=_RESEMBLES)
    if near is not None:
        return near
    words = sorted(words_of(name))
    meant = [known for known in _PLUGINS if known.startswith(f"{name}.") or sorted(words_of(known)) == words]
    return did_you_mean(meant) if meant else None


def _hint(name: str) -> str:
    alike = plugins_like(name)
    important = [known for known in alike if known in HEADLINES]
    return did_you_mean(important or alike) if alike else nearest(name, CATALOGUE)


def _own(name: str, unit: str, better: Better) -> Metric:
    if not isinstance(name, str) or not _OWN_NAME.fullmatch(name) or name in _PLUGINS:
        raise ScenarioError(
            f"invalid custom metric name {name!r}: must be 'app.' followed by letters, digits and '_', for example "
            "'app.rows'; other names are reserved for the plugin"
        )
    return Metric(name=name, unit=unit, better=better, meaning="recorded by the test")

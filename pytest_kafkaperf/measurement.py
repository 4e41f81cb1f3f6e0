"""What was measured: workers' reports, and the rounds they fold into. Plain picklable values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_kafkaperf.histogram import Histogram, merged
from pytest_kafkaperf.metrics import QUANTILES
from pytest_kafkaperf.schedule import NS_PER_S

if TYPE_CHECKING:
    from pytest_kafkaperf.scenario import Scenario

RECORDS_TIMEOUT_S = 3600
"""Bound of a closed-loop window that ends after a number of records."""
ON_TIME_RATIO = 0.99
"""Share of the asked load that the generator itself must make, or the round is INVALID."""
_BUSY_RATIO = 0.95
"""A process that runs or waits for a core for this share of the time is the bottleneck."""
_WORKING_RATIO = 0.5
"""Below this share its CPU time is not spent on records alone."""


@dataclass(slots=True, kw_only=True)
class Produced:
    """What one producer did. Counts of the window, unless they say otherwise."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    """Records whose send failed for good, warm-up included."""
    unknown: int = 0
    """Of the failed, those that may stand in the log all the same."""
    missing: int = 0
    """Records due in the window that were never sent."""
    late: int = 0
    """Records sent more than `LATE_NS` after they could have been: the generator's doing."""
    behind: int = 0
    """Records unsent at the end of the window although there was room for them."""
    sent_late: int = 0
    """Records sent after the end of the window, whatever held them."""
    first_due_ns: int | None = None
    last_ack_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    delay: Histogram = field(default_factory=Histogram)
    acknowledged_by_partition: dict[int, int] = field(default_factory=dict)
    """Warm-up included: what must stand in the log."""
    failures: dict[str, int] = field(default_factory=dict)
    """Records by the error that ended them."""


@dataclass(slots=True, kw_only=True)
class Consumed:
    """What one consumer received: records due in the window."""

    received: int = 0
    bytes: int = 0
    last_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    unread: int = 0
    """Records in the log beyond the position when the wait for the rest ended."""
    total: int = 0
    """Records received in all, warm-up included."""


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """What one worker did."""

    worker: int
    produced: list[Produced] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    cpu_s: float = 0.0
    """User and system seconds of the process in the window."""
    busy_ratio: float = 0.0
    """Share of the window in which the process ran or waited for a core: near 1 it is the bottleneck."""
    notes: list[str] = field(default_factory=list)
    """What the client library warned of, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: its metrics in base units, and whether they can be trusted."""

    metrics: Mapping[str, float]
    problems: tuple[str, ...] = ()
    """Why the round is INVALID; empty when it is valid."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What the workers of one round reported, and what the controller saw."""

    workers: Sequence[WorkerReport]
    start_ns: int | None
    """When the window opened; None when it never did."""
    problems: Sequence[str] = ()
    lag_max: int = 0
    lag_end: int = 0
    log_growth: Mapping[int, int] | None = None
    """Records that the topic's log gained, by partition; None where it cannot be told."""
    broken: bool = False
    """The cluster or the workers are gone: no further round can run."""

    def acknowledged(self) -> dict[int, int]:
        """Acknowledged records by partition, warm-up included: what must stand in the log."""
        tally: dict[int, int] = {}
        for worker in self.workers:
            for part in worker.produced:
                for partition, count in part.acknowledged_by_partition.items():
                    tally[partition] = tally.get(partition, 0) + count
        return tally


def fold(report: RoundReport, scenario: Scenario) -> Round:
    """Make one round of its workers' reports."""
    produced = [part for worker in report.workers for part in worker.produced]
    consumed = [part for worker in report.workers for part in worker.consumed]
    metrics: dict[str, float] = {"errors": float(sum(part.failed for part in produced))}
    problems, warnings = list(report.problems), _notes(report.workers)
    if report.start_ns is not None:
        metrics |= _produce_metrics(produced, scenario)
        metrics |= _consume_metrics(consumed, report) if scenario.consumers else {}
        metrics |= _cpu_metric(report.workers, produced)
    integrity = _integrity(report, sum(part.unknown for part in produced))
    metrics |= integrity
    problems += _integrity_problems(integrity)
    if not report.problems:
        problems += _load_problems(report, produced, scenario)
        problems += _reading_problems(produced, consumed)
    warnings += _produce_warnings(report.workers, produced, scenario)
    ordered = {name: metrics[name] for name in scenario.metrics() if name in metrics}
    return Round(metrics=ordered, problems=tuple(problems), warnings=tuple(dict.fromkeys(warnings)))


def _latency_metrics(family: str, histogram: Histogram) -> dict[str, float]:
    if histogram.total == 0:
        return {}
    return {
        f"{family}.mean": histogram.mean_s,
        **{f"{family}.{part}": histogram.quantile_s(quantile) for part, quantile in QUANTILES.items()},
        f"{family}.max": histogram.max_s,
    }


def _produce_metrics(produced: Sequence[Produced], scenario: Scenario) -> dict[str, float]:
    acknowledged = sum(part.acknowledged for part in produced)
    first_ns = min((part.first_due_ns for part in produced if part.first_due_ns is not None), default=None)
    last_ns = max((part.last_ack_ns for part in produced if part.last_ack_ns is not None), default=None)
    metrics = _latency_metrics("produce.latency", merged([part.latency for part in produced]))
    metrics |= _latency_metrics("produce.delay", merged([part.delay for part in produced]))
    if first_ns is not None and last_ns is not None and last_ns > first_ns:
        throughput = acknowledged / ((last_ns - first_ns) / NS_PER_S)
        metrics["produce.throughput"] = throughput
        metrics["produce.bandwidth"] = throughput * scenario.record_size
    return metrics


def _consume_metrics(consumed: Sequence[Consumed], report: RoundReport) -> dict[str, float]:
    received = sum(part.received for part in consumed)
    last_ns = max((part.last_ns for part in consumed if part.last_ns is not None), default=None)
    metrics = _latency_metrics("e2e.latency", merged([part.latency for part in consumed]))
    metrics |= {"lag.max": float(report.lag_max), "lag.end": float(report.lag_end)}
    if last_ns is not None and report.start_ns is not None and last_ns > report.start_ns:
        elapsed_s = (last_ns - report.start_ns) / NS_PER_S
        metrics["consume.throughput"] = received / elapsed_s
        metrics["consume.bandwidth"] = sum(part.bytes for part in consumed) / elapsed_s
    return metrics


def _cpu_metric(workers: Sequence[WorkerReport], produced: Sequence[Produced]) -> dict[str, float]:
    acknowledged = sum(part.acknowledged for part in produced)
    if not acknowledged:
        return {}
    return {"client.cpu": sum(worker.cpu_s for worker in workers) / (acknowledged / 1e6)}


def _integrity(report: RoundReport, unknown: int) -> dict[str, float]:
    """Compare the log with what was acknowledged, partition by partition.

    Records whose fate is unknown may stand in the log or not: they excuse a surplus, never a gap.
    """
    if report.log_growth is None:
        return {}
    acknowledged, growth = report.acknowledged(), report.log_growth
    gaps = [acknowledged.get(part, 0) - growth.get(part, 0) for part in acknowledged.keys() | growth.keys()]
    lost = sum(gap for gap in gaps if gap > 0)
    surplus = -sum(gap for gap in gaps if gap < 0)
    return {"lost": float(lost), "duplicated": float(max(0, surplus - unknown))}


def _integrity_problems(integrity: Mapping[str, float]) -> list[str]:
    if not integrity.get("lost"):
        return []
    return [f"records lost: {integrity['lost']:.0f} records were acknowledged and are not in the log"]


def _reading_problems(produced: Sequence[Produced], consumed: Sequence[Consumed]) -> list[str]:
    """Every record counts: of those that nobody read, some were passed over when the group rebalanced."""
    if not consumed:
        return []
    passed_over = sum(part.acknowledged for part in produced) - sum(part.received for part in consumed)
    unread = max(passed_over, sum(part.unread for part in consumed))
    if unread <= 0:
        return []
    harm = "end-to-end figures would leave out the slowest"
    return [f"records unread: {unread} records in the log were not received by the consumers in time; {harm}"]


def _load_problems(report: RoundReport, produced: Sequence[Produced], scenario: Scenario) -> list[str]:
    if sum(part.acknowledged for part in produced) == 0:
        return [f"no record of the window was acknowledged{_failures(produced)}"]
    missing = sum(part.missing for part in produced)
    if scenario.rate is None and missing:
        held = f"{missing} of {scenario.records} records were not sent within {RECORDS_TIMEOUT_S} s"
        return [f"load not reached: {held}; use fewer records, or a duration"]
    if scenario.rate is None:
        return []
    due = sum(part.sent + part.missing for part in produced)
    tolerated = (1 - ON_TIME_RATIO) * due
    advice = "use more producers, larger records or a lower rate, or give the machine more cores"
    late = sum(part.late for part in produced)
    behind = sum(part.behind for part in produced)
    if max(late, behind) > tolerated:
        held = f"{max(late, behind)} of {due} records were sent late although the cluster had room for them"
        return [f"generator too slow: {held}; {advice}"]
    over_time = sum(part.sent_late + part.missing for part in produced)
    slowest = max((_load_of(worker, scenario.rate, scenario.producers) for worker in report.workers), default=0.0)
    if over_time > tolerated and slowest > _BUSY_RATIO:
        held = f"{over_time} of {due} records were not sent in the window"
        needed = f"a worker would need {slowest:.0%} of a core to send them in time"
        return [f"generator too slow: {held}, and {needed}; {advice}"]
    return []


def _load_of(worker: WorkerReport, rate: float, producers: int) -> float:
    """Cores that a worker would need for its part of the rate, by the CPU that a record cost it.

    An idle worker's CPU says nothing of what a record costs.
    """
    sent = sum(part.sent for part in worker.produced)
    if not sent or worker.busy_ratio < _WORKING_RATIO:
        return 0.0
    return worker.cpu_s / sent * rate * len(worker.produced) / producers


def _produce_warnings(workers: Sequence[WorkerReport], produced: Sequence[Produced], scenario: Scenario) -> list[str]:
    warnings = []
    missing = sum(part.missing for part in produced)
    if missing and scenario.rate is not None:
        warnings.append(
            f"{missing} records due in the window were never sent: the cluster took the load too slowly; they "
            "count in the latency with the time that they waited"
        )
    failed = sum(part.failed for part in produced)
    if failed:
        warnings.append(f"{failed} records failed{_failures(produced)}")
    busiest = max((worker.busy_ratio for worker in workers if worker.produced), default=0.0)
    if scenario.rate is None and busiest > _BUSY_RATIO:
        warnings.append(
            f"a worker had no idle moment ({busiest:.0%} busy): the generator may be the limit, not the cluster"
        )
    return warnings


def _failures(produced: Sequence[Produced]) -> str:
    tally: dict[str, int] = {}
    for part in produced:
        for name, count in part.failures.items():
            tally[name] = tally.get(name, 0) + count
    return ": " + ", ".join(f"{name} ({count} records)" for name, count in tally.items()) if tally else ""


def _notes(workers: Sequence[WorkerReport]) -> list[str]:
    return list(dict.fromkeys(f"aiokafka: {note}" for worker in workers for note in worker.notes))

"""What was measured: workers' reports, and the rounds they fold into. Plain picklable values."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.brokers.figures import Sample
from pytest_kafkaperf.brokers.partitions import State, events
from pytest_kafkaperf.brokers.readings import BrokerCurves, Readings, Use
from pytest_kafkaperf.correlation import HEADER, described
from pytest_kafkaperf.histogram import Histogram, merged
from pytest_kafkaperf.metrics import CATALOGUE, LOAD_METRICS, QUANTILES
from pytest_kafkaperf.rate import peak_rate
from pytest_kafkaperf.recovery import dip, recovery_s
from pytest_kafkaperf.schedule import NS_PER_S
from pytest_kafkaperf.series import Curves, Series
from pytest_kafkaperf.series import merged as merged_series
from pytest_kafkaperf.steps import Step
from pytest_kafkaperf.units import Unit, format_quantity

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
_STRANGERS_RATIO = 0.15
"""Of all cores: what a quiet machine does beside the load stays below."""
BUSY = "this machine was busy"
"""How a warning begins that other programs ran beside the load."""
TOO_SLOW = "generator too slow"
"""How a problem begins that is ours: the machine left the load no time."""
UNREAD = "records unread"
"""How a problem begins of consumers that did not keep up."""
UNACKNOWLEDGED = "no record of the window was acknowledged"
"""How a problem begins of a cluster that answered nothing in time."""


@dataclass(slots=True, kw_only=True)
class Produced:
    """What one producer did. Counts of the window, unless they say otherwise."""

    producer: int = 0
    sent: int = 0
    acknowledged: int = 0
    """With transactions: committed."""
    bytes: int = 0
    """Keys and values of what was acknowledged."""
    aborted: int = 0
    """Records of transactions that were aborted."""
    failed: int = 0
    """Records whose send failed for good, warm-up included."""
    unknown: int = 0
    """Of the failed, those that may stand in the log all the same."""
    unknown_indexes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Indexes of those, as long as they are not too many."""
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
    """Warm-up and aborted transactions included: what must stand in the log."""
    markers_by_partition: dict[int, int] = field(default_factory=dict)
    """Ends of transactions, each of which takes an offset in the log."""
    disordered: int = 0
    """Records whose acknowledgement named an offset that is not beyond all before it: to be looked at."""
    failures: dict[str, int] = field(default_factory=dict)
    """Records by the error that ended them."""


@dataclass(slots=True, kw_only=True)
class Consumed:
    """What one consumer received: records due in the window."""

    group: int = 0
    received: int = 0
    bytes: int = 0
    last_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    unread: int = 0
    """Records in the log beyond the position when the wait for the rest ended."""
    total: int = 0
    """Records received in all, warm-up included."""
    disordered: int = 0
    """Records that did not continue those of their producer and partition: to be looked at."""
    names: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of what an application put out: which records it was made of (see `load.payload`), each once."""
    repeated: int = 0
    """Of what an application put out: how much it had put out before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a machine of a Dask cluster, by which a worker there told instants."""

    name: str
    """One for all processes of that machine."""
    host: str
    """The machine, for people."""
    offset_ns: int
    """What was added to it for the controller's time."""
    uncertainty_ns: int
    """How far it may be, at most, from the one that all machines' clocks were compared with."""
    is_here: bool
    """Whether that machine is the controller's after all."""


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """What one worker did."""

    worker: int
    produced: list[Produced] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    produce_series: Series = field(default_factory=lambda: Series(0))
    """Acknowledgements, and produce latency by due time."""
    consume_series: Series = field(default_factory=lambda: Series(0))
    """Receptions, and end-to-end latency by due time."""
    cpu_s: float = 0.0
    """User and system seconds of the process in the window."""
    busy_ratio: float = 0.0
    """Share of the window in which the process ran or waited for a core: near 1 it is the bottleneck."""
    notes: list[str] = field(default_factory=list)
    """What the client library warned of, each once."""
    clock: Clock | None = None
    """None: the controller's own, of a worker that it started itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one worker process had of a round, and what it took."""

    host: str | None
    """Where it ran; None: beside the controller."""
    producers: int
    consumers: int
    cpu_s: float
    busy_ratio: float
    sent: int
    """Records of the window."""
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: its metrics in base units, and whether they can be trusted."""

    metrics: Mapping[str, float]
    problems: tuple[str, ...] = ()
    """Why the round is INVALID; empty when it is valid."""
    warnings: tuple[str, ...] = ()
    series: Mapping[str, Curves] = field(default_factory=dict)
    """Over time, for plots, warm-up included: `produce` and, with consumers, `consume`."""
    brokers: BrokerCurves | None = None
    """What brokers used and told on the same time line; None where nothing is known of them."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    """What each broker used in the window."""
    events: tuple[tuple[float, str], ...] = ()
    """What happened to brokers and partitions: seconds from the round's start, and the text that warnings have, too."""
    steps: tuple[Step, ...] = ()
    """What a search for the capacity has tried: the round is its last step, at the rate that was found."""
    at_least: bool = False
    """Whether the metric `capacity` is a lower bound: no higher rate was tried, or could be made."""
    shares: tuple[Share, ...] = ()
    """What each worker process had of it."""
    e2e_uncertainty_s: float | None = None
    """How far end-to-end latency may be off where records were sent and received on different machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit of the log found: records, exactly."""

    lost: int
    """Acknowledged, and not in the log."""
    duplicated: int
    """In the log beyond once."""
    reordered: int
    """In the log behind later ones of the same producer and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What the workers of one round reported, and what the controller saw."""

    workers: Sequence[WorkerReport]
    start_ns: int | None
    """When the window opened; None when it never did."""
    drain_ns: int | None = None
    """When production was over and the rest could be read; None when it never was."""
    problems: Sequence[str] = ()
    lag_max: int = 0
    lag_end: int = 0
    log_growth: Mapping[int, int] | None = None
    """Offsets that the topic's log gained, by partition; None where it cannot be told."""
    audit: Audit | str | None = None
    """What the log really holds, or why it could not be looked at; None where counts leave no doubt."""
    samples: Mapping[str | int, Sequence[Sample]] = field(default_factory=dict)
    """Readings of the brokers, by broker."""
    unread: Sequence[str] = ()
    """Why some of what brokers tell could not be read."""
    states: Sequence[tuple[int, State]] = ()
    """What the topic's partitions were like, each with its instant."""
    actions: Sequence[tuple[int, str]] = ()
    """What was done to brokers, each with its instant."""
    broken: bool = False
    """The cluster or the workers are gone: no further round can run."""

    @property
    def produced(self) -> list[Produced]:
        """Of all producers."""
        return [part for worker in self.workers for part in worker.produced]

    @property
    def consumed(self) -> list[Consumed]:
        """Of all consumers."""
        return [part for worker in self.workers for part in worker.consumed]

    def acknowledged(self) -> dict[int, int]:
        """Acknowledged records by partition, warm-up included: what must stand in the log."""
        return _summed(part.acknowledged_by_partition for part in self.produced)

    def expected_growth(self) -> dict[int, int]:
        """Offsets that the log must gain at least, by partition."""
        return _summed(
            tally for part in self.produced for tally in (part.acknowledged_by_partition, part.markers_by_partition)
        )

    def unknown(self) -> int:
        """Records that may stand in the log or not."""
        return sum(part.unknown for part in self.produced)

    def disordered(self) -> int:
        """Records whose acknowledgements were not in order."""
        return sum(part.disordered for part in self.produced)

    def log_differences(self) -> tuple[int, int]:
        """How many records the log lacks, and has beyond what was acknowledged, partition by partition."""
        expected, growth = self.expected_growth(), self.log_growth or {}
        gaps = [expected.get(part, 0) - growth.get(part, 0) for part in expected.keys() | growth.keys()]
        return sum(gap for gap in gaps if gap > 0), -sum(gap for gap in gaps if gap < 0)

    @property
    def in_doubt(self) -> bool:
        """Whether counts leave open what the log holds: only an audit can tell."""
        disordered = self.disordered() + sum(part.disordered for part in self.consumed)
        return self.log_growth is not None and (
            self.log_differences() != (0, 0) or self.unknown() > 0 or disordered > 0
        )


def _summed(tallies: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: collections.Counter[int] = collections.Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)


def fold(report: RoundReport, scenario: Scenario) -> Round:
    """Make one round of its workers' reports."""
    produced, consumed = report.produced, report.consumed
    metrics: dict[str, float] = {"errors": float(sum(part.failed for part in produced))}
    problems, warnings = list(report.problems), _notes(report.workers)
    if report.start_ns is not None:
        metrics |= _produce_metrics(produced)
        metrics |= _consume_metrics(consumed, report, scenario) if scenario.consumers else {}
        metrics |= _cpu_metric(report.workers, produced)
    integrity = _integrity(report)
    metrics |= integrity
    if scenario.output_topic is None:
        problems += _integrity_problems(integrity)
    elif any(part.received for part in consumed):
        warnings += _application_warnings(integrity, scenario.output_topic)
    warnings += _integrity_warnings(report)
    if not report.problems:
        problems += _load_problems(report, produced, scenario)
        if scenario.output_topic is None:
            problems += _reading_problems(produced, consumed, scenario)
        elif any(part.acknowledged for part in produced) and not any(part.received for part in consumed):
            problems.append(_nothing_came_out(scenario))
    warnings += _produce_warnings(report.workers, produced, scenario)
    series = _series(report, scenario)
    seen = _seen_of_brokers(report, series)
    start_ns = report.start_ns or 0
    found = [] if report.start_ns is None else _events(report, start_ns)
    metrics |= seen.metrics
    warnings += [text for _, text in found]
    warnings += [*report.unread, *seen.warnings]
    if report.start_ns is not None and series:
        metrics |= _recovery(found, report.start_ns, series["produce"], warnings)
    measured = {*scenario.metrics(), *(name for name in CATALOGUE if name not in LOAD_METRICS)}
    return Round(
        metrics={name: metrics[name] for name in CATALOGUE if name in metrics and name in measured},
        problems=tuple(problems),
        warnings=tuple(dict.fromkeys(warnings)),
        series=series,
        brokers=seen.curves,
        uses=seen.uses,
        events=tuple(((at_ns - start_ns) / NS_PER_S, text) for at_ns, text in found),
        shares=tuple(map(_share, report.workers)),
        e2e_uncertainty_s=_e2e_uncertainty_s(report.workers),
    )


def _share(worker: WorkerReport) -> Share:
    return Share(
        host=None if worker.clock is None else worker.clock.host,
        producers=len(worker.produced),
        consumers=len(worker.consumed),
        cpu_s=worker.cpu_s,
        busy_ratio=worker.busy_ratio,
        sent=sum(part.sent for part in worker.produced),
        received=sum(part.received for part in worker.consumed),
    )


def _e2e_uncertainty_s(workers: Sequence[WorkerReport]) -> float | None:
    """Of the two clocks that know least of each other; None where all records came and went by one clock."""
    sending = {worker.clock for worker in workers if worker.produced}
    receiving = {worker.clock for worker in workers if worker.consumed}
    apart = [
        sum(0 if clock is None else clock.uncertainty_ns for clock in (one, other))
        for one in sending
        for other in receiving
        if (one and one.name) != (other and other.name)
    ]
    return max(apart) / NS_PER_S if apart else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What readings of the brokers say of a round."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: BrokerCurves | None = None
    uses: Mapping[str, Use] = field(default_factory=dict)
    warnings: Sequence[str] = ()


def _seen_of_brokers(report: RoundReport, series: Mapping[str, Curves]) -> _Seen:
    if report.start_ns is None or not series or not any(report.samples.values()):
        return _Seen()
    readings, end_ns = Readings.of(report.samples), _end_ns(report)
    first_ns = report.start_ns + round(series["produce"]["first_s"] * NS_PER_S)
    return _Seen(
        metrics=readings.metrics(start_ns=report.start_ns, end_ns=end_ns),
        curves=readings.curves(start_ns=report.start_ns, first_ns=first_ns, end_ns=end_ns),
        uses={str(broker): use for broker, use in readings.uses(report.start_ns, end_ns).items()},
        warnings=_strangers(readings, report, end_ns),
    )


def _strangers(readings: Readings, report: RoundReport, end_ns: int) -> list[str]:
    """Whether other programs took so much of the machine that the figures are theirs, too."""
    workers_s = sum(worker.cpu_s for worker in report.workers if worker.clock is None or worker.clock.is_here)
    found = readings.strangers(start_ns=report.start_ns or 0, end_ns=end_ns, workers_s=workers_s)
    if found is None or found[0] < _STRANGERS_RATIO * found[1]:
        return []
    taken, cores = round(2 * found[0]) / 2 or found[0], found[1]  # or each round would have a warning of its own
    harm = "figures may be theirs as much as Kafka's"
    return [f"{BUSY}: other programs took {taken:.1f} of its {cores} cores during a round, and {harm}"]


def _end_ns(report: RoundReport) -> int:
    """When the last of the round was over: of acknowledgements and of what was received."""
    instants = [part.last_ack_ns for part in report.produced] + [part.last_ns for part in report.consumed]
    return max((instant for instant in instants if instant is not None), default=report.start_ns or 0)


def _events(report: RoundReport, start_ns: int) -> list[tuple[int, str]]:
    """What happened to brokers and partitions from the start on, each with its instant, in the order of time."""
    before = [one for one in report.states if one[0] < start_ns][-1:]
    moved = events([*before, *(one for one in report.states if one[0] >= start_ns)], start_ns)
    done = [(at_ns, f"at {(at_ns - start_ns) / NS_PER_S:.1f} s: {text}") for at_ns, text in report.actions]
    return sorted([*moved, *(one for one in done if one[0] >= start_ns)])


def _recovery(
    found: Sequence[tuple[int, str]], start_ns: int, produced: Curves, warnings: list[str]
) -> dict[str, float]:
    """How long what happened first could be felt; the dip goes into the warnings."""
    if not found:
        return {}
    event_s = (found[0][0] - start_ns) / NS_PER_S
    recovery = recovery_s(produced, event_s)
    if recovery is None:
        return {}
    lowest = dip(produced, event_s)
    if recovery and lowest is not None:
        rate = format_quantity(lowest[0], Unit.RECORD_RATE)
        warnings.append(
            f"latency was out of the ordinary for {recovery:.1f} s from {event_s:.1f} s on, and throughput fell to "
            f"{rate} at {lowest[1]:.0f} s"
        )
    return {"recovery": recovery}


def _series(report: RoundReport, scenario: Scenario) -> dict[str, Curves]:
    if report.start_ns is None or not report.workers:
        return {}
    plots = {"produce": merged_series([worker.produce_series for worker in report.workers]).curves()}
    if scenario.consumers:
        plots["consume"] = merged_series([worker.consume_series for worker in report.workers]).curves()
    return plots


def _latency_metrics(family: str, histogram: Histogram) -> dict[str, float]:
    if histogram.total == 0:
        return {}
    return {
        f"{family}.mean": histogram.mean_s,
        **{f"{family}.{part}": histogram.quantile_s(quantile) for part, quantile in QUANTILES.items()},
        f"{family}.max": histogram.max_s,
    }


def _produce_metrics(produced: Sequence[Produced]) -> dict[str, float]:
    acknowledged = sum(part.acknowledged for part in produced)
    first_ns = min((part.first_due_ns for part in produced if part.first_due_ns is not None), default=None)
    last_ns = max((part.last_ack_ns for part in produced if part.last_ack_ns is not None), default=None)
    metrics = _latency_metrics("produce.latency", merged([part.latency for part in produced]))
    metrics |= _latency_metrics("produce.delay", merged([part.delay for part in produced]))
    if first_ns is not None and last_ns is not None and last_ns > first_ns:
        throughput = acknowledged / ((last_ns - first_ns) / NS_PER_S)
        metrics["produce.throughput"] = throughput
        metrics["produce.bandwidth"] = sum(part.bytes for part in produced) / ((last_ns - first_ns) / NS_PER_S)
    return metrics


def _consume_metrics(consumed: Sequence[Consumed], report: RoundReport, scenario: Scenario) -> dict[str, float]:
    received = sum(part.received for part in consumed)
    last_ns = max((part.last_ns for part in consumed if part.last_ns is not None), default=None)
    metrics = _latency_metrics("e2e.latency", merged([part.latency for part in consumed]))
    metrics |= {"lag.max": float(report.lag_max), "lag.end": float(report.lag_end)}
    begin_ns = report.start_ns if scenario.consume == "live" else report.drain_ns
    if last_ns is not None and begin_ns is not None and last_ns > begin_ns:
        elapsed_s = (last_ns - begin_ns) / NS_PER_S
        metrics["consume.throughput"] = received / elapsed_s
        metrics["consume.bandwidth"] = sum(part.bytes for part in consumed) / elapsed_s
    return metrics


def _cpu_metric(workers: Sequence[WorkerReport], produced: Sequence[Produced]) -> dict[str, float]:
    acknowledged = sum(part.acknowledged for part in produced)
    if not acknowledged:
        return {}
    return {"client.cpu": sum(worker.cpu_s for worker in workers) / (acknowledged / 1e6)}


def _integrity(report: RoundReport) -> dict[str, float]:
    """What an audit found; without one the log is as the counts say."""
    if isinstance(report.audit, Audit):
        found = report.audit
        return {
            "lost": float(found.lost),
            "duplicated": float(found.duplicated),
            "reordered": float(found.reordered),
        }
    if report.log_growth is None:
        return {}
    lost, surplus = report.log_differences()
    return {
        "lost": float(lost),
        "duplicated": float(max(0, surplus - report.unknown())),
        "reordered": float(report.disordered()),
    }


def _integrity_warnings(report: RoundReport) -> list[str]:
    if not isinstance(report.audit, str):
        return []
    if report.log_growth is None:
        return [f"{report.audit}: which records were lost, duplicated or reordered is not known"]
    known = "lost and duplicated records are known by counts alone, and may hide each other"
    return [f"{report.audit}: {known}; reordered ones by their acknowledgements"]


def _integrity_problems(integrity: Mapping[str, float]) -> list[str]:
    if not integrity.get("lost"):
        return []
    return [f"records lost: {integrity['lost']:.0f} records were acknowledged and are not in the log"]


def _nothing_came_out(scenario: Scenario) -> str:
    """Where each record is lost nothing was measured."""
    how = (
        f"passes the header {HEADER!r} on"
        if scenario.correlate is None
        else f"carries on what {described(scenario.correlate)} looks for"
    )
    return f"nothing came out of {scenario.output_topic!r}: see that the application runs, and that it {how}"


def _application_warnings(integrity: Mapping[str, float], output_topic: str) -> list[str]:
    """An application may drop records on purpose: a limit on `lost` says whether this one may."""
    warnings = []
    if lost := integrity.get("lost"):
        warnings.append(
            f"{lost:.0f} records did not come out of {output_topic!r} in time: they count as lost, and end-to-end "
            "latency is that of the others"
        )
    if duplicated := integrity.get("duplicated"):
        warnings.append(f"{duplicated:.0f} records came out of {output_topic!r} again")
    return warnings


def _reading_problems(produced: Sequence[Produced], consumed: Sequence[Consumed], scenario: Scenario) -> list[str]:
    """Every record counts: of those that nobody read, some were passed over when the group rebalanced."""
    expected = sum(part.acknowledged for part in produced)
    if scenario.isolation_level == "read_uncommitted":
        expected += sum(part.aborted for part in produced)
    received = _summed({part.group: part.received} for part in consumed)
    passed_over = sum(max(0, expected - count) for count in received.values())
    unread = max(passed_over, sum(part.unread for part in consumed))
    if unread <= 0:
        return []
    harm = "end-to-end figures would leave out the slowest"
    return [f"{UNREAD}: {unread} records in the log were not received by the consumers in time; {harm}"]


def _load_problems(report: RoundReport, produced: Sequence[Produced], scenario: Scenario) -> list[str]:
    if sum(part.acknowledged for part in produced) == 0:
        return [f"{UNACKNOWLEDGED}{_failures(produced)}"]
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
        return [f"{TOO_SLOW}: {held}; {advice}"]
    over_time = sum(part.sent_late + part.missing for part in produced)
    slowest = max(
        (_load_of(worker, peak_rate(scenario.rate), scenario.producers) for worker in report.workers), default=0.0
    )
    if over_time > tolerated and slowest > _BUSY_RATIO:
        held = f"{over_time} of {due} records were not sent in the window"
        needed = f"a worker would need {slowest:.0%} of a core to send them in time"
        return [f"{TOO_SLOW}: {held}, and {needed}; {advice}"]
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

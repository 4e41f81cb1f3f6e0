"""The flaws of a round: problems, which make it INVALID, and warnings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.scenario.rate import peak_rate
from pytest_kafkaperf.scenario.records import HEADER, described
from pytest_kafkaperf.scenario.scenario import RECORDS_TIMEOUT_S, Scenario
from pytest_kafkaperf.scenario.threshold import Absolute, Extreme, Threshold

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import Readings
    from pytest_kafkaperf.load.messages import LoadReport, Produced, WorkerReport
    from pytest_kafkaperf.runner.round import Round


BUSY = "this machine was busy"
"""How a warning begins that other programs ran beside the load."""

TOO_SLOW = "generator too slow"
"""How a problem begins that is ours: the machine left the load no time."""

UNREAD = "records unread"
"""How a problem begins of consumers that did not keep up."""

UNACKNOWLEDGED = "no record of the window was acknowledged"
"""How a problem begins of a cluster that answered nothing in time."""

_ON_TIME_RATIO = 0.99
"""Share of the asked load that the generator itself must make, or the round is INVALID."""

_BUSY_RATIO = 0.95
"""A process that runs or waits for a core for this share of the time is the bottleneck."""

_WORKING_RATIO = 0.5
"""Below this share its CPU time is not spent on records alone."""

_STRANGERS_RATIO = 0.15
"""Of all cores: what a quiet machine does beside the load stays below."""


def problems_of(report: LoadReport, scenario: Scenario, integrity: Mapping[str, float]) -> list[str]:
    """Why the round is INVALID; `integrity` is how many records were `lost`, `duplicated` and `reordered`, if known."""
    problems = list(report.problems)
    if scenario.output_topic is None:
        problems += _integrity_problems(integrity)
    if report.problems:
        return problems
    problems += _load_problems(report, scenario)
    if scenario.output_topic is None:
        problems += _reading_problems(report, scenario)
    elif any(part.acknowledged for part in report.produced) and not any(part.received for part in report.consumed):
        problems.append(_nothing_came_out(scenario))
    return problems


def warnings_of(report: LoadReport, scenario: Scenario, integrity: Mapping[str, float]) -> list[str]:
    """What is to be known of the load and of the log; `integrity` as above."""
    warnings = _notes(report.workers)
    if scenario.output_topic is not None and any(part.received for part in report.consumed):
        warnings += _application_warnings(integrity, scenario.output_topic)
    return [*warnings, *_integrity_warnings(report), *_produce_warnings(report, scenario)]


def strangers(readings: Readings, report: LoadReport, end_ns: int) -> list[str]:
    """Whether other programs took so much of the machine that the figures are theirs, too."""
    workers_s = sum(worker.cpu_s for worker in report.workers if worker.clock is None or worker.clock.is_here)
    found = readings.strangers(start_ns=report.start_ns or 0, end_ns=end_ns, workers_s=workers_s)
    if found is None or found[0] < _STRANGERS_RATIO * found[1]:
        return []
    taken, cores = round(2 * found[0]) / 2 or found[0], found[1]  # or each round would have a warning of its own
    harm = "figures may be theirs as much as Kafka's"
    return [f"{BUSY}: other programs took {taken:.1f} of its {cores} cores during a round, and {harm}"]


def _integrity_problems(integrity: Mapping[str, float]) -> list[str]:
    if not integrity.get("lost"):
        return []
    return [f"records lost: {integrity['lost']:.0f} records were acknowledged and are not in the log"]


def _load_problems(report: LoadReport, scenario: Scenario) -> list[str]:
    produced = report.produced
    if sum(part.acknowledged for part in produced) == 0:
        return [f"{UNACKNOWLEDGED}{_failures(produced)}"]
    missing = sum(part.missing for part in produced)
    if scenario.rate is None and missing:
        held = f"{missing} of {scenario.records} records were not sent within {RECORDS_TIMEOUT_S} s"
        return [f"load not reached: {held}; use fewer records, or a duration"]
    if scenario.rate is None:
        return []
    due = sum(part.sent + part.missing for part in produced)
    tolerated = (1 - _ON_TIME_RATIO) * due
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


def _reading_problems(report: LoadReport, scenario: Scenario) -> list[str]:
    """Every record counts: of those that nobody read, some were passed over when the group rebalanced."""
    expected = sum(part.acknowledged for part in report.produced)
    if scenario.isolation_level == "read_uncommitted":
        expected += sum(part.aborted for part in report.produced)
    passed_over = sum(max(0, expected - count) for count in report.received().values())
    unread = max(passed_over, sum(part.unread for part in report.consumed))
    if unread <= 0:
        return []
    harm = "end-to-end figures would leave out the slowest"
    return [f"{UNREAD}: {unread} records in the log were not received by the consumers in time; {harm}"]


def _nothing_came_out(scenario: Scenario) -> str:
    """Where each record is lost nothing was measured."""
    how = (
        f"passes the header {HEADER!r} on"
        if scenario.correlate is None
        else f"carries on what {described(scenario.correlate)} looks for"
    )
    return f"nothing came out of {scenario.output_topic!r}: see that the application runs, and that it {how}"


def _notes(workers: Sequence[WorkerReport]) -> list[str]:
    return list(dict.fromkeys(f"aiokafka: {note}" for worker in workers for note in worker.notes))


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


def _integrity_warnings(report: LoadReport) -> list[str]:
    if not isinstance(report.audit, str):
        return []
    if report.log_growth is None:
        return [f"{report.audit}: which records were lost, duplicated or reordered is not known"]
    known = "lost and duplicated records are known by counts alone, and may hide each other"
    return [f"{report.audit}: {known}; reordered ones by their acknowledgements"]


def _produce_warnings(report: LoadReport, scenario: Scenario) -> list[str]:
    produced, warnings = report.produced, []
    missing = sum(part.missing for part in produced)
    if missing and scenario.rate is not None:
        warnings.append(
            f"{missing} records due in the window were never sent: the cluster took the load too slowly; they "
            "count in the latency with the time that they waited"
        )
    failed = sum(part.failed for part in produced)
    if failed:
        warnings.append(f"{failed} records failed{_failures(produced)}")
    busiest = max((worker.busy_ratio for worker in report.workers if worker.produced), default=0.0)
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


_FAMILY = "e2e.latency"


def uncertainty_s(rounds: Iterable[Round]) -> float | None:
    """The most over those rounds; None where every record came and went on one machine."""
    return max((one.e2e_uncertainty_s for one in rounds if one.e2e_uncertainty_s is not None), default=None)


def describe_uncertainty(seconds: float) -> str:
    """What is to know of the figures."""
    return f"end-to-end latency is between machines whose clocks are known to {_shown(seconds)}"


def open_limits(thresholds: Sequence[Threshold], values: Sequence[float | None], seconds: float | None) -> list[str]:
    """Why limits on end-to-end latency cannot be judged: they are finer than the clocks.

    `values` are those of the limits; None where one speaks of a baseline that is not there.
    """
    if seconds is None:
        return []
    return [
        f"threshold {threshold.expression!r}: the limit is {format_quantity(limit, Unit.SECONDS)}, and the clocks of "
        f"the machines that send and receive are known to {_shown(seconds)} only; loosen the limit, bring the machines "
        "and the Dask scheduler into one network, or let one machine send and receive"
        for threshold, value in zip(thresholds, values, strict=True)
        if threshold.metric.name.startswith(_FAMILY)
        and (limit := _quantity(threshold) if value is None else value) is not None
        and limit < seconds
    ]


def _quantity(threshold: Threshold) -> float | None:
    """What of a limit is known without a baseline."""
    match threshold.limit:
        case Absolute(value=value):
            return value
        case Extreme() as extreme:
            return extreme.absolute.value
        case _:
            return None


def _shown(seconds: float) -> str:
    return f"±{format_quantity(seconds, Unit.SECONDS, digits=2)}"

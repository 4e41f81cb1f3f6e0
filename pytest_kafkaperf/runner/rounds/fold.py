"""Computes a round's measurements from the observations of its load. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.clusters.monitoring.partitions import PartitionState, events, instants
from pytest_kafkaperf.clusters.monitoring.readings import BrokerCurves, Key, Readings, Use, named
from pytest_kafkaperf.core.metrics import CATALOGUE, FEWEST_RECORDS, LOAD_METRICS, QUANTILES, bounded_latencies
from pytest_kafkaperf.core.notices import Event, EventKind, Instant, Notice, Remark, each_once
from pytest_kafkaperf.core.problems import Problem, only_late
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import Audit, Consumed, LoadReport, WorkerReport
from pytest_kafkaperf.load.recorder import Curves, Histogram, merged, merged_series
from pytest_kafkaperf.load.schedule import window_s
from pytest_kafkaperf.runner.rounds.app_groups import caught_up, commit_interval_s, not_caught_up, watched
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.recovery import Recovery, recovery_of
from pytest_kafkaperf.runner.rounds.round import Round, RoundEvent
from pytest_kafkaperf.runner.rounds.steadiness import steadiness_metrics
from pytest_kafkaperf.runner.rounds.validity import (
    blamed_on,
    busy_machine,
    late_records,
    least_latencies,
    limited_by_generator,
    load_problems,
    load_warnings,
    silence_s,
)
from pytest_kafkaperf.scenarios.scenario import Scenario


def fold(seen: Observations, scenario: Scenario) -> Round:
    """Combine a load's observations into a round's measurements."""
    load = seen.load
    window = _window(seen)
    integrity = _integrity(seen)
    silent_s = silence_s(load, scenario, integrity)
    groups = watched(seen, scenario)
    caught_up_metrics, behind = _catch_up(load)
    series = _series(load, scenario)
    resources = _resources(seen, series, window)
    recovery = _recovery(seen, series, window, scenario)
    metrics = {
        **_log_metrics(load, integrity),
        **({} if seen.log.dead_letters is None else {"app.dead_letters": float(seen.log.dead_letters)}),
        **_fault_metrics(load, excused=window.excused),
        **_load_metrics(load, scenario),
        **_steadiness(load, series, scenario),
        **groups.metrics,
        **seen.recorded,
        **_slowest_delays(groups.delay),
        **caught_up_metrics,
        **resources.metrics,
        **recovery.metrics,
    }
    problems = load_problems(seen, scenario, integrity) or [*groups.problems, *behind]
    if resources.busy is not None:
        problems = blamed_on(resources.busy, problems)
    warnings = [
        *load_warnings(load, scenario, integrity, silent_s),
        *groups.warnings,
        *(event.notice for event in window.events),
        *seen.unread,
        *resources.warnings,
        *recovery.warnings,
    ]
    bounds = [*groups.at_least, *_silent_bounds(load, integrity, silent_s), *recovery.at_least]
    return Round(
        metrics=_in_order(metrics, scenario),
        problems=tuple(problems),
        least=_least(load, problems),
        warnings=each_once(warnings),
        series=series,
        brokers=resources.curves,
        uses=resources.uses,
        compiler=_compiler(seen, window),
        starts_program=_starts_program(seen),
        events=tuple(window.events),
        limited_by_generator=limited_by_generator(load, scenario),
        shares=tuple(worker.share for worker in load.workers),
        at_least=tuple(dict.fromkeys(bounds)),
        at_most=groups.at_most,
        commit_interval_s=groups.commit_interval_s,
        e2e_uncertainty_s=_e2e_uncertainty_s(load.workers),
        clock_skew_s=_clock_skew_s(load.consumed),
        window_s=None if load.start_ns is None else (window.start_ns / NS_PER_S, window.end_ns / NS_PER_S),
    )


def _in_order(metrics: Mapping[str, float], scenario: Scenario) -> dict[str, float]:
    """Return the scenario's metrics and the custom metrics, in the order of the metrics catalog."""
    measured = {*scenario.metrics(), *(name for name in CATALOGUE if name not in LOAD_METRICS)}
    return {name: metrics[name] for name in CATALOGUE if name in metrics and name in measured}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A load's window, and the events on brokers, partitions and applications since it opened."""

    start_ns: int
    """Start of the window; 0 if it never opened."""
    end_ns: int
    """Time of the last acknowledged or received record."""
    changed_ns: Sequence[int] = ()
    """Times at which brokers and partitions changed, in order."""
    events: Sequence[RoundEvent] = ()
    """These changes and changes to applications, in order; at most the first few partition changes are kept."""
    excused: bool = False
    """True if the test itself disturbed the brokers."""


def _window(seen: Observations) -> _Window:
    start_ns = seen.load.start_ns or 0
    if seen.load.start_ns is None:
        return _Window(start_ns=start_ns, end_ns=_end_ns(seen.load))
    states = _states_since(seen.states, start_ns)
    changed_ns = sorted([*instants(states), *(event.at_ns for event in _since(seen.actions, start_ns))])
    moved = [RoundEvent((at_ns - start_ns) / NS_PER_S, notice) for at_ns, notice in events(states, start_ns)]
    of_brokers = [_action(event, start_ns) for event in _since(seen.actions, start_ns)]
    of_applications = [
        _action(event, start_ns, application=event.subject) for event in _since(seen.application_events, start_ns)
    ]
    return _Window(
        start_ns=start_ns,
        end_ns=_end_ns(seen.load),
        changed_ns=changed_ns,
        events=sorted([*moved, *of_brokers, *of_applications], key=lambda event: (event.at_s, event.notice.text)),
        excused=bool(of_brokers) or _moved_by_test(seen, changed_ns),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resources:
    """The resources that brokers, applications and other programs used."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: BrokerCurves | None = None
    """Readings of the brokers; None if no broker could be read."""
    uses: Mapping[str, Use] = field(default_factory=dict)
    """Each broker's CPU and memory usage in the window."""
    gaps: Sequence[Notice] = ()
    """Warnings about metrics left out because a broker could not be read."""
    busy: Notice | None = None
    """A warning if other programs used this machine, otherwise None."""

    @property
    def warnings(self) -> list[Notice]:
        return [*self.gaps] if self.busy is None else [*self.gaps, self.busy]


def _resources(seen: Observations, series: Mapping[str, Curves], window: _Window) -> _Resources:
    start_ns, end_ns = window.start_ns, window.end_ns
    together = Readings.of(seen.samples if series else {})
    readings, _ = together.apart()
    uses = {str(broker): use for broker, use in readings.uses(start_ns, end_ns).items()}
    if not any(together.tracks.values()):
        return _Resources(uses=uses)
    first_ns = start_ns + round(series["produce"]["first_s"] * NS_PER_S)
    metrics, gaps = _resource_metrics(together, seen.load, end_ns, excused=window.excused)
    return _Resources(
        metrics=metrics,
        curves=together.curves(start_ns=start_ns, first_ns=first_ns, end_ns=end_ns),
        uses=uses,
        gaps=gaps,
        busy=busy_machine(together, seen.load, end_ns),
    )


def _recovery(seen: Observations, series: Mapping[str, Curves], window: _Window, scenario: Scenario) -> Recovery:
    if not window.changed_ns or not series:
        return Recovery()
    return recovery_of(_causes_s(seen, window.changed_ns), series["produce"], window_s(scenario))


def _log_metrics(load: LoadReport, integrity: Mapping[str, float]) -> dict[str, float]:
    """Return the log metrics; with an application, `lost` counts the records missing from its output."""
    acknowledged = sum(part.acknowledged for part in load.produced)
    if not acknowledged or "lost" not in integrity:
        return {**integrity}
    if load.joined is not None:
        ratio = load.joined.output_ratio
        return {**integrity} if ratio is None else {**integrity, "app.output_ratio": ratio}
    return {**integrity, "app.output_ratio": 1 - integrity["lost"] / acknowledged}


def _silent_bounds(load: LoadReport, integrity: Mapping[str, float], silent_s: float) -> list[str]:
    """Return the end-to-end latencies that are lower bounds because the slowest records have not been output yet."""
    if not silent_s:
        return []
    acknowledged = sum(part.acknowledged for part in load.produced)
    found = bounded_latencies("e2e.latency", integrity["lost"] / acknowledged)
    return [*found, *(("e2e.latency.p99.steadiness",) if "e2e.latency.p99" in found else ())]


def _load_metrics(load: LoadReport, scenario: Scenario) -> dict[str, float]:
    """Return the producer and consumer metrics; empty if the window never opened."""
    if load.start_ns is None:
        return {}
    metrics = _produce_metrics(load, scenario)
    return metrics | _consume_metrics(load, scenario) if scenario.consumers else metrics


def _steadiness(load: LoadReport, series: Mapping[str, Curves], scenario: Scenario) -> dict[str, float]:
    """Return the steadiness metrics; no latency is known if the producers' clock is ahead."""
    skewed = _clock_skew_s(load.consumed) is not None
    known = {name: curves for name, curves in series.items() if name != "consume" or not skewed}
    return steadiness_metrics(known, window_s(scenario))


def _compiler(seen: Observations, window: _Window) -> dict[Key, float | None]:
    """Return the number of cores that each program's compiler used in the window; empty if no load ran."""
    start_ns, end_ns = window.start_ns, window.end_ns
    if seen.load.start_ns is None or end_ns <= start_ns:
        return {}
    return {key: None if usage is None else usage.share(start_ns, end_ns) for key, usage in seen.compilers.items()}


def _starts_program(seen: Observations) -> bool:
    """Return True if the test started a broker or an application, making it cold."""
    return any(event.kind is EventKind.STARTED for event in (*seen.actions, *seen.application_events))


def _fault_metrics(load: LoadReport, *, excused: bool) -> dict[str, float]:
    """Return the metrics for failed and unsent records; `excused` leaves out records that were accepted late.

    If the load was aborted, the records that it did not send say nothing about Kafka.
    """
    produced = load.produced
    metrics = {"errors": float(sum(part.failed + part.aborted_by_failure for part in produced))}
    if due := sum(part.sent + part.missing for part in produced):
        metrics["error_ratio"] = sum(part.failed_in_window + part.aborted_by_failure for part in produced) / due
        if not load.broken:
            metrics["unsent"] = float(sum(part.missing + (0 if excused else part.overdue) for part in produced))
    return metrics


def _produce_metrics(load: LoadReport, scenario: Scenario) -> dict[str, float]:
    produced = load.produced
    acknowledged = sum(part.acknowledged for part in produced)
    first_ns = min((part.first_due_ns for part in produced if part.first_due_ns is not None), default=None)
    last_ns = max((part.last_ack_ns for part in produced if part.last_ack_ns is not None), default=None)
    metrics = _latency_metrics("produce.latency", merged([part.latency for part in produced]))
    metrics |= _latency_metrics("produce.delay", merged([part.delay for part in produced]))
    if acknowledged:
        metrics["client.cpu_per_record"] = sum(worker.cpu_s for worker in load.workers) / (acknowledged / 1e6)
    length_s = window_s(scenario)
    if length_s is not None and load.start_ns is not None and last_ns is not None:
        # The last record is due one interval before the window's end, and an outage may last until the end.
        last_ns = max(last_ns, load.start_ns + round(length_s * NS_PER_S))
        first_ns = first_ns if scenario.rate is None else load.start_ns
    if first_ns is not None and last_ns is not None and last_ns > first_ns:
        elapsed_s = (last_ns - first_ns) / NS_PER_S
        metrics["produce.throughput"] = acknowledged / elapsed_s
        metrics["produce.bandwidth"] = sum(part.bytes for part in produced) / elapsed_s
    return metrics


def _resource_metrics(
    together: Readings, load: LoadReport, end_ns: int, *, excused: bool
) -> tuple[dict[str, float], list[Notice]]:
    """Return the metrics for brokers and applications, and warnings about metrics left out because of gaps.

    With `excused`, gaps are expected, because the test stopped a broker, and nothing is left out.
    """
    start_ns = load.start_ns or 0
    readings, applications = together.apart()
    partly = readings.partly_read(start_ns=start_ns, end_ns=end_ns)
    found, whole = (
        each.metrics(start_ns=start_ns, end_ns=end_ns) | _broker_cost(each, load, start_ns, end_ns)
        for each in (readings, readings.without({kind for _, kind in partly}))
    )
    left_out = [] if excused else sorted(found.keys() - whole.keys())
    used = (whole if left_out else found) | applications.application_metrics(start_ns=start_ns, end_ns=end_ns)
    if not left_out:
        return used, []
    parts = ", ".join(f"{named(key)} ({kind}) in {ratio:.0%} of the window" for (key, kind), ratio in partly.items())
    return used, [Notice(Remark.METRICS_LEFT_OUT, {"parts": parts, "metrics": ", ".join(left_out)})]


def _broker_cost(readings: Readings, load: LoadReport, start_ns: int, end_ns: int) -> dict[str, float]:
    acknowledged = sum(part.acknowledged for part in load.produced)
    cpu_s = readings.cpu_s(start_ns=start_ns, end_ns=end_ns)
    return {} if cpu_s is None or not acknowledged else {"broker.cpu_per_record": cpu_s / (acknowledged / 1e6)}


def _consume_metrics(load: LoadReport, scenario: Scenario) -> dict[str, float]:
    consumed = load.consumed
    received = sum(part.received for part in consumed)
    last_ns = max((part.last_ns for part in consumed if part.last_ns is not None), default=None)
    latency = _latency_metrics("e2e.latency", merged([part.latency for part in consumed]))
    metrics = latency if _clock_skew_s(consumed) is None else {}
    if load.lag_max is not None and load.lag_end is not None:
        metrics |= {"lag.max": float(load.lag_max), "lag.end": float(load.lag_end)}
    metrics["rebalance.pause"] = max((part.pause_ns for part in consumed), default=0) / NS_PER_S
    begin_ns = load.start_ns if scenario.consume == "live" else load.drain_ns
    if last_ns is not None and begin_ns is not None and (elapsed_s := (last_ns - begin_ns) / NS_PER_S) > 0:
        metrics["consume.throughput"] = received / elapsed_s
        metrics["consume.bandwidth"] = sum(part.bytes for part in consumed) / elapsed_s
    return metrics


def _catch_up(load: LoadReport) -> tuple[dict[str, float], list[Problem]]:
    """Return the metrics for consumers that started with a backlog, and a problem if the consumers did not catch up."""
    readings, start_ns = load.catch_up, load.start_ns
    if readings is None or start_ns is None:
        return {}, []
    window, interval_s = (0, readings.at_ns.size), commit_interval_s(readings)
    found = caught_up(readings, window, begin_ns=start_ns, first=0, interval_s=interval_s)
    if found is None:
        problem, least = not_caught_up("the consumers", "catchup", int(readings.at_ns[-1]) - start_ns)
        return least, [problem]
    return {"catchup": found[0]} | ({} if found[1] is None else {"catchup.throughput": found[1]}), []


def _latency_metrics(family: str, histogram: Histogram) -> dict[str, float]:
    if histogram.total == 0:
        return {}
    return {
        f"{family}.mean": histogram.mean_s,
        **{
            f"{family}.{part}": histogram.quantile_s(quantile)
            for part, quantile in QUANTILES.items()
            if histogram.total >= FEWEST_RECORDS.get(part, 1)
        },
        f"{family}.max": histogram.max_s,
    }


def _slowest_delays(groups: Sequence[Histogram]) -> dict[str, float]:
    """Return the metrics for an application's delay; each metric refers to the slowest group."""
    delays = [_latency_metrics("app.delay", one) for one in groups]
    return {name: max(one[name] for one in delays) for name in (delays[0] if delays else ())}


def _least(load: LoadReport, problems: Sequence[Problem]) -> dict[str, float]:
    """Return lower bounds for the latencies if a slow generator is the only problem; empty otherwise."""
    if not problems or not only_late(problems):
        return {}
    late, latest_ns = late_records(load), max(part.latest_ns for part in load.produced)
    groups = max(1, len(load.received()))
    sent, received = (merged([part.latency for part in parts]) for parts in (load.produced, load.consumed))
    return least_latencies("produce.latency", sent, late=late, latest_ns=latest_ns) | least_latencies(
        "e2e.latency", received, late=groups * late, latest_ns=latest_ns
    )


def _integrity(seen: Observations) -> dict[str, float]:
    """Return the numbers of lost, duplicated and reordered records, from a log audit or, without one, from counts.

    If an audit was necessary but impossible, the number of apparently lost records is a lower bound. Zero then proves
    nothing, because unacknowledged or repeated records may have taken the place of lost ones.
    """
    load, log = seen.load, seen.log
    if isinstance(log.audit, Audit):
        return {name: float(count) for name, count in dataclasses.asdict(log.audit).items()}
    if log.growth is None:
        return {}
    lost, surplus = load.differences(log.growth)
    if log.audit is not None:
        return {"lost": float(lost)} if lost else {}
    duplicated = max(0, surplus - load.unknown())
    return {"lost": float(lost), "duplicated": float(duplicated), "reordered": float(load.disordered())}


def _series(load: LoadReport, scenario: Scenario) -> dict[str, Curves]:
    if load.start_ns is None or not load.workers:
        return {}
    plots = {"produce": merged_series([worker.produce_series for worker in load.workers]).curves()}
    if scenario.consumers:
        plots["consume"] = merged_series([worker.consume_series for worker in load.workers]).curves()
    return plots


def _end_ns(load: LoadReport) -> int:
    """Return the time of the last acknowledged or received record."""
    instants = [part.last_ack_ns for part in load.produced] + [part.last_ns for part in load.consumed]
    return max((instant for instant in instants if instant is not None), default=load.start_ns or 0)


def _states_since(states: Sequence[tuple[int, PartitionState]], start_ns: int) -> list[tuple[int, PartitionState]]:
    """Return the state of all partitions at the start of the window, and the changes since then."""
    before = dict(item for at_ns, state in states if at_ns < start_ns for item in state.items())
    return [(start_ns, before), *(one for one in states if one[0] >= start_ns)]


def _causes_s(seen: Observations, events_ns: Sequence[int]) -> list[float]:
    """Return the times at which latency may have started to degrade: those of events and of the test's first action.

    The times are sorted, in seconds after the start of the window.
    """
    acted_ns = [] if seen.acted_ns is None else [seen.acted_ns]
    return [(at_ns - (seen.load.start_ns or 0)) / NS_PER_S for at_ns in sorted([*events_ns, *acted_ns])]


def _since(actions: Sequence[Event], start_ns: int) -> list[Event]:
    """Return the actions since the start of the window."""
    return [event for event in actions if event.at_ns >= start_ns]


def _action(event: Event, start_ns: int, application: str | None = None) -> RoundEvent:
    """Return an action on a broker (or on an application, if given) as a round event."""
    at_s = (event.at_ns - start_ns) / NS_PER_S
    values = {"at": Instant(at_s), "event": event, "what": event.kind, "application": application}
    return RoundEvent(at_s, Notice(Remark.ACTION, values), event)


def _moved_by_test(seen: Observations, changed_ns: Sequence[int]) -> bool:
    """Return True if an event followed one of the test's actions.

    Events alone are not an excuse, because an overloaded broker can also drop out of the in-sync replicas.
    """
    return seen.acted_ns is not None and any(at_ns >= seen.acted_ns for at_ns in changed_ns)


def _e2e_uncertainty_s(workers: Sequence[WorkerReport]) -> float | None:
    """Return the largest uncertainty between two clocks; None if a single clock timed all records."""
    sending = {worker.clock for worker in workers if worker.produced}
    receiving = {worker.clock for worker in workers if worker.consumed}
    apart = [
        sum(0 if clock is None else clock.uncertainty_ns for clock in (one, other))
        for one in sending
        for other in receiving
        if (one and one.name) != (other and other.name)
    ]
    return max(apart) / NS_PER_S if apart else None


_LEAST_SKEW_S = 0.001
"""Minimum clock skew, because record timestamps are whole milliseconds."""


def _clock_skew_s(consumed: Sequence[Consumed]) -> float | None:
    """Return the least time by which the producers' clock is ahead of this machine's; None if it is not ahead."""
    ahead_s = max((part.ahead_ns for part in consumed), default=0) / NS_PER_S
    return ahead_s if ahead_s > _LEAST_SKEW_S else None

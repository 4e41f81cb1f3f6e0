"""Deduces whether a bottleneck is the application, or Kafka and the machine upstream of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import PROCESS_METRICS, STEADINESS_METRICS, metric
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import only_late
from pytest_kafkaperf.core.units import Quantity, Unit, format_quantity, short_change
from pytest_kafkaperf.runner.result import Result, judged
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.outcome import Verdict

Values = Mapping[str, float]
"""Metrics by name, in base units."""
_APPLICATION = "the application is the bottleneck"
_BEFORE = "Kafka or the machine, before the application"
_SAME = 0.2
"""Largest latency change that noise can explain: with a paced load, p50 varies by 20% between trials."""
_MOST = 2.0
"""Largest change in produce latency whose share of the additional time is conclusive: on a busy machine, p50 rises from
4 to 10 ms. A cause of a larger change, such as a quota, may slow the application's own requests even more."""
_BEHIND = 0.9
"""Share of the input rate below which an application is considered to fall behind."""
_ALMOST = 0.99
"""Share of the input rate below which an application falls behind if its lag grows as well."""
_GROWING = 1.5
"""Ratio of the last records' waiting time to the median latency above which a lag is growing: it is 1 if the lag is
steady, and 2 if it grows steadily from zero."""
_SHORTEST_WAIT_S = 0.1
"""Shortest waiting time at the end of a load that counts as a growing lag, in seconds; a few records are noise."""
_COMPUTES = 0.9
"""CPU usage, in cores, above which at least one of an application's threads is considered busy."""
_WAITS = 0.25
"""CPU share of the time per record below which an application is considered to be mostly waiting. A larger share proves
nothing, because the time also includes fetches and other records."""
_MORE_COMPUTES, _MORE_WAITS = 0.4, 0.1
"""CPU shares of an increase in time per record that show that an application computes more, or waits longer."""
_NO_WAY = (*PROCESS_METRICS, *STEADINESS_METRICS, "app.output_ratio")
"""Metrics other than the time per record and the record rate."""
_SMALL, _LARGE = 1 / 6, 1 / 2
"""Produce latency as a share of the time through the application, or of the application's time per record. If the
application writes back to Kafka, the produce latency counts twice, and the consumer's fetch time is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An application's metrics from one method of observing it."""

    word: str
    throughput: str
    latency: str
    lag: str
    families: tuple[str, ...]
    """Name prefixes of all these metrics."""


OUTPUT = Way(
    word="output",
    throughput="consume.throughput",
    latency="e2e.latency",
    lag="lag.end",
    families=("consume.", "e2e.", "lag."),
)
GROUP = Way(word="committed", throughput="app.throughput", latency="app.delay", lag="app.lag.end", families=("app.",))


def bottleneck(result: Result) -> Notice | None:
    """Return a note about where a failed test lost time or throughput; None if the values do not show where."""
    if not result.verdict.fails or not only_late(result.problems):
        return None
    failed = _failed_way(result)
    if failed is None:
        return None
    way, names = failed
    parts = [name.removeprefix(f"{way.latency}.") for name in names if name.startswith(way.latency)]
    scenario = result.scenario
    now = [one.metrics for trial in judged(result.trials) for one in trial.rounds]
    found = deduced(
        way,
        parts[0] if parts else "p50",
        _medians(now, scenario.consumer_groups),
        _medians(_rounds_before(result), scenario.consumer_groups),
        rate=None if isinstance(scenario.rate, tuple) else scenario.rate,
        relative=result.verdict is Verdict.REGRESSED,
    )
    return None if found is None else Notice(Remark.BOTTLENECK, {"deduced": found})


def growing_lag(result: Result) -> Notice | None:
    """Return a warning if an application fell behind a steady input in every round of a test that did not fail.

    The latency then depends on the length of a round, so the test could pass although the application is too slow.
    """
    acted = any(notice.remark is Remark.ACTION for notice in result.warnings)
    is_steady = isinstance(result.scenario.rate, float) and not result.scenario.backlog
    if result.verdict.fails or acted or not is_steady:
        return None
    for way in _ways(result.scenario):
        waits_s = [_growing_s(way, one.metrics) for trial in judged(result.trials) for one in trial.rounds]
        known_s = [wait_s for wait_s in waits_s if wait_s is not None]
        if known_s and len(known_s) == len(waits_s):
            wait = Quantity(statistics.median(known_s), Unit.SECONDS)
            return Notice(Remark.LAG_GROWS, {"wait": wait, "metric": way.throughput})
    return None


def _ways(scenario: Scenario) -> list[Way]:
    """Return the methods of observing the application that a scenario declares."""
    found = {OUTPUT: scenario.output_topic is not None, GROUP: bool(scenario.watch_group)}
    return [way for way, is_declared in found.items() if is_declared]


def _growing_s(way: Way, now: Values) -> float | None:
    """Return how long the application's last input had to wait if its lag was growing; None otherwise or if unknown.

    Records that an application drops stay in the lag of its output. A group's lag rises and falls with its commits, so
    its slope decides.
    """
    if way is OUTPUT and (now.get("lost") or now.get("app.output_ratio", 1.0) < 1):
        return None
    if way is GROUP and now.get("app.lag.slope", 0.0) <= (1 - _ALMOST) * now.get("produce.throughput", 0.0):
        return None
    lag, given, usual_s = (now.get(name) for name in (way.lag, "produce.throughput", f"{way.latency}.p50"))
    if not lag or not given or not usual_s:
        return None
    wait_s = lag / given
    return wait_s if wait_s >= max(_SHORTEST_WAIT_S, _GROWING * usual_s) else None


def _failed_way(result: Result) -> tuple[Way, list[str]] | None:
    """Return the first observation method with failed metrics, and these metrics; None if no metric failed."""
    failed = [each.metric for each in result.checks if each.outcome.fails and each.metric not in _NO_WAY]
    for way in _ways(result.scenario):
        names = [name for name in failed if name.startswith(way.families) and not metric(name).is_own]
        if names:
            return way, names
    return None


def _rounds_before(result: Result) -> list[Values]:
    """Return the live baseline's rounds, or else the stored baseline's rounds; empty without a baseline."""
    live: list[Values] = [one.metrics for trial in judged(result.trials) for one in trial.other_side or ()]
    if live or not result.baseline_trials:
        return live
    return [one for trial in result.baseline.trials for one in trial]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The metrics to compare: upstream of the application, and at its output."""

    before_latency: str
    before_throughput: str
    end_latency: str
    end_throughput: str

    def all_in(self, values: Values) -> bool:
        """Return True if all these metrics are known and nonzero."""
        names = (self.before_latency, self.before_throughput, self.end_latency, self.end_throughput)
        return all(values.get(name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Evidence against the application, and against everything upstream of it; None without evidence."""

    application: str | None
    before_it: str | None


def deduced(way: Way, part: str, now: Values, before: Values, *, rate: float | None, relative: bool) -> str | None:
    """Return where time or throughput was lost, based on the median of each metric; `before` may be empty.

    `part` is the latency quantile to compare, and `rate` is the load's declared rate. `relative` is True if the test
    failed only because of a change from `before`.
    """
    names = _Names(
        before_latency=f"produce.latency.{part}",
        before_throughput="produce.throughput",
        end_latency=f"{way.latency}.{part}",
        end_throughput=way.throughput,
    )
    if not names.all_in(now):
        return None
    behind = _behind(way, names, now)
    work = _work(way, now, before, is_behind=behind is not None)
    if names.all_in(before):
        at_end = _slowdown(now, before, names.end_latency, names.end_throughput)
        before_it = _slowdown(now, before, names.before_latency, names.before_throughput)
        if at_end.ratio > _SAME:
            return _told(_by_change(names, now, before, at_end, before_it, behind), work)
        if relative or before_it.ratio > _SAME:
            return None
    return _told(_by_values(names, now, behind, rate), work)


def _behind(way: Way, names: _Names, now: Values) -> str | None:
    """Describe how far an application falls behind its input; None if it keeps up."""
    given = now[names.before_throughput]
    taken = now[names.end_throughput]
    if way is OUTPUT:
        grows = taken < _BEHIND * given or (taken < _ALMOST * given and _growing_s(way, now) is not None)
    else:  # a group's throughput includes the wait for its last commit
        grows = taken < _BEHIND * given and now.get("app.lag.slope", 0.0) > (1 - _BEHIND) * given
    if not grows:
        return None
    lag = _shown(round(now.get(way.lag, 0.0)), Unit.RECORDS)
    return f"{way.word} {_shown(taken)} of {_shown(given)}, lag {lag}"


def _by_values(names: _Names, now: Values, behind: str | None, rate: float | None) -> _Evidence:
    """Return the evidence that this run's values provide on their own."""
    given = now[names.before_throughput]
    if rate is not None and given < _BEHIND * rate:
        text = f"{names.before_throughput} {_shown(given)} of {_shown(rate)}"
        return _Evidence(application=None, before_it=text)
    before_s = now[names.before_latency]
    end_s = now[names.end_latency]
    cause = f"{names.before_latency} {_shown(before_s, Unit.SECONDS)}"
    effect = f"{names.end_latency} {_shown(end_s, Unit.SECONDS)}"
    is_small = before_s <= _SMALL * end_s
    is_large = before_s >= _LARGE * end_s
    return _Evidence(
        application=f"{cause}; {behind or effect}" if behind or is_small else None,
        before_it=f"{cause} of {effect}" if is_large else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slowdown:
    """The change in latency or throughput, whichever worsened more."""

    ratio: float
    text: str


def _slowdown(now: Values, before: Values, latency: str, throughput: str) -> _Slowdown:
    longer, more = (now[name] / before[name] - 1 for name in (latency, throughput))
    ratio, name, change = max((longer, latency, longer), (1 / (1 + more) - 1, throughput, more))
    return _Slowdown(ratio=ratio, text=f"{name} {short_change(change)}")


def _by_change(
    names: _Names, now: Values, before: Values, at_end: _Slowdown, before_it: _Slowdown, behind: str | None
) -> _Evidence:
    """Return the evidence that the application became slower, based on the changes since `before`."""
    if behind:  # the time per record counts in this case
        additional_s = 1 / now[names.end_throughput] - 1 / before[names.end_throughput]
    else:
        additional_s = now[names.end_latency] - before[names.end_latency]
    is_same = before_it.ratio <= _SAME
    is_small = now[names.before_latency] - before[names.before_latency] <= _SMALL * additional_s
    explains_little = is_small and before_it.ratio <= min(_MOST, at_end.ratio / 2)
    cause = f"{names.before_latency} about the same" if is_same else before_it.text
    return _Evidence(
        application=f"{cause}; {behind or at_end.text}" if is_same or explains_little else None,
        before_it=f"{before_it.text} as well" if before_it.ratio >= at_end.ratio / 2 else None,
    )


def _work(way: Way, now: Values, before: Values, *, is_behind: bool) -> str:
    """Describe whether the application waits or computes; empty if its CPU usage is unknown or inconclusive.

    An application that falls behind is never idle, so its throughput determines the time per record. An application
    that keeps up is sometimes idle, so the time per record is the time from acknowledgement to output. The time until a
    commit does not reveal the time per record.
    """
    cpu = now.get("app.cpu")
    if cpu is None:
        return ""
    time_s = 1 / now[way.throughput] if is_behind else _time_in_application_s(way, now)
    cores = format_quantity(cpu, Unit.CORES)
    earlier_s = _time_in_application_s(way, before)
    if not is_behind and time_s is not None and earlier_s is not None and before.get("app.cpu") is not None:
        return _more_work(way, now, before, more_s=time_s - earlier_s)
    pace = cores if time_s is None else f"{_shown(time_s, Unit.SECONDS)} per record at {cores}"
    if cpu >= _COMPUTES:
        return f"{pace}: it computes"
    if time_s is not None and cpu / now[way.throughput] < _WAITS * time_s:
        return f"{pace}: it waits (I/O, locks, sleep)"
    return ""


def _more_work(way: Way, now: Values, before: Values, *, more_s: float) -> str:
    """Describe the increase in time per record since `before`, based on the CPU time that explains it."""
    before_cores, cores = (format_quantity(values["app.cpu"], Unit.CORES) for values in (before, now))
    more_cpu_s = now["app.cpu"] / now[way.throughput] - before["app.cpu"] / before[way.throughput]
    if more_s <= 0:
        return ""
    if more_cpu_s >= _MORE_COMPUTES * more_s:
        return f"{_shown(more_cpu_s, Unit.SECONDS)} more CPU time per record ({before_cores} → {cores}): it computes"
    if more_cpu_s <= _MORE_WAITS * more_s:
        return f"{_shown(more_s, Unit.SECONDS)} more per record at {cores}: it waits (I/O, locks, sleep)"
    return ""


def _time_in_application_s(way: Way, now: Values) -> float | None:
    """Return the median time from a record's acknowledgement to its output; None if unknown."""
    end_s, before_s = now.get(f"{way.latency}.p50"), now.get("produce.latency.p50")
    if way is not OUTPUT or end_s is None or before_s is None or end_s <= before_s:
        return None
    return end_s - before_s


def _told(evidence: _Evidence, work: str) -> str | None:
    if evidence.application is not None:
        return "; ".join(filter(None, (f"{evidence.application}: {_APPLICATION}", work)))
    return None if evidence.before_it is None else f"{evidence.before_it}: {_BEFORE}"


def _medians(rounds: Sequence[Values], groups: int) -> Values:
    """Return the median of each metric that all rounds measured; each consumer group receives all records."""
    names = set.intersection(*map(set, rounds)) if rounds else set()
    shares = {OUTPUT.throughput: 1 / groups}
    return {name: shares.get(name, 1.0) * statistics.median(one[name] for one in rounds) for name in names}


def _shown(value: float, unit: Unit = Unit.RECORD_RATE) -> str:
    return format_quantity(value, unit).replace(" records", "")

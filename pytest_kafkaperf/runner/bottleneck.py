"""The deduced bottleneck of a failed test with an application: the application, or Kafka and the machine before it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import PROCESS_METRICS, metric
from pytest_kafkaperf.core.notices import ProblemKind
from pytest_kafkaperf.core.units import Unit, format_quantity, short_change
from pytest_kafkaperf.runner.result import Result, judged
from pytest_kafkaperf.verdict.outcome import Verdict

Values = Mapping[str, float]
"""Metrics by name, in base units."""
_APPLICATION = "the application is the bottleneck"
_BEFORE = "Kafka or the machine, before the application"
_SAME = 0.2
"""Change of a latency that noise explains: p50 of a paced load varies by 20 % between trials."""
_MOST = 2.0
"""Change of the produce latency up to which its share in the additional time decides: on a busy machine, p50 rises from
4 to 10 ms. A larger change, such as that by a quota, may hit the application's own requests more."""
_BEHIND = 0.9
"""Share of the input rate below which an application falls behind."""
_ONE_CORE = (0.9, 1.1)
"""CPU use of an application that keeps one thread busy."""
_NO_WAY = (*PROCESS_METRICS, "app.output_ratio")
"""Metrics of applications that are about neither the time nor the rate of records."""
_SMALL, _LARGE = 1 / 6, 1 / 2
"""Shares of the produce latency in the time through the application, or in the time that it takes for one record. An
application that writes to Kafka again needs the produce latency twice, and the consumer's fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The metrics of an application by one of the ways to observe it."""

    word: str
    throughput: str
    latency: str
    lag: str
    families: tuple[str, ...]
    """Beginnings of the names of all its metrics."""


OUTPUT = Way(
    word="output",
    throughput="consume.throughput",
    latency="e2e.latency",
    lag="lag.end",
    families=("consume.", "e2e.", "lag."),
)
GROUP = Way(word="committed", throughput="app.throughput", latency="app.delay", lag="app.lag.end", families=("app.",))


def bottleneck(result: Result) -> str | None:
    """Return a line that says where the time or the rate of a failed test went; None if the values do not show it."""
    scenario = result.scenario
    is_late = all(problem.kind is ProblemKind.GENERATOR_TOO_SLOW for problem in result.problems)
    if not result.verdict.fails or not is_late:
        return None
    failed = [each.metric for each in result.checks if each.outcome.fails and each.metric not in _NO_WAY]
    for way, observed in ((OUTPUT, scenario.output_topic is not None), (GROUP, bool(scenario.watch_group))):
        names = [name for name in failed if observed and name.startswith(way.families) and not metric(name).is_own]
        if not names:
            continue
        parts = [name.removeprefix(f"{way.latency}.") for name in names if name.startswith(way.latency)]
        trials = judged(result.trials)
        before = [one.metrics for trial in trials for one in trial.other_side or ()]
        if not before and result.baseline_trials:
            before = [one for trial in result.baseline.trials for one in trial]
        after = [one.metrics for trial in trials for one in trial.rounds]
        now, earlier = (_medians(rounds, scenario.consumer_groups) for rounds in (after, before))
        rate = None if isinstance(scenario.rate, tuple) else scenario.rate
        relative = result.verdict is Verdict.REGRESSED
        return deduced(way, parts[0] if parts else "p50", now, earlier, rate=rate, relative=relative)
    return None


def deduced(way: Way, part: str, now: Values, before: Values, *, rate: float | None, relative: bool) -> str | None:
    """Return where the time or the rate went, from medians of metrics; `before` may be empty.

    `part` is the quantile of the latencies that are compared, `rate` the declared rate of the load. `relative`: only a
    change against `before` made the test fail.
    """
    entry, end, given = f"produce.latency.{part}", f"{way.latency}.{part}", "produce.throughput"
    names = (entry, end, given, way.throughput)
    if not all(now.get(name) for name in names):
        return None
    # The throughput of a group includes the wait for its last commit.
    grows = way is OUTPUT or now.get("app.lag.slope", 0.0) > (1 - _BEHIND) * now[given]
    behind = ""
    if grows and now[way.throughput] < _BEHIND * now[given]:
        lag = _shown(round(now.get(way.lag, 0.0)), Unit.RECORDS)
        behind = f"{way.word} {_shown(now[way.throughput])} of {_shown(now[given])}, lag {lag}"
    cpu = now.get("app.cpu", 0.0)
    busy = f", app.cpu {format_quantity(cpu, Unit.CORES)}" if _ONE_CORE[0] <= cpu <= _ONE_CORE[1] else ""
    cause, effect = (f"{name} {_shown(now[name], Unit.SECONDS)}" for name in (entry, end))
    by_application = bool(behind) or now[entry] <= _SMALL * now[end]
    by_kafka, of_kafka = now[entry] >= _LARGE * now[end], f"{cause} of {effect}"
    if rate is not None and now[given] < _BEHIND * rate:
        by_application, by_kafka, of_kafka = False, True, f"{given} {_shown(now[given])} of {_shown(rate)}"
    if all(before.get(name) for name in names):
        slower, change = _slowdown(now, before, end, way.throughput)
        before_it, change_before_it = _slowdown(now, before, entry, given)
        if slower <= _SAME and (relative or before_it > _SAME):
            return None
        if slower > _SAME:
            additional_s = 1 / now[way.throughput] - 1 / before[way.throughput] if behind else now[end] - before[end]
            little = now[entry] - before[entry] <= _SMALL * additional_s
            by_application = before_it <= _SAME or (little and before_it <= min(_MOST, slower / 2))
            by_kafka, of_kafka = before_it >= slower / 2, f"{change_before_it}, too"
            cause, effect = f"{entry} unchanged" if before_it <= _SAME else change_before_it, change
    if by_application:
        return f"{cause}; {behind or effect}{busy}: {_APPLICATION}"
    return f"{of_kafka}: {_BEFORE}" if by_kafka else None


def _slowdown(now: Values, before: Values, latency: str, throughput: str) -> tuple[float, str]:
    """Return by which ratio a latency or a throughput is slower, whichever is more, and its change as text."""
    longer, more = (now[name] / before[name] - 1 for name in (latency, throughput))
    slower, name, change = max((longer, latency, longer), (1 / (1 + more) - 1, throughput, more))
    return slower, f"{name} {short_change(change)}"


def _medians(rounds: Sequence[Values], groups: int) -> Values:
    """Return the median of each metric that all rounds have; each consumer group receives all records."""
    names = set.intersection(*map(set, rounds)) if rounds else set()
    shares = {OUTPUT.throughput: 1 / groups}
    return {name: shares.get(name, 1.0) * statistics.median(one[name] for one in rounds) for name in names}


def _shown(value: float, unit: Unit = Unit.RECORD_RATE) -> str:
    return format_quantity(value, unit).replace(" records", "")

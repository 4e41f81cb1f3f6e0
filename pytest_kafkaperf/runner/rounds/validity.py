"""Checks a round for problems, which make it INVALID, and for warnings. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.metrics import FEWEST_RECORDS, QUANTILES
from pytest_kafkaperf.core.notices import OTHER_PROGRAMS, Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind, only_late
from pytest_kafkaperf.core.units import NS_PER_S, Count, Quantity, Unit
from pytest_kafkaperf.load.ledger import LATE_NS
from pytest_kafkaperf.load.messages import Unaudited
from pytest_kafkaperf.scenarios.identify import BY_HEADER, HEADER
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, Scenario
from pytest_kafkaperf.scenarios.threshold import Extreme, Threshold

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import Readings
    from pytest_kafkaperf.load.messages import Consumed, LoadReport, Produced, WorkerReport
    from pytest_kafkaperf.load.recorder import Histogram
    from pytest_kafkaperf.runner.rounds.observations import Observations
    from pytest_kafkaperf.runner.rounds.round import Round


REASSIGNED = "the plugin's consumers had to rejoin their group under load, and may have skipped or repeated records"
"""Reason given when it is unknown which records the consumers have received."""

_COMMITTED = ("app.delay", "app.drain", "app.start", "app.recovery")
"""Prefixes of metrics whose times include a group's commit interval."""

_ON_TIME_RATIO = 0.99
"""Share of due records that the generator must send on time; below it, the round is INVALID.

One late record is always tolerated, because it alone exceeds 1% if fewer than 100 are due.
"""

_SLOWED = 2
"""Factor by which brokers can slow down when the machine is too busy for the generator."""

_BUSY_GENERATING_RATIO = 0.6
"""Share of a worker's time spent in a payload function above which the function counts as too slow for the rate."""

_SATURATED_RATIO = 0.95
"""Share of time spent running or waiting for a core above which a worker counts as the bottleneck."""

_WORKING_RATIO = 0.5
"""Share of busy time below which only part of a worker's CPU time counts as the cost of its records."""

_IDLE_RATIO = 0.2
"""Maximum share of a core that a worker uses for timers, metadata and polls while it waits for brokers."""

_CHANCE = 1e-6
"""Probability of a series of records without output; below it, the application must have stopped, not dropped them."""

_ON_ITS_WAY_NS = NS_PER_S // 10
"""Period that may pass without output because the last records were dropped and others were acknowledged late."""

_OTHER_PROGRAMS_RATIO = 0.15
"""Share of all cores used by other programs that triggers a warning; on a quiet machine, they use less."""


def load_problems(seen: Observations, scenario: Scenario, integrity: Mapping[str, float]) -> list[Problem]:
    """Return the reasons why the round is INVALID, excluding lost records, which are a failure of Kafka.

    `integrity` contains the numbers of `lost`, `duplicated` and `reordered` records, where known.
    """
    if seen.problems:
        return [*seen.problems]
    load = seen.load
    problems = _producing_problems(load, scenario) if scenario.producers else []
    if not scenario.producers and not any(part.received for part in load.consumed):
        problems.append(Problem(Cause.EMPTY_TOPIC, {"topic": scenario.topic}))
    if scenario.output_topic is None:
        problems += _reading_problems(load, scenario, lost=int(integrity.get("lost", 0)))
    elif (
        scenario.expect.most
        and any(part.acknowledged for part in load.produced)
        and not any(part.received for part in load.consumed)
    ):
        problems.append(_no_output(load, scenario))
    unread = "the topic's log was not read" if "lost" not in integrity else None
    reason = seen.log.audit.reason if isinstance(seen.log.audit, Unaudited) else unread
    if only_late(problems) and scenario.producers and scenario.acks != 0 and reason is not None:
        problems.append(Problem(Cause.LOSSES_UNKNOWN, {"reason": reason}))
    return problems


def load_warnings(
    load: LoadReport, scenario: Scenario, integrity: Mapping[str, float], silent_s: float
) -> list[Notice]:
    """Return warnings about the load and the log; see `load_problems` and `silence_s` for the arguments."""
    warnings = [note for worker in load.workers for note in worker.notes]
    if scenario.output_topic is not None and any(part.received for part in load.consumed):
        warnings += _application_warnings(integrity, scenario.output_topic, silent_s)
    busiest = max((one.busy_ratio for one in load.workers if one.consumed and not one.produced), default=0.0)
    if scenario.rate is not None and busiest > _SATURATED_RATIO:
        warnings.append(Notice(Remark.CONSUMERS_LIMIT))
    return [*warnings, *_produce_warnings(load, scenario)]


def silence_s(load: LoadReport, scenario: Scenario, integrity: Mapping[str, float]) -> float:
    """Return the time from an application's last output to the end of the load if the application stopped; otherwise 0.

    An application that drops records on purpose keeps producing output until the end; it would not drop that many in a
    row.
    """
    acknowledged, lost = sum(part.acknowledged for part in load.produced), integrity.get("lost", 0.0)
    last_ns = max((part.last_ns or 0 for part in load.consumed), default=0)
    end_ns = max((part.last_ack_ns or 0 for part in load.produced), default=0) - _ON_ITS_WAY_NS
    if scenario.output_topic is None or load.start_ns is None or not 0 < lost < acknowledged or last_ns >= end_ns:
        return 0.0
    in_a_row = acknowledged * (end_ns - last_ns) / (end_ns - load.start_ns)
    return (end_ns - last_ns) / NS_PER_S if (lost / acknowledged) ** in_a_row < _CHANCE else 0.0


def limited_by_generator(load: LoadReport, scenario: Scenario) -> bool:
    """Return True if a closed loop's worker was never idle, making the throughput a lower bound for the cluster."""
    busiest = max((worker.busy_ratio for worker in load.workers if worker.produced), default=0.0)
    return scenario.rate is None and busiest > _SATURATED_RATIO


def blamed_on(busy: Notice, problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems; if the generator was too slow, mention other programs as a possible reason."""
    excuse = OTHER_PROGRAMS.format_map(busy.values)
    return [one.perhaps_because(excuse) if one.kind is ProblemKind.GENERATOR_TOO_SLOW else one for one in problems]


def busy_machine(readings: Readings, load: LoadReport, end_ns: int) -> Notice | None:
    """Return a warning if other programs used enough of this machine to affect the results; otherwise None."""
    workers_s = sum(worker.cpu_s for worker in load.workers if worker.clock is None or worker.clock.is_here)
    found = readings.strangers(start_ns=load.start_ns or 0, end_ns=end_ns, workers_s=workers_s)
    if found is None or found[0] < _OTHER_PROGRAMS_RATIO * found[1]:
        return None
    used = round(2 * found[0]) / 2 or found[0]  # rounded to halves so that all rounds have the same warning
    return Notice(Remark.BUSY_MACHINE, {"used": used, "cores": found[1]})


def late_records(load: LoadReport) -> int:
    """Return the number of records for which the generator was too slow, as in `_producing_problems`."""
    produced = load.produced
    due = sum(part.sent + part.missing for part in produced)
    late = max(sum(part.late for part in produced), sum(part.behind for part in produced))
    is_late = late > _tolerated(due)
    return late if is_late else sum(part.sent_late + part.missing for part in produced)


def least_latencies(family: str, histogram: Histogram, *, late: int, latest_ns: int) -> dict[str, float]:
    """Return lower bounds for a latency's quantiles, in seconds, in a round whose generator was too slow.

    The `late` records may have been delayed by any amount of time. All others, and their responses, were delayed by at
    most `latest_ns`, the generator's longest delay. Because such a busy machine may also slow the brokers, late records
    count as if they had taken no time, and all others count with half of their time minus `latest_ns`.
    """
    delay_s = max(latest_ns, LATE_NS) / NS_PER_S
    found = {}
    for part, quantile in {**QUANTILES, "max": 1.0}.items():
        rest = quantile - late / max(1, histogram.total)
        if rest > 0 and histogram.total >= FEWEST_RECORDS.get(part, 1):
            found[f"{family}.{part}"] = max(0.0, (histogram.quantile_s(rest) - delay_s) / _SLOWED)
    return found


def _producing_problems(load: LoadReport, scenario: Scenario) -> list[Problem]:
    produced = load.produced
    if sum(part.acknowledged for part in produced) == 0:
        return [Problem(Cause.NOTHING_ACKNOWLEDGED, {"failures": _shown(_failures(produced))})]
    missing = sum(part.missing for part in produced)
    if scenario.rate is None:
        sent = sum(part.sent for part in produced)
        values = {"sent": sent, "missing": missing, "records": scenario.records, "timeout_s": RECORDS_TIMEOUT_S}
        return [Problem(Cause.LOAD_NOT_REACHED, values)] if missing else []
    problem = _slow_generator(load, scenario, peak_rate(scenario.rate))
    return [] if problem is None else [problem]


def _slow_generator(load: LoadReport, scenario: Scenario, rate: float) -> Problem | None:
    """Return the problem that the generator did not reach the rate because of its own CPU time."""
    produced = load.produced
    due = sum(part.sent + part.missing for part in produced)
    late = max(sum(part.late for part in produced), sum(part.behind for part in produced))
    unsent = sum(part.sent_late + part.missing for part in produced)
    if late <= _tolerated(due) and unsent <= (1 - _ON_TIME_RATIO) * due:
        return None
    most = _payload_rate(load, scenario)
    if isinstance(scenario.payload, Generated) and most * _BUSY_GENERATING_RATIO < rate:
        values: dict[str, object] = {"late": max(late, unsent), "due": due}
        return Problem(Cause.PAYLOAD_TOO_SLOW, {**values, "function": scenario.payload.name, "most": most})
    if late > _tolerated(due):
        return Problem(Cause.SENT_LATE, {"late": late, "due": due})
    slowest = max((_needed_cores(worker, rate, scenario.producers) for worker in load.workers), default=0.0)
    if slowest > _SATURATED_RATIO:
        return Problem(Cause.NOT_SENT_IN_TIME, {"unsent": unsent, "due": due, "cores": slowest})
    return None


def _payload_rate(load: LoadReport, scenario: Scenario) -> float:
    """Return how many records/s the payload function can make for all producers; infinite without such a function.

    A worker's producers share its time.
    """
    busiest = 0.0
    for worker in load.workers:
        made = sum(part.generated for part in worker.produced)
        if made:
            cost_s = sum(part.generating_s for part in worker.produced) / made
            busiest = max(busiest, cost_s * len(worker.produced) / scenario.producers)
    return 1 / busiest if busiest else math.inf


def _tolerated(due: int) -> float:
    """Return how many of the due records may be sent late."""
    return max(1, (1 - _ON_TIME_RATIO) * due)


def _needed_cores(worker: WorkerReport, rate: float, producers: int) -> float:
    """Return the number of cores that a worker needs for its part of the rate, based on its CPU time per record.

    A mostly idle worker also spends CPU time on waiting, so only the part that waiting cannot explain counts.
    """
    sent = sum(part.sent for part in worker.produced)
    if not sent or worker.busy_ratio <= _IDLE_RATIO:
        return 0.0
    cpu_s = worker.cpu_s
    if worker.busy_ratio < _WORKING_RATIO:
        cpu_s *= 1 - _IDLE_RATIO / worker.busy_ratio
    return cpu_s / sent * rate * len(worker.produced) / producers


def _reading_problems(load: LoadReport, scenario: Scenario, *, lost: int) -> list[Problem]:
    """Compare the records that each consumer group received with the records in the log.

    If a group skipped records during a rebalance, its consumers may not report these records as unread.
    """
    expected = sum(part.acknowledged for part in load.produced) - lost
    if scenario.isolation_level == "read_uncommitted":
        expected += sum(part.aborted for part in load.produced)
    skipped = sum(max(0, expected - count) for count in load.received().values())
    unread = max(skipped, sum(part.unread for part in load.consumed))
    if unread <= 0:
        is_doubtful = any(_may_have_skipped(each, load.consumed, expected) for each in load.received())
        return [Problem(Cause.REJOINED, {"reason": REASSIGNED})] if is_doubtful else []
    return [Problem(Cause.RECORDS_UNREAD, {"unread": unread})]


def _may_have_skipped(group: int, consumed: Sequence[Consumed], expected: int) -> bool:
    """Return True if a group rebalanced and repeated records in its count may hide skipped ones.

    A consumer detects repeated records, unless another consumer received them first.
    """
    members = [part for part in consumed if part.group == group]
    if not any(part.reassigned for part in members):
        return False
    return len(members) > 1 or members[0].disordered > 0 or members[0].received != expected


def _no_output(load: LoadReport, scenario: Scenario) -> Problem:
    """Return the problem that an application has not produced any output, with the likely cause."""
    unmatched = max(part.unmatched for part in load.consumed)
    topics = {"topic": scenario.topic, "output_topic": scenario.output_topic}
    if not unmatched:
        return Problem(Cause.NO_OUTPUT, topics)
    if scenario.identify == BY_HEADER:
        others = Count(unmatched, "other record")
        return Problem(Cause.HEADERS_MISSING, {**topics, "header": HEADER, "others": others})
    values = {**topics, "identify": str(scenario.identify), "others": Count(unmatched, "record")}
    first = next((part.first_output for part in load.consumed if part.first_output), None)
    if first is None:
        return Problem(Cause.NOTHING_MATCHED, values)
    return Problem(Cause.NO_IDENTITY_MATCHED, {**values, "first": first})


def _application_warnings(integrity: Mapping[str, float], output_topic: str, silent_s: float) -> list[Notice]:
    """Return warnings instead of problems, because an application may drop records on purpose; `lost` decides."""
    warnings = []
    if lost := integrity.get("lost"):
        values: dict[str, object] = {"records": Count(round(lost), "record"), "output_topic": output_topic}
        if silent_s:
            silence = Quantity(silent_s, Unit.SECONDS)
            warnings.append(Notice(Remark.OUTPUT_ENDED, {**values, "silence": silence}))
        else:
            warnings.append(Notice(Remark.OUTPUT_MISSING, values))
    if duplicated := integrity.get("duplicated"):
        records = Count(round(duplicated), "record")
        warnings.append(Notice(Remark.OUTPUT_REPEATED, {"records": records, "output_topic": output_topic}))
    return warnings


def _produce_warnings(load: LoadReport, scenario: Scenario) -> list[Notice]:
    produced, warnings = load.produced, []
    missing = sum(part.missing for part in produced)
    if missing and scenario.rate is not None and not load.broken:
        warnings.append(Notice(Remark.NEVER_SENT, {"missing": missing}))
    failed = sum(part.failed for part in produced)
    if failed:
        failures = _failures(produced)
        values = {"failed": failed, "failures": _shown(failures), "errors": tuple(failures)}
        warnings.append(Notice(Remark.RECORDS_FAILED, values))
    return warnings


def _failures(produced: Sequence[Produced]) -> Mapping[str, int]:
    """Return the number of failed records for each error."""
    counts: Counter[str] = Counter()
    for part in produced:
        counts.update(part.failures)
    return counts


def _shown(failures: Mapping[str, int]) -> str:
    names = ", ".join(f"{name} ({count} records)" for name, count in failures.items())
    return f": {names}" if names else ""


def resolution_warnings(rounds: Sequence[Round]) -> list[Notice]:
    """Return warnings about metrics that are uncertain because of clock differences or commit intervals."""
    clocks_s, commits_s = _resolutions(rounds)
    found = []
    if (skew_s := _clock_skew_s(rounds)) is not None:
        found.append(Notice(Remark.LATENCY_UNKNOWN, {"skew": Quantity(skew_s, Unit.SECONDS)}))
    if clocks_s is not None:
        found.append(Notice(Remark.CLOCKS_UNCERTAIN, {"uncertainty": Quantity(clocks_s, Unit.SECONDS, digits=2)}))
    if commits_s is not None:
        found.append(Notice(Remark.COMMIT_INTERVAL, {"interval": Quantity(commits_s, Unit.SECONDS)}))
    return found


def resolution_problems(
    thresholds: Sequence[Threshold], values: Sequence[float | None], rounds: Sequence[Round]
) -> list[Problem]:
    """Return a problem for each threshold that is smaller than the clock uncertainty or a commit interval.

    `values` are the thresholds in seconds; None for thresholds whose baseline does not exist.
    """
    clocks_s, commits_s = _resolutions(rounds)
    problems: list[Problem] = []
    for threshold, value in zip(thresholds, values, strict=True):
        name, unit, limit = threshold.metric.name, threshold.metric.unit, value
        if limit is None and isinstance(threshold.limit, Extreme):
            limit = threshold.limit.absolute.value  # the value is known without a baseline
        if limit is None or unit is not Unit.SECONDS:
            continue
        if clocks_s is not None and limit < clocks_s and name.startswith("e2e.latency"):
            cause, resolution = Cause.CLOCK_UNCERTAIN, {"uncertainty": Quantity(clocks_s, Unit.SECONDS, digits=2)}
        elif (
            commits_s is not None
            and name.startswith(_COMMITTED)
            and _least(name, rounds) - commits_s <= limit < commits_s  # otherwise, the threshold is exceeded regardless
        ):
            cause, resolution = Cause.COMMIT_INTERVAL, {"interval": Quantity(commits_s, Unit.SECONDS)}
        else:
            continue
        below = {"expression": threshold.expression, "limit": Quantity(limit, Unit.SECONDS)}
        problems.append(Problem(cause, {**below, **resolution}))
    return problems


def skew_problems(thresholds: Sequence[Threshold], rounds: Sequence[Round]) -> list[Problem]:
    """Return a problem for each threshold on an end-to-end latency that is unknown because of clock differences."""
    skew_s = _clock_skew_s(rounds)
    if skew_s is None:
        return []
    skew = Quantity(skew_s, Unit.SECONDS)
    return [
        Problem(Cause.CLOCKS_DIFFER, {"expression": threshold.expression, "skew": skew})
        for threshold in thresholds
        if threshold.metric.name.startswith("e2e.latency")
    ]


def _clock_skew_s(rounds: Sequence[Round]) -> float | None:
    return max((one.clock_skew_s for one in rounds if one.clock_skew_s is not None), default=None)


def _least(name: str, rounds: Sequence[Round]) -> float:
    return min((one.metrics[name] for one in rounds if name in one.metrics), default=0.0)


def _resolutions(rounds: Sequence[Round]) -> tuple[float | None, float | None]:
    """Return the largest clock uncertainty and the median commit interval, each None if unknown."""
    clocks_s = [one.e2e_uncertainty_s for one in rounds if one.e2e_uncertainty_s is not None]
    commits_s = [one.commit_interval_s for one in rounds if one.commit_interval_s is not None]
    return max(clocks_s, default=None), statistics.median(commits_s) if commits_s else None

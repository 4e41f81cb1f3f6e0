"""The result of a perf test, which `kafka_perf()` returns, and the result of a whole run, which the reports show."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import Change
from pytest_kafkaperf.core.errors import NotMeasuredError
from pytest_kafkaperf.core.metrics import CATALOGUE, FEWEST_RECORDS, FINAL_METRICS, Metric, metric
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark, each_once
from pytest_kafkaperf.core.problems import MACHINE_MADE, Problem, ProblemKind
from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.core.units import Count, format_quantity
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import COLD_SHARE, Round
from pytest_kafkaperf.runner.rounds.validity import resolution_warnings
from pytest_kafkaperf.runner.settings import Revision, Settings
from pytest_kafkaperf.runner.warmup import WarmUp, WarmUpEnd
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.other_changes import OtherChange
from pytest_kafkaperf.verdict.outcome import Check, Ungated, Verdict
from pytest_kafkaperf.verdict.scale import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValues:
    """One metric's values in the metric's base unit, such as seconds or records/s."""

    metric: Metric
    """The metric, which defines the unit and whether higher or lower values are better."""
    rounds: tuple[float, ...]
    """The values of all rounds that measured the metric; never empty."""

    @property
    def value(self) -> float:
        """The value for the whole test: the median of its rounds; for faults such as `errors`, the sum or the mean."""
        return self.metric.aggregate(self.rounds)

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def min(self) -> float:
        """The lowest value of any round."""
        return min(self.rounds)

    @property
    def max(self) -> float:
        """The highest value of any round."""
        return max(self.rounds)

    def __str__(self) -> str:
        """Format the value with its unit, as in `5.45 ms`."""
        return format_quantity(self.value, self.metric.unit)


def values_of(name: str, rounds: Sequence[Round]) -> MetricValues:
    """Return a metric's values in these rounds.

    Raises:
        NotMeasuredError: no round has a value.
        ScenarioError: there is no such metric.

    """
    subject = metric(name)
    values = tuple(one.metrics[name] for one in rounds if name in one.metrics)
    if not values:
        measured = dict.fromkeys(itertools.chain.from_iterable(one.metrics for one in rounds))
        raise NotMeasuredError(f"{name} was not measured; measured metrics: {', '.join(measured) or 'none'}")
    return MetricValues(metric=subject, rounds=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A test's rounds on freshly started brokers or, on an external cluster, with new topics and clients."""

    created: str
    """Start time, in ISO 8601."""
    rounds: tuple[Round, ...]
    other_side: tuple[Round, ...] | None = None
    """Rounds of the live baseline, each paired with the round at the same index; None without a live baseline."""
    problems: tuple[Problem, ...] = ()
    """Reasons why the trial is INVALID, starting with those from the test's own side; empty if the trial is valid."""
    warm_ups: tuple[WarmUp, ...] = ()
    """The warm-up of each side, starting with the test's own side; empty without a warm-up."""
    own_failed: bool = False
    """True if there are no rounds, and the reason is the test's own brokers or applications, such as a failed start."""
    is_faulty: bool = False
    """True if the own side violates a limit on `FINAL_METRICS`; the trial then counts regardless of anything else."""

    def __getitem__(self, name: str) -> MetricValues:
        """Return the values of a metric; raises the same errors as `values_of`."""
        return values_of(name, self.rounds)

    @property
    def measured(self) -> Measured:
        """The metrics from all rounds."""
        other = None if self.other_side is None else [one.metrics for one in self.other_side]
        bounds = [one.at_most for one in self.rounds]
        return Measured(rounds=[one.metrics for one in self.rounds], at_most=bounds, other_side=other)

    def certain(self, *, latencies: bool) -> Measured:
        """Return the test side's metrics that are certain despite problems: `FINAL_METRICS` and, optionally, latencies.

        With `latencies`, rounds without problems contribute all their metrics; other rounds contribute lower bounds.
        """
        rounds = []
        for one in self.rounds:
            known = {name: value for name, value in one.metrics.items() if name in FINAL_METRICS}
            known |= one.least if latencies else {}
            rounds.append(one.metrics if latencies and not one.problems else known)
        return Measured(rounds=rounds, other_side=self.measured.other_side)

    @property
    def all_rounds(self) -> tuple[Round, ...]:
        """The rounds of both sides."""
        return (*self.rounds, *(self.other_side or ()))

    @property
    def is_invalidated(self) -> bool:
        """True if this machine is the only reason why the trial does not count.

        For example, the machine was too slow, killed a worker, or warmed up one side of a comparison more than the
        other.
        """
        machine_made = all(problem.kind in MACHINE_MADE for problem in self.problems)
        return (bool(self.problems) or self.is_uneven) and machine_made and not self.is_faulty

    @property
    def warm_up_end(self) -> WarmUpEnd | None:
        """Reason why the warm-up ended, which is the same for all sides; None without a warm-up."""
        return self.warm_ups[0].end if self.warm_ups else None

    @property
    def is_uneven(self) -> bool:
        """True if one side's compilers worked more than the other's, beyond the variation among warm programs."""
        if self.other_side is None or self.warm_up_end is WarmUpEnd.OFF:
            return False
        return abs(_compiler(self.rounds) - _compiler(self.other_side)) >= COLD_SHARE

    @property
    def other_failed(self) -> Problem | None:
        """The other side's failure; None if it did not fail, or if the own side failed as well or is faulty."""
        if self.own_failed or self.is_faulty:
            return None
        # Without any rounds, the problem is a failed start; `own_failed` shows whether the own side failed to start.
        failures = [each for each in self.problems if each.kind not in MACHINE_MADE]
        ours = [each for each in failures if self.rounds and not each.place.other_side]
        return None if ours else next(iter(failures), None)

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """The warnings from all rounds on both sides."""
        own = (notice for one in self.rounds for notice in one.warnings)
        others = (notice.of_other_side() for one in self.other_side or () for notice in one.warnings)
        return (*own, *others)


def _compiler(rounds: Sequence[Round]) -> float:
    """Return the mean number of cores that one side's compilers used."""
    shares = [sum(share or 0.0 for share in one.compiler.values()) for one in rounds if not one.starts_program]
    return statistics.fmean(shares) if shares else 0.0


MOST_INVALIDATED = 2
"""Number (or a quarter) of the further trials that can be repeated because of the machine; more are INVALID."""


def judged(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that count: the first one, and all further trials that were not repeated."""
    first, *further = trials
    counting = [trial for trial in further if not trial.is_invalidated]
    invalidated = len(further) - len(counting)
    return [first, *counting] if invalidated <= max(MOST_INVALIDATED, len(further) // 4) else [*trials]


def problems_of(trials: Sequence[Trial]) -> tuple[Problem, ...]:
    """Return the problems in the trials that count."""
    return tuple(
        problem.of_trial(number) if number > 1 else problem
        for number, trial in _numbered(trials, counting=True)
        for problem in trial.problems
    )


def warnings_of(trials: Sequence[Trial]) -> tuple[Notice, ...]:
    """Return the warnings from all trials, without duplicates, and the reasons for repeated trials.

    Failed readings of an application that exited unexpectedly are left out, because the exit explains them.
    """
    warnings = resolution_warnings([one for trial in trials for one in trial.all_rounds])
    rounds = [one for trial in trials for one in trial.rounds]  # a limit on the other side does not hide regressions
    if limited := sum(one.limited_by_generator for one in rounds):
        values = {"limited": limited, "rounds": Count(len(rounds), "round")}
        warnings.append(Notice(Remark.GENERATOR_LIMITS, values))
    warnings += [notice for trial in trials for notice in trial.warnings]
    for number, trial in _numbered(trials, counting=False):
        warnings += [
            Notice(Remark.TRIAL_REPEATED, {"trial": number, "problem": problem, "cause": problem.cause})
            for problem in trial.problems
        ]
        if trial.is_uneven:
            warnings.append(Notice(Remark.UNEVEN_TRIAL_REPEATED, {"trial": number}))
    problems = [problem for trial in trials for problem in trial.problems]
    return each_once(
        notice
        for notice in warnings
        if notice.kind is not NoticeKind.UNREAD or not shows_end(problems, str(notice.values.get("program")))
    )


def shows_end(problems: Iterable[Problem], program: str) -> bool:
    """Return True if a problem shows the last output of this program, such as `application shop`."""
    ended = (problem for problem in problems if problem.kind is ProblemKind.APPLICATION_ENDED)
    return any(problem.values.get("program") == program and "log" in problem.values for problem in ended)


def _numbered(trials: Sequence[Trial], *, counting: bool) -> list[tuple[int, Trial]]:
    """Return either the trials that count or those that do not, each with its number."""
    ids = {id(trial) for trial in judged(trials)}
    return [(number, one) for number, one in enumerate(trials, 1) if (id(one) in ids) == counting]


def at_least(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the metrics that are only lower bounds in at least one round on the test's own side."""
    rounds = [one for trial in judged(trials) for one in trial.rounds]
    return tuple(dict.fromkeys(name for one in rounds for name in one.at_least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One perf test's measurements and verdict."""

    nodeid: str
    """The test's node ID, as in pytest."""
    scenario: Scenario
    """The scenario that was measured, with the options applied."""
    plan: SearchPlan | None = None
    """The capacity search that each round ran; None if the test declares its rate."""
    sources: Mapping[str, str]
    """Source of each scenario field that differs from its default: `marker`, `command line`..."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The test's parameters except scenario fields."""
    cluster: Cluster
    """The cluster that was measured."""
    trials: tuple[Trial, ...]
    """The first trial, and any further trials from a re-test, a side-by-side comparison or a calibration."""
    live_baseline: Cluster | None
    """The cluster that the test was compared with instead of a stored baseline; None without one."""
    revision: Revision | None = None
    """The revision that the test was compared with; None if both sides have the same code."""
    baseline_trials: int | None
    """Number of stored trials used to judge the thresholds; None with a live baseline or without a baseline."""
    baseline: BaselineRounds = field(default_factory=BaselineRounds)
    """The stored rounds of earlier trials, even if they are not comparable."""
    changed: tuple[Change, ...]
    """Code, broker and machine differences between the baseline and this test, such as `kafka: 4.0.0 -> 4.1.1`."""
    other_changes: tuple[OtherChange, ...]
    """Significant changes in metrics without a threshold."""
    calibration: Mapping[str, Calibrated]
    """The trial-to-trial noise of each metric; empty without `--kafka-calibrate`."""
    verdict: Verdict
    """The test's verdict."""
    accepted: bool = False
    """True if the test is REGRESSED but passes because of `--kafka-accept=regressed`."""
    checks: tuple[Check, ...]
    """Each threshold's result."""
    warnings: tuple[Notice, ...]
    """The warnings from all rounds, without duplicates."""
    problems: tuple[Problem, ...]
    """Reasons why the verdict is INVALID; empty for other verdicts."""
    notes: tuple[Notice, ...] = ()
    """Remarks, for example about the baseline or about rounds skipped by the time budget."""
    allocation: WorkerAllocation = field(default_factory=WorkerAllocation)
    """The number of worker processes, and the reason for it."""
    spans: Mapping[Span, float] = field(default_factory=dict)
    """Seconds spent in each span, from the start of the test's setup to its verdict."""
    days_written: int | None = None
    """Number of days in the baseline that this run wrote; None if it did not write one."""
    partial: bool = False
    """True if rounds or the re-test of a suspected regression were skipped to stay within the time budget."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # URLs may contain passwords
    """The command-line options, by name without `--kafka-`, and the cluster, even if the ini file sets it."""
    selection: tuple[str, ...] = ()
    """The pytest arguments that select this test in the folder in which pytest was started; empty if not known."""

    def __getitem__(self, name: str) -> MetricValues:
        """Return a metric's values in the first trial, as in `result["e2e.latency.p99"].median`.

        Raises the same errors as `values_of`.
        """
        return values_of(name, self.rounds)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The first trial's rounds."""
        return self.trials[0].rounds

    @property
    def metrics(self) -> Mapping[str, float]:
        """The value of each metric, in base units: the median of the rounds, or the sum for counts such as `errors`."""
        return {name: CATALOGUE[name].aggregate(values) for name, values in self.values().items()}

    @property
    def lower_bounds(self) -> tuple[str, ...]:
        """Metrics that are lower bounds because a search or wait ended early, or because of a slow generator."""
        limited = [one.limited_by_generator for trial in judged(self.trials) for one in trial.rounds]
        by_generator = ("produce.throughput", "produce.bandwidth") if 2 * sum(limited) > len(limited) else ()
        unended = {problem.metric for trial in judged(self.trials) for problem in trial.problems}
        return (*at_least(self.trials), *by_generator, *sorted(filter(None, unended)))

    @property
    def deduced(self) -> str | None:
        """The note about the deduced bottleneck of a failed test with an application; None if there is none."""
        return next((note.text for note in self.notes if note.kind is NoticeKind.BOTTLENECK), None)

    @property
    def took_s(self) -> float:
        """The time from the start of the test's setup to its verdict, in seconds."""
        return sum(self.spans.values())

    def values(self) -> dict[str, list[float]]:
        """Return the values of each metric, one per round that measured it, in the order of the metrics catalog.

        Because slow rounds have fewer records, a quantile that requires many records is left out unless all rounds
        measured it.
        """
        return {
            name: values
            for name in CATALOGUE
            if (values := [one.metrics[name] for one in self.rounds if name in one.metrics])
            and (len(values) == len(self.rounds) or name.rpartition("latency.")[2] not in FEWEST_RECORDS)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A perf test's outcome in pytest, which differs from its verdict if test code or a fixture failed."""

    nodeid: str
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "not run"]
    """`failed`: during the call phase; `error`: during fixture setup or teardown; `not run`: the run ended first."""
    reason: str | None
    """The failure message or skip reason; None if the test passed."""
    file: str
    """Path of the test's file, absolute or relative to pytest's root folder."""
    line: int | None
    """Line number, starting at 1; None if unknown."""
    by_verdict: bool = False
    """True if the test failed because of its verdict or `--kafka-strict`, not because of its code or a fixture."""

    @property
    def fails(self) -> bool:
        """True if the outcome makes the pytest run fail."""
        return self.outcome in ("failed", "error")


def unmeasured(results: Sequence[Result], endings: Mapping[str, Ending]) -> list[Ending]:
    """Return the outcomes of tests without a result, failures first."""
    measured = {each.nodeid for each in results}
    return sorted((one for one in endings.values() if one.nodeid not in measured), key=lambda one: not one.fails)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run in the form used by all reports; `PerfRun` creates it at the end."""

    results: tuple[Result, ...]
    """The results of all tests with measurements, in execution order."""
    endings: Mapping[str, Ending]
    """The pytest outcomes of all perf tests, by nodeid, including tests without measurements."""
    errors: tuple[str, ...]
    """Errors in the run, for example files that could not be collected or reports that could not be written."""
    settings: Settings
    created: str
    """Start of the run, in ISO 8601."""
    took_s: float
    """Time from collection to the end of the run, in seconds."""
    plugin: str
    """The plugin's version."""
    commit: str | None
    """The current commit in the tests' repository; None if unknown."""
    environment: Mapping[str, Any]
    """The machine and the first test's cluster; the `key` is the name of the baseline folder."""
    environment_keys: tuple[str, ...]
    """The environment keys of all results, without duplicates."""
    orphans: tuple[str, ...]
    """Nodeids of tests that no longer exist but have baselines."""
    pruned: bool
    """True if these baselines were deleted."""
    removed: tuple[str, ...] = ()
    """Perf tests that exist only in the other revision (see `removed_tests`)."""

    @property
    def new(self) -> tuple[str, ...]:
        """Tests that do not exist in the other revision."""
        return tuple(each.nodeid for each in self.results if each.baseline.ungated is Ungated.NEW_TEST)

"""The result of a perf test, which `kafka_perf()` returns, and that of a whole run, which the reports show."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import Change
from pytest_kafkaperf.core.errors import NotMeasuredError
from pytest_kafkaperf.core.metrics import CATALOGUE, FEWEST_RECORDS, Metric, metric
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark, each_once
from pytest_kafkaperf.core.problems import MACHINE_MADE, Problem
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
    """The values of one metric in its base unit, such as seconds or records/s."""

    metric: Metric
    """The metric, with its unit and its better direction."""
    rounds: tuple[float, ...]
    """One value for each round that has one; at least one."""

    @property
    def value(self) -> float:
        """The value of the test: the median over the rounds, but the sum or the mean for faults such as `errors`."""
        return self.metric.aggregate(self.rounds)

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.rounds)

    @property
    def min(self) -> float:
        """The lowest value of a round."""
        return min(self.rounds)

    @property
    def max(self) -> float:
        """The highest value of a round."""
        return max(self.rounds)

    def __str__(self) -> str:
        """Format the value with its unit: `5.45 ms`."""
        return format_quantity(self.value, self.metric.unit)


def values_of(name: str, rounds: Sequence[Round]) -> MetricValues:
    """Return the values of a metric in these rounds.

    Raises:
        NotMeasuredError: no round has a value.
        ScenarioError: there is no such metric.

    """
    subject = metric(name)
    values = tuple(one.metrics[name] for one in rounds if name in one.metrics)
    if not values:
        measured = dict.fromkeys(itertools.chain.from_iterable(one.metrics for one in rounds))
        raise NotMeasuredError(f"{name} was not measured; measured were {', '.join(measured) or 'no metrics at all'}")
    return MetricValues(metric=subject, rounds=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The rounds of a test on freshly started brokers, or with fresh topics and clients on an external cluster."""

    created: str
    """Start time, ISO 8601."""
    rounds: tuple[Round, ...]
    other_side: tuple[Round, ...] | None = None
    """Rounds on the live baseline, each paired with the round at the same index; None without a live baseline."""
    problems: tuple[Problem, ...] = ()
    """Reasons why the trial is INVALID, those of the own rounds first; empty if it is valid."""
    warm_ups: tuple[WarmUp, ...] = ()
    """The warm-up of each side, the own one first; empty if none was made."""
    own_failed: bool = False
    """True if the own brokers or applications did not restart, so that there are no rounds."""

    def __getitem__(self, name: str) -> MetricValues:
        """Return the values of a metric; raises as `values_of`."""
        return values_of(name, self.rounds)

    @property
    def measured(self) -> Measured:
        """The metrics of all rounds."""
        other = None if self.other_side is None else [one.metrics for one in self.other_side]
        return Measured(rounds=[one.metrics for one in self.rounds], other_side=other)

    def certain(self, *, latencies: bool) -> Measured:
        """The metrics of the own rounds that hold whatever the problems are: lost records, and with `latencies` those.

        The latter are all metrics of rounds without a problem, and lower bounds of the others.
        """
        rounds = []
        for one in self.rounds:
            known = {name: value for name, value in one.metrics.items() if name == "lost"}
            known |= one.least if latencies else {}
            rounds.append(one.metrics if latencies and not one.problems else known)
        return Measured(rounds=rounds, other_side=self.measured.other_side)

    @property
    def all_rounds(self) -> tuple[Round, ...]:
        """The rounds on both clusters."""
        return (*self.rounds, *(self.other_side or ()))

    @property
    def lost_records(self) -> bool:
        """True if the own brokers lost records. Then the trial counts, whatever else has happened."""
        return any(one.metrics.get("lost") for one in self.rounds)

    @property
    def is_invalidated(self) -> bool:
        """True if only this machine is the reason why the trial does not count.

        The machine was too slow, ended a worker, or let one side of a comparison warm up more than the other.
        """
        machine_made = all(problem.kind in MACHINE_MADE for problem in self.problems)
        return (bool(self.problems) or self.is_uneven) and machine_made and not self.lost_records

    @property
    def warm_up_end(self) -> WarmUpEnd | None:
        """The reason why the warm-up ended, which is the same for all sides; None if none was made."""
        return self.warm_ups[0].end if self.warm_ups else None

    @property
    def is_uneven(self) -> bool:
        """True if the compilers of one side worked more than those of the other, by more than warm ones vary."""
        if self.other_side is None or self.warm_up_end is WarmUpEnd.OFF:
            return False
        return abs(_compiler(self.rounds) - _compiler(self.other_side)) >= COLD_SHARE

    @property
    def other_failed(self) -> Problem | None:
        """The failure of the other side; None if there is none, or the own brokers failed or lost records."""
        if self.own_failed or self.lost_records:
            return None
        # A problem of no round is a failed start: that of the own side is known (`own_failed`).
        theirs = [each for each in self.problems if each.place.other_side or each.place.round is None]
        return next((each for each in theirs if each.kind not in MACHINE_MADE), None)

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """The warnings of all rounds."""
        own = (notice for one in self.rounds for notice in one.warnings)
        others = (notice.of_other_side() for one in self.other_side or () for notice in one.warnings)
        return (*own, *others)


def _compiler(rounds: Sequence[Round]) -> float:
    """Return the mean number of cores that the compilers of one side used."""
    shares = [sum(share or 0.0 for share in one.compiler.values()) for one in rounds if not one.starts_program]
    return statistics.fmean(shares) if shares else 0.0


MOST_INVALIDATED = 2
"""Further trials that may be repeated because of the machine, or a quarter of them; more make the test INVALID."""


def judged(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials that count: the first one, and further ones unless they were repeated."""
    first, *further = trials
    counting = [trial for trial in further if not trial.is_invalidated]
    invalidated = len(further) - len(counting)
    return [first, *counting] if invalidated <= max(MOST_INVALIDATED, len(further) // 4) else [*trials]


def problems_of(trials: Sequence[Trial]) -> tuple[Problem, ...]:
    """Return the problems of the trials that count."""
    return tuple(
        problem.of_trial(number) if number > 1 else problem
        for number, trial in _numbered(trials, counting=True)
        for problem in trial.problems
    )


def warnings_of(trials: Sequence[Trial]) -> tuple[Notice, ...]:
    """Return the warnings of all trials, each once, and the reasons why trials were repeated."""
    warnings = resolution_warnings([one for trial in trials for one in trial.all_rounds])
    rounds = [one for trial in trials for one in trial.rounds]  # a limit of the other side hides nothing
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
    return each_once(warnings)


def _numbered(trials: Sequence[Trial], *, counting: bool) -> list[tuple[int, Trial]]:
    """Return the trials that count, or the others, with their numbers."""
    ids = {id(trial) for trial in judged(trials)}
    return [(number, one) for number, one in enumerate(trials, 1) if (id(one) in ids) == counting]


def at_least(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the names of the metrics that are only lower bounds in some round of the test's own side."""
    rounds = [one for trial in judged(trials) for one in trial.rounds]
    return tuple(dict.fromkeys(name for one in rounds for name in one.at_least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The measurements and the verdict of one perf test."""

    nodeid: str
    """The node ID of the test, as in pytest."""
    scenario: Scenario
    """The scenario that was measured, with the options applied."""
    plan: SearchPlan | None = None
    """The search for the capacity that each round ran; None if the test declares its rate."""
    sources: Mapping[str, str]
    """Source of each scenario field that differs from its default: `marker`, `command line`..."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The test's parameters other than fields of the scenario."""
    cluster: Cluster
    """The cluster that was measured."""
    trials: tuple[Trial, ...]
    """The first trial, and further ones that confirm a suspected regression or calibrate."""
    live_baseline: Cluster | None
    """The cluster that the test was compared with instead of a stored baseline."""
    revision: Revision | None = None
    """The code that it was to be compared with; None if it is this side's."""
    baseline_trials: int | None
    """Number of baseline trials that the thresholds are judged by; None with a live baseline, or without any."""
    baseline: BaselineRounds = field(default_factory=BaselineRounds)
    """The stored rounds of earlier trials, even if they are not comparable."""
    changed: tuple[Change, ...]
    """Differences between the environments of the baseline and of this test: `kafka: 4.0.0 -> 4.1.1`."""
    other_changes: tuple[OtherChange, ...]
    """Significant changes of metrics without a threshold."""
    calibration: Mapping[str, Calibrated]
    """The noise between trials by metric; empty unless `--kafka-calibrate` is given."""
    verdict: Verdict
    """The verdict of the test."""
    accepted: bool = False
    """True if the test is REGRESSED and passes because of `--kafka-accept=regressed`."""
    checks: tuple[Check, ...]
    """The result of each threshold."""
    warnings: tuple[Notice, ...]
    """The warnings of all rounds, each once."""
    problems: tuple[Problem, ...]
    """Reasons why the verdict is INVALID; empty otherwise."""
    notes: tuple[Notice, ...] = ()
    """Remarks about the baseline and about rounds that the time budget left out."""
    allocation: WorkerAllocation = field(default_factory=WorkerAllocation)
    """The requested worker processes, and the reason for their number."""
    spans: Mapping[Span, float] = field(default_factory=dict)
    """Seconds by span, from the start of the test's setup until its verdict: they show where the time went."""
    days_written: int | None = None
    """Number of days of the baseline that this run has written; None if it wrote none."""
    partial: bool = False
    """True if the time budget left out rounds, or left a suspected regression without confirmation."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # URLs may have passwords
    """The run's options by name without `--kafka-`, and the cluster, which the ini file may name."""

    def __getitem__(self, name: str) -> MetricValues:
        """Return the values of a metric in the first trial: `result["e2e.latency.p99"].median`.

        Raises as `values_of`.
        """
        return values_of(name, self.rounds)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds of the first trial."""
        return self.trials[0].rounds

    @property
    def metrics(self) -> Mapping[str, float]:
        """Each metric in base units: the median over the rounds, or the sum for counts such as `errors`."""
        return {name: CATALOGUE[name].aggregate(values) for name, values in self.values().items()}

    @property
    def lower_bounds(self) -> tuple[str, ...]:
        """Metrics that are lower bounds, because a search or a wait ended, or the generator limited most rounds."""
        limited = [one.limited_by_generator for trial in judged(self.trials) for one in trial.rounds]
        by_generator = ("produce.throughput", "produce.bandwidth") if 2 * sum(limited) > len(limited) else ()
        unended = {problem.metric for trial in judged(self.trials) for problem in trial.problems}
        return (*at_least(self.trials), *by_generator, *sorted(filter(None, unended)))

    @property
    def deduced(self) -> str | None:
        """The note on the deduced bottleneck of a failed test with an application; None if there is none."""
        return next((note.text for note in self.notes if note.kind is NoticeKind.BOTTLENECK), None)

    @property
    def took_s(self) -> float:
        """The time from the start of the test's setup until its verdict, in seconds."""
        return sum(self.spans.values())

    def values(self) -> dict[str, list[float]]:
        """Return the values of each metric, one for each round that has it, in the order of the catalogue.

        A quantile that needs many records is left out unless all rounds have it: slow ones have fewer records.
        """
        return {
            name: values
            for name in CATALOGUE
            if (values := [one.metrics[name] for one in self.rounds if name in one.metrics])
            and (len(values) == len(self.rounds) or name.rpartition("latency.")[2] not in FEWEST_RECORDS)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The outcome of a perf test in pytest, which may differ from the verdict: test code and fixtures can fail, too."""

    nodeid: str
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "not run"]
    """`failed`: in the test's call phase; `error`: in the setup or teardown of a fixture; `not run`: the run ended
    before the test did."""
    reason: str | None
    """The failure message or skip reason; None if the test passed."""
    file: str
    """Path, absolute or relative to pytest's root folder."""
    line: int | None
    """Line number, from 1."""
    by_verdict: bool = False
    """True if the verdict or `--kafka-strict` failed the test, not its own code or a fixture."""

    @property
    def fails(self) -> bool:
        """True if the outcome fails the pytest run."""
        return self.outcome in ("failed", "error")


def unmeasured(results: Sequence[Result], endings: Mapping[str, Ending]) -> list[Ending]:
    """Return the endings of tests that have no result; those that fail come first."""
    measured = {each.nodeid for each in results}
    return sorted((one for one in endings.values() if one.nodeid not in measured), key=lambda one: not one.fails)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run as all reports see it; `PerfRun` makes it at the end of the run."""

    results: tuple[Result, ...]
    """The results of all tests that measured, in the order in which they ran."""
    endings: Mapping[str, Ending]
    """The outcomes of all perf tests in pytest by nodeid, including those that measured nothing."""
    errors: tuple[str, ...]
    """Errors of the run, such as files that could not be collected or reports that could not be written."""
    settings: Settings
    created: str
    """Start of the run, ISO 8601."""
    took_s: float
    """Time from the collection to the end of the run, in seconds."""
    plugin: str
    """The plugin's version."""
    commit: str | None
    """Commit of the tests' repository; None if it is unknown."""
    environment: Mapping[str, Any]
    """The machine and the cluster of the first test; its `key` is the folder of the baselines."""
    environment_keys: tuple[str, ...]
    """The keys of the environments of all results, each once."""
    orphans: tuple[str, ...]
    """Nodeids of the tests that no longer exist, but have baselines."""
    pruned: bool
    """True if these baselines were deleted."""
    removed: tuple[str, ...] = ()
    """Perf tests that the revision to compare with has and this code does not (see `removed_tests`)."""

    @property
    def new(self) -> tuple[str, ...]:
        """Tests that the revision to compare with does not have."""
        return tuple(each.nodeid for each in self.results if each.baseline.ungated is Ungated.NEW_TEST)

"""Runs one trial's rounds, on one side or alternately on two, with workers that both sides share.

Each load has a separate topic, which is deleted afterwards. When all rounds shared one topic, no two rounds were alike:
the throughput of a broker that received 350 MB/s dropped by half after four rounds, because it was still writing
earlier records to disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.clusters.admin.admin import TIMEOUT_S, Admin
from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.admin.run_names import PREFIX, SUFFIX_BYTES, group_names, run_name
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import usable_cores
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.allocation import WorkerAllocation, WorkerShares, shares
from pytest_kafkaperf.load.backends.processes import Processes
from pytest_kafkaperf.load.controller import OpenBackend, Progress, WorkerPool
from pytest_kafkaperf.load.engines.engine import engine_of
from pytest_kafkaperf.load.join import join
from pytest_kafkaperf.load.messages import Assignment, LoadReport
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.runner.round_length import MOST_PAIRS, MOST_REPEATED
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.capacity import MOST_STEPS, SearchPlan, find_capacity
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.load_run import LoadRun
from pytest_kafkaperf.runner.rounds.loads import Phase, backlog_load, latest_end, workload_key
from pytest_kafkaperf.runner.rounds.log_comparison import backlog_ends, compared_log
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.observers import Observers
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario

OnProgress = Callable[[str, int, Progress], None]
"""Called with the trial's label, the round's number (starting at 1), and the progress of its load."""

_SLICE_SEEDS = 2000
"""Distance from a test's first seed to that of its first warm-up slice."""
PROBE_SEEDS = 9000
"""The same for the probe. An application that ignores records which it has already seen must not know a round's."""
_BACKLOG_SEEDS = 5000
"""The same for a round's backlog."""
_HASTY_TIMEOUT_S = 3
"""Time limit for deleting consumer groups after an aborted trial, when the cluster may be gone or a user is waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """A trial's worker processes, which both sides use alternately."""

    pool: WorkerPool
    shares: WorkerShares
    """The clients that each worker runs."""
    backend: OpenBackend
    can_grow: bool
    """True if further workers can be started, which is the case on this machine."""

    @contextlib.contextmanager
    def for_loads(self, number: int) -> Iterator[list[Workers]]:
        """Yield workers for up to `number` loads at the same time: these, and further ones if they can be started."""
        with contextlib.ExitStack() as stack:
            further = number - 1 if self.can_grow else 0
            pools = [stack.enter_context(WorkerPool(len(self.shares), self.backend)) for _ in range(further)]
            yield [self, *(dataclasses.replace(self, pool=pool) for pool in pools)]


class _BacklogError(ClusterError):
    """The backlog could not be written."""

    def __init__(self, text: str, problem: Problem | None) -> None:
        super().__init__(text)
        self.problem = problem
        """The problem with the load; None if only some records failed."""


class SideRounds:
    """Runs one side's rounds, trial by trial: starts, warms up, measures and restarts the side."""

    def __init__(
        self,
        side: Side,
        scenario: Scenario,
        *,
        plan: SearchPlan | None = None,
        on_progress: OnProgress = lambda *_: None,
        prefix: str = PREFIX,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Prepare a side; with a `plan`, each round is a capacity search.

        Names of topics, groups and transactional ids start with `prefix`. The stopwatch measures how the rounds spend
        their time; None if not needed.
        """
        self.side = side
        self.prefix = prefix
        self.scenario = scenario
        """The scenario; after the start, it includes the partitions and replicas of an existing topic."""
        self.rounds: list[Round] = []
        """The current trial's rounds so far."""
        self.broken = False
        """True if the last load left the cluster or the workers unusable."""
        self.failure: ClusterError | None = None
        """Reason why the current trial could not run on this side."""
        self._apps_warm = False
        self._cancelled = False
        self._plan = plan
        self._on_progress = on_progress
        self._stopwatch = stopwatch or Stopwatch()
        self._admin = Admin(side.cluster.bootstrap_servers, side.cluster.access)
        self._label = self._run = ""
        self._read_partitions = self._dead_letter_partitions = self._loads = 0
        self.round_seed = 0
        """Seed of the last round's records. It rises over all trials, so that an application that ignores records which
        it has already seen reads all of them, and it is the same on both sides."""
        self._slices = 0
        self._checked: set[str | None] = set()
        """Topics of the trial's loads so far, with None for the plugin's own topics."""

    @contextlib.contextmanager
    def started(self, *, label: str, sides: int) -> Iterator[None]:
        """Prepare one trial's rounds, and delete its consumer groups at the end.

        `label` is the trial's label in the progress display. `sides` is the number of sides in the trial. It determines
        the trial's latest end time, which is part of the names on the cluster.

        Raises:
            ClusterError: the cluster does not respond, or the scenario's topic cannot be used.

        """
        try:
            self._resolve()
        except ClusterError as error:
            self.failure = error
            raise
        pairs = self.scenario.rounds if sides == 1 else max(self.scenario.rounds, MOST_PAIRS)
        loads = sides * (pairs + MOST_REPEATED if self._plan is None else pairs * MOST_STEPS)
        loads += sides  # for all warm-up slices; a slice that reaches a time limit ends the warm-up
        slowest = self.scenario if self._plan is None else self.scenario.model_copy(update={"rate": self._plan.low})
        self._run = run_name(latest_end(slowest, loads), secrets.token_bytes(SUFFIX_BYTES), self.prefix)
        self._label, self._loads, self._checked, self.rounds, self.broken = label, 0, set(), [], False
        self._cancelled = False
        ended = False
        try:
            yield
            ended = True
        finally:
            self._delete_groups(hasty=self.broken or not ended)

    def _resolve(self) -> None:
        cluster = self.side.cluster
        preflight = Preflight(cluster.bootstrap_servers, cluster.access)
        self.scenario = preflight.resolve(self.scenario)
        self._read_partitions = preflight.read_partitions(self.scenario)
        self._dead_letter_partitions = preflight.dead_letter_partitions(self.scenario)

    @property
    def searches(self) -> bool:
        """True if each round is a capacity search."""
        return self._plan is not None

    @property
    def warms_applications(self) -> bool:
        """True if the plugin started applications and the scenario writes to their topic."""
        return bool(self.side.apps) and self.scenario.topic is not None

    def is_cold(self, phase: Phase) -> bool:
        """Return True if this warm-up phase applies because brokers or applications are not warm yet.

        Brokers are warmed up once per start and scenario, because brokers that had been warmed up only by another
        scenario were 5% slower than in later trials.
        """
        if self.scenario.producers == 0:  # a warm-up needs records to read
            return False
        if phase is Phase.APPLICATION:
            return not self._apps_warm
        brokers = self.side.brokers
        return brokers is not None and workload_key(self.scenario, phase) not in brokers.warm_for

    def mark_warm(self, phase: Phase) -> None:
        """Record that this phase's brokers or applications are warm for this scenario, until they restart."""
        if phase is Phase.APPLICATION:
            self._apps_warm = True
        elif self.side.brokers is not None:
            self.side.brokers.warm_for.add(workload_key(self.scenario, phase))

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        """Run a warm-up slice, without a round's actions.

        Applications are observed only in their own phase, because no records reach them in the other phases.

        Raises:
            ClusterError: for the same reasons as `measure`.

        """
        side = self.side.without_actions() if phase is Phase.APPLICATION else self.side.without_apps()
        self._slices += 1
        seed = self.round_seed + _SLICE_SEEDS + self._slices
        return self._measure_load(workers, side, load, f"warm-up: {phase}", seed=seed)

    def measure(self, workers: Workers) -> Round:
        """Measure one round, which is either one load or a capacity search with one load per step.

        Raises:
            ClusterError: the first topic could not be created, or the cluster would reject the load.

        """

        def load(scenario: Scenario, step: str = "") -> Round:
            self.round_seed += 1
            with self._stopwatch.measure(Span.TOPIC):  # a load starts by creating its topic
                one = self._measure_load(workers, self.side, scenario, step, seed=self.round_seed)
            done = Progress(phase="done", elapsed_s=0.0, acknowledged=0, step=step, metrics=one.metrics)
            self._on_progress(self._label, len(self.rounds) + 1, done)
            return one

        if self._plan is None:
            measured = load(self.scenario)
        else:
            measured = find_capacity(self._plan, self.scenario, load, self.rounds)
            measured = dataclasses.replace(measured, starts_program=True)  # each rate exercises different broker code
        self.rounds.append(measured)
        return measured

    def restart(self, *, quick: bool | None = None) -> None:
        """Restart the side, which makes it cold; raises the same errors as `Side.restart`."""
        self._apps_warm = False
        self.side.restart(quick=quick)

    def _measure_load(self, workers: Workers, side: Side, scenario: Scenario, step: str, *, seed: int) -> Round:
        """Run one load and clean up after it; `side` contains the participating applications and actions."""
        self._loads += 1
        first = scenario.topic not in self._checked  # a warm-up has a separate topic, and may not use the scenario's
        self._checked.add(scenario.topic)
        load = LoadRun(
            cluster=side.cluster,
            admin=self._admin,
            scenario=scenario,
            run=self._run,
            number=self._loads,
            seed=seed,
            read_partitions=self._read_partitions if scenario.topic == self.scenario.topic else scenario.partitions,
            dead_letter_partitions=self._dead_letter_partitions,
        )
        seen: Observations | None = None
        try:
            load.create_topic()
            if first:
                load.preflight()
            seen = self._observe(workers, side, load, step)
        except ClusterError as error:
            reason = self._reason(error)
            if first:
                self.failure = reason
                raise reason from None
            seen = Observations(load=LoadReport.failed(Cause.CLUSTER_ERROR, reason))
        finally:
            self._stopwatch.begin(Span.TOPIC)
            left = load.clean_up(hasty=seen is None or seen.broken)
            if seen is None and load.began:  # there is no round to add the warnings to
                left.warn(with_topic=side.brokers is None)
        self._stopwatch.begin(Span.JUDGE)
        self.broken = seen.broken
        measured = _with_warning(fold(seen, scenario), left.topic)
        if left.transactions is None:
            return measured
        return dataclasses.replace(measured, warnings=(*measured.warnings, left.transactions))

    def _observe(self, workers: Workers, side: Side, load: LoadRun, step: str) -> Observations:
        """Run a load with its observers, and compare it with the log."""
        scenario = load.scenario
        actions = list(side.actions)
        if scenario.backlog and scenario.topic is not None:
            actions = [*(Action(0.0, app.start, text=f"the start of {app}") for app in side.apps), *actions]
        observers = Observers(
            side, load.topic, scenario, actions=actions, on_progress=functools.partial(self._show, step)
        )
        self._stopwatch.begin(Span.CONNECT)
        with observers:
            before: Mapping[int, int] = self._admin.end_offsets(load.topic, scenario.partitions)
            load.begin_dead_letters()
            if scenario.backlog:
                written = self._write_backlog(workers, side, load)
                before = backlog_ends(self._admin, load.topic, before, written)
                self._stopwatch.begin(Span.CONNECT)
            counters = workers.pool.counters(groups=scenario.consumer_groups)
            assignments = load.assignments(workers.shares, counters)
            load.began = True
            report = join(self._run_load(workers, scenario, assignments, counters, observers.follow), scenario)
            self._count_load(report, scenario)
            observers.settle(report)
        self._stopwatch.begin(Span.AUDIT)
        problems = (*report.problems, *observers.action_problems)
        return observers.observations(report, compared_log(report, problems, load, workers.pool, before))

    def cancel(self) -> None:
        """Stop the load that another thread is running, as an interrupt does; this ends the trial."""
        self._cancelled = True

    def _show(self, step: str, progress: Progress) -> None:
        if self._cancelled:
            raise KeyboardInterrupt
        self._on_progress(self._label, len(self.rounds) + 1, dataclasses.replace(progress, step=step))

    def _count_load(self, report: LoadReport, scenario: Scenario) -> None:
        """Split a finished load's time at its first and last record."""
        if report.start_ns is not None:
            first_ns = report.start_ns - round(scenario.warmup * NS_PER_S)
            self._stopwatch.begin(Span.WINDOW, at_ns=first_ns)
        self._stopwatch.begin(Span.DRAIN, at_ns=report.drain_ns)

    def _reason(self, error: ClusterError) -> ClusterError:
        """Return the reason if a broker has exited, because it explains more than the original error."""
        try:
            self.side.check_brokers()
        except ClusterError as lost:
            known = error.problem if isinstance(error, _BacklogError) else None
            return error if known == Problem.of(lost) else lost
        return error

    def _write_backlog(self, workers: Workers, side: Side, load: LoadRun) -> Mapping[int, int]:
        """Write the backlog to the load's topic while the applications that read it are stopped.

        Returns the number of records by partition. The backlog is a field of the scenario, because each round needs it
        and baselines depend on it.

        Raises:
            ClusterError: the backlog could not be written.

        """
        scenario = load.scenario
        for app in () if scenario.topic is None else side.apps:
            app.end()
        self._stopwatch.begin(Span.WINDOW)
        backlog = backlog_load(scenario, paced=self.side.permission.is_limited)
        counters = workers.pool.counters(groups=scenario.consumer_groups)
        assignments = [
            dataclasses.replace(one, scenario=backlog, consumers=(), read_partitions=0, seed=one.seed + _BACKLOG_SEEDS)
            for one in load.assignments(workers.shares, counters)
        ]
        report = self._run_load(workers, backlog, assignments, counters, functools.partial(self._show, "backlog"))
        if report.problems or (failed := sum(part.failed + part.missing for part in report.produced)):
            problem = report.problems[0] if report.problems else None
            reason = problem or f"{failed} records failed"
            raise _BacklogError(f"could not write the backlog of {scenario.backlog} records: {reason}", problem)
        return report.expected_growth()

    def _run_load(
        self,
        workers: Workers,
        scenario: Scenario,
        assignments: Sequence[Assignment],
        counters: SharedCounters,
        progress: Callable[[Progress], None],
    ) -> LoadReport:
        """Run a load; all loads start here.

        Raises:
            ClusterError: the cluster was lost.
            UsageError: the load is not allowed on this cluster.

        """
        self.side.permission.check(scenario)
        return workers.pool.run(assignments, counters, check=self.side.check_brokers, progress=progress)

    def _delete_groups(self, *, hasty: bool) -> None:
        """Delete the consumer groups of all loads; a failure becomes a warning in the last round."""
        if not self.scenario.consumers or not self._loads:
            return
        names = group_names(self._run, rounds=self._loads, groups=self.scenario.consumer_groups)
        try:
            self._admin.delete_groups(names, timeout_s=_HASTY_TIMEOUT_S if hasty else TIMEOUT_S)
        except ClusterError as error:
            if self.rounds:
                warning = Notice(Remark.GROUPS_LEFT, {"run": self._run, "reason": str(error)})
                self.rounds[-1] = _with_warning(self.rounds[-1], warning)


@contextlib.contextmanager
def running(sides: Sequence[SideRounds], allocation: WorkerAllocation, *, label: str = "") -> Iterator[Workers]:
    """Start the sides for one trial, and their shared worker processes.

    Raises:
        ClusterError: a side could not be started.
        LoadError: the installed version of the client library cannot generate the load.

    """
    engine_of(sides[0].scenario.client).check()
    with contextlib.ExitStack() as stack:
        for side in sides:
            stack.enter_context(side.started(label=label, sides=len(sides)))
        places, backend = stack.enter_context(_places(allocation))
        divided = shares(sides[0].scenario, allocation, places)
        pool = stack.enter_context(WorkerPool(len(divided), backend))
        yield Workers(pool=pool, shares=divided, backend=backend, can_grow=allocation.scheduler is None)


def rounds(sides: Sequence[SideRounds], workers: Workers, turns: Iterable[int]) -> Iterator[Round]:
    """Measure a round on each side, one right after the other; each turn is the index of the side that goes first.

    The caller may stop at any time. The iterator stops early if a load left the cluster or workers unusable.
    """
    for first in turns:
        for side in (*sides[first:], *sides[:first]):
            yield side.measure(workers)
            if side.broken:
                return


def resolve_scenario(scenario: Scenario, cluster: Cluster) -> Scenario:
    """Return the scenario with the partitions and replicas of its existing topic.

    Raises:
        ClusterError: the topic does not exist or is not visible.

    """
    return Preflight(cluster.bootstrap_servers, cluster.access).resolve(scenario)


@contextlib.contextmanager
def _places(allocation: WorkerAllocation) -> Iterator[tuple[int, OpenBackend]]:
    """Yield the number of workers of each kind that can run at the same time, and the backend that starts them."""
    if allocation.scheduler is None:
        yield usable_cores(), Processes
        return
    from pytest_kafkaperf.load.backends.dask_workers import DaskWorkers  # noqa: PLC0415 - an extra

    with DaskWorkers.connected(allocation.scheduler, insecure=allocation.insecure) as workers:
        yield workers.count(), lambda _: contextlib.nullcontext(workers)


def _with_warning(measured: Round, warning: Notice | None) -> Round:
    """Return the round with the warning, unless the round has a problem, which matters more."""
    if warning is None or measured.problems:
        return measured
    return dataclasses.replace(measured, warnings=(*measured.warnings, warning))

"""The story of one test: workers, topics, rounds, measurements.

Each round has a topic of its own, which is gone with it. On one topic for all, a broker that took 350 MB/s halved its
throughput after four rounds: what it had taken was being written to disk, and no round was like the one before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.admin import TIMEOUT_S, Admin
from pytest_kafkaperf.clusters.client.preflight import Names, Preflight
from pytest_kafkaperf.clusters.client.run_names import SUFFIX_BYTES, group_names, round_name, run_name
from pytest_kafkaperf.clusters.monitoring.watcher import BrokerWatcher, TopicWatcher
from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.aiokafka_hooks import check_aiokafka
from pytest_kafkaperf.load.allocation import WorkerAllocation, cores, shares
from pytest_kafkaperf.load.audit import TIMEOUT_S as AUDIT_TIMEOUT_S
from pytest_kafkaperf.load.controller import READY_TIMEOUT_S, OpenBackend, Progress, WorkerPool
from pytest_kafkaperf.load.messages import Assignment, LoadReport
from pytest_kafkaperf.load.processes import Processes
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.load.worker import DRAIN_TIMEOUT_S, longest_s, settle_timeout_s
from pytest_kafkaperf.runner.actions import Action, ActionTimer
from pytest_kafkaperf.runner.integrity import REPLICATION_TIMEOUT_S, checked, run_audit
from pytest_kafkaperf.runner.measurement import fold
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.scenario.scenario import Scenario

_ANY = WorkerAllocation()
"""As many worker processes as there are clients and cores."""
_HASTY_TIMEOUT_S = 5
"""Bound of removing the topic of a round that ended early: the cluster may be gone, or a user waits."""
_HASTY_GROUPS_TIMEOUT_S = 3
"""The same of its groups, before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compound:
    """A round that is made of several loads."""

    make: Callable[[Callable[[Scenario, str], Round], Sequence[Round]], Round]
    """Given how to run one, which is told what to call it, and the rounds before."""
    most: int
    """Loads of a round."""


def run_scenario(
    scenario: Scenario,
    cluster: Cluster,
    *,
    actions: Sequence[Action] = (),
    compound: Compound | None = None,
    allocation: WorkerAllocation = _ANY,
    on_progress: Callable[[int, Progress], None] = lambda *_: None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[Round]:
    """Run all rounds of a scenario, on topics of its own or on the one that it names; `allocation` makes the load.

    `actions` are done in every round, each at its time. `compound` makes each round of several loads. `go_on` is asked
    before each round and after the last.

    The list is shorter than `scenario.rounds` when a round left nothing to run the others on, or `go_on` said so.

    Raises:
        ClusterError: the first topic could not be created, or the load would not do on it.

    """
    (rounds,) = run_sides(
        scenario,
        [(cluster, actions)],
        first=itertools.repeat(0),
        compound=compound,
        allocation=allocation,
        on_progress=on_progress,
        go_on=go_on,
    )
    return rounds


def run_sides(
    scenario: Scenario,
    sides: Sequence[tuple[Cluster, Sequence[Action]]],
    *,
    first: Iterable[int],
    compound: Compound | None,
    allocation: WorkerAllocation,
    on_progress: Callable[[int, Progress], None],
    go_on: Callable[[], bool],
) -> list[list[Round]]:
    """Run each round on one cluster or two, one right after the other; `first` says which begins, by round.

    Workers of both are there all the while. Both lists are as long as each other, unless a round broke off.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                _running(scenario, *side, on_progress, compound, allocation=allocation, turns=len(sides))
            )
            for side in sides
        ]
        begins = iter(first)
        while go_on() and not any(side.over for side in running):
            turn = next(begins)
            for side in (*running[turn:], *running[:turn]):
                if not any(each.broken for each in running):
                    side.next_round()
    return [side.rounds for side in running]


class _Running:
    """A scenario that is under way on a cluster: its rounds so far, and the next."""

    def __init__(
        self,
        scenario: Scenario,
        topics: _Topics,
        load: Callable[[Scenario, int, str, Callable[[Progress], None]], LoadReport],
        compound: Compound | None,
        on_progress: Callable[[int, Progress], None],
    ) -> None:
        self.rounds: list[Round] = []
        self.loads = 0
        """That have begun: each has a topic of its own."""
        self.broken = False
        """Whether the last round left nothing to run the others on."""
        self.ended_well = False
        """Whether nobody waits for it to end, and the cluster is there as far as one knows."""
        self._scenario = scenario
        self._topics = topics
        self._load = load
        self._compound = compound
        self._on_progress = on_progress

    @property
    def over(self) -> bool:
        """Whether there is no next round."""
        return self.broken or len(self.rounds) >= self._scenario.rounds

    def next_round(self) -> None:
        """Run it, bounded by the load's own bounds."""
        compound = self._compound
        self.rounds.append(self._run(self._scenario) if compound is None else compound.make(self._run, self.rounds))

    def _run(self, scenario: Scenario, step: str = "") -> Round:
        """One load; `step` is shown with its progress."""
        self.loads += 1
        number, report = self.loads, None
        try:
            report = self._report(scenario, number, step)
        finally:
            left_behind = self._topics.remove(number, hasty=report is None or report.broken)
        self.broken = report.broken
        return _warned(fold(report, scenario), left_behind)

    def _report(self, scenario: Scenario, number: int, step: str) -> LoadReport:
        in_round = len(self.rounds) + 1

        def watch(progress: Progress) -> None:
            self._on_progress(in_round, dataclasses.replace(progress, step=step) if step else progress)

        try:
            return self._load(scenario, number, self._topics.make(number), watch)
        except ClusterError as error:
            if number == 1:
                raise
            return LoadReport.failed(ProblemKind.CLUSTER_ERROR, error)


class _Topics:
    """The topic of each round: one that exists, which is left as it is, or one of the round's own."""

    def __init__(self, admin: Admin, scenario: Scenario, run: str, check: Callable[[], None]) -> None:
        """`check` raises ClusterLostError when the cluster is known to be gone."""
        self._admin = admin
        self._check = check
        self._scenario = scenario
        self._run = run

    def make(self, number: int) -> str:
        """Give it; raises ClusterError where it cannot be created."""
        if self._scenario.topic is not None:
            return self._scenario.topic
        name = round_name(self._run, number)
        try:
            self._admin.create_topic(name, self._scenario)
        except ClusterError:
            self._check()  # how a broker ended says more
            raise
        return name

    def remove(self, number: int, *, hasty: bool) -> str | None:
        """Delete it, where it is the round's own; why it was left behind."""
        if self._scenario.topic is not None:
            return None
        name = round_name(self._run, number)
        try:
            self._admin.delete_topic(name, timeout_s=_HASTY_TIMEOUT_S if hasty else TIMEOUT_S)
        except ClusterError as error:
            return f"topic {name} was left behind: {error}"
        return None


@contextlib.contextmanager
def _running(
    scenario: Scenario,
    cluster: Cluster,
    actions: Sequence[Action],
    on_progress: Callable[[int, Progress], None],
    compound: Compound | None,
    *,
    allocation: WorkerAllocation,
    turns: int = 1,
) -> Iterator[_Running]:
    """Workers and all that a scenario needs on a cluster, for as long as its rounds run.

    So many clusters take turns: what is made for it is there for as many rounds.
    """
    check_aiokafka()
    scenario = resolve_scenario(scenario, cluster)
    admin = Admin(cluster.bootstrap_servers, cluster.access)
    read_partitions = Preflight(cluster.bootstrap_servers, cluster.access).read_partitions(scenario)
    run = run_name(
        _over(scenario, turns * (1 if compound is None else compound.most)), secrets.token_bytes(SUFFIX_BYTES)
    )

    def load(scenario: Scenario, number: int, topic: str, on_progress: Callable[[Progress], None]) -> LoadReport:
        if number == 1:
            _check(scenario, cluster, topic, run)
        counters = pool.counters(groups=scenario.consumer_groups)
        assignments = assign_load(
            divided, scenario, cluster, topic, counters, run=run, seed=number, read=read_partitions
        )
        alone = functools.partial(pool.run, assignments, counters, check=cluster.check)
        watched = functools.partial(_watched, alone, cluster, topic, actions, on_progress)
        audit = functools.partial(run_audit, pool=pool, cluster=cluster, topic=topic, scenario=scenario)
        return checked(admin, topic, scenario, watched, audit)

    running = _Running(scenario, _Topics(admin, scenario, run, cluster.check), load, compound, on_progress)
    with contextlib.ExitStack() as stack:
        places, place = stack.enter_context(_places(allocation))
        divided = shares(scenario, allocation, places)
        stack.enter_context(_groups(admin, scenario, run, running))
        pool = stack.enter_context(WorkerPool(len(divided), place))
        yield running
        running.ended_well = not running.broken


@contextlib.contextmanager
def _places(allocation: WorkerAllocation) -> Iterator[tuple[int, OpenBackend]]:
    """For how many workers of a kind there is a place, and where."""
    if allocation.scheduler is None:
        yield cores(), Processes
        return
    from pytest_kafkaperf.load.dask.workers import DaskWorkers  # noqa: PLC0415 - an extra, which nobody else needs

    with DaskWorkers(allocation.scheduler) as workers:
        yield workers.count(), workers.place


def resolve_scenario(scenario: Scenario, cluster: Cluster) -> Scenario:
    """The scenario with what it takes over from a topic that exists: its partitions and replicas.

    Raises:
        ClusterError: there is no such topic, or it cannot be seen.

    """
    return Preflight(cluster.bootstrap_servers, cluster.access).resolve(scenario)


def _over(scenario: Scenario, turns: int) -> datetime.datetime:
    """When a run that begins now is over at the latest, by the bounds of all that it waits for."""
    load_s = READY_TIMEOUT_S + scenario.warmup + longest_s(scenario) + settle_timeout_s(scenario)
    round_s = load_s + 3 * DRAIN_TIMEOUT_S + REPLICATION_TIMEOUT_S + AUDIT_TIMEOUT_S
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=turns * scenario.rounds * round_s)


def _check(scenario: Scenario, cluster: Cluster, topic: str, run: str) -> None:
    """Refuse what would go wrong under load."""
    first = round_name(run, 1)
    Preflight(cluster.bootstrap_servers, cluster.access).check(
        scenario,
        Names(topic=topic, group=f"{first}-0", transactional_id=f"{first}-0"),
        guarded=scenario.topic is not None or cluster.provider == "external" or cluster.access != Access(),
    )


@contextlib.contextmanager
def _groups(admin: Admin, scenario: Scenario, run: str, running: _Running) -> Iterator[None]:
    """Remove the consumer groups of all rounds, the one that was broken off included."""
    try:
        yield
    finally:
        names = group_names(run, rounds=running.loads, groups=scenario.consumer_groups) if scenario.consumers else []
        try:
            if names:
                admin.delete_groups(names, timeout_s=TIMEOUT_S if running.ended_well else _HASTY_GROUPS_TIMEOUT_S)
        except ClusterError as error:
            if running.rounds:
                running.rounds[-1] = _warned(running.rounds[-1], f"consumer groups of {run} were left behind: {error}")


def _warned(one: Round, text: str | None) -> Round:
    """The round with that warning, unless something worse is told there."""
    if text is None or one.problems:
        return one
    return dataclasses.replace(one, warnings=(*one.warnings, text))


def _watched(
    load: Callable[..., LoadReport],
    cluster: Cluster,
    topic: str,
    actions: Sequence[Action],
    on_progress: Callable[[Progress], None],
) -> LoadReport:
    """Run a round, do what is to be done in it, and see what becomes of the brokers and of the topic meanwhile."""

    def follow(progress: Progress) -> None:
        partitions.check()
        acting.follow(progress)
        on_progress(progress)

    with (
        BrokerWatcher(cluster.probes) as brokers,
        TopicWatcher(cluster.bootstrap_servers, cluster.access, topic) as partitions,
        ActionTimer(actions) as acting,
    ):
        report = load(progress=follow)
    return dataclasses.replace(
        report,
        problems=(*report.problems, *acting.problems),
        samples=brokers.samples(),
        unread=brokers.unread(gaps=not cluster.actions),  # of brokers that a test stops there are gaps
        states=partitions.states,
        actions=cluster.actions,
    )


def assign_load(
    divided: list[tuple[tuple[int, ...], tuple[int, ...]]],
    scenario: Scenario,
    cluster: Cluster,
    topic: str,
    counters: SharedCounters,
    *,
    run: str,
    seed: int,
    read: int,
) -> list[Assignment]:
    """Make the assignment of each worker for a round."""
    group = round_name(run, seed)
    return [
        Assignment(
            worker=worker,
            counters=counters.path,
            bootstrap_servers=cluster.bootstrap_servers,
            access=cluster.access,
            topic=topic,
            group=group,
            scenario=scenario,
            read_partitions=read,
            producers=producers,
            consumers=consumers,
            seed=seed,
        )
        for worker, (producers, consumers) in zip(itertools.count(), divided)
    ]

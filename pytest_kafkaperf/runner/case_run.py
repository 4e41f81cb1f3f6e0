"""The sessions that one test runs: the first, and those that confirm, calibrate or accept; on one cluster or two."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.runner.actions import Action, moved
from pytest_kafkaperf.runner.capacity import MOST_STEPS, SearchPlan, find_capacity
from pytest_kafkaperf.runner.result import MeasuredSession, judged, problems_of
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.runner.rounds import Compound, run_sides
from pytest_kafkaperf.runner.time_budget import BROKEN_OFF_TEXT, CaseBudget
from pytest_kafkaperf.runner.warmup import preheat, sized
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Judgement

if TYPE_CHECKING:
    import random


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """What a test has run, and what was found."""

    sessions: tuple[MeasuredSession, ...]
    judgement: Judgement
    notes: tuple[str, ...] = ()
    """What the time budget took."""
    partial: bool = False
    """Whether for want of time this is less than what was to be measured: no baseline."""


def run_case(
    runner: SessionRunner,
    budget: CaseBudget,
    judge: Callable[[Sequence[MeasuredSession]], Judgement],
    *,
    calibrate: int | None,
    confirm_gain: bool,
) -> CaseRun:
    """Run the first session; then fresh ones: to calibrate, for suspects, or for a gain that is to be accepted."""
    further = _Further(runner, budget)
    sessions = further.sessions
    while calibrate is not None and further.missing(calibrate):
        further.run("session")
    while (judgement := judge(sessions)).unsettled and further.refusal is None:
        further.run("suspect, session")
    if confirm_gain and judgement.verdict is Verdict.IMPROVED:
        while further.missing(1 + SESSIONS):
            further.run("improved, session")
        judgement = judge(sessions)
    undecided = budget.undecided(sessions[0])
    if undecided is not None:
        judgement = _undecided(judgement, undecided)
    cut = budget.cut(sessions[0])
    return CaseRun(
        sessions=tuple(sessions),
        judgement=judgement,
        notes=tuple(note for note in (cut, further.refusal) if note),
        partial=cut is not None or judgement.unsettled,
    )


def not_run(error: str | None = None) -> MeasuredSession:
    """Return a session without a round: because of that error of the cluster, or because the time budget is spent."""
    problems = () if error is None else (Problem(ProblemKind.CLUSTER_ERROR, error),)
    return MeasuredSession(created=now(), rounds=(), problems=problems)


class _Further:
    """Runs one session after the other, each on fresh clusters but the first."""

    def __init__(self, runner: SessionRunner, budget: CaseBudget) -> None:
        self._runner = runner
        self._budget = budget
        self.sessions = [runner.measure(go_on=budget.goes_on)]
        self.refusal: str | None = None
        """Why there is no time for another."""

    def missing(self, sessions: int) -> bool:
        """Whether another one is to run, so that there are so many that count."""
        return len(judged(self.sessions)) < sessions and not problems_of(self.sessions) and self.refusal is None

    def run(self, what: str) -> None:
        """Run one, where there is time; one that the time ended early is left out, for it would count as a whole."""
        rounds = len(self.sessions[0].rounds)
        self.refusal = self._budget.refuses_session(rounds)
        if self.refusal is not None:
            return
        session = self._measured(f"{what} {len(self.sessions) + 1}")
        if len(session.rounds) < rounds and not session.problems:
            self.refusal = BROKEN_OFF_TEXT
            return
        self.sessions.append(session)

    def _measured(self, label: str) -> MeasuredSession:
        try:
            self._runner.renew()
            self._runner.preheat(label)
        except ClusterError as error:
            return not_run(str(error))
        return self._runner.measure(label, go_on=self._budget.has_time)


def _undecided(judgement: Judgement, reason: str) -> Judgement:
    """The same where so few rounds must not decide."""
    checks = tuple(
        dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reason=reason) for check in judgement.checks
    )
    verdict = judgement.verdict if judgement.verdict is Verdict.INVALID else Verdict.INCONCLUSIVE
    return Judgement(verdict=verdict, checks=checks, problems=judgement.problems)


def now() -> str:
    """ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class SessionRunner:
    """Measures one test, again and again on fresh clusters."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        cluster: Cluster,
        reference: Cluster | None,
        order: random.Random,
        actions: Sequence[Action],
        preheat_s: float,
        allocation: WorkerAllocation,
        on_progress: Callable[[str, int, Progress], None],
        plan: SearchPlan | None = None,
    ) -> None:
        """`plan`: each round is a search for the capacity."""
        self.cluster = cluster
        self.reference = reference
        self.allocation = allocation
        """As it was asked for; from the first preheating on, as many as the scenario needs."""
        self._scenario = scenario
        self._order = order
        self._actions = actions
        self._preheat_s = preheat_s
        self._on_progress = on_progress
        self._plan = plan

    def preheat(self, label: str = "") -> None:
        """Warm brokers that have just started; the first time, see how many workers the scenario needs.

        Raises:
            ClusterError: the load could not run.

        """
        progress = functools.partial(self._on_progress, f"{label} preheating".strip())
        for cluster in (self.cluster, self.reference):
            if cluster is not None:
                preheat(
                    self._scenario,
                    cluster,
                    duration_s=self._preheat_s,
                    allocation=self.allocation,
                    on_progress=progress,
                )
        session = functools.partial(self._on_progress, f"{label} sizing".strip())
        self.allocation = sized(self._scenario, self.allocation, self.cluster, on_progress=session)

    def measure(self, label: str = "", *, go_on: Callable[[], bool]) -> MeasuredSession:
        """Run the scenario, or what the time budget leaves of it; `go_on` is asked before each round.

        Raises:
            UsageError: the test's actions cannot be done to the reference.

        """
        created = now()
        sides = [(self.cluster, self._actions)]
        if self.reference is not None:
            sides.append((self.reference, self._actions_on_reference(self.reference)))
        try:
            ours, *other = run_sides(
                self._scenario,
                sides,
                first=self._turns() if self.reference is not None else itertools.repeat(0),
                compound=self._compound(),
                allocation=self.allocation,
                on_progress=functools.partial(self._on_progress, label),
                go_on=go_on,
            )
        except ClusterError as error:
            return not_run(str(error))
        problems = [*_problems(ours, ""), *(each for rounds in other for each in _problems(rounds, "the reference, "))]
        reference = tuple(other[0]) if other else None
        return MeasuredSession(created=created, rounds=tuple(ours), reference=reference, problems=tuple(problems))

    def renew(self) -> None:
        """Begin a fresh session: brokers that the session owns start anew; topics and clients are new at any rate.

        What the test or its fixtures have set up on a cluster stays, such as a quota: or it would be another test.

        Raises:
            ClusterError: brokers did not come up again.

        """
        self.cluster.renew()
        if self.reference is not None:
            self.reference.renew()

    def _actions_on_reference(self, reference: Cluster) -> Sequence[Action]:
        actions = moved(self._actions, self.cluster, reference)
        if actions is None:
            raise UsageError(
                "kafka_perf.at(...) with --kafka-reference: what is done to the test's cluster is done to the "
                "reference, too, so it has to be a method of that cluster, such as kafka_cluster.stop_broker"
            )
        return actions

    def _compound(self) -> Compound | None:
        if self._plan is None:
            return None
        return Compound(make=functools.partial(find_capacity, self._plan, self._scenario), most=MOST_STEPS)

    def _turns(self) -> list[int]:
        """Which side comes first, by round: each as often, in random order."""
        rounds = self._scenario.rounds
        turns = [number % 2 for number in range(rounds - rounds % 2)]
        turns += [self._order.randrange(2)] * (rounds % 2)
        self._order.shuffle(turns)
        return turns


def _problems(rounds: Sequence[Round], side: str) -> Iterator[Problem]:
    for number, one in enumerate(rounds, 1):
        yield from (problem.within(f"{side}round {number}") for problem in one.problems)

"""The sessions of one test: the first, and those that calibrate, confirm a suspect or confirm an improvement."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation, cores, decided, undecidable
from pytest_kafkaperf.runner.result import MeasuredSession, judged, problems_of
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.runner.rounds import OnProgress, Side, rounds, run_scenario, running
from pytest_kafkaperf.runner.time_budget import BROKEN_OFF_TEXT, CaseBudget
from pytest_kafkaperf.runner.warmup import probe_load
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """The sessions of a test, and the judgement on them."""

    sessions: tuple[MeasuredSession, ...]
    judgement: Judgement
    notes: tuple[str, ...] = ()
    """Rounds and sessions that the time budget left out."""
    partial: bool = False
    """True if less was measured than declared, for want of time: this makes no baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPolicy:
    """Which sessions a test needs besides the first."""

    judge: Callable[[Sequence[MeasuredSession]], Judgement]
    calibrate: int | None
    """Number of sessions to calibrate with; None judges the test."""
    confirm_gain: bool
    """True to confirm an improvement with fresh sessions, before it becomes the baseline."""

    def labels(self, sessions: Sequence[MeasuredSession]) -> Iterator[str]:
        """Name the sessions that the test needs, one at a time; the caller adds each to `sessions` meanwhile."""
        yield ""
        while self.calibrate is not None and _lacks(sessions, self.calibrate):
            yield "session"
        while self.judge(sessions).unsettled:
            yield "suspect, session"
        if self.confirm_gain and self.judge(sessions).verdict is Verdict.IMPROVED:
            while _lacks(sessions, 1 + SESSIONS):
                yield "improved, session"


def _lacks(sessions: Sequence[MeasuredSession], wanted: int) -> bool:
    """Return True if fewer sessions than wanted count, and none of them has a problem."""
    return len(judged(sessions)) < wanted and not problems_of(sessions)


def run_case(runner: SessionRunner, budget: CaseBudget, policy: SessionPolicy) -> CaseRun:
    """Run the sessions that the policy asks for and that the time budget allows."""
    sessions: list[MeasuredSession] = []
    refusal = None
    for label in policy.labels(sessions):
        if not sessions:
            sessions.append(runner.measure(budget))
            continue
        declared = len(sessions[0].rounds)
        refusal = budget.refuses_session(declared)
        if refusal is not None:
            break
        session = runner.measure_fresh(budget, f"{label} {len(sessions) + 1}")
        if len(session.rounds) < declared and not session.problems:
            refusal = BROKEN_OFF_TEXT
            break
        sessions.append(session)
    judgement = policy.judge(sessions)
    undecided = budget.undecided(sessions[0])
    if undecided is not None:
        judgement = _inconclusive(judgement, undecided)
    cut = budget.cut(sessions[0])
    return CaseRun(
        sessions=tuple(sessions),
        judgement=judgement,
        notes=tuple(note for note in (cut, refusal) if note),
        partial=cut is not None or judgement.unsettled,
    )


def not_run(error: str | None = None) -> MeasuredSession:
    """Return a session without rounds, because of that error of the cluster or for want of time."""
    problems = () if error is None else (Problem(ProblemKind.CLUSTER_ERROR, error),)
    return MeasuredSession(created=now(), rounds=(), problems=problems)


def now() -> str:
    """Return the current time in ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class SessionRunner:
    """Measures one test, session by session, on one side or on two in turns."""

    def __init__(
        self,
        sides: Sequence[Side],
        *,
        order: random.Random,
        warm_up_s: float,
        allocation: WorkerAllocation,
        on_progress: OnProgress,
    ) -> None:
        """`sides` are the test's cluster and, if there is one, the reference; `order` decides which begins a round."""
        self.allocation = allocation
        """As given in the options; from the first warm-up on, with as many workers as the scenario needs."""
        self._sides = sides
        self._order = order
        self._warm_up_s = warm_up_s
        self._on_progress = on_progress

    def warm_up(self, label: str = "") -> None:
        """Warm up brokers that have just started; the first time, find out how many workers the scenario needs.

        Raises:
            ClusterError: the load could not run.

        """
        for side in self._sides:
            side.warm_up(duration_s=self._warm_up_s, allocation=self.allocation, label=f"{label} preheating".strip())
        if self.allocation.is_open:
            self.allocation = self._probed(f"{label} sizing".strip())

    def measure(self, budget: CaseBudget, label: str = "", *, fresh: bool = False) -> MeasuredSession:
        """Run one session: the scenario's rounds, or as many as the time budget allows."""
        created = now()
        try:
            with running(self._sides, self.allocation, label=label) as workers:
                for _ in rounds(self._sides, workers, budget.limited(self._turns(), fresh=fresh)):
                    pass  # each side keeps its rounds
        except ClusterError as error:
            return dataclasses.replace(not_run(str(error)), created=created)
        ours, *other = (side.rounds for side in self._sides)
        problems = [*_problems(ours, ""), *(text for theirs in other for text in _problems(theirs, "the reference, "))]
        return MeasuredSession(
            created=created,
            rounds=tuple(ours),
            reference=tuple(other[0]) if other else None,
            problems=tuple(problems),
        )

    def measure_fresh(self, budget: CaseBudget, label: str) -> MeasuredSession:
        """Run a session on brokers that were restarted and warmed up."""
        try:
            for side in self._sides:
                side.restart()
            self.warm_up(label)
        except ClusterError as error:
            return not_run(str(error))
        return self.measure(budget, label, fresh=True)

    def _probed(self, label: str) -> WorkerAllocation:
        """Return the allocation with as many workers as a short load shows to be needed."""
        side = self._sides[0]
        reason = undecidable(side.scenario, cores())
        if reason is not None:
            return dataclasses.replace(self.allocation, reason=reason)
        (probe,) = run_scenario(
            probe_load(side.scenario),
            side.cluster,
            allocation=WorkerAllocation(producing=1, consuming=1),
            on_progress=functools.partial(self._on_progress, label),
        )
        return decided(side.scenario, probe.shares, cores())

    def _turns(self) -> list[int]:
        """Return which side begins, by round: each equally often, in random order."""
        declared = self._sides[0].scenario.rounds
        if len(self._sides) == 1:
            return [0] * declared
        turns = [number % 2 for number in range(declared - declared % 2)]
        turns += [self._order.randrange(2)] * (declared % 2)
        self._order.shuffle(turns)
        return turns


def _inconclusive(judgement: Judgement, reason: str) -> Judgement:
    """Return the judgement without a decision, because too few rounds ran."""
    checks = tuple(
        dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reason=reason) for check in judgement.checks
    )
    verdict = judgement.verdict if judgement.verdict is Verdict.INVALID else Verdict.INCONCLUSIVE
    return Judgement(verdict=verdict, checks=checks, problems=judgement.problems)


def _problems(measured: Sequence[Round], side: str) -> Iterator[Problem]:
    for number, one in enumerate(measured, 1):
        yield from (problem.within(f"{side}round {number}") for problem in one.problems)

"""Rounds on the broker that tests share, and what the workers said of them."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil
import pytest

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.load.messages import Consumed, LoadReport, Produced
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, rounds, running
from pytest_kafkaperf.runner.time_budget import PerfTestBudget, RunBudget
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.proxy import ProxiedBroker, proxied_broker
from tests.support.repeats import note_rounds
from tests.support.topic_log import Log, read_log

OnProgress = Callable[[int, Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One round: what the user gets, and what it was made of."""

    round: Round
    seen: Observations

    @property
    def report(self) -> LoadReport:
        return self.seen.load

    @property
    def metrics(self) -> dict[str, float]:
        return dict(self.round.metrics)

    @property
    def faults(self) -> list[Problem]:
        return faults(self.round)

    @property
    def produced(self) -> list[Produced]:
        return [part for worker in self.report.workers for part in worker.produced]

    @property
    def consumed(self) -> list[Consumed]:
        return [part for worker in self.report.workers for part in worker.consumed]

    @property
    def growth(self) -> int:
        assert self.seen.log.growth is not None
        return sum(self.seen.log.growth.values())


def faults(one: Round) -> list[Problem]:
    """Return the problems of a round, except that the machine was too busy for the load, which happens on CI."""
    return [problem for problem in one.problems if problem.kind is not ProblemKind.GENERATOR_TOO_SLOW]


def run_scenario(
    scenario: Scenario,
    cluster: Cluster,
    *,
    actions: Sequence[Action] = (),
    plan: SearchPlan | None = None,
    allocation: WorkerAllocation | None = None,
    on_progress: OnProgress = lambda *_: None,
) -> list[Round]:
    """Run all rounds of a scenario, or fewer if one left nothing to go on with.

    A test whose rounds are too much for this machine is repeated.
    """
    side = SideRounds(
        Side.of(cluster, actions=actions), scenario, plan=plan, on_progress=lambda _, *told: on_progress(*told)
    )
    with running([side], allocation or WorkerAllocation()) as workers:
        for _ in rounds([side], workers, [0] * scenario.rounds):
            pass
    note_rounds(side.rounds)
    return side.rounds


def time_budget_of(
    rounds: int, *, left_s: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> PerfTestBudget:
    """Return the time budget of a test with so many rounds, without an end by default."""
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_scenario(rounds=rounds).mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    return PerfTestBudget(RunBudget([perftest], left_s=left_s, clock=clock), perftest, [])


class Load(Protocol):
    """Runs one round of a scenario."""

    def __call__(
        self, cluster: Cluster, *, allocation: WorkerAllocation = ..., on_progress: OnProgress = ..., **fields: Any
    ) -> Ran: ...


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Run one round, and keep what the workers reported."""
    folded: list[Observations] = []

    def keep(seen: Observations, scenario: Scenario) -> Round:
        folded.append(seen)
        return fold(seen, scenario)

    def one_round(
        cluster: Cluster,
        *,
        allocation: WorkerAllocation | None = None,
        on_progress: OnProgress = lambda *_: None,
        **fields: Any,
    ) -> Ran:
        scenario = Scenario.of({"rounds": 1, "warmup": "300 ms"} | fields)
        (only,) = run_scenario(scenario, cluster, allocation=allocation, on_progress=on_progress)
        return Ran(round=only, seen=folded[-1])

    monkeypatch.setattr("pytest_kafkaperf.runner.rounds.side_rounds.fold", keep)
    return one_round


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """What stands in the topic of the test's last run, read when the run is about to delete it."""
    found = Log()
    delete_topic = Admin.delete_topic

    def read_and_delete(self: Admin, topic: str, **arguments: float) -> None:
        found.batches = read_log(self._servers, topic).batches
        delete_topic(self, topic, **arguments)

    monkeypatch.setattr(Admin, "delete_topic", read_and_delete)
    return found


@pytest.fixture
def own_broker() -> Iterator[Cluster]:
    """A broker that the test may stop or kill."""
    with provision(ClusterSpec(), target="local") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def behind() -> Iterator[ProxiedBroker]:
    """A broker behind a proxy that delays what clients send; whoever uses it says by how much."""
    with proxied_broker() as started:
        yield started


@dataclass(slots=True)
class Once:
    """Does something once, in the middle of a phase."""

    action: Callable[[], None]
    phase: str = "measuring"
    after_s: float = 0.3
    """Since the window opened."""
    done_s: float | None = None
    """When it was done, by `time.monotonic`."""

    def __call__(self, _: int, progress: Progress) -> None:
        if self.done_s is None and progress.phase == self.phase and progress.elapsed_s >= self.after_s:
            self.done_s = time.monotonic()
            self.action()


@dataclass(slots=True)
class Stall:
    """Stops processes for a while, without blocking who asks for it."""

    pids: tuple[int, ...]
    seconds: float
    lasted_s: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        began_s = time.monotonic()
        self._signal(signal.SIGSTOP)
        threading.Timer(self.seconds, self._end, args=(began_s,)).start()

    def join(self) -> None:
        assert self._ended.wait(60)

    def _end(self, began_s: float) -> None:
        self._signal(signal.SIGCONT)
        self.lasted_s = time.monotonic() - began_s
        self._ended.set()

    def _signal(self, what: signal.Signals) -> None:
        for pid in self.pids:
            os.kill(pid, what)


def workers() -> list[psutil.Process]:
    """Worker processes of this process."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and "spawn_main" in " ".join(child.cmdline())
    ]


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What is left in the folder of temporary files, which is the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: sorted(path.name for path in tmp_path.iterdir())


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails when the block took longer."""
    started_s = time.monotonic()
    yield
    assert time.monotonic() - started_s < seconds

"""Sides without a cluster, for tests of what happens between rounds."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.loads import Phase
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, Workers
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.patience import PATIENCE_S
from tests.support.problems import problem_told

ROUNDS = 4


class Scripted(SideRounds):
    """A side without a cluster: it writes down what it has to do."""

    def __init__(self, name: str, log: list[str], *, cold: bool = False) -> None:
        cluster = Cluster(bootstrap_servers="127.0.0.1:1", brokers=1, provider="external", version="unknown")
        super().__init__(Side.of(cluster), Scenario.of({"rounds": ROUNDS}))
        self.name, self.cold = name, cold
        self.loses = 0.0
        self.problems: list[Problem] = []
        """Problems of the first round of each trial, the last one first."""
        self.breaks_warm_up: list[Problem] = []
        """Problems of the first slice that leave the cluster unusable for a moment."""
        self.fails_in: int | None = None
        """Number of the round, from 0, before which the cluster is lost."""
        self.meets: threading.Barrier | None = None
        self._log = log

    def is_cold(self, phase: Phase) -> bool:
        return self.cold and phase is Phase.FULL

    @contextlib.contextmanager
    def started(self, *, label: str, sides: int) -> Iterator[None]:
        assert sides in (1, 2)
        self._log.append(f"start {self.name}{label}")
        self.rounds, self.broken = [], False
        yield

    def mark_warm(self, phase: Phase) -> None:
        assert phase is Phase.FULL
        self.cold = False

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        assert workers.shares
        assert (load.rounds, phase) == (1, Phase.FULL)
        self._log.append(self.name.lower())
        self.broken = bool(self.breaks_warm_up)
        return Round(metrics={"lost": self.loses}, compiler={1: 0.0}, problems=tuple(self.breaks_warm_up))

    def measure(self, workers: Workers) -> Round:
        assert workers.shares
        if len(self.rounds) == self.fails_in:
            raise ClusterError("broker 1 has ended")
        self._log.append(self.name)
        problems = (self.problems.pop(),) if self.problems and not self.rounds else ()
        self.rounds.append(Round(metrics={"number": float(len(self.rounds))}, problems=problems))
        return self.rounds[-1]

    def restart(self, *, quick: bool | None = None) -> None:
        del quick
        assert self.meets is not None
        self.meets.wait(PATIENCE_S)


class Late(Scripted):
    """A side whose generator is too slow for the first rounds of a trial."""

    late_rounds: Sequence[int] = ()
    """Number of rounds that are late in each trial, with those that are repeated."""
    late_rounds_show: Mapping[str, float] = {}
    """Further metrics of late rounds."""
    _trial, _ran = -1, 0

    @contextlib.contextmanager
    def started(self, *, label: str, sides: int) -> Iterator[None]:
        self._trial, self._ran = self._trial + 1, 0
        with super().started(label=label, sides=sides):
            yield

    def measure(self, workers: Workers) -> Round:
        one = super().measure(workers)
        self._ran += 1
        if self._ran <= self.late_rounds[self._trial]:
            metrics = {**one.metrics, **self.late_rounds_show}
            one = self.rounds[-1] = dataclasses.replace(one, metrics=metrics, problems=(TOO_SLOW,))
        return one


TOO_SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "too slow")


class Timed(Scripted):
    """A side on a clock that runs only while it measures."""

    now_s = 0.0
    takes_s, takes_later_s = 1.0, 1.0
    """Time that a round takes, in the first trial and after a restart."""

    def measure(self, workers: Workers) -> Round:
        self.now_s += self.takes_s
        return super().measure(workers)

    def restart(self, *, quick: bool | None = None) -> None:
        del quick
        self.takes_s = self.takes_later_s


def runner_of(*sides: Scripted, warm_up_s: float = 60.0, gap_s: float = 0.0) -> TrialRunner:
    allocation = WorkerAllocation(producing=1, consuming=1)
    return TrialRunner(sides, warm_up_s=warm_up_s, gap_s=gap_s, allocation=allocation, on_progress=lambda *_: None)

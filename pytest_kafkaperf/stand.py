"""Where one test runs: its cluster, that of the reference beside it, and what is done to them."""

from __future__ import annotations

import datetime
import functools
import math
from typing import TYPE_CHECKING

from pytest_kafkaperf.actions import moved
from pytest_kafkaperf.capacity import MOST_STEPS, find_capacity
from pytest_kafkaperf.crew import Crew
from pytest_kafkaperf.errors import ClusterError, UsageError
from pytest_kafkaperf.preheat import is_cold, preheat
from pytest_kafkaperf.result import Trial
from pytest_kafkaperf.run import Compound, run_pairs, run_scenario
from pytest_kafkaperf.sizing import TRIAL_S, needs_trial, sized

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

    from pytest_kafkaperf.actions import Action
    from pytest_kafkaperf.capacity import Plan
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.round import Round
    from pytest_kafkaperf.scenario import Scenario


def now() -> str:
    """ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class Stand:
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
        crew: Crew,
        on_progress: Callable[[str, int, Progress], None],
        plan: Plan | None = None,
    ) -> None:
        """`plan`: each round is a search for the capacity."""
        self.cluster = cluster
        self.reference = reference
        self.crew = crew
        """As it was asked for; from the first preheating on, as many as the scenario needs."""
        self._scenario = scenario
        self._order = order
        self._actions = actions
        self._preheat_s = preheat_s
        self._on_progress = on_progress
        self._plan = plan

    @property
    def preheating_s(self) -> float:
        """How long preheating and a trial would take now."""
        trial_s = TRIAL_S if needs_trial(self._scenario, self.crew) else 0.0
        return trial_s + math.fsum(
            self._preheat_s
            for cluster in (self.cluster, self.reference)
            if cluster is not None and is_cold(self._scenario, cluster)
        )

    def preheat(self, label: str = "") -> None:
        """Warm brokers that have just started; the first time, see how many workers the scenario needs.

        Raises:
            ClusterError: the load could not run.

        """
        progress = functools.partial(self._on_progress, f"{label} preheating".strip())
        for cluster in (self.cluster, self.reference):
            if cluster is not None:
                preheat(self._scenario, cluster, duration_s=self._preheat_s, crew=self.crew, on_progress=progress)
        trial = functools.partial(self._on_progress, f"{label} sizing".strip())
        self.crew = sized(self._scenario, self.crew, self.cluster, on_progress=trial)

    def measure(self, scenario: Scenario, label: str = "", *, go_on: Callable[[], bool]) -> Trial:
        """Run the scenario, or what the time budget leaves of it; `go_on` is asked before each round.

        Raises:
            UsageError: the test's actions cannot be done to the reference.

        """
        created = now()
        progress = functools.partial(self._on_progress, label)
        compound = self._compound(scenario)
        try:
            if self.reference is None:
                run = run_scenario(
                    scenario,
                    self.cluster,
                    actions=self._actions,
                    compound=compound,
                    crew=self.crew,
                    on_progress=progress,
                    go_on=go_on,
                )
                return Trial(created=created, rounds=tuple(run), problems=tuple(_problems(run, "")))
            ours, other = run_pairs(
                scenario,
                (self.cluster, self._actions),
                (self.reference, self._actions_on_reference(self.reference)),
                candidate_first=self._turns(scenario.rounds),
                compound=compound,
                crew=self.crew,
                on_progress=progress,
                go_on=go_on,
            )
        except ClusterError as error:
            return Trial(created=created, rounds=(), problems=(str(error),))
        problems = (*_problems(ours, ""), *_problems(other, "the reference, "))
        return Trial(created=created, rounds=tuple(ours), reference=tuple(other), problems=problems)

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

    def _compound(self, scenario: Scenario) -> Compound | None:
        if self._plan is None:
            return None
        return Compound(make=functools.partial(find_capacity, self._plan, scenario), most=MOST_STEPS)

    def _turns(self, rounds: int) -> list[bool]:
        """Whether the test's cluster comes first, by round: as often as not, in random order."""
        turns = [number % 2 == 0 for number in range(rounds - rounds % 2)]
        turns += [self._order.random() < 1 / 2] * (rounds % 2)
        self._order.shuffle(turns)
        return turns


def _problems(rounds: Sequence[Round], side: str) -> Iterator[str]:
    for number, one in enumerate(rounds, 1):
        yield from (f"{side}round {number}: {problem}" for problem in one.problems)

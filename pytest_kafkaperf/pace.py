"""What one test may still do of what the time budget of the whole run leaves."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.budget import (
    ROUND_SETUP_S,
    SETUP_S,
    Cost,
    Plan,
    cost_of,
    cut_text,
    fewest_rounds,
    fits,
    goes_on,
    plan,
    unconfirmed_text,
    undecided_text,
)
from pytest_kafkaperf.capacity import LIKELY_STEPS
from pytest_kafkaperf.confirmation import can_decide
from pytest_kafkaperf.relative import ALPHA
from pytest_kafkaperf.threshold import count_gated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.result import Trial
    from pytest_kafkaperf.scenario import Scenario

_RESTART_S = 4.0
"""Of brokers that start anew."""
_LIKELY_BASELINE_ROUNDS = 5
"""Of the tests that come later, whose baselines have not been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What tests take besides their load: the most that was seen so far, or a guess before the first."""

    setup_s: float = SETUP_S
    """Of a test: topic and workers."""
    round_s: float = ROUND_SETUP_S
    """Of a round: clients that connect, draining, looking at the log."""
    guessed: bool = True

    def after(self, seen: Overhead | None) -> Overhead:
        """The same once a test has been seen."""
        if seen is None or self.guessed:
            return seen or self
        return Overhead(setup_s=max(self.setup_s, seen.setup_s), round_s=max(self.round_s, seen.round_s), guessed=False)


class Pace:
    """Keeps one test within its share.

    It is planned when it is made, where `preheating_s` are still to go by before the test begins. `preheat_s` is what
    further sessions and later tests take besides their load. `acts` says that something is done in each round at
    a certain time, so that rounds keep their length.
    """

    def __init__(
        self,
        case: Case,
        later: Sequence[Case],
        *,
        baseline_rounds: int,
        left_s: float,
        preheat_s: float,
        overhead: Overhead,
        preheating_s: float = 0.0,
        acts: bool = False,
    ) -> None:
        self._declared = case.scenario
        self.cost = _cost(case, baseline_rounds, overhead, whole=acts)
        sharing = later if math.isfinite(left_s) else ()  # what nothing limits is not shared
        others = [_cost(each, _LIKELY_BASELINE_ROUNDS, overhead, preheat_s=preheat_s) for each in sharing]
        found = plan([self.cost, *others], left_s=left_s - preheating_s)
        self._paired = case.reference is not None
        self._searches = case.plan is not None
        self._renewal_s = _RESTART_S + preheat_s * (2 if self._paired else 1)
        self.plan = found if isinstance(found, Plan) else None
        """None: the test cannot run."""
        self.obstacle = None if isinstance(found, Plan) else found
        """Why not."""
        self._left_s = left_s - preheating_s
        self._began_s = time.monotonic()
        self._longest_s = 0.0
        self._rounds_s = 0.0
        self._done = 0
        self._round_began_s: float | None = None

    def begin(self, left_s: float) -> None:
        """Let the test's time run from now on; so much is left of the whole run."""
        self._began_s, self._left_s = time.monotonic(), left_s

    @property
    def scenario(self) -> Scenario:
        """What is run of the declared one: perhaps shorter rounds; `goes_on` sees to their number."""
        if self.plan is None or self.plan.length_s is None:
            return self._declared
        return self._declared.model_copy(update={"duration": self.plan.length_s})

    def goes_on(self) -> bool:
        """Whether there is time for another round; asked before each of the first session."""
        if self._round_began_s is not None:
            round_s = time.monotonic() - self._round_began_s
            self._longest_s = max(self._longest_s, round_s)
            self._rounds_s += round_s
            self._done += 1
        self._round_began_s = time.monotonic()
        return self.plan is not None and goes_on(
            self.cost,
            self.plan,
            done=self._done,
            round_s=self._longest_s or self.cost.planned_s(self.plan) / self.plan.rounds,
            spent_s=self._spent_s,
            left_s=self._left_s - self._spent_s,
        )

    def overhead(self) -> Overhead | None:
        """What the first session took besides its load, asked right after it; None where that cannot be told."""
        if self.plan is None or not self._done or self.cost.length_s is None or self._paired or self._searches:
            return None
        load_s = self.cost.planned_s(self.plan) - self.cost.setup_s
        load_s = load_s / self.plan.rounds - self.cost.round_setup_s
        return Overhead(
            setup_s=self._spent_s - self._rounds_s, round_s=max(0.0, self._longest_s - load_s), guessed=False
        )

    def has_time(self) -> bool:
        """Whether the run has time for another round of a further session."""
        return fits(self._longest_s, left_s=self._left_s - self._spent_s)

    def refuses_session(self, rounds: int) -> str | None:
        """Why there is no time for a fresh session of so many rounds; None where there is."""
        if self.plan is None:
            return self.obstacle
        left_s = min(self.plan.latest_s, self._left_s) - self._spent_s
        setup_s = self.cost.setup_s + self._renewal_s
        if fits(self._longest_s, left_s=left_s, rounds=rounds, setup_s=setup_s):
            return None
        return unconfirmed_text(setup_s + rounds * self._longest_s, left_s=left_s)

    @property
    def length_cut(self) -> bool:
        """Whether rounds are shorter than declared: such figures make no baseline."""
        return self.plan is not None and self.plan.length_s is not None

    def cut(self, first: Trial) -> str | None:
        """What was cut of the first session."""
        if self.plan is None or first.problems:
            return None
        return cut_text(self.cost, rounds=len(first.rounds), length_s=self.plan.length_s)

    def undecided(self, first: Trial) -> str | None:
        """Why the first session has too few rounds to be judged; None where it has enough."""
        if first.problems or len(first.rounds) >= self.cost.fewest:
            return None
        return undecided_text(len(first.rounds), self.cost.fewest)

    @property
    def _spent_s(self) -> float:
        return time.monotonic() - self._began_s


def _cost(case: Case, baseline_rounds: int, overhead: Overhead, *, preheat_s: float = 0.0, whole: bool = False) -> Cost:
    """What a test takes; beside a reference every round is two."""
    sides = 1 if case.reference is None else 2
    single = cost_of(
        case.scenario,
        fewest=fewest_rounds(case.scenario.rounds, functools.partial(_decides, case, baseline_rounds)),
        whole=whole or case.reference is not None,
    )
    if case.plan is not None:  # each step of a search is what a round is elsewhere
        step_s = overhead.round_s + single.round_s - single.round_setup_s
        single = dataclasses.replace(single, warmup_s=0.0, length_s=LIKELY_STEPS * step_s, shortest_s=None)
    load_s = single.round_s - single.round_setup_s
    return dataclasses.replace(
        single,
        setup_s=overhead.setup_s + sides * preheat_s,
        round_setup_s=overhead.round_s + (sides - 1) * load_s,
    )


def _decides(case: Case, baseline_rounds: int, rounds: int) -> bool:
    """Whether so many rounds can decide over the test's limits, or over those of later runs that they are kept for."""
    number = count_gated(case.thresholds)
    if not number:
        return True
    if case.reference is None and not baseline_rounds and case.settings.update is None:
        return True  # there is nothing to compare with
    known = None if case.reference is not None else baseline_rounds or rounds
    return can_decide(rounds, known, gated=number, confirmed=case.settings.confirm, alpha=ALPHA)

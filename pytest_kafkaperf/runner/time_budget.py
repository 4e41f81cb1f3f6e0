"""The time budget of a run: each test has a share of it, and starts no round that would end beyond that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pytest_kafkaperf.core.units import Unit, counted, format_quantity
from pytest_kafkaperf.load.schedule import window_s
from pytest_kafkaperf.runner.capacity import LIKELY_STEPS
from pytest_kafkaperf.runner.case import Case
from pytest_kafkaperf.runner.result import MeasuredSession

_T = TypeVar("_T")

_FEWEST_ROUNDS = 3
"""Rounds that a median takes so that one wild round does not decide."""
_SETUP_S = 2.0
"""Of a test: topic and workers, until the first round begins."""
_ROUND_SETUP_S = 0.8
"""Of a round, besides its warm-up and its load: clients that connect, draining, looking at the log."""
_UNKNOWN_LENGTH_S = 5.0
"""Taken for a round of so many records in a closed loop: a default scenario's length."""
BROKEN_OFF_TEXT = "a fresh session took longer than the time budget had left, and does not count; raise it"
"""Why there were no more of them."""


class CaseBudget:
    """Keeps one test within its share of the time that is left, `left_s` from now on.

    `later` are the tests that come after it. The share is in proportion to the declared load, and whatever later tests
    do not declare is this one's, too. The first three rounds, without which nothing is decided, may take the time of
    others, and so may rounds of fresh sessions, as long as each later test keeps the time for its own first three.
    """

    def __init__(
        self, case: Case, later: Sequence[Case], *, left_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._began_s = clock()
        self._left_s = left_s
        self._rounds = case.scenario.rounds
        self._fewest = min(_FEWEST_ROUNDS, self._rounds)
        self._round_s = _declared_round_s(case)
        self._least_s = _SETUP_S + self._fewest * self._round_s
        own_s, later_s = _declared_s(case), math.fsum(map(_declared_s, later))
        self._deadline_s = max(left_s * own_s / (own_s + later_s), left_s - later_s)
        needed_s = math.fsum(min(_FEWEST_ROUNDS, each.scenario.rounds) * _declared_round_s(each) for each in later)
        self._latest_s = max(self._deadline_s, left_s - needed_s)
        self._longest_s = 0.0
        """The longest round so far."""

    @property
    def obstacle(self) -> str | None:
        """Why the test cannot run; None where it can."""
        if self._least_s <= self._left_s:
            return None
        needed, left = _seconds(self._least_s), _seconds(max(self._left_s, 0))
        return (
            f"not run: {counted(self._fewest, 'round')} would take {needed}, and {left} of the time budget were left; "
            "raise --kafka-time-budget, or run fewer tests"
        )

    def limited(self, turns: Iterable[_T], *, fresh: bool) -> Iterator[_T]:
        """Give the turns of one session, one a round, while there is time; each round's time counts for the next.

        The first session keeps to the test's share of the time; `fresh` sessions may use all that is left.
        """
        for done, turn in enumerate(turns):
            limit_s = self._left_s if fresh or done < self._fewest else self._deadline_s
            if self._spent_s + (self._longest_s or self._round_s) > limit_s:
                return
            began_s = self._clock()
            yield turn
            self._longest_s = max(self._longest_s, self._clock() - began_s)

    def refuses_session(self, rounds: int) -> str | None:
        """Why there is no time for a fresh session of so many rounds; None where there is."""
        needed_s, left_s = _SETUP_S + rounds * self._longest_s, self._latest_s - self._spent_s
        if needed_s <= left_s:
            return None
        return (
            f"another fresh session would take {_seconds(needed_s)}, and {_seconds(max(left_s, 0))} of the time budget "
            "were left for it; raise --kafka-time-budget"
        )

    def cut(self, first: MeasuredSession) -> str | None:
        """What was cut of the first session: such figures make no baseline."""
        if first.problems or len(first.rounds) >= self._rounds:
            return None
        return f"cut to {len(first.rounds)} of {counted(self._rounds, 'round')} by the time budget"

    def undecided(self, first: MeasuredSession) -> str | None:
        """Why the first session has too few rounds to be judged; None where it has enough."""
        if first.problems or len(first.rounds) >= self._fewest:
            return None
        ran = counted(len(first.rounds), "round")
        return f"{ran} ran in the time budget, and {self._fewest} can decide; raise --kafka-time-budget"

    @property
    def _spent_s(self) -> float:
        return self._clock() - self._began_s


def _declared_s(case: Case) -> float:
    return _SETUP_S + case.scenario.rounds * _declared_round_s(case)


def _declared_round_s(case: Case) -> float:
    """A round as the scenario declares it; beside a reference it is two, in a search each of its steps is one."""
    length_s = window_s(case.scenario)
    load_s = case.scenario.warmup + (_UNKNOWN_LENGTH_S if length_s is None else length_s)
    times = (1 if case.reference is None else 2) * (1 if case.plan is None else LIKELY_STEPS)
    return _ROUND_SETUP_S + times * load_s


def _seconds(value_s: float) -> str:
    return format_quantity(value_s, Unit.SECONDS)

"""The time budget of a run: each test has a share of it, and starts no round that would end after that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pytest_kafkaperf.clusters.target import External
from pytest_kafkaperf.core.units import Unit, counted, format_quantity
from pytest_kafkaperf.load.schedule import window_s
from pytest_kafkaperf.runner.capacity import LIKELY_STEPS
from pytest_kafkaperf.runner.case import Case
from pytest_kafkaperf.runner.result import MeasuredSession

_T = TypeVar("_T")

_CLOSING_S = 2.0
"""Part of the time budget that is kept for stopping clusters and writing reports."""
_CLOSING_RATIO = 0.05
"""Largest share of the time budget that is kept for this."""
_FEWEST_ROUNDS = 3
"""Rounds below which one outlier would decide a median."""
_SETUP_S = 1.0
"""Time that a session needs to start its workers and to check the cluster."""
_WARM_UP_S, _SHORT_WARM_UP_S = 20.0, 5.0
"""Usual times of a complete and of a short warm-up on two cores."""
_ROUND_SETUP_S = 0.3
"""Time that a load needs besides its warm-up and its window: to make topics, to connect clients, to check the log."""
_COMMIT_S = 2.5
"""Usual wait for the last commit of a group: half of Kafka's default interval."""
_START_S, _RESTART_S = 5.0, 3.0
"""Times in which the brokers of a cluster start, and in which they restart for a further session."""
_UNKNOWN_LENGTH_S = 5.0
"""Assumed duration of a closed-loop round that is declared by its number of records."""
_LIKELY_SESSIONS = 6
"""Usual number of sessions beside a reference."""
BROKEN_OFF_TEXT = "the time budget ended during a fresh session, which does not count; raise --kafka-time-budget"
"""Note of a test whose last fresh session the time budget broke off."""


class CaseBudget:
    """Keeps one test within its share of the remaining time, which is `left_s` from now on.

    The share is in proportion to the declared load of this test and of the `later` tests; time that no later test
    declares belongs to this one, too. The first three rounds, without which nothing can be decided, may use the time of
    other tests. So may fresh sessions, as long as each later test keeps the time for its own first three rounds.
    """

    def __init__(
        self, case: Case, later: Sequence[Case], *, left_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._began_s = clock()
        self._left_s = left_s
        self._rounds = case.scenario.rounds
        self._fewest = min(_FEWEST_ROUNDS, self._rounds)
        self._round_s = _declared_round_s(case)
        self._beside_s = 2 * _declared_round_s(case.in_short_rounds())
        self._restart_s, self._setup_s, self._least_s = _restart_s(case), _setup_s(case), _least_s(case)
        own_s, later_s = estimated_s(case), math.fsum(map(estimated_s, later))
        self._deadline_s = max(left_s * own_s / (own_s + later_s), left_s - later_s)
        self._latest_s = max(self._deadline_s, left_s - math.fsum(_least_s(as_run(each)) for each in later))
        self._longest_s = 0.0
        """The longest round so far."""
        self._alone: tuple[float, float, float] | None = None
        """The declared time of a round, the longest so far, and the time before the first one, of the test alone."""
        self._asked_s: float | None = None
        """When the last fresh session was allowed."""

    @property
    def obstacle(self) -> str | None:
        """The reason why the test cannot run; None if it can."""
        if self._least_s <= self._left_s:
            return None
        needed, left = _seconds(self._least_s), _seconds(max(self._left_s, 0))
        return (
            f"not run: {counted(self._fewest, 'round')} need {needed}, and {left} of the time budget are left; raise "
            "--kafka-time-budget, or run fewer tests"
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
        """Return the reason if there is no time for a fresh session of so many rounds."""
        now_s, before_s = self._clock(), self._asked_s
        took_s = 0.0 if before_s is None else now_s - before_s
        needed_s = max(self._restart_s + self._setup_s + rounds * (self._longest_s or self._round_s), took_s)
        left_s = self._latest_s - self._spent_s
        if needed_s <= left_s:
            self._asked_s = now_s
            return None
        return (
            f"another fresh session needs {_seconds(needed_s)}, and {_seconds(max(left_s, 0))} of the time budget are "
            "left for it; raise --kafka-time-budget"
        )

    def confirm(self, *, beside: bool) -> None:
        """Expect the sessions that confirm a suspect: fresh ones like the first, or `beside` the baseline's brokers."""
        own = self._alone = self._alone or (self._round_s, self._longest_s, self._setup_s)
        # Beside others: short rounds and a warm-up, on both sides.
        self._round_s, self._longest_s, self._setup_s = (self._beside_s, 0.0, 2 * own[2]) if beside else own

    def cut(self, first: MeasuredSession) -> str | None:
        """Return a note if the first session has fewer rounds than declared; such figures make no baseline."""
        if first.problems or len(first.rounds) >= self._rounds:
            return None
        return f"the time budget allowed {len(first.rounds)} of {counted(self._rounds, 'round')}"

    @property
    def fewest_rounds(self) -> int:
        """The number of rounds without which nothing can be decided."""
        return self._fewest

    def undecided(self, first: MeasuredSession) -> str | None:
        """Return the reason if the first session has too few rounds to be judged."""
        if first.problems or len(first.rounds) >= self._fewest:
            return None
        ran = counted(len(first.rounds), "round")
        return f"the time budget allowed {ran}, and a decision needs {self._fewest}; raise --kafka-time-budget"

    @property
    def _spent_s(self) -> float:
        return self._clock() - self._began_s


def time_left_s(budget_s: float | None, began_s: float) -> float:
    """Return the time that is left for the tests of a run; infinite without a budget."""
    if budget_s is None:
        return math.inf
    return began_s + budget_s - min(_CLOSING_S, _CLOSING_RATIO * budget_s) - time.monotonic()


def as_run(case: Case) -> Case:
    """Return the case with the rounds that it runs: short ones beside a reference, unless it is a search."""
    return case if case.reference is None or case.plan is not None else case.in_short_rounds()


def estimated_s(case: Case) -> float:
    """Return the usual time of a test on brokers that run, if it is no suspect."""
    case = as_run(case)
    is_compared = case.reference is not None and case.plan is None
    sessions = _LIKELY_SESSIONS if is_compared else case.settings.calibrate or 1
    session_s = _setup_s(case) + case.scenario.rounds * _declared_round_s(case)
    return sessions * session_s + (sessions - 1) * _restart_s(case)


def estimate(cases: Sequence[Case]) -> str:
    """Describe the number of tests and their usual total time: `12 perf tests, about 4 min`."""
    started = {case.spec for case in cases if not _is_external(case)}
    total_s = math.fsum(map(estimated_s, cases)) + _START_S * len(started)
    more = ", and minutes more for a suspected regression" if any(map(_can_be_suspect, cases)) else ""
    return f"{counted(len(cases), 'perf test')}, {about(total_s)}{more}"


def _can_be_suspect(case: Case) -> bool:
    """Return True if a first session that is worse than the baseline is followed by others."""
    judges = case.settings.confirm and case.settings.calibrate is None and case.settings.update != "all"
    return judges and case.reference is None and any(one.relative is not None for one in case.thresholds)


def about(seconds: float) -> str:
    """Describe an estimated time: `about 50 s`, `about 4 min`."""
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} min" if minutes > 1 else f"about {math.ceil(seconds / 10) * 10} s"


def _least_s(case: Case) -> float:
    """Return the time of the rounds without which nothing can be decided."""
    return _setup_s(case) + min(_FEWEST_ROUNDS, case.scenario.rounds) * _declared_round_s(case)


def _setup_s(case: Case) -> float:
    """Return the time before the first round of a session, with the warm-up of brokers that are cold."""
    if _is_external(case):
        return _SETUP_S
    warm_up_s = _WARM_UP_S if case.needs_warm_brokers else _SHORT_WARM_UP_S
    sides = 1 if case.reference is None else 2
    return _SETUP_S + sides * min(warm_up_s, case.settings.preheat_s)


def _restart_s(case: Case) -> float:
    """Return the time between two sessions."""
    return case.settings.session_gap_s + (0.0 if _is_external(case) else _RESTART_S)


def _is_external(case: Case) -> bool:
    return isinstance(case.settings.cluster, External)


def _declared_round_s(case: Case) -> float:
    """Return the time of a round as declared; a reference doubles it, and a search takes it for each step."""
    length_s = window_s(case.scenario)
    load_s = case.scenario.warmup + (_UNKNOWN_LENGTH_S if length_s is None else length_s)
    times = (1 if case.reference is None else 2) * (1 if case.plan is None else LIKELY_STEPS)
    return times * (_ROUND_SETUP_S + load_s + _COMMIT_S * bool(case.scenario.group))


def _seconds(value_s: float) -> str:
    return format_quantity(value_s, Unit.SECONDS)

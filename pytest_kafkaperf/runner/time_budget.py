"""The time budget of a run: one deadline, and one ratio by which rounds are cut so that all tests end before it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_kafkaperf.clusters.target import External
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.units import Count, Quantity, Unit, counted
from pytest_kafkaperf.load.schedule import window_s
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.capacity import LIKELY_STEPS

_T = TypeVar("_T")

_CLOSING_S = 2.0
"""Part of the time budget that is kept for stopping clusters and writing reports."""
_FEWEST_ROUNDS = 3
"""Rounds below which one outlier would decide a median."""
_SETUP_S = 1.0
"""Time that a trial needs to start its workers and to check the cluster."""
_FULL_WARM_UP_S, _FURTHER_WARM_UP_S, _SHORT_WARM_UP_S = 10.0, 8.0, 5.0
"""Usual times, on two idle cores, of a warm-up at full speed, of its second phase (at the scenario's rate, or with
applications), and of a short warm-up. Other programs that use half of the machine double them."""
_LOW_NOISE_RATIO = 0.3
"""Share of a warm-up that remains with the JVM's quick compiler alone."""
_ROUND_SETUP_S = 0.3
"""Time that a load needs besides its warm-up and its window: to make topics, to connect clients, to check the log."""
_COMMIT_S = 2.5
"""Usual wait for the last commit of a group: half of Kafka's default interval."""
_START_S, _RESTART_S = 5.0, 3.0
"""Times in which the brokers of a cluster start, and in which they restart for a further trial."""
_UNKNOWN_LENGTH_S = 5.0
"""Assumed duration of a closed-loop round that is declared by its number of records."""
_LIKELY_TRIALS = 5
"""Usual number of trials side by side until they decide: 4 or 5 in most runs, at most 10 in runs without a change."""


class RunBudget:
    """The time budget of a run, fixed before its first test: a deadline, and how much of the rounds it can keep."""

    def __init__(
        self, tests: Sequence[PerfTest], *, left_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`tests` are all tests of the run, the deadline is in `left_s`, and `clock` returns seconds."""
        least_s = _least_s(tests)
        more_s = math.fsum(map(estimated_s, tests)) - least_s
        self.clock = clock
        self.deadline_s = clock() + left_s
        self.kept_ratio = min(1.0, max(0.0, left_s - least_s) / more_s) if more_s > 0 else 1.0
        """Part of the rounds after each test's first three that is kept: 1 if the usual time of all tests fits."""


class PerfTestBudget:
    """Keeps one test within the time budget of the run.

    The rounds of a trial are planned before the first one: as many as the run can keep and as there is time for, at
    least the three without which nothing can be decided. A round starts if it ends before the deadline. Planned rounds
    and fresh trials leave each of the `later` tests the time for its own first three rounds.
    """

    def __init__(self, run: RunBudget, test: PerfTest, later: Sequence[PerfTest]) -> None:
        self._run = run
        self._test = test
        self._latest_s = run.deadline_s - _least_s(later)
        self._asked_s = math.inf
        """When the last fresh trial was allowed."""
        self._alone = self._pace = _Pace(_setup_s(test), _declared_round_s(test))
        self._side_by_side = _retest_pace(test)
        self.fewest_rounds = min(_FEWEST_ROUNDS, test.scenario.rounds)
        """The number of rounds without which nothing can be decided."""
        # Fewer rounds side by side with a live baseline would take more trials, and more time.
        kept_ratio = 1.0 if _is_compared(test) else run.kept_ratio
        kept = self.fewest_rounds + kept_ratio * (test.scenario.rounds - self.fewest_rounds)
        in_time = (self._latest_s - run.clock() - self._pace.setup_s) / self._pace.round_s
        self._planned = max(self.fewest_rounds, int(min(kept, in_time)))

    @property
    def obstacle(self) -> Notice | None:
        """The note that the test cannot run, with the reason; None if it can."""
        needed_s = _trial_s(self._test, self.fewest_rounds)
        left_s = self._run.deadline_s - self._run.clock()
        if needed_s <= left_s:
            return None
        rounds = Count(self.fewest_rounds, "round")
        return Notice(Remark.NOT_RUN, {"rounds": rounds, "needed": _seconds(needed_s), "left": _seconds(left_s)})

    def confirm(self, *, side_by_side: bool) -> None:
        """Expect the trials of a re-test: fresh ones like the first, or side by side with the baseline's brokers."""
        self._pace = self._side_by_side if side_by_side else self._alone

    def limited(self, turns: Iterable[_T]) -> Iterator[_T]:
        """Give the turns of one trial, one a planned round, as long as they end before the deadline."""
        for turn in itertools.islice(turns, self._planned):
            began_s = self._run.clock()
            if began_s + self._pace.round_s > self._run.deadline_s:
                return
            yield turn
            self._pace.round_s = max(self._pace.round_s, self._run.clock() - began_s)

    def refuses_trial(self, rounds: int) -> Notice | None:
        """Return a note if there is no time for a fresh trial with that number of rounds."""
        now_s = self._run.clock()
        usual_s = _restart_s(self._test) + self._pace.setup_s + min(rounds, self._planned) * self._pace.round_s
        needed_s = max(usual_s, now_s - self._asked_s)  # at least as long as the fresh trial before took
        left_s = self._latest_s - now_s
        if needed_s <= left_s:
            self._asked_s = now_s
            return None
        return Notice(Remark.NO_TIME_FOR_TRIAL, {"needed": _seconds(needed_s), "left": _seconds(left_s)})

    def cut(self, first: Trial) -> Notice | None:
        """Return a note if the first trial has fewer rounds than declared; such results make no baseline."""
        ran = len(first.rounds)
        declared = self._test.scenario.rounds
        if first.problems or ran >= declared:
            return None
        return Notice(Remark.ROUNDS_CUT, {"ran": ran, "rounds": Count(declared, "round")})

    def undecided(self, first: Trial) -> str | None:
        """Return the reason if the first trial has too few rounds to be judged."""
        if first.problems or len(first.rounds) >= self.fewest_rounds:
            return None
        ran = counted(len(first.rounds), "round")
        return f"the time budget allowed {ran}, and a decision needs {self.fewest_rounds}; raise --kafka-time-budget"


@dataclass(slots=True)
class _Pace:
    """The times of trials of one kind."""

    setup_s: float
    """Time before the first round."""
    round_s: float
    """Time of the next round: as declared, or that of a longer one."""


def time_left_s(budget_s: float | None, began_s: float) -> float:
    """Return the time that is left for the tests of a run; infinite without a budget."""
    if budget_s is None:
        return math.inf
    return began_s + budget_s - _CLOSING_S - time.monotonic()


def as_run(test: PerfTest) -> PerfTest:
    """Return the test with the rounds that it runs: short ones side by side, unless it is a search."""
    return test.in_short_rounds() if _is_compared(test) else test


def estimated_s(test: PerfTest) -> float:
    """Return the usual time of a test on brokers that run, if no regression is suspected."""
    test = as_run(test)
    trials = _LIKELY_TRIALS if _is_compared(test) else test.settings.calibrate or 1
    return trials * _trial_s(test, test.scenario.rounds) + (trials - 1) * _restart_s(test)


def _is_compared(test: PerfTest) -> bool:
    """Return True if the test runs side by side with a live baseline in several trials until the evidence decides."""
    return test.live_baseline is not None and test.plan is None


def left_s(test: PerfTest, ends_s: Sequence[float]) -> float:
    """Return the usual time until the trials of a test decide.

    `ends_s` are the ends of its trials so far, in seconds since the start of the first one: they show how much slower
    than usual this machine is.
    """
    done = len(ends_s)
    if _is_compared(test):
        return max(1, _LIKELY_TRIALS - done) * ends_s[-1] / done
    if done == 1:
        slowness = ends_s[0] / _trial_s(test, test.scenario.rounds)
        return slowness * _retest_s(test)
    retested = done - 1
    return max(1, _LIKELY_TRIALS - retested) * (ends_s[-1] - ends_s[0]) / retested


def _retest_s(test: PerfTest) -> float:
    """Return the usual time in which a suspected regression is re-tested side by side."""
    pace = _retest_pace(test)
    return _LIKELY_TRIALS * (_restart_s(test) + pace.setup_s + test.in_short_rounds().scenario.rounds * pace.round_s)


def _retest_pace(test: PerfTest) -> _Pace:
    """Return the times of a re-test side by side: short rounds and a warm-up, on both sides."""
    return _Pace(2 * _setup_s(test), 2 * _declared_round_s(test.in_short_rounds()))


def estimate(tests: Sequence[PerfTest]) -> str:
    """Describe the number of tests and their usual total time: `12 perf tests, about 4 min`."""
    started = {test.spec for test in tests if not _is_external(test)}
    total_s = math.fsum(map(estimated_s, tests)) + _START_S * len(started)
    retests_s = [_retest_s(test) for test in tests if _can_be_suspected(test)]
    more = f", and {about(max(retests_s))} more for each suspected regression" if retests_s else ""
    return f"{counted(len(tests), 'perf test')}, {about(total_s)}{more}"


def _can_be_suspected(test: PerfTest) -> bool:
    """Return True if a first trial that is worse than the baseline is followed by others."""
    judges = test.settings.confirm and test.settings.calibrate is None and test.settings.update != "replace"
    return judges and test.live_baseline is None and any(one.relative is not None for one in test.thresholds)


def about(seconds: float) -> str:
    """Describe an estimated time: `about 50 s`, `about 4 min`."""
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} min" if minutes > 1 else f"about {math.ceil(seconds / 10) * 10} s"


def _least_s(tests: Iterable[PerfTest]) -> float:
    """Return the time of the rounds without which nothing can be decided, of several tests."""
    return math.fsum(_trial_s(test, min(_FEWEST_ROUNDS, test.scenario.rounds)) for test in map(as_run, tests))


def _trial_s(test: PerfTest, rounds: int) -> float:
    return _setup_s(test) + rounds * _declared_round_s(test)


def _setup_s(test: PerfTest) -> float:
    """Return the time before the first round of a trial, with the warm-up of brokers that are cold."""
    if _is_external(test):
        return _SETUP_S
    sides = 1 if test.live_baseline is None else 2
    return _SETUP_S + sides * min(_warm_up_s(test), test.settings.broker_warmup_s)


def _warm_up_s(test: PerfTest) -> float:
    """Return the usual time of the warm-up of one side."""
    if not test.needs_warm_brokers:
        return _SHORT_WARM_UP_S
    scenario = test.scenario
    is_paced = scenario.rate is not None and test.plan is None
    has_application = scenario.output_topic is not None or bool(scenario.watch_group)
    complete_s = _FULL_WARM_UP_S + _FURTHER_WARM_UP_S * (is_paced or has_application)
    return complete_s * (_LOW_NOISE_RATIO if test.spec.low_noise else 1.0)


def _restart_s(test: PerfTest) -> float:
    """Return the time between two trials."""
    return test.settings.trial_gap_s + (0.0 if _is_external(test) else _RESTART_S)


def _is_external(test: PerfTest) -> bool:
    return isinstance(test.settings.cluster, External)


def _declared_round_s(test: PerfTest) -> float:
    """Return the time of a round as declared; a live baseline doubles it, and a search takes it for each step."""
    length_s = window_s(test.scenario)
    load_s = test.scenario.warmup + (_UNKNOWN_LENGTH_S if length_s is None else length_s)
    times = (1 if test.live_baseline is None else 2) * (1 if test.plan is None else LIKELY_STEPS)
    return times * (_ROUND_SETUP_S + load_s + _COMMIT_S * bool(test.scenario.watch_group))


def _seconds(value_s: float) -> Quantity:
    return Quantity(max(0.0, value_s), Unit.SECONDS)

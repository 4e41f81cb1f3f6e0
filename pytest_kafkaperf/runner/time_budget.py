"""A run's time budget: a deadline, and the share of rounds to keep so that all tests finish before the deadline."""

from __future__ import annotations

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
from pytest_kafkaperf.runner.quick_brokers import starts_quick
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.capacity import LIKELY_STEPS

_T = TypeVar("_T")

_CLOSING_S = 2.0
"""Time reserved for stopping clusters and writing reports, in seconds."""
_FEWEST_ROUNDS = 3
"""Minimum number of rounds; with fewer, a single outlier could determine the median."""
_SETUP_S = 1.0
"""Time that a trial needs to start workers and check the cluster."""
_FULL_WARM_UP_S, _FURTHER_WARM_UP_S, _SHORT_WARM_UP_S = 10.0, 8.0, 5.0
"""Typical times on two idle cores for a warm-up at full speed, for its second phase (at the scenario's rate or with
applications), and for a short warm-up. These times double if other programs use half of the machine."""
_QUICK_RATIO = 0.3
"""Share of the usual warm-up that remains if only the JVM's quick compiler is used."""
_ROUND_SETUP_S = 0.3
"""Time that a load needs to create topics, connect clients and check the log, in addition to warm-up and window."""
_COMMIT_S = 2.5
"""Typical wait for a group's last commit: half of Kafka's default interval."""
_START_S, _RESTART_S = 5.0, 3.0
"""Typical times to start a cluster's brokers, and to restart them for another trial."""
_UNKNOWN_LENGTH_S = 5.0
"""Assumed duration of a closed-loop round with a declared number of records."""
LIKELY_TRIALS = 2
"""Typical number of side-by-side trials needed for a verdict: usually 1 to 4 if nothing changed, more for p99."""


class RunBudget:
    """A run's time budget, fixed before the first test: a deadline, and the share of rounds that can run."""

    def __init__(
        self, tests: Sequence[PerfTest], *, left_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Plan all `tests` in the run; `left_s` is the time until the deadline, and `clock` returns seconds."""
        least_s = _least_s(tests)
        more_s = math.fsum(map(estimated_s, tests)) - least_s
        self.clock = clock
        self.deadline_s = clock() + left_s
        self.kept_ratio = min(1.0, max(0.0, left_s - least_s) / more_s) if more_s > 0 else 1.0
        """Share of rounds to keep after each test's first three; 1 if all tests are expected to fit."""


class PerfTestBudget:
    """Keeps a test within the run's time budget.

    The number of rounds is planned before a trial: as many as the run's share and the remaining time allow, but at
    least the three rounds that a verdict requires. A round starts only if it can finish before the deadline. Planned
    rounds and new trials leave enough time for the first three rounds of each of the `later` tests.
    """

    def __init__(self, run: RunBudget, test: PerfTest, later: Sequence[PerfTest]) -> None:
        self._run = run
        self._test = test
        self._latest_s = run.deadline_s - _least_s(later)
        self._asked_s = math.inf
        """Time at which the last new trial was allowed."""
        self._alone = self._pace = _Pace(_setup_s(test), _declared_round_s(test))
        self._side_by_side = _retest_pace(test)
        self.fewest_rounds = min(_FEWEST_ROUNDS, test.scenario.rounds)
        """Minimum number of rounds for a verdict."""
        # With a live baseline, fewer rounds would require more trials and more time.
        kept_ratio = 1.0 if _is_compared(test) else run.kept_ratio
        kept = self.fewest_rounds + kept_ratio * (test.scenario.rounds - self.fewest_rounds)
        in_time = (self._latest_s - run.clock() - self._pace.setup_s) / self._pace.round_s
        self._planned = max(self.fewest_rounds, int(min(kept, in_time)))

    @property
    def obstacle(self) -> Notice | None:
        """A note explaining why the test cannot run; None if it can."""
        needed_s = _trial_s(self._test, self.fewest_rounds)
        left_s = self._run.deadline_s - self._run.clock()
        if needed_s <= left_s:
            return None
        rounds = Count(self.fewest_rounds, "round")
        return Notice(Remark.NOT_RUN, {"rounds": rounds, "needed": _seconds(needed_s), "left": _seconds(left_s)})

    def confirm(self, *, side_by_side: bool) -> None:
        """Expect a re-test's trials, run either like the first trial or side by side with the baseline's brokers."""
        self._pace = self._side_by_side if side_by_side else self._alone

    def limited(self, turns: Iterable[_T], ran: Callable[[], int]) -> Iterator[_T]:
        """Yield a trial's turns, one per planned round, as long as they can finish before the deadline.

        If all declared rounds are planned, further turns must leave enough time for the later tests. `ran` returns the
        number of rounds so far; a repeated round is not a further one.
        """
        is_cut = self._planned < self._test.scenario.rounds
        for turn in turns:
            number = ran()
            if is_cut and number >= self._planned:
                return
            latest_s = self._run.deadline_s if number < self._planned else self._latest_s
            began_s = self._run.clock()
            if began_s + self._pace.round_s > latest_s:
                return
            yield turn
            self._pace.round_s = max(self._pace.round_s, self._run.clock() - began_s)

    def refuses_trial(self, rounds: int) -> Notice | None:
        """Return a note if there is no time for another trial with this number of rounds; None otherwise."""
        now_s = self._run.clock()
        usual_s = _restart_s(self._test) + self._pace.setup_s + min(rounds, self._planned) * self._pace.round_s
        needed_s = max(usual_s, now_s - self._asked_s)  # at least as long as the previous new trial took
        left_s = self._latest_s - now_s
        if needed_s <= left_s:
            self._asked_s = now_s
            return None
        return Notice(Remark.NO_TIME_FOR_TRIAL, {"needed": _seconds(needed_s), "left": _seconds(left_s)})

    def cut(self, first: Trial) -> Notice | None:
        """Return a note if the first trial has fewer rounds than declared; such results never become a baseline."""
        ran = len(first.rounds)
        declared = self._test.scenario.rounds
        if first.problems or ran >= declared:
            return None
        return Notice(Remark.ROUNDS_CUT, {"ran": ran, "rounds": Count(declared, "round")})

    def undecided(self, first: Trial) -> str | None:
        """Return an explanation if the first trial has too few rounds to be judged; None otherwise."""
        if first.problems or len(first.rounds) >= self.fewest_rounds:
            return None
        ran = counted(len(first.rounds), "round")
        return f"the time budget allowed {ran}, but a decision needs {self.fewest_rounds}; increase --kafka-time-budget"


@dataclass(slots=True)
class _Pace:
    """Expected times for one kind of trial."""

    setup_s: float
    """Time before the first round, in seconds."""
    round_s: float
    """Duration of the next round, in seconds: as declared, or as long as the longest round so far."""


def time_left_s(budget_s: float | None, began_s: float) -> float:
    """Return the time left for a run's tests, in seconds; infinite without a budget."""
    if budget_s is None:
        return math.inf
    return began_s + budget_s - _CLOSING_S - time.monotonic()


def as_run(test: PerfTest) -> PerfTest:
    """Return the test with the rounds that will actually run: short rounds side by side, except in searches."""
    return test.in_short_rounds() if _is_compared(test) else test


def estimated_s(test: PerfTest) -> float:
    """Return a test's estimated time in seconds, on running brokers and without a suspected regression."""
    test = as_run(test)
    trials = LIKELY_TRIALS if _is_compared(test) else test.settings.calibrate or 1
    return trials * _trial_s(test, test.scenario.rounds) + (trials - 1) * _restart_s(test)


def _is_compared(test: PerfTest) -> bool:
    """Return True if the test runs side-by-side trials with a live baseline until the evidence is conclusive."""
    return test.live_baseline is not None and test.plan is None


def left_s(test: PerfTest, ends_s: Sequence[float], further: int | None = None) -> float:
    """Return the estimated time until a test reaches a verdict, in seconds.

    `ends_s` are the end times of its trials so far, in seconds since the start of the first one. These times show how
    much slower this machine is than usual. `further` is the number of further trials that the evidence so far suggests;
    None if there is none yet.
    """
    done = len(ends_s)
    if _is_compared(test):
        return (further or max(1, LIKELY_TRIALS - done)) * ends_s[-1] / done
    if done == 1:
        slowness = ends_s[0] / _trial_s(test, test.scenario.rounds)
        return slowness * _retest_s(test)
    retested = done - 1
    return (further or max(1, LIKELY_TRIALS - retested)) * (ends_s[-1] - ends_s[0]) / retested


def _retest_s(test: PerfTest) -> float:
    """Return the estimated duration of a side-by-side re-test, in seconds."""
    pace = _retest_pace(test)
    return LIKELY_TRIALS * (_restart_s(test) + pace.setup_s + test.in_short_rounds().scenario.rounds * pace.round_s)


def _retest_pace(test: PerfTest) -> _Pace:
    """Return the expected times for a side-by-side re-test, with short rounds and a warm-up on both sides."""
    return _Pace(2 * _setup_s(test), 2 * _declared_round_s(test.in_short_rounds()))


def estimate(tests: Sequence[PerfTest]) -> str:
    """Describe the number of tests and their estimated total time, as in `12 perf tests, about 4 min`."""
    started = {test.spec for test in tests if not _is_external(test)}
    total_s = math.fsum(map(estimated_s, tests)) + _START_S * len(started)
    retests_s = [_retest_s(test) for test in tests if _can_be_suspected(test)]
    more = f", and {about(max(retests_s))} more for each suspected regression" if retests_s else ""
    return f"{counted(len(tests), 'perf test')}, {about(total_s)}{more}"


def _can_be_suspected(test: PerfTest) -> bool:
    """Return True if the test is re-tested when its first trial is worse than the baseline."""
    judges = test.settings.confirm and test.settings.calibrate is None and test.settings.update != "replace"
    is_screened = test.live_baseline is None and not test.settings.compares_code
    return judges and is_screened and any(one.relative is not None for one in test.thresholds)


def about(seconds: float) -> str:
    """Describe an estimated time, such as `about 50 s` or `about 4 min`."""
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} min" if minutes > 1 else f"about {math.ceil(seconds / 10) * 10} s"


def _least_s(tests: Iterable[PerfTest]) -> float:
    """Return the total time, in seconds, that several tests need for the minimum number of rounds for a verdict."""
    return math.fsum(_trial_s(test, min(_FEWEST_ROUNDS, test.scenario.rounds)) for test in map(as_run, tests))


def _trial_s(test: PerfTest, rounds: int) -> float:
    return _setup_s(test) + rounds * _declared_round_s(test)


def _setup_s(test: PerfTest) -> float:
    """Return the time in seconds before a trial's first round, including the warm-up of cold brokers."""
    if _is_external(test):
        return _SETUP_S
    sides = 1 if test.live_baseline is None else 2
    return _SETUP_S + sides * min(_warm_up_s(test), test.settings.broker_warmup_s)


def _warm_up_s(test: PerfTest) -> float:
    """Return one side's estimated warm-up time, in seconds."""
    if not test.needs_warm_brokers:
        return _SHORT_WARM_UP_S
    scenario = test.scenario
    is_paced = scenario.rate is not None and test.plan is None
    has_application = scenario.output_topic is not None or bool(scenario.watch_group)
    complete_s = _FULL_WARM_UP_S + _FURTHER_WARM_UP_S * (is_paced or has_application)
    return complete_s * (_QUICK_RATIO if starts_quick(test) else 1.0)


def _restart_s(test: PerfTest) -> float:
    """Return the time between two trials, in seconds."""
    return test.settings.trial_gap_s + (0.0 if _is_external(test) else _RESTART_S)


def _is_external(test: PerfTest) -> bool:
    return isinstance(test.settings.cluster, External)


def _declared_round_s(test: PerfTest) -> float:
    """Return a round's declared time in seconds: doubled for a live baseline, multiplied by the steps in a search."""
    length_s = window_s(test.scenario)
    load_s = test.scenario.warmup + (_UNKNOWN_LENGTH_S if length_s is None else length_s)
    times = (1 if test.live_baseline is None else 2) * (1 if test.plan is None else LIKELY_STEPS)
    return times * (_ROUND_SETUP_S + load_s + _COMMIT_S * bool(test.scenario.watch_group))


def _seconds(value_s: float) -> Quantity:
    return Quantity(max(0.0, value_s), Unit.SECONDS)

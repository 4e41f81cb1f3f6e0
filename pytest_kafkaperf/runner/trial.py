"""Runs a test's trials on one side or alternately on two; brokers usually restart and warm up for each trial."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pytest_kafkaperf.core.environment import usable_cores
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.metrics import LOG_FACTS, LOSS_METRICS
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark
from pytest_kafkaperf.core.problems import Cause, Place, Problem, only_late
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.load.allocation import WorkerAllocation, decided, undecidable
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.round_length import MOST_PAIRS, MOST_REPEATED
from pytest_kafkaperf.runner.rounds.loads import probe_load
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side_rounds import PROBE_SEEDS, OnProgress, SideRounds, rounds, running
from pytest_kafkaperf.runner.time_budget import PerfTestBudget
from pytest_kafkaperf.runner.warmup import WarmUp, warm_up

_STEP_S = 0.25
"""Poll interval of a pause between trials; an interrupt is noticed within this time."""


def not_run(error: ClusterError | None = None) -> Trial:
    """Return a trial without rounds, because of a cluster error or, if that is None, because there was no time."""
    problems = () if error is None else (Problem.of(error),)
    return Trial(created=now(), rounds=(), problems=problems)


def now() -> str:
    """Return the current time in ISO 8601, rounded to seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


Faults = Callable[[Sequence[Round]], Collection[str]]
"""Returns the metrics among `FINAL_METRICS` whose limits a side's rounds violate."""


class _Unfinished:
    """A trial that is running, with what has been measured so far."""

    def __init__(self, sides: Sequence[SideRounds], faults: Faults) -> None:
        """`sides` are the test's side and, if there is one, the live baseline."""
        self._created = now()
        self._sides = sides
        self._faults = faults
        self._warm_ups: tuple[WarmUp, ...] = ()
        self.lost = dict.fromkeys(sides, 0.0)
        """Number of records that each side lost before its first round."""
        for side in sides:
            side.rounds, side.failure = [], None  # otherwise, those of the trial before would count

    def add(self, warm_ups: Mapping[SideRounds, WarmUp]) -> None:
        """Add each side's warm-up."""
        self._warm_ups = tuple(warm_ups[side] for side in self._sides)
        for side in self._sides:
            self.lost[side] += warm_ups[side].lost

    def so_far(self) -> Trial:
        """Return the trial with the rounds so far."""
        ours, *other = (tuple(_with_losses(side.rounds, self.lost[side])) for side in self._sides)
        problems = [
            *_problems(ours, other_side=False),
            *(problem for theirs in other for problem in self._other_side_problems(theirs)),
        ]
        lost = 0.0 if ours else self.lost[self._sides[0]]
        if lost:
            problems.append(Problem(Cause.RECORDS_LOST_BEFORE, {"lost": lost}))
        is_broken = not ours and bool(self._warm_ups) and bool(self._warm_ups[0].problems)
        return Trial(
            created=self._created,
            rounds=ours,
            other_side=other[0] if other else None,
            problems=tuple(problems or self._warm_up_problems()),
            warm_ups=self._warm_ups,
            own_failed=bool(lost) or is_broken,
            is_faulty=bool(self._faults(ours)),
        )

    def _other_side_problems(self, measured: Sequence[Round]) -> Iterator[Problem]:
        """Yield the live baseline's problems, including losses that the test does not allow."""
        yield from _problems(measured, other_side=True)
        if not {*LOSS_METRICS}.isdisjoint(self._faults(measured)):
            for number, one in enumerate(measured, 1):
                if lost := one.metrics.get("lost"):
                    cause = Cause.OUTPUT_LOST if "app.output_ratio" in one.metrics else Cause.RECORDS_LOST
                    yield Problem(cause, {"lost": lost}).of_round(number, other_side=True)

    def _warm_up_problems(self) -> Iterator[Problem]:
        """Yield the problems of warm-ups that broke although the rounds after them did not."""
        for number, one in enumerate(self._warm_ups):
            place = Place(other_side=number > 0)
            yield from (dataclasses.replace(problem, place=place) for problem in one.problems)

    def failed(self, error: ClusterError) -> Trial:
        """Return a trial without rounds, unless it is faulty, which counts regardless of what happened later."""
        known = self.so_far()
        if known.is_faulty or known.own_failed:
            return dataclasses.replace(known, problems=(*known.problems, Problem.of(error)))
        own_failed = self._sides[0].failure is not None
        return dataclasses.replace(not_run(error), created=self._created, own_failed=own_failed)


class TrialRunner:
    """Measures one test, one trial at a time, on one side or alternately on two."""

    def __init__(
        self,
        sides: Sequence[SideRounds],
        *,
        warm_up_s: float,
        gap_s: float = 0.0,
        allocation: WorkerAllocation,
        on_progress: OnProgress = lambda *_: None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """Measure on `sides`: the test's side and, if there is one, the live baseline; trials are `gap_s` apart.

        The stopwatch measures how the test spends its time; None if not needed.
        """
        self.allocation = allocation
        """The workers that the options specify; from the first trial on, the number that the scenario requires."""
        self._sides = sides
        self._warm_up_s = warm_up_s
        self._gap_s = gap_s
        self.quick: bool | None = None
        """True to use brokers with only the JVM's quick compiler; None to leave the compilers as they are."""
        self.is_precise: Callable[[Trial], bool] = lambda _: True
        """Returns True if a side-by-side trial needs no further rounds (see `MOST_PAIRS`)."""
        self.faults: Faults = _losses
        """Returns the faults that the test does not allow; without a test, losses."""
        self._on_progress = on_progress
        self._stopwatch = stopwatch or Stopwatch()
        self._trials = 0
        self._acted = False
        """True if actions have run since the last restart."""
        self._repeats = False
        """True while a late round is repeated."""

    @property
    def rounds(self) -> int:
        """Number of rounds on each side in a trial."""
        return self._sides[0].scenario.rounds

    def measure(
        self,
        budget: PerfTestBudget | None = None,
        label: str = "",
        *,
        short: bool = False,
        suffices: Callable[[Sequence[Round]], bool] = lambda _: False,
    ) -> Trial:
        """Run one trial: warm up cold brokers, then run the scenario's rounds, or as many as the time budget allows.

        Before the first trial, a short load determines the number of workers that the scenario requires. The trial
        stops early if `suffices` returns True for the rounds of the first side. Side by side, it continues beyond the
        scenario's rounds while it is not precise (see `MOST_PAIRS`). With `short`, the warm-up is so short that brokers
        stay cold. If actions have run since the last restart, such as a broker stop, the sides restart first.
        """
        other_compilers = self.quick is not None and any(side.side.quick is (not self.quick) for side in self._sides)
        if other_compilers or self._acted:
            failed = self._restarted()
            if failed is not None:
                return failed
        trial = _Unfinished(self._sides, self.faults)
        try:
            self._measure(trial, budget, label, short=short, suffices=suffices)
        except ClusterError as error:
            return trial.failed(error)
        return trial.so_far()

    def _measure(
        self,
        trial: _Unfinished,
        budget: PerfTestBudget | None,
        label: str,
        *,
        short: bool,
        suffices: Callable[[Sequence[Round]], bool],
    ) -> None:
        """Run the loads of a trial; raises ClusterError if a side fails."""
        sides = self._in_order()
        self._trials += 1
        if self.allocation.is_open:
            with self._stopwatch.measure(Span.PROBE):
                self.allocation, trial.lost[self._sides[0]] = self._probed(f"{label} sizing".strip())
        with running(sides, self.allocation, label=label) as workers:
            began_s = time.monotonic()
            with self._stopwatch.measure(Span.WARM_UP):
                found = warm_up(sides, workers, most_s=self._warm_up_s, short=short)
            trial.add(dict(zip(sides, found, strict=True)))
            self._acted = self._has_actions
            turns = self._turns(trial, warm_up_s=time.monotonic() - began_s)
            if budget is not None:
                turns = budget.limited(turns, lambda: len(self._sides[0].rounds) - self._repeats)
            for _ in rounds(sides, workers, turns):
                if suffices(self._sides[0].rounds):  # all rounds so far are kept
                    break

    def _turns(self, trial: _Unfinished, *, warm_up_s: float) -> Iterator[int]:
        """Yield the index of the side that goes first in each of the trial's rounds; late rounds are repeated.

        A late round is kept until it has been repeated, because there may be no time for that.
        """
        repeated, self._repeats = 0, False
        for first in self._planned_turns(trial, warm_up_s=warm_up_s):
            yield first
            while repeated < MOST_REPEATED and self._is_late():
                repeated += 1
                self._repeats = True
                yield first
                self._repeats = False
                for side in self._sides:
                    _replace_late_round(side.rounds)

    def _planned_turns(self, trial: _Unfinished, *, warm_up_s: float) -> Iterator[int]:
        """Yield the same without repeated rounds (see `MOST_PAIRS`)."""
        ends_s = time.monotonic() + warm_up_s
        yield from (number % len(self._sides) for number in range(self.rounds))
        while len(self._sides) > 1 and time.monotonic() < ends_s:
            so_far = trial.so_far()
            if len(so_far.rounds) + 2 > MOST_PAIRS or self.is_precise(so_far):
                return
            yield from (0, 1)  # as often the one side first as the other

    @property
    def _has_actions(self) -> bool:
        return any(side.side.has_actions for side in self._sides)

    def _is_late(self) -> bool:
        """Return True if the last round must be repeated, because the generator was too slow on one of the sides.

        In a busy moment of this machine, the generator can be late although it keeps up otherwise. Repeating the round
        takes much less time than repeating the trial. A search for the capacity handles such moments on its own. If
        actions change the brokers or applications, only a trial can be repeated, because it starts with a restart.
        """
        last = [side.rounds[-1] for side in self._sides]
        problems = [problem for one in last for problem in one.problems]
        is_faulty = any(self.faults([one]) for one in last)
        return (
            bool(problems) and only_late(problems) and not (is_faulty or self._sides[0].searches or self._has_actions)
        )

    def measure_fresh(self, budget: PerfTestBudget | None = None, label: str = "", *, restart: bool = True) -> Trial:
        """Run a further trial, by default on restarted brokers; brokers on all sides restart at the same time.

        A configured pause comes first, which prevents a longer disturbance from affecting all trials.
        """
        with self._stopwatch.measure(Span.PAUSE):
            for _ in range(steps := math.ceil(self._gap_s / _STEP_S)):
                waiting = Progress(phase="waiting", elapsed_s=0.0, acknowledged=0)
                self._on_progress(label, 1, waiting)  # raises if the test is interrupted
                time.sleep(self._gap_s / steps)
        failed = self._restarted() if restart else None
        return failed or self.measure(budget, label)

    def _restarted(self) -> Trial | None:
        """Restart all sides at the same time; return a trial without rounds if that fails."""
        self._acted = False
        with self._stopwatch.measure(Span.START), ThreadPoolExecutor(len(self._sides)) as threads:
            restarts = {side: threads.submit(side.restart, quick=self.quick) for side in self._in_order()}
        for side in self._sides:
            try:
                restarts[side].result()
            except ClusterError as error:
                return dataclasses.replace(not_run(error), own_failed=side is self._sides[0])
        return None

    def _in_order(self) -> list[SideRounds]:
        """Return the sides in the order for the next trial; each side goes first in every other trial.

        This order applies to the start, warm-up and rounds, so position effects cancel out on average.
        """
        first = self._trials % len(self._sides)
        return [*self._sides[first:], *self._sides[:first]]

    def _probed(self, label: str) -> tuple[WorkerAllocation, float]:
        """Return the allocation, with the number of workers based on a short load, and the records that load lost."""
        side = self._sides[0]
        reason = undecidable(side.scenario, usable_cores())
        if reason is not None:
            return dataclasses.replace(self.allocation, reason=reason), 0.0
        load = probe_load(side.scenario)
        probe = SideRounds(side.side.without_apps(), load, on_progress=self._on_progress, prefix=side.prefix)
        probe.round_seed = side.round_seed + PROBE_SEEDS
        with running([probe], WorkerAllocation(producing=1, consuming=1), label=label) as workers:
            measured = probe.measure(workers)
        return decided(side.scenario, measured.shares, usable_cores()), measured.metrics.get("lost", 0.0)


def _replace_late_round(measured: list[Round]) -> None:
    """Remove the second-to-last round, which was repeated, and report its problems as warnings of the last round.

    What the log shows about its records counts nevertheless, as if it had happened in the last round.
    """
    late = measured.pop(-2)
    before, after = late.metrics, measured[-1].metrics
    facts = {name: before[name] + after.get(name, 0.0) for name in LOG_FACTS if before.get(name)}
    earlier = [notice for notice in late.warnings if notice.kind is NoticeKind.REPEATED]
    repeated = [Notice(Remark.ROUND_REPEATED, {"problem": each, "cause": each.cause}) for each in late.problems]
    warnings = (*earlier, *repeated, *measured[-1].warnings)
    measured[-1] = dataclasses.replace(measured[-1], metrics={**after, **facts}, warnings=warnings)


def _with_losses(measured: Sequence[Round], lost: float) -> list[Round]:
    """Return a trial's rounds; the first round also counts records lost in earlier loads."""
    if not lost or not measured:
        return [*measured]
    first, *others = measured
    metrics = {**first.metrics, "lost": first.metrics.get("lost", 0.0) + lost}
    problems = (*first.problems, Problem(Cause.RECORDS_LOST_BEFORE, {"lost": lost}))
    return [dataclasses.replace(first, metrics=metrics, problems=problems), *others]


def _losses(measured: Sequence[Round]) -> Collection[str]:
    return ("lost",) if any(one.metrics.get("lost") for one in measured) else ()


def _problems(measured: Sequence[Round], *, other_side: bool) -> Iterator[Problem]:
    for number, one in enumerate(measured, 1):
        yield from (problem.of_round(number, other_side=other_side) for problem in one.problems)

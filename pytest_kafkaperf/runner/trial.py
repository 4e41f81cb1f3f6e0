"""The trials of one test: the first, and those that calibrate or confirm a suspected regression."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pytest_kafkaperf.core.environment import usable_cores
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Problem, ProblemKind
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.core.units import Unit, counted, format_quantity
from pytest_kafkaperf.load.allocation import WorkerAllocation, decided, undecidable
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.runner.result import Trial, judged, problems_of
from pytest_kafkaperf.runner.rounds.loads import probe_load
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import OnProgress, Side, rounds, running
from pytest_kafkaperf.runner.time_budget import BROKEN_OFF_TEXT, PerfTestBudget
from pytest_kafkaperf.runner.warmth import cold_warnings, is_cold
from pytest_kafkaperf.runner.warmup import WarmUp, WarmUpEnd, warm_up
from pytest_kafkaperf.verdict.judge import value_missing, worst
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict

OnTrial = Callable[[Sequence[Trial]], None]
"""Takes all trials of a test so far, after each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The trials of a test, and the judgement on them."""

    trials: tuple[Trial, ...]
    judgement: Judgement
    notes: tuple[str, ...] = ()
    """Rounds and trials that the time budget left out."""
    partial: bool = False
    """True if less was measured than declared, for want of time: this makes no baseline."""


_RETEST = "re-test, trial"
_STEP_S = 0.25
"""Longest part of a pause between trials in which an interrupt is not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPolicy:
    """Which trials a test needs besides the first."""

    judge: Callable[[Sequence[Trial]], Judgement]
    calibrate: int | None
    """Number of trials to calibrate with; None judges the test."""
    suffices: Callable[[Sequence[Round]], bool] = lambda _: False
    """Returns True if the first trial can end after these rounds."""
    short_warm_up: bool = False
    """True if a test that passes on cold brokers would pass on warm ones as well."""
    judge_clear: Callable[[Sequence[Trial]], Judgement] | None = None
    """Judges suspected regressions for which the time budget has no further trial; None: `judge` does that as well."""
    on_trial: OnTrial = lambda _: None
    """Called after each trial."""

    def labels(self, trials: Sequence[Trial]) -> Iterator[str]:
        """Yield a label for each trial that the test needs; the caller adds it to `trials` before the next."""
        yield ""
        while self.calibrate is not None and _lacks(trials, self.calibrate):
            yield "trial"
        while self.judge(trials).unsettled:
            yield _RETEST if trials[0].other_side is None else "trial"


def _lacks(trials: Sequence[Trial], wanted: int) -> bool:
    """Return True if fewer trials than wanted count, and none of them has a problem."""
    return len(judged(trials)) < wanted and not problems_of(trials)


def run_trials(
    runner: TrialRunner,
    budget: PerfTestBudget,
    policy: TrialPolicy,
    confirming: Callable[[str | None], TrialRunner | str | None],
) -> Decision:
    """Run the trials that the policy asks for and that the time budget allows.

    `confirming` returns what measures the trials that confirm a suspected regression, None for `runner` itself, or the
    reason why no trial can confirm it. It takes the reason why what it returned before has failed, if it has.
    """
    trials: list[Trial] = []
    own, failed = runner, None
    refusal, repeated, out_of_time, began_s = None, None, False, time.monotonic()
    for label in policy.labels(trials):
        if not trials:
            first, repeated = _measure_first(runner, budget, policy)
            trials.append(first)
            policy.on_trial(trials)
            continue
        if label == _RETEST and len(trials) == 1:
            found = confirming(failed)
            if isinstance(found, str):
                refusal = found
                break
            runner = found or own
            budget.confirm(side_by_side=found is not None)
        declared = min(runner.rounds, len(trials[0].rounds))
        refusal = budget.refuses_trial(declared)
        if refusal is not None:
            out_of_time = True
            break
        trial = runner.measure_fresh(budget, f"{label} {len(trials) + 1}")
        if len(trial.rounds) < declared and not trial.problems and not trial.lost_records:
            refusal, out_of_time = BROKEN_OFF_TEXT, True
            break
        if trial.other_failed and runner is not own:  # nobody asked for the baseline's brokers
            failed, trials[1:] = f"a trial side by side with them failed: {trial.other_failed}", []
            continue
        trials.append(trial)
        policy.on_trial(trials)
    judge = policy.judge_clear if out_of_time and policy.judge_clear is not None else policy.judge
    judgement = _judged(judge, trials, budget)
    cut, side_by_side, enough = budget.cut(trials[0]), None, None
    if len(trials[0].rounds) < runner.rounds and policy.suffices(trials[0].rounds):
        ran = f"{len(trials[0].rounds)} of {runner.rounds}"
        enough = f"{ran} rounds were enough: most rounds meet every threshold already"
        cut = None
    if trials[0].other_side is not None:
        took = format_quantity(time.monotonic() - began_s, Unit.SECONDS)
        side_by_side = f"compared with the live baseline in {counted(len(judged(trials)), 'trial')}, which took {took}"
    return Decision(
        trials=tuple(trials),
        judgement=judgement,
        notes=tuple(note for note in (repeated, cut, enough, side_by_side, refusal) if note),
        partial=cut is not None or (out_of_time and judgement.unsettled),
    )


def _measure_first(runner: TrialRunner, budget: PerfTestBudget, policy: TrialPolicy) -> tuple[Trial, str | None]:
    """Return the first trial, and a note if it was measured again.

    Cold brokers are measured again without a restart, as that would make them cold again.
    """
    trial, note = runner.measure(budget, suffices=policy.suffices, short=policy.short_warm_up), None
    for _ in range(_MOST_COLD):
        if not _is_undecided(trial, policy) or budget.refuses_trial(runner.rounds) is not None:
            break
        note = f"measured again on warm brokers: {'; '.join(cold_warnings([trial])) or 'the warm-up was short'}"
        trial = runner.measure(budget, "warm", suffices=policy.suffices)
    if not trial.is_invalidated or budget.refuses_trial(runner.rounds) is not None:
        return trial, note
    reasons = [*map(str, trial.problems)] or ["one side was colder than the other"]
    note = f"the first trial was measured again: {'; '.join(reasons)}"
    return runner.measure_fresh(budget, "again"), note


_MOST_COLD = 2
"""Further attempts at a first trial that cold brokers may have made fail."""


def _is_undecided(trial: Trial, policy: TrialPolicy) -> bool:
    """Return True if the trial fails, or cannot be judged, only because brokers or applications were cold."""
    if trial.lost_records or (trial.problems and not trial.is_invalidated):
        return False
    if trial.warm_up_end is WarmUpEnd.SHORT:
        return policy.judge([trial]).verdict.fails
    # Only cold rounds have this problem; where there are none, nothing has to be judged twice.
    return is_cold(trial) and any(problem.kind is ProblemKind.COLD_BROKER for problem in policy.judge([trial]).problems)


def not_run(error: ClusterError | None = None) -> Trial:
    """Return a trial without rounds, because of that error of the cluster or because there was no time."""
    problems = () if error is None else (Problem.of(error),)
    return Trial(created=now(), rounds=(), problems=problems)


def now() -> str:
    """Return the current time in ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


class TrialRunner:
    """Measures one test, trial by trial, on one side or on two in turns."""

    def __init__(
        self,
        sides: Sequence[Side],
        *,
        warm_up_s: float,
        gap_s: float = 0.0,
        allocation: WorkerAllocation,
        on_progress: OnProgress = lambda *_: None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        """`sides` are the test's cluster and, if there is one, the live baseline; `gap_s` is the pause between trials.

        The stopwatch measures where the time of the test goes; None: nobody asks.
        """
        self.allocation = allocation
        """As given in the options; from the first trial on, with as many workers as the scenario needs."""
        self._sides = sides
        self._warm_up_s = warm_up_s
        self._gap_s = gap_s
        self._on_progress = on_progress
        self._stopwatch = stopwatch or Stopwatch()
        self._trials = 0

    @property
    def rounds(self) -> int:
        """The number of rounds of a trial, on each side."""
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

        Before the first trial, a probe finds out how many workers the scenario needs. The trial ends early if
        `suffices` returns True for the rounds of the first side. `short` makes the warm-up so short that brokers are
        still cold.
        """
        created, sides = now(), self._in_order()
        warmed: dict[Side, WarmUp] = {}
        self._trials += 1
        lost = dict.fromkeys(self._sides, 0.0)
        try:
            if self.allocation.is_open:
                with self._stopwatch.measure(Span.PROBE):
                    self.allocation, lost[self._sides[0]] = self._probed(f"{label} sizing".strip())
            with running(sides, self.allocation, label=label) as workers:
                with self._stopwatch.measure(Span.WARM_UP):
                    found = warm_up(sides, workers, most_s=self._warm_up_s, short=short)
                warmed = dict(zip(sides, found, strict=True))
                for side in sides:
                    lost[side] += warmed[side].lost
                turns = [number % len(sides) for number in range(sides[0].scenario.rounds)]
                for _ in rounds(sides, workers, turns if budget is None else budget.limited(turns)):
                    if suffices(self._sides[0].rounds):  # each side keeps its rounds
                        break
        except ClusterError as error:
            return dataclasses.replace(not_run(error), created=created)
        ours, *other = (_with_losses(side.rounds, lost[side]) for side in self._sides)
        problems = [*_problems(ours, ""), *(text for theirs in other for text in _other_side_problems(theirs))]
        return Trial(
            created=created,
            rounds=tuple(ours),
            other_side=tuple(other[0]) if other else None,
            problems=tuple(problems),
            warm_ups=tuple(warmed[side] for side in self._sides),
        )

    def measure_fresh(self, budget: PerfTestBudget | None = None, label: str = "") -> Trial:
        """Run a trial on brokers that were restarted; all of them restart at the same time.

        A pause comes first if one was asked for, so that a disturbance which lasts a while does not last for all
        trials.
        """
        with self._stopwatch.measure(Span.PAUSE):
            for _ in range(steps := math.ceil(self._gap_s / _STEP_S)):
                waiting = Progress(phase="waiting", elapsed_s=0.0, acknowledged=0)
                self._on_progress(label, 1, waiting)  # raises if the test is interrupted
                time.sleep(self._gap_s / steps)
        with self._stopwatch.measure(Span.START), ThreadPoolExecutor(len(self._sides)) as threads:
            restarts = {side: threads.submit(side.restart) for side in self._in_order()}
        for side in self._sides:
            try:
                restarts[side].result()
            except ClusterError as error:
                return dataclasses.replace(not_run(error), own_failed=side is self._sides[0])
        return self.measure(budget, label)

    def _in_order(self) -> list[Side]:
        """Return the sides in the order of the next trial: each one is the first in every other trial.

        The order is that of start, warm-up and rounds, so that an effect of the position has no effect on the mean.
        """
        first = self._trials % len(self._sides)
        return [*self._sides[first:], *self._sides[:first]]

    def _probed(self, label: str) -> tuple[WorkerAllocation, float]:
        """Return the allocation with as many workers as a short load shows to be needed, and the records it lost."""
        side = self._sides[0]
        reason = undecidable(side.scenario, usable_cores())
        if reason is not None:
            return dataclasses.replace(self.allocation, reason=reason), 0.0
        probe = Side(
            probe_load(side.scenario),
            side.cluster,
            on_progress=self._on_progress,
            prefix=side.prefix,
            permission=side.permission,
        )
        with running([probe], WorkerAllocation(producing=1, consuming=1), label=label) as workers:
            measured = probe.measure(workers)
        return decided(side.scenario, measured.shares, usable_cores()), measured.metrics.get("lost", 0.0)


def _with_losses(measured: Sequence[Round], lost: float) -> list[Round]:
    """Return a trial's rounds, the first one with the records that the loads before it lost."""
    if not lost or not measured:
        return [*measured]
    first, *others = measured
    text = (
        f"records lost: {lost:.0f} records were acknowledged and are not in the log, in a load before the first round "
        "(the broker warm-up, or the sizing of the workers)"
    )
    metrics = {**first.metrics, "lost": first.metrics.get("lost", 0.0) + lost}
    problems = (*first.problems, Problem(ProblemKind.RECORDS_LOST, text))
    return [dataclasses.replace(first, metrics=metrics, problems=problems), *others]


def _judged(
    judge: Callable[[Sequence[Trial]], Judgement], trials: Sequence[Trial], budget: PerfTestBudget
) -> Judgement:
    """Judge the trials, of which the first may have too few rounds for a decision."""
    judgement, undecided = judge(trials), budget.undecided(trials[0])
    if undecided is None:
        return judgement
    return _cut_short(judgement, judge([_filled(trials[0], budget.fewest_rounds)]), undecided)


def _filled(first: Trial, rounds: int) -> Trial:
    """Return a trial with that number of rounds; those that did not run have no values."""
    if not first.rounds:
        return first
    missing = [Round(metrics={})] * (rounds - len(first.rounds))
    return dataclasses.replace(first, rounds=(*first.rounds, *missing))


def _cut_short(judgement: Judgement, filled: Judgement, reason: str) -> Judgement:
    """Return the judgement on a trial with too few rounds for a decision.

    `filled` is the judgement on the same trial, filled up with rounds without values: an absolute threshold is
    VIOLATED if they could not change that, and INVALID otherwise. Thresholds on the baseline are INCONCLUSIVE.
    """
    outcomes = {check.expression: check.outcome for check in filled.checks}
    checks = []
    for check in judgement.checks:
        outcome = Verdict.INCONCLUSIVE if check.is_relative else outcomes[check.expression]
        known = outcome is Verdict.VIOLATED
        checks.append(check if known else dataclasses.replace(check, outcome=outcome, reason=reason))
    missing = [check for check in checks if check.outcome is Verdict.INVALID]
    certain = [Verdict.INCONCLUSIVE, *(check.outcome for check in checks if check not in missing)]
    problems = judgement.problems
    if Verdict.VIOLATED not in certain:
        problems = (*problems, *map(value_missing, missing))
    return Judgement(verdict=Verdict.INVALID if problems else worst(certain), checks=tuple(checks), problems=problems)


def _other_side_problems(measured: Sequence[Round]) -> Iterator[Problem]:
    """Yield the problems of the live baseline; one that loses records is no standard to compare with."""
    yield from _problems(measured, "the baseline, ")
    for number, one in enumerate(measured, 1):
        if lost := one.metrics.get("lost"):
            place = (
                "did not come out of the output topic" if "app.output_ratio" in one.metrics else "are not in the log"
            )
            text = f"records lost: {lost:.0f} records were acknowledged and {place}"
            yield Problem(ProblemKind.RECORDS_LOST, text).within(f"the baseline, round {number}")


def _problems(measured: Sequence[Round], side: str) -> Iterator[Problem]:
    for number, one in enumerate(measured, 1):
        yield from (problem.within(f"{side}round {number}") for problem in one.problems)

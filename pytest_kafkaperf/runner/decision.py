"""Runs trials until the test reaches a verdict: the loop that all comparisons share, and its result, `Decision`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import MACHINE_MADE, MADE_BY_SLOW_BROKERS, ProblemKind
from pytest_kafkaperf.core.units import Count, Quantity, Unit, format_quantity
from pytest_kafkaperf.runner.cold_brokers import cold_warnings, is_cold
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.quick_brokers import reasons_to_repeat
from pytest_kafkaperf.runner.result import Trial, judged, problems_of
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.time_budget import PerfTestBudget
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.runner.warmup import WarmUpEnd
from pytest_kafkaperf.verdict.judge import value_missing
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict, worst
from pytest_kafkaperf.verdict.reasons import Reason
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers

OnTrial = Callable[[Sequence[Trial], Judgement], None]
"""Called after each trial, with all of the test's trials so far and their judgment."""
OnRepeat = Callable[[Judgement], None]
"""Called before the first trial is repeated, with its judgment so far."""
_MOST_COLD = 2
"""Maximum number of repetitions for a trial that may have failed because of cold brokers."""


class RetestFailedError(Exception):
    """A method for re-testing a suspected regression did not work; the message contains the reason."""


class OutOfTimeError(Exception):
    """The time budget does not allow another trial."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(notice)
        self.notice = notice
        """The note to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Everything needed to measure and judge a test."""

    runner: TrialRunner
    judging: Judging
    budget: PerfTestBudget
    on_trial: OnTrial = lambda *_: None
    """Called after each trial."""
    on_repeat: OnRepeat = lambda _: None
    """Called before the first trial is repeated."""
    began_s: float = field(default_factory=time.monotonic)
    """Start time of the first trial, in seconds on the monotonic clock."""

    @property
    def test(self) -> PerfTest:
        """The test to measure and judge."""
        return self.judging.test

    def reasons_to_repeat(self, judgement: Judgement) -> str | None:
        """Return why the test must be measured again with all of the JVM's compilers; None if it needs not."""
        chosen = self.runner.quick and self.test.spec.quick_compiler is None
        return reasons_to_repeat(judgement) if chosen else None

    @property
    def calibrate(self) -> int | None:
        """The number of calibration trials; None if the test is judged."""
        return None if self.test.is_smoke_test else self.test.settings.calibrate


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherTrials:
    """A method for running further trials after the first one."""

    runner: TrialRunner
    restart_before: int | None = None
    """The only trial before which brokers restart, counting the first trial as 1; None if they restart before each."""
    label: str = "trial"
    """Label for its trials in the progress display."""
    brokers: BaselineBrokers | None = None
    """The brokers that run the stored baseline's software in these trials; None if there are none."""
    note: Notice | None = None
    """Note to report if this method is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A test's trials, and their judgment."""

    trials: tuple[Trial, ...]
    judgement: Judgement
    notes: tuple[Notice, ...] = ()
    """Remarks about the measurement, such as repeated trials or rounds skipped by the time budget."""
    partial: bool = False
    """True if time ran out before all declared rounds were measured; such results never become a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTrial:
    """A test's first trial, and a note if it was repeated."""

    trial: Trial
    note: Notice | None = None


def first_trial(bench: Bench) -> FirstTrial:
    """Run the first trial, and repeat it if cold brokers or this machine may be the only reason why it failed."""
    warm = _on_warm_brokers(bench)
    if not warm.trial.is_invalidated:
        return warm
    if bench.budget.refuses_trial(bench.runner.rounds) is not None:
        return warm
    bench.on_repeat(bench.judging.judge([warm.trial]))
    reasons = [*map(str, warm.trial.problems)] or ["one side was less warm than the other"]
    trial = bench.runner.measure_fresh(bench.budget, "again")
    trial = _until_warm(bench, trial, bench.runner.rounds, lambda _: bench.runner.measure(bench.budget, "again"))
    note = Notice(Remark.FIRST_TRIAL_REPEATED, {"reasons": "; ".join(reasons)})
    return FirstTrial(trial=trial, note=note)


def _on_warm_brokers(bench: Bench) -> FirstTrial:
    """Run the first trial, and repeat it if it may be failing because of cold brokers."""
    suffices = bench.judging.suffices
    notes: list[Notice] = []

    def again(cold: Trial) -> Trial:
        judgement = bench.judging.judge([cold])
        bench.on_repeat(judgement)
        why = "; ".join(map(str, cold_warnings([cold]))) or _after_short_warm_up(judgement)
        notes.append(Notice(Remark.WARM_TRIAL, {"reasons": why}))
        return bench.runner.measure(bench.budget, "warm", suffices=suffices)

    short = not bench.test.needs_warm_brokers
    trial = bench.runner.measure(bench.budget, suffices=suffices, short=short)
    trial = _until_warm(bench, trial, bench.runner.rounds, again)
    return FirstTrial(trial=trial, note=notes[-1] if notes else None)


def _until_warm(bench: Bench, trial: Trial, rounds: int, again: Callable[[Trial], Trial]) -> Trial:
    """Repeat a trial with `again` while it may be failing because brokers are cold; they restart only after actions.

    Their compilers can become busy again even after the warm-up.
    """
    for _ in range(_MOST_COLD):
        if not _is_undecided(trial, bench.judging) or bench.budget.refuses_trial(rounds) is not None:
            break
        trial = again(trial)
    return trial


def _after_short_warm_up(judgement: Judgement) -> str:
    """Return the values that did not meet their thresholds after a short warm-up, because users would miss them."""
    failed = [check for check in judgement.checks if check.outcome.fails and check.observed is not None]
    values = {check.metric: format_quantity(check.observed or 0.0, metric(check.metric).unit) for check in failed}
    texts = [f"after a short warm-up, {name} was {value}" for name, value in values.items()]
    return "; ".join(texts) or "the warm-up was short"


def _is_undecided(trial: Trial, judging: Judging) -> bool:
    """Return True if cold brokers or applications are the only reason why the trial fails or cannot be judged."""
    is_short = trial.warm_up_end is WarmUpEnd.SHORT
    excused = MACHINE_MADE | (MADE_BY_SLOW_BROKERS if is_short else frozenset())
    if trial.is_faulty or not all(problem.kind in excused for problem in trial.problems):
        return False
    if is_short:
        return judging.judge([trial]).verdict.fails
    if not is_cold(trial):  # only cold rounds have this problem, so a second judgment is unnecessary
        return False
    problems = judging.judge([trial]).problems
    return any(problem.kind is ProblemKind.COLD_BROKER for problem in problems)


def decide(bench: Bench, first: FirstTrial, way: FurtherTrials) -> Decision:
    """Run new trials with this method until they are conclusive, or until there is no time for another trial.

    Raises:
        RetestFailedError: the stored baseline's brokers failed. The user did not request these brokers, so the test
        does not fail.

    """
    trials = [first.trial]
    judgement = bench.judging.judge(trials, brokers=way.brokers)
    try:
        while _is_open(bench, trials, judgement):
            trials.append(_fresh_trial(bench, trials, way))
            judgement = bench.judging.judge(trials, brokers=way.brokers)
            bench.on_trial(trials, judgement)
    except OutOfTimeError as out_of_time:
        return end(bench, first, trials, way, out_of_time=out_of_time.notice)
    return end(bench, first, trials, way)


def _is_open(bench: Bench, trials: Sequence[Trial], judgement: Judgement) -> bool:
    """Return True if these trials are not conclusive yet, or if there are too few for a calibration."""
    if bench.calibrate is not None:
        return len(judged(trials)) < bench.calibrate and not problems_of(trials)
    return judgement.unsettled and bench.reasons_to_repeat(judgement) is None


def _fresh_trial(bench: Bench, trials: Sequence[Trial], way: FurtherTrials) -> Trial:
    """Run one more trial, on restarted brokers unless `way.restart_before` is another trial.

    Raises:
        OutOfTimeError: there is no time for the trial, or the deadline cut it short.
        RetestFailedError: the stored baseline's brokers failed.

    """
    declared = min(way.runner.rounds, len(trials[0].rounds))
    refusal = bench.budget.refuses_trial(declared)
    if refusal is not None:
        raise OutOfTimeError(refusal)
    restart, label = way.restart_before in (None, len(trials) + 1), f"{way.label} {len(trials) + 1}"
    trial = way.runner.measure_fresh(bench.budget, label, restart=restart)
    trial = _until_warm(bench, trial, declared, lambda _: way.runner.measure(bench.budget, label))
    if len(trial.rounds) < declared and not (trial.problems or trial.is_faulty or _has_errors(trial, bench.judging)):
        raise OutOfTimeError(Notice(Remark.TRIAL_BROKEN_OFF))
    if trial.other_failed and way.brokers is not None and not way.brokers.are_own:
        raise RetestFailedError(f"a side-by-side trial with the baseline's brokers failed: {trial.other_failed}")
    return trial


def _has_errors(trial: Trial, judging: Judging) -> bool:
    """Return True if an upper limit on errors, or on another sum, is violated, which further rounds cannot change."""
    sums = {one.expression for one in judging.test.limits if one.metric.over_rounds == "sum" and one.allows_better}
    checks = judging.judge([trial]).checks
    return any(each.outcome is Verdict.VIOLATED and each.expression in sums for each in checks)


def end(
    bench: Bench, first: FirstTrial, trials: Sequence[Trial], way: FurtherTrials, *, out_of_time: Notice | None = None
) -> Decision:
    """Judge the trials and add notes about how they ran; `out_of_time` is the reason why no further trial could run."""
    judging, budget = bench.judging, bench.budget
    judge = judging.judge if out_of_time is None else judging.judge_clear
    judgement = judge(trials, brokers=way.brokers)
    too_few = budget.undecided(first.trial)
    if too_few is not None:
        filled = judge([_filled(first.trial, budget.fewest_rounds)], brokers=way.brokers)
        judgement = _cut_short(judgement, filled, too_few)
    enough = _enough(bench, first.trial)
    cut = budget.cut(first.trial) if enough is None else None
    notes = [
        way.note if len(trials) > 1 else None,
        first.note,
        cut,
        enough,
        _comparison(bench, trials),
        out_of_time,
    ]
    return Decision(
        trials=tuple(trials),
        judgement=judgement,
        notes=tuple(note for note in notes if note is not None),
        partial=cut is not None or (out_of_time is not None and (judgement.unsettled or bench.calibrate is not None)),
    )


def _enough(bench: Bench, first: Trial) -> Notice | None:
    """Return a note if the first trial stopped early because its rounds were conclusive."""
    ran, declared = len(first.rounds), bench.runner.rounds
    if ran >= declared or not bench.judging.suffices(first.rounds):
        return None
    return Notice(Remark.ROUNDS_ENOUGH, {"ran": ran, "declared": declared})


def _comparison(bench: Bench, trials: Sequence[Trial]) -> Notice | None:
    """Return a note about the time that a comparison with a live baseline took."""
    if trials[0].other_side is None:
        return None
    took = Quantity(time.monotonic() - bench.began_s, Unit.SECONDS)
    return Notice(Remark.COMPARISON_TOOK, {"trials": Count(len(judged(trials)), "trial"), "took": took})


def _filled(first: Trial, rounds: int) -> Trial:
    """Return the trial extended to this number of rounds; rounds that did not run do not have values."""
    if not first.rounds:
        return first
    missing = [Round(metrics={})] * (rounds - len(first.rounds))
    return dataclasses.replace(first, rounds=(*first.rounds, *missing))


def _cut_short(judgement: Judgement, filled: Judgement, reason: str) -> Judgement:
    """Return the judgment of a trial with too few rounds for a verdict.

    `filled` is the judgment of the same trial, padded with rounds without values. An absolute threshold is VIOLATED if
    the missing rounds could not change that; otherwise, it is INVALID. Relative thresholds are INCONCLUSIVE.
    """
    outcomes = {check.expression: check.outcome for check in filled.checks}
    checks = []
    for check in judgement.checks:
        outcome = Verdict.INCONCLUSIVE if check.is_relative else outcomes[check.expression]
        known = outcome is Verdict.VIOLATED
        checks.append(check if known else dataclasses.replace(check, outcome=outcome, reasons=(Reason(reason),)))
    missing = [check for check in checks if check.outcome is Verdict.INVALID]
    certain = [Verdict.INCONCLUSIVE, *(check.outcome for check in checks if check not in missing)]
    problems = judgement.problems
    if Verdict.VIOLATED not in certain:
        problems = (*problems, *map(value_missing, missing))
    return Judgement(verdict=Verdict.INVALID if problems else worst(certain), checks=tuple(checks), problems=problems)

"""The loop over the trials of a test: which trial is repeated, when it ends, and what is noted."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.decision import Bench, Decision, FurtherTrials, RetestFailedError, decide, first_trial
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial, problems_of
from pytest_kafkaperf.runner.retest import Opening, Suspected, retest
from pytest_kafkaperf.runner.round_length import MOST_REPEATED
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side_rounds import Workers
from pytest_kafkaperf.runner.time_budget import PerfTestBudget
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge as judge_thresholds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from tests.support.problems import problem_told
from tests.support.rounds import time_budget_of
from tests.support.scripted_sides import ROUNDS, Late, Scripted, Timed, runner_of

PASSED = Judgement(verdict=Verdict.PASSED, checks=(), problems=())
UNSETTLED = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)

Judge = Callable[[Sequence[Trial]], Judgement]


class ScriptedJudging(Judging):
    """Judges as a test says."""

    def __init__(
        self,
        judge: Judge,
        *limits: str,
        clear: Judge | None = None,
        suffices: int = ROUNDS + 1,
    ) -> None:
        settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
        limit = pytest.mark.kafka_threshold(*(limits or ["produce.throughput >= baseline - 10%"])).mark
        test = read_perftest("a.py::test", [limit], {}, settings, folder=Path())
        super().__init__(test, BaselineRounds(), settings)
        self._judge, self._clear, self._suffices = judge, clear or judge, suffices

    def judge(self, trials: Sequence[Trial], **_: object) -> Judgement:
        return self._judge(trials)

    def judge_clear(self, trials: Sequence[Trial], **_: object) -> Judgement:
        return self._clear(trials)

    def suffices(self, rounds: Sequence[Round]) -> bool:
        return len(rounds) >= self._suffices


def decision_of(runner: TrialRunner, judging: Judging, budget: PerfTestBudget | None = None) -> Decision:
    """The decision by trials of one side alone."""
    runner.faults = judging.faults
    bench = Bench(runner=runner, judging=judging, budget=budget or time_budget_of(ROUNDS))
    return decide(bench, first_trial(bench), FurtherTrials(runner=runner))


def retested(runner: TrialRunner, judging: Judging, *ways: Opening) -> Decision:
    """The decision on a suspected regression, by the first of these ways that works."""
    runner.faults = judging.faults
    bench = Bench(runner=runner, judging=judging, budget=time_budget_of(ROUNDS))
    none: Any = None
    suspected = Suspected(bench=bench, own=none, cluster=none, run=none, on_progress=lambda *_: None)
    return retest(first_trial(bench), suspected, ways)


def retested_side_by_side_or_alone(first: Scripted, judging: Judging, *both: Scripted) -> tuple[Decision, list[str]]:
    """The decision by trials on both sides or, if these fail, on the first one again; and the reasons for that."""
    reasons: list[str] = []

    @contextlib.contextmanager
    def side_by_side(_suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
        yield FurtherTrials(runner=runner_of(*both), brokers=BaselineBrokers())

    @contextlib.contextmanager
    def alone(suspected: Suspected, against: Sequence[str]) -> Iterator[FurtherTrials]:
        reasons.extend(against)
        yield FurtherTrials(runner=suspected.bench.runner)

    return retested(runner_of(first), judging, side_by_side, alone), reasons


def test_a_first_trial_ends_when_its_rounds_suffice_and_says_so() -> None:
    """A trial that was shortened by choice is not one that ran out of time."""
    ran = decision_of(runner_of(Scripted("A", [])), ScriptedJudging(lambda _: PASSED, suffices=3))
    assert [len(trial.rounds) for trial in ran.trials] == [3]
    assert ran.notes == (Notice(Remark.ROUNDS_ENOUGH, {"ran": 3, "declared": 4}),)
    assert not ran.partial


P99 = "produce.latency.p99"


@pytest.mark.parametrize(
    ("limit", "values", "outcome"),
    [
        ("errors == 0", [9.0], Verdict.VIOLATED),  # more rounds could only add to it
        ("errors == 0", [0.0], Verdict.INVALID),
        (f"{P99} <= 25 ms", [0.03], Verdict.INVALID),  # two more rounds could change the median
        (f"{P99} <= 25 ms", [0.03, 0.03], Verdict.VIOLATED),  # no third one could
        (f"{P99} <= 25 ms", [0.01, 0.01], Verdict.INVALID),
        ("error_ratio <= 1%", [0.04], Verdict.VIOLATED),  # 1.3% of three rounds at least
        ("error_ratio <= 1%", [0.02], Verdict.INVALID),
        (
            f"{P99} <= baseline + 10%",
            [0.03, 0.03],
            Verdict.INCONCLUSIVE,
        ),  # a suspected regression that nothing could confirm
    ],
)
def test_too_few_rounds_within_the_time_budget_pass_no_absolute_threshold(
    limit: str, values: Sequence[float], outcome: Verdict
) -> None:
    """What the rounds that did not run could not change is not met; what they could change is unknown."""
    threshold = parse_threshold(limit)
    known = BaselineRounds(trials=(({P99: 0.01},) * 5,) * 3)

    def judge(trials: Sequence[Trial]) -> Judgement:
        ran = [{threshold.metric.name: value} for value in values]
        measured = [Measured(rounds=[*ran, *(one.metrics for one in trials[0].rounds[len(values) :])])]
        return judge_thresholds([threshold], measured, AgainstStored(baseline=known, confirmation="fresh"))

    side = Timed("A", [])
    side.takes_s = 300.0 if len(values) > 1 else 1000.0
    budget = time_budget_of(ROUNDS, left_s=700, clock=lambda: side.now_s)
    ran = decision_of(runner_of(side), ScriptedJudging(judge), budget)
    assert len(ran.trials[0].rounds) == len(values)
    (check,) = ran.judgement.checks
    assert (check.outcome, ran.judgement.verdict, ran.partial) == (outcome, outcome, True)
    kinds = [problem.kind for problem in ran.judgement.problems]
    assert kinds == ([ProblemKind.VALUE_MISSING] if outcome is Verdict.INVALID else [])


def test_a_test_without_any_round_in_time_is_inconclusive() -> None:
    """Nothing began, so nothing is missing: it is skipped, as a test that has no time from the beginning."""

    def judge(trials: Sequence[Trial]) -> Judgement:
        measured = [Measured(rounds=[one.metrics for one in trials[0].rounds])]
        thresholds = [parse_threshold(f"{P99} <= 25 ms")]
        return judge_thresholds(thresholds, measured, AgainstStored(baseline=BaselineRounds()))

    budget = time_budget_of(ROUNDS, left_s=0)
    ran = decision_of(runner_of(Scripted("A", [])), ScriptedJudging(judge), budget)
    assert (len(ran.trials[0].rounds), ran.judgement.verdict) == (0, Verdict.INCONCLUSIVE)


def test_a_threshold_that_fails_for_sure_leads_although_others_lack_rounds() -> None:
    """INVALID does not hide it."""
    thresholds = [parse_threshold("errors == 0"), parse_threshold("produce.throughput >= 5 records/s")]

    def judge(trials: Sequence[Trial]) -> Judgement:
        values = [{"errors": 9.0, "produce.throughput": 9.0}, *[{}] * (len(trials[0].rounds) - 1)]
        measured = [Measured(rounds=values)]
        return judge_thresholds(thresholds, measured, AgainstStored(baseline=BaselineRounds()))

    side = Timed("A", [])
    side.takes_s = 1000.0
    budget = time_budget_of(ROUNDS, left_s=600, clock=lambda: side.now_s)
    judgement = decision_of(runner_of(side), ScriptedJudging(judge), budget).judgement
    assert [check.outcome for check in judgement.checks] == [Verdict.VIOLATED, Verdict.INVALID]
    assert (judgement.verdict, judgement.problems) == (Verdict.VIOLATED, ())


def test_a_suspected_regression_is_judged_by_its_own_rule_when_there_is_no_time_to_confirm_it() -> None:
    """Ten seconds are enough for its rounds, and not for a restart and another warm-up."""
    failed = Judgement(verdict=Verdict.REGRESSED, checks=(), problems=())
    judging = ScriptedJudging(lambda _: UNSETTLED, clear=lambda _: failed)
    ran = decision_of(runner_of(Scripted("A", [])), judging, time_budget_of(ROUNDS, left_s=10))
    assert (ran.judgement, len(ran.trials)) == (failed, 1)
    assert ran.notes[-1].remark is Remark.NO_TIME_FOR_TRIAL


def test_a_suspected_regression_that_cannot_be_confirmed_ends_with_the_reason() -> None:
    """There was time, so it is not judged as one without."""
    judging = ScriptedJudging(lambda _: UNSETTLED, clear=lambda _: PASSED)

    @contextlib.contextmanager
    def refusing(_suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
        yield from ()
        raise RetestFailedError("the machine is slower")

    ran = retested(runner_of(Scripted("A", [])), judging, refusing)
    assert (ran.judgement, len(ran.trials), ran.partial) == (UNSETTLED, 1, False)
    assert ran.notes == (Notice(Remark.NOT_RETESTED, {"reason": "the machine is slower"}),)


def test_a_fresh_trial_that_the_time_budget_breaks_off_does_not_count() -> None:
    """Its rounds are fewer than those of the others."""
    log: list[str] = []
    side = Timed("A", log)
    side.takes_later_s = 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = decision_of(runner_of(side), ScriptedJudging(lambda _: UNSETTLED), budget)
    assert log.count("A") == ROUNDS + 1
    assert ([len(trial.rounds) for trial in ran.trials], ran.partial) == ([ROUNDS], True)
    assert ran.notes == (Notice(Remark.TRIAL_BROKEN_OFF),)


class Losing(Timed):
    """Its brokers lose a record in each round after a restart."""

    def measure(self, workers: Workers) -> Round:
        one = super().measure(workers)
        lost = 1.0 if self.takes_s == self.takes_later_s else 0.0
        self.rounds[-1] = dataclasses.replace(one, metrics={**one.metrics, "lost": lost})
        return self.rounds[-1]


def test_a_fresh_trial_that_was_broken_off_counts_if_records_were_lost() -> None:
    """A loss is a loss, however little time was left."""
    violated = Judgement(verdict=Verdict.VIOLATED, checks=(), problems=())
    judging = ScriptedJudging(lambda trials: violated if any(one.is_faulty for one in trials) else UNSETTLED)
    side = Losing("A", [])
    side.takes_later_s = 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = decision_of(runner_of(side), judging, budget)
    assert ([len(trial.rounds) for trial in ran.trials], ran.judgement) == ([ROUNDS, 1], violated)


def fails(trials: Sequence[Trial]) -> Judgement:
    """A judgment by which the test fails."""
    return Judgement(verdict=Verdict.VIOLATED, checks=(), problems=problems_of(trials))


class Duplicating(Scripted):
    """Its brokers write two records twice in the first round of all, and nothing twice after that."""

    duplicates = 2.0

    def measure(self, workers: Workers) -> Round:
        one = super().measure(workers)
        metrics = {**one.metrics, "duplicated": self.duplicates, "lost": 0.0}
        self.duplicates = 0.0
        self.rounds[-1] = dataclasses.replace(one, metrics=metrics)
        return self.rounds[-1]


@pytest.mark.parametrize(("limit", "trials"), [("duplicated == 0", 1), ("duplicated <= 5", 2)])
def test_faults_in_the_log_end_a_test_on_cold_brokers(limit: str, trials: int) -> None:
    """Cold brokers are slow, but they do not write a record twice: a second measurement would only hide that."""
    log: list[str] = []
    side = Duplicating("A", log, cold=True)
    decision_of(runner_of(side), ScriptedJudging(fails, "produce.latency.p99 <= 1 s", limit))
    assert log.count("A") == trials * ROUNDS


@pytest.mark.parametrize(("cold_measurements", "ran"), [(0, 1), (1, 2), (9, 3)])
def test_a_fresh_trial_on_cold_brokers_is_measured_again_without_a_restart(cold_measurements: int, ran: int) -> None:
    """A compiler can start again after the warm-up; the rounds so far have warmed the brokers up."""

    class Cooled(Scripted):
        restarts = measurements = 0

        def measure(self, workers: Workers) -> Round:
            self.measurements += bool(self.restarts and not self.rounds)
            one = super().measure(workers)
            is_cold = 0 < self.measurements <= cold_measurements
            self.rounds[-1] = dataclasses.replace(one, compiler={1: 0.6 if is_cold else 0.0})
            return self.rounds[-1]

        def restart(self, *, quick: bool | None = None) -> None:
            super().restart(quick=quick)
            self.restarts += 1

    def judge(trials: Sequence[Trial]) -> Judgement:
        if any(one.cold for one in trials[-1].rounds):
            cold = problem_told(ProblemKind.COLD_BROKER, "still compiled code")
            return Judgement(verdict=Verdict.INVALID, checks=(), problems=(cold,))
        return PASSED if len(trials) > 1 else UNSETTLED

    log: list[str] = []
    side = Cooled("A", log)
    side.meets = threading.Barrier(1)
    decision_of(runner_of(side), ScriptedJudging(judge))
    assert (log.count("A"), side.restarts) == ((1 + ran) * ROUNDS, 1)


@pytest.mark.parametrize(("limit", "again"), [("duplicated == 0", False), ("duplicated <= 50", True)])
def test_faults_in_the_log_end_a_test_although_the_generator_was_too_slow(limit: str, *, again: bool) -> None:
    """A machine that is too busy does not write a record twice."""
    log: list[str] = []
    side = Late("A", log)
    side.meets, side.late_rounds = threading.Barrier(1), [MOST_REPEATED + 1, 0]
    side.late_rounds_show = {"duplicated": 3.0}
    ran = decision_of(runner_of(side), ScriptedJudging(lambda _: PASSED, f"{P99} <= baseline + 10%", limit))
    assert log.count("A") == ROUNDS * (1 + again) + MOST_REPEATED * again
    assert bool(ran.trials[0].problems) is not again


def test_a_fresh_trial_that_was_broken_off_counts_if_the_log_shows_faults() -> None:
    """As if records were lost."""

    class Slowing(Duplicating, Timed):
        def restart(self, *, quick: bool | None = None) -> None:
            super().restart(quick=quick)
            self.duplicates = 2.0

    side = Slowing("A", [])
    side.duplicates, side.takes_later_s = 0.0, 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = decision_of(runner_of(side), ScriptedJudging(lambda _: UNSETTLED, "lost <= 9", "duplicated == 0"), budget)
    assert [len(trial.rounds) for trial in ran.trials] == [ROUNDS, 1]


@pytest.mark.parametrize(("restart_before", "before"), [(None, [2, 3, 4]), (2, [2]), (3, [3])])
def test_brokers_restart_before_the_trials_that_the_re_test_says(restart_before: int | None, before: list[int]) -> None:
    """Another restart would cost a minute, and show nothing new."""
    ran: list[int] = []
    restarted: list[int] = []

    class Restarted(Scripted):
        def restart(self, *, quick: bool | None = None) -> None:
            del quick
            restarted.append(len(ran) + 1)

    def judge(trials: Sequence[Trial]) -> Judgement:
        ran[:] = range(len(trials))
        return PASSED if len(trials) > 3 else UNSETTLED

    @contextlib.contextmanager
    def again(suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
        yield FurtherTrials(runner=suspected.bench.runner, restart_before=restart_before)

    decision = retested(runner_of(Restarted("A", [])), ScriptedJudging(judge), again)
    assert (len(decision.trials), restarted) == (4, before)


def test_baseline_brokers_that_break_off_leave_a_suspected_regression_to_fresh_trials() -> None:
    """Nobody asked for them, so their end is no failure of the test."""
    judging = ScriptedJudging(lambda trials: UNSETTLED if len(trials) < 3 else PASSED)
    ours, ours_again, theirs = Scripted("A", []), Scripted("A", []), Scripted("B", [])
    ours.meets, ours_again.meets = threading.Barrier(1), threading.Barrier(2)
    theirs.meets = ours_again.meets
    theirs.problems = [problem_told(ProblemKind.CLUSTER_ERROR, "broker 1 has ended")]
    ran, reasons = retested_side_by_side_or_alone(ours, judging, ours_again, theirs)
    assert [trial.other_side for trial in ran.trials] == [None] * 3
    assert reasons == [
        "a side-by-side trial with the baseline's brokers failed: the baseline, round 1: broker 1 has ended"
    ]
    assert ran.judgement == PASSED


class Ending(Scripted):
    """A side whose brokers do not come up again."""

    def restart(self, *, quick: bool | None = None) -> None:
        super().restart(quick=quick)
        raise ClusterError("broker 1 exited with status 1")


@pytest.mark.parametrize("own", [True, False])
def test_brokers_under_test_that_do_not_restart_fail_the_test(*, own: bool) -> None:
    """Another trial could go well, and their failure would be that of brokers that nobody asked for."""

    def judge(trials: Sequence[Trial]) -> Judgement:
        return PASSED if len(trials) > 2 or problems_of(trials) else UNSETTLED

    first, ours_again, theirs = Scripted("A", []), (Ending if own else Scripted)("A", []), Ending("B", [])
    first.meets = threading.Barrier(1)
    ours_again.meets = theirs.meets = threading.Barrier(2)
    judging = ScriptedJudging(judge)
    ran, reasons = retested_side_by_side_or_alone(first, judging, ours_again, theirs)
    problems = [str(problem) for problem in problems_of(ran.trials)]
    if own:
        assert (problems, reasons) == (["trial 2: broker 1 exited with status 1"], [])
    else:
        assert (problems, reasons) == (
            [],
            ["a side-by-side trial with the baseline's brokers failed: broker 1 exited with status 1"],
        )


def test_unchanged_brokers_that_fail_in_a_re_test_fail_the_test() -> None:
    """There is no other side that could be the reason, and no other way to re-test."""

    @contextlib.contextmanager
    def unchanged(suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
        side.fails_in = 0
        yield FurtherTrials(runner=suspected.bench.runner, brokers=BaselineBrokers(are_own=True))

    side = Scripted("A", [])
    side.meets = threading.Barrier(1)
    judging = ScriptedJudging(lambda trials: PASSED if problems_of(trials) else UNSETTLED)
    ran = retested(runner_of(side), judging, unchanged)
    assert list(map(str, problems_of(ran.trials))) == ["trial 2: broker 1 has ended"]
    assert ran.notes == ()


@pytest.mark.parametrize("heals", [True, False])
def test_a_first_trial_whose_generator_stays_too_slow_is_measured_again_once(*, heals: bool) -> None:
    """A single late round is repeated within the trial (`test_trial`)."""
    log: list[str] = []
    side = Late("A", log)
    side.meets, side.late_rounds = threading.Barrier(1), [MOST_REPEATED + 1, 0 if heals else MOST_REPEATED + 1]
    runner = runner_of(side)
    bench = Bench(runner=runner, judging=ScriptedJudging(lambda _: PASSED), budget=time_budget_of(ROUNDS))
    ran = decide(bench, first_trial(bench), FurtherTrials(runner=runner))
    assert log.count("A") == 2 * ROUNDS + (1 if heals else 2) * MOST_REPEATED
    assert list(map(str, ran.notes)) == ["the first trial was repeated: round 1: too slow"]
    assert [list(map(str, trial.problems)) for trial in ran.trials] == [[] if heals else ["round 1: too slow"]]


@pytest.mark.parametrize("kind", [kind for kind in ProblemKind if kind is not ProblemKind.GENERATOR_TOO_SLOW])
@pytest.mark.parametrize("heals", [True, False])
def test_a_first_trial_that_the_machine_has_invalidated_is_measured_again_once(
    kind: ProblemKind, *, heals: bool
) -> None:
    """It says nothing of Kafka; whatever Kafka has done counts at once."""
    log: list[str] = []
    side = Scripted("A", log)
    side.meets, side.problems = threading.Barrier(1), [problem_told(kind, "oops")] * (1 if heals else 9)
    repeated: list[Judgement] = []
    runner = runner_of(side)
    bench = Bench(
        runner=runner,
        judging=ScriptedJudging(lambda _: PASSED),
        budget=time_budget_of(ROUNDS),
        on_repeat=repeated.append,
    )
    ran = decide(bench, first_trial(bench), FurtherTrials(runner=runner))
    again = kind is ProblemKind.WORKER_LOST
    assert log.count("A") == (2 * ROUNDS if again else ROUNDS)
    assert repeated == ([PASSED] if again else [])
    told = ["the first trial was repeated: round 1: oops"] if again else []
    assert list(map(str, ran.notes)) == told
    assert len(ran.trials) == 1
    assert bool(ran.trials[0].problems) == (not heals or not again)


@pytest.mark.parametrize(
    ("kind", "measured"),
    [(ProblemKind.NOT_CAUGHT_UP, 2), (ProblemKind.RECORDS_UNREAD, 2), (ProblemKind.CLUSTER_ERROR, 1)],
)
def test_a_problem_that_slow_brokers_can_cause_does_not_end_a_test_after_a_short_warm_up(
    kind: ProblemKind, measured: int
) -> None:
    """The group may catch up in time on warm brokers."""
    log: list[str] = []
    side = Scripted("A", log, cold=True)
    side.problems = [problem_told(kind, "not yet")]
    decision_of(runner_of(side), ScriptedJudging(fails, "produce.latency.p99 <= 1 s"))
    assert log.count("A") == measured * ROUNDS


@pytest.mark.parametrize(
    ("text", "errors", "trials"),
    [
        ("errors == 0", 9.0, [ROUNDS, 1]),
        ("errors == 0", 0.0, [ROUNDS]),
        ("errors >= 30", 9.0, [ROUNDS]),  # three more rounds could add the rest
    ],
)
def test_a_fresh_trial_that_was_broken_off_counts_if_it_had_errors(text: str, errors: float, trials: list[int]) -> None:
    """More rounds would not take them back."""
    limit = parse_threshold(text)

    class Failing(Timed):
        def measure(self, workers: Workers) -> Round:
            one = super().measure(workers)
            self.rounds[-1] = dataclasses.replace(one, metrics={"errors": errors})
            return self.rounds[-1]

    def judge(found: Sequence[Trial]) -> Judgement:
        if len(found) > 1:
            return UNSETTLED
        measured = [Measured(rounds=[one.metrics for one in trial.rounds]) for trial in found]
        judgement = judge_thresholds([limit], measured, AgainstStored(baseline=BaselineRounds()))
        return dataclasses.replace(judgement, unsettled=True)

    side = Failing("A", [])
    side.takes_later_s = 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = decision_of(runner_of(side), ScriptedJudging(judge, text), budget)
    assert [len(trial.rounds) for trial in ran.trials] == trials

"""Trials of a test on one side or two: which side begins, when they are warm, and what restarts."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Problem, ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner import trial as trial_runs
from pytest_kafkaperf.runner.result import Trial, problems_of
from pytest_kafkaperf.runner.rounds.loads import Phase
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side, Workers
from pytest_kafkaperf.runner.time_budget import BROKEN_OFF_TEXT
from pytest_kafkaperf.runner.trial import TrialPolicy, TrialRunner, run_trials
from pytest_kafkaperf.runner.warmup import IDLE_SLICES
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge as judge_thresholds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.scale import Measured
from tests.support.patience import PATIENCE_S
from tests.support.rounds import time_budget_of

ROUNDS = 4
PASSED = Judgement(verdict=Verdict.PASSED, checks=(), problems=())


class Scripted(Side):
    """A side without a cluster: it writes down what it has to do."""

    def __init__(self, name: str, log: list[str], *, cold: bool = False) -> None:
        cluster = Cluster(bootstrap_servers="127.0.0.1:1", brokers=1, provider="external", version="unknown")
        super().__init__(Scenario.of({"rounds": ROUNDS}), cluster)
        self.name, self.cold = name, cold
        self.loses = 0.0
        self.problems: list[Problem] = []
        """Problems of the first round of each trial, the last one first."""
        self.meets: threading.Barrier | None = None
        self._log = log

    def is_cold(self, phase: Phase) -> bool:
        return self.cold and phase is Phase.FULL

    @contextlib.contextmanager
    def started(self, *, label: str, sides: int) -> Iterator[None]:
        assert sides in (1, 2)
        self._log.append(f"start {self.name}{label}")
        self.rounds, self.broken = [], False
        yield

    def mark_warm(self, phase: Phase) -> None:
        assert phase is Phase.FULL
        self.cold = False

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        assert workers.shares
        assert (load.rounds, phase) == (1, Phase.FULL)
        self._log.append(self.name.lower())
        return Round(metrics={"lost": self.loses}, compiler={"1": 0.0})

    def measure(self, workers: Workers) -> Round:
        assert workers.shares
        self._log.append(self.name)
        problems = (self.problems.pop(),) if self.problems and not self.rounds else ()
        self.rounds.append(Round(metrics={"number": float(len(self.rounds))}, problems=problems))
        return self.rounds[-1]

    def restart(self) -> None:
        assert self.meets is not None
        self.meets.wait(PATIENCE_S)


class Timed(Scripted):
    """A side on a clock that runs only while it measures."""

    now_s = 0.0
    takes_s, takes_later_s = 1.0, 1.0
    """Time that a round takes, in the first trial and after a restart."""

    def measure(self, workers: Workers) -> Round:
        self.now_s += self.takes_s
        return super().measure(workers)

    def restart(self) -> None:
        self.takes_s = self.takes_later_s


def runner_of(*sides: Scripted, warm_up_s: float = 60.0, gap_s: float = 0.0) -> TrialRunner:
    allocation = WorkerAllocation(producing=1, consuming=1)
    return TrialRunner(sides, warm_up_s=warm_up_s, gap_s=gap_s, allocation=allocation, on_progress=lambda *_: None)


def test_each_side_is_the_first_in_every_other_trial_and_rounds_go_forth_and_back() -> None:
    """What is done second meets another machine: a cache that is warm, a disk that still writes."""
    log: list[str] = []
    ours, theirs = Scripted("A", log), Scripted("B", log)
    ours.meets = theirs.meets = threading.Barrier(2)  # which neither passes unless both restart at once
    runner = runner_of(ours, theirs)
    budget = time_budget_of(ROUNDS)

    found = [runner.measure(budget)] + [runner.measure_fresh(budget, f" {number}") for number in (2, 3)]

    orders = [["A", "B", "B", "A"] * 2, ["B", "A", "A", "B"] * 2, ["A", "B", "B", "A"] * 2]
    assert log == [
        *("start A", "start B", *orders[0]),
        *("start B 2", "start A 2", *orders[1]),
        *("start A 3", "start B 3", *orders[2]),
    ]
    for each in found:
        assert each.problems == ()
        assert len(each.rounds) == len(each.other_side or ()) == ROUNDS
    assert found[2].rounds == tuple(ours.rounds)
    assert found[2].other_side == tuple(theirs.rounds)


def test_a_first_trial_ends_when_its_rounds_suffice_and_says_so() -> None:
    """A trial that was shortened by choice is not one that ran out of time."""
    policy = TrialPolicy(judge=lambda _: PASSED, calibrate=None, suffices=lambda rounds: len(rounds) >= 3)
    ran = run_trials(runner_of(Scripted("A", [])), time_budget_of(ROUNDS), policy, lambda _: None)
    assert [len(trial.rounds) for trial in ran.trials] == [3]
    assert ran.notes == ("3 of 4 rounds were enough: most rounds meet every threshold already",)
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
        ("error_ratio <= 1%", [0.04], Verdict.VIOLATED),  # 1.3 % of three rounds at least
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
        return judge_thresholds(thresholds=[threshold], trials=measured, baseline=known, confirm=True)

    side = Timed("A", [])
    side.takes_s = 300.0 if len(values) > 1 else 1000.0
    budget = time_budget_of(ROUNDS, left_s=700, clock=lambda: side.now_s)
    policy = TrialPolicy(judge=judge, calibrate=None)
    ran = run_trials(runner_of(side), budget, policy, lambda _: None)
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
        return judge_thresholds(thresholds=thresholds, trials=measured, baseline=BaselineRounds(), confirm=True)

    policy = TrialPolicy(judge=judge, calibrate=None)
    budget = time_budget_of(ROUNDS, left_s=0)
    ran = run_trials(runner_of(Scripted("A", [])), budget, policy, lambda _: None)
    assert (len(ran.trials[0].rounds), ran.judgement.verdict) == (0, Verdict.INCONCLUSIVE)


def test_a_threshold_that_fails_for_sure_leads_although_others_lack_rounds() -> None:
    """INVALID does not hide it."""
    thresholds = [parse_threshold("errors == 0"), parse_threshold("produce.throughput >= 5 records/s")]

    def judge(trials: Sequence[Trial]) -> Judgement:
        values = [{"errors": 9.0, "produce.throughput": 9.0}, *[{}] * (len(trials[0].rounds) - 1)]
        measured = [Measured(rounds=values)]
        return judge_thresholds(thresholds=thresholds, trials=measured, baseline=BaselineRounds(), confirm=True)

    side = Timed("A", [])
    side.takes_s = 1000.0
    budget = time_budget_of(ROUNDS, left_s=600, clock=lambda: side.now_s)
    policy = TrialPolicy(judge=judge, calibrate=None)
    judgement = run_trials(runner_of(side), budget, policy, lambda _: None).judgement
    assert [check.outcome for check in judgement.checks] == [Verdict.VIOLATED, Verdict.INVALID]
    assert (judgement.verdict, judgement.problems) == (Verdict.VIOLATED, ())


def test_a_suspected_regression_is_judged_by_its_own_rule_when_there_is_no_time_to_confirm_it() -> None:
    """Ten seconds are enough for its rounds, and not for a restart and another warm-up."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)
    failed = Judgement(verdict=Verdict.REGRESSED, checks=(), problems=())
    policy = TrialPolicy(judge=lambda _: unsettled, calibrate=None, judge_clear=lambda _: failed)
    ran = run_trials(runner_of(Scripted("A", [])), time_budget_of(ROUNDS, left_s=10), policy, lambda _: None)
    assert (ran.judgement, len(ran.trials)) == (failed, 1)
    assert "raise --kafka-time-budget" in ran.notes[-1]


def test_a_suspected_regression_that_cannot_be_confirmed_ends_with_the_reason() -> None:
    """There was time, so it is not judged as one without."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)
    policy = TrialPolicy(judge=lambda _: unsettled, calibrate=None, judge_clear=lambda _: PASSED)
    ran = run_trials(runner_of(Scripted("A", [])), time_budget_of(ROUNDS), policy, lambda _: "the machine is slower")
    assert (ran.judgement, len(ran.trials), ran.partial) == (unsettled, 1, False)
    assert ran.notes == ("the machine is slower",)


def test_a_fresh_trial_that_the_time_budget_breaks_off_does_not_count() -> None:
    """Its rounds are fewer than those of the others."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)
    policy = TrialPolicy(judge=lambda _: unsettled, calibrate=None)
    log: list[str] = []
    side = Timed("A", log)
    side.takes_later_s = 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = run_trials(runner_of(side), budget, policy, lambda _: None)
    assert log.count("A") == ROUNDS + 1
    assert ([len(trial.rounds) for trial in ran.trials], ran.partial) == ([ROUNDS], True)
    assert ran.notes == (BROKEN_OFF_TEXT,)


class Losing(Timed):
    """Its brokers lose a record in each round after a restart."""

    def measure(self, workers: Workers) -> Round:
        one = super().measure(workers)
        lost = 1.0 if self.takes_s == self.takes_later_s else 0.0
        self.rounds[-1] = dataclasses.replace(one, metrics={**one.metrics, "lost": lost})
        return self.rounds[-1]


def test_a_fresh_trial_that_was_broken_off_counts_if_records_were_lost() -> None:
    """A loss is a loss, however little time was left."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)
    violated = Judgement(verdict=Verdict.VIOLATED, checks=(), problems=())
    policy = TrialPolicy(
        judge=lambda trials: violated if any(one.lost_records for one in trials) else unsettled,
        calibrate=None,
    )
    side = Losing("A", [])
    side.takes_later_s = 300.0
    budget = time_budget_of(ROUNDS, left_s=400, clock=lambda: side.now_s)
    ran = run_trials(runner_of(side), budget, policy, lambda _: None)
    assert ([len(trial.rounds) for trial in ran.trials], ran.judgement) == ([ROUNDS, 1], violated)


def test_baseline_brokers_that_break_off_leave_a_suspected_regression_to_fresh_trials() -> None:
    """Nobody asked for them, so their end is no failure of the test."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)
    policy = TrialPolicy(judge=lambda trials: unsettled if len(trials) < 3 else PASSED, calibrate=None)
    ours, ours_again, theirs = Scripted("A", []), Scripted("A", []), Scripted("B", [])
    ours.meets, ours_again.meets = threading.Barrier(1), threading.Barrier(2)
    theirs.meets = ours_again.meets
    theirs.problems = [Problem(ProblemKind.CLUSTER_ERROR, "broker 1 has ended")]
    reasons: list[str | None] = []

    def confirming(failed: str | None) -> TrialRunner | None:
        reasons.append(failed)
        return runner_of(ours_again, theirs) if failed is None else None

    ran = run_trials(runner_of(ours), time_budget_of(ROUNDS), policy, confirming)
    assert [trial.other_side for trial in ran.trials] == [None] * 3
    assert reasons == [None, "a trial side by side with them failed: the baseline, round 1: broker 1 has ended"]
    assert ran.judgement == PASSED


class Ending(Scripted):
    """A side whose brokers do not come up again."""

    def restart(self) -> None:
        super().restart()
        raise ClusterError("broker 1 exited with status 1")


@pytest.mark.parametrize("own", [True, False])
def test_brokers_under_test_that_do_not_restart_fail_the_test(*, own: bool) -> None:
    """Another trial could go well, and their failure would be that of brokers that nobody asked for."""
    unsettled = Judgement(verdict=Verdict.INCONCLUSIVE, checks=(), problems=(), unsettled=True)

    def judge(trials: Sequence[Trial]) -> Judgement:
        return PASSED if len(trials) > 2 or problems_of(trials) else unsettled

    first, ours_again, theirs = Scripted("A", []), (Ending if own else Scripted)("A", []), Ending("B", [])
    first.meets = threading.Barrier(1)
    ours_again.meets = theirs.meets = threading.Barrier(2)
    policy = TrialPolicy(judge=judge, calibrate=None)
    reasons: list[str | None] = []

    def confirming(failed: str | None) -> TrialRunner | None:
        reasons.append(failed)
        return runner_of(ours_again, theirs) if failed is None else None

    ran = run_trials(runner_of(first), time_budget_of(ROUNDS), policy, confirming)
    problems = [str(problem) for problem in problems_of(ran.trials)]
    if own:
        assert (problems, reasons) == (["trial 2: broker 1 exited with status 1"], [None])
    else:
        assert (problems, reasons) == (
            [],
            [None, "a trial side by side with them failed: broker 1 exited with status 1"],
        )


@pytest.mark.parametrize("gap_s", [0.0, 90.0])
def test_fresh_trials_are_spaced_out_and_the_first_one_is_not(monkeypatch: pytest.MonkeyPatch, gap_s: float) -> None:
    """Trials on a cluster that does not restart share its state if they follow each other at once.

    Progress is told in each pause, so that an interrupt ends it.
    """
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    side = Scripted("A", [])
    side.meets = threading.Barrier(1)
    runner = runner_of(side, gap_s=gap_s)
    runner.measure(time_budget_of(ROUNDS))
    for label in (" 2", " 3"):
        runner.measure_fresh(time_budget_of(ROUNDS), label)
    assert sum(slept) == pytest.approx(2 * gap_s)
    assert max(slept, default=0.0) <= 0.25


@pytest.mark.parametrize("kind", list(ProblemKind))
@pytest.mark.parametrize("heals", [True, False])
def test_a_first_trial_that_the_machine_has_invalidated_is_measured_again_once(
    kind: ProblemKind, *, heals: bool
) -> None:
    """It says nothing of Kafka; whatever Kafka has done counts at once."""
    log: list[str] = []
    side = Scripted("A", log)
    side.meets, side.problems = threading.Barrier(1), [Problem(kind, "oops")] * (1 if heals else 9)
    policy = TrialPolicy(judge=lambda _: PASSED, calibrate=None)
    ran = run_trials(runner_of(side), time_budget_of(ROUNDS), policy, lambda _: None)
    again = kind in (ProblemKind.GENERATOR_TOO_SLOW, ProblemKind.WORKER_LOST)
    assert log.count("A") == (2 * ROUNDS if again else ROUNDS)
    assert ran.notes == (("the first trial was measured again: round 1: oops",) if again else ())
    assert len(ran.trials) == 1
    assert bool(ran.trials[0].problems) == (not heals or not again)


def test_a_fresh_trial_of_one_side_warms_its_brokers_up_again() -> None:
    """They have restarted."""
    log: list[str] = []
    side = Scripted("A", log, cold=True)
    side.meets = threading.Barrier(1)
    runner = runner_of(side)
    runner.measure(time_budget_of(ROUNDS))
    side.cold = True
    runner.measure_fresh(time_budget_of(ROUNDS), " 2")
    trial = [*"a" * IDLE_SLICES, *"A" * ROUNDS]
    assert log == ["start A", *trial, "start A 2", *trial]


def test_records_that_a_warm_up_lost_are_lost_records_of_the_trial() -> None:
    """The cluster acknowledged them; which load they belong to makes no difference."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [], cold=True)
    ours.loses = 2.0
    found = runner_of(ours, theirs).measure(time_budget_of(ROUNDS))
    assert [one.metrics.get("lost", 0) for one in found.rounds] == [2 * IDLE_SLICES, 0, 0, 0]
    assert [problem.kind for problem in found.problems] == [ProblemKind.RECORDS_LOST]
    assert (found.lost_records, found.other_failed) == (True, None)
    assert found.other_side is not None
    assert [one.problems for one in found.other_side] == [()] * ROUNDS


def test_records_that_the_other_side_lost_in_its_warm_up_are_no_loss_of_the_test() -> None:
    """But a comparison with it means nothing."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [], cold=True)
    theirs.loses = 2.0
    found = runner_of(ours, theirs).measure(time_budget_of(ROUNDS))
    assert found.lost_records is False
    assert found.other_failed is not None
    assert found.other_failed.kind is ProblemKind.RECORDS_LOST


def test_so_are_records_that_the_sizing_of_the_workers_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a load like others."""

    class Probe(Scripted):
        def measure(self, workers: Workers) -> Round:
            return dataclasses.replace(super().measure(workers), metrics={"lost": 2.0})

    side = Scripted("A", [])
    side.scenario = Scenario.of({"rounds": ROUNDS, "rate": 100, "producers": 2})
    monkeypatch.setattr(trial_runs, "Side", lambda *_, **__: Probe("P", []))
    monkeypatch.setattr(trial_runs, "usable_cores", lambda: 4)
    runner = TrialRunner([side], warm_up_s=0, allocation=WorkerAllocation())
    found = runner.measure(time_budget_of(ROUNDS))
    assert [one.metrics.get("lost", 0) for one in found.rounds] == [2, 0, 0, 0]

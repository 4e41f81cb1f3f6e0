"""Trials of a test on one side or two: which side begins, when they are warm, and what restarts."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner import trial as trial_runs
from pytest_kafkaperf.runner.round_length import MOST_PAIRS, MOST_REPEATED
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.loads import Phase
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side_rounds import Workers
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.runner.warmup import IDLE_SLICES
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import problem_told
from tests.support.rounds import time_budget_of
from tests.support.scripted_sides import ROUNDS, TOO_SLOW, Late, Scripted, Timed, runner_of


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


class Clocked(Scripted):
    """A side on a clock that all sides share: each slice and each round takes some time."""

    now_s = 0.0
    slice_s = 0.0

    def warm_up_slice(self, workers: Workers, load: Scenario, phase: Phase) -> Round:
        Clocked.now_s += Clocked.slice_s
        return super().warm_up_slice(workers, load, phase)

    def measure(self, workers: Workers) -> Round:
        Clocked.now_s += 1.0
        return super().measure(workers)


@pytest.mark.parametrize(
    ("slice_s", "enough", "pairs"),
    [
        pytest.param(60.0, 100, MOST_PAIRS, id="until the most"),
        pytest.param(60.0, ROUNDS + 2, ROUNDS + 2, id="until precise"),
        pytest.param(60.0, ROUNDS, ROUNDS, id="precise at once"),
        pytest.param(9.0 / (2 * IDLE_SLICES), 100, ROUNDS + 2, id="as long as the warm-up"),
        pytest.param(7.0 / (2 * IDLE_SLICES), 100, ROUNDS, id="after a short warm-up"),
        pytest.param(0.0, 100, ROUNDS, id="without a warm-up"),
    ],
)
def test_noisy_rounds_go_on_if_another_trial_would_warm_up_for_longer(
    monkeypatch: pytest.MonkeyPatch, slice_s: float, enough: int, pairs: int
) -> None:
    """Four rounds on both sides take 8 s. Each side goes first equally often."""
    log: list[str] = []
    ours, theirs = Clocked("A", log, cold=True), Clocked("B", log)
    monkeypatch.setattr(Clocked, "slice_s", slice_s)
    monkeypatch.setattr(trial_runs, "time", SimpleNamespace(monotonic=lambda: Clocked.now_s))
    runner = runner_of(ours, theirs, warm_up_s=math.inf)
    runner.is_precise = lambda trial: len(trial.rounds) >= enough and len(trial.other_side or ()) >= enough
    found = runner.measure(time_budget_of(ROUNDS))
    assert len(found.rounds) == len(found.other_side or ()) == pairs
    assert log[-2 * pairs :] == ["A", "B", "B", "A"] * (pairs // 2)


def test_a_trial_of_one_side_has_the_declared_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is judged on its median, not on pairs."""
    monkeypatch.setattr(Clocked, "slice_s", 60.0)
    monkeypatch.setattr(trial_runs, "time", SimpleNamespace(monotonic=lambda: Clocked.now_s))
    runner = runner_of(Clocked("A", [], cold=True), warm_up_s=math.inf)
    runner.is_precise = lambda _: False
    assert len(runner.measure(time_budget_of(ROUNDS)).rounds) == ROUNDS


@pytest.mark.parametrize("late", range(1, MOST_REPEATED + 2))
@pytest.mark.parametrize("both", [False, True])
def test_a_round_for_which_the_generator_was_too_slow_is_repeated(late: int, *, both: bool) -> None:
    """A busy moment of the machine does not cost a whole trial. Both sides are measured again, in the same order."""
    log: list[str] = []
    ours, theirs = Late("A", log), Scripted("B", log)
    ours.late_rounds = [late]
    found = runner_of(ours, *([theirs] if both else [])).measure(time_budget_of(ROUNDS))
    repeated = min(late, MOST_REPEATED)
    assert log.count("A") == ROUNDS + repeated
    assert len(found.rounds) == ROUNDS
    assert found.other_side is None or len(found.other_side) == ROUNDS
    assert list(map(str, found.problems)) == ["round 1: too slow"] * (late > MOST_REPEATED)
    assert list(map(str, found.warnings)) == ["a round was repeated: too slow"] * repeated
    if both:
        assert log[2 : 2 * repeated + 6] == [*["A", "B"] * (repeated + 1), "B", "A"]


@pytest.mark.parametrize("metric", [None, "app.rows"])
def test_actions_act_on_restarted_brokers_in_each_trial(metric: str | None) -> None:
    """A broker that an action stopped would still be stopped; a custom metric only reads."""
    log: list[str] = []

    class Acting(Late):
        def restart(self, *, quick: bool | None = None) -> None:
            del quick
            log.append("restart")

    side = Acting("A", log)
    side.late_rounds = [1, 0, 0]
    side.side = dataclasses.replace(side.side, actions=(Action(1.0, lambda: None, metric=metric),))
    runner = runner_of(side)
    for _ in range(2):
        runner.measure(time_budget_of(ROUNDS))
    runner.measure_fresh(time_budget_of(ROUNDS))
    acts = metric is None
    assert log.count("restart") == (2 if acts else 1)
    assert log.count("A") == 3 * ROUNDS + (not acts)  # after an action, a late round alone is not repeated


def test_a_round_that_lost_records_is_not_repeated() -> None:
    """Nothing that Kafka has done may disappear with it."""
    log: list[str] = []
    side = Late("A", log)
    side.late_rounds, side.late_rounds_show = [1], {"lost": 3.0}
    found = runner_of(side).measure(time_budget_of(ROUNDS))
    assert (log.count("A"), len(found.problems)) == (ROUNDS, 1)


def test_losses_that_a_test_allows_neither_keep_a_late_round_nor_spoil_the_baseline() -> None:
    """An application that filters its input loses records in each round, on both sides."""
    log: list[str] = []
    ours, theirs = Late("A", log), Late("B", log)
    for side in (ours, theirs):
        side.late_rounds, side.late_rounds_show = [1], {"lost": 3.0, "app.output_ratio": 0.9}
    runner = runner_of(ours, theirs)
    runner.faults = lambda _: ()
    found = runner.measure(time_budget_of(ROUNDS))
    assert (log.count("A"), found.problems, found.is_faulty) == (ROUNDS + 1, (), False)
    assert found.rounds[0].metrics["lost"] == 3


def test_a_late_round_is_repeated_even_if_it_is_the_last_one_for_which_there_is_time() -> None:
    """A repetition is not a further round."""
    log: list[str] = []

    class LateInTheEnd(Timed):
        def measure(self, workers: Workers) -> Round:
            one = super().measure(workers)
            if log.count("A") == 3:
                one = self.rounds[-1] = dataclasses.replace(one, problems=(TOO_SLOW,))
            return one

    side = LateInTheEnd("A", log)
    budget = time_budget_of(ROUNDS, left_s=21, clock=lambda: side.now_s)
    found = runner_of(side).measure(budget)
    assert (len(found.rounds), log.count("A"), found.problems) == (3, 4, ())


def test_a_side_that_cannot_start_is_not_blamed_on_the_other_one() -> None:
    """The brokers under test may have crashed, and a fresh trial would restart them."""

    class Refused(Scripted):
        @contextlib.contextmanager
        def started(self, *, label: str, sides: int) -> Iterator[None]:
            with super().started(label=label, sides=sides):
                self.failure = ClusterError("broker 1 has ended")
            yield from ()
            raise self.failure

    for sides, own in ((Refused("A", []), Scripted("B", [])), True), ((Scripted("A", []), Refused("B", [])), False):
        found = runner_of(*sides).measure(time_budget_of(ROUNDS))
        assert (found.rounds, found.own_failed, found.other_failed is None) == ((), own, own)


def test_what_the_log_shows_about_a_repeated_round_counts() -> None:
    """A generator that is too slow does not write a record twice; an error may be due to it."""
    side = Late("A", [])
    side.late_rounds, side.late_rounds_show = [2], {"lost": 0.0, "duplicated": 3.0, "errors": 5.0}
    found = runner_of(side).measure(time_budget_of(ROUNDS))
    assert found.problems == ()
    assert [(one.metrics.get("duplicated"), one.metrics.get("errors")) for one in found.rounds] == [
        (6, None),
        *[(None, None)] * (ROUNDS - 1),
    ]


def test_a_warm_up_that_breaks_is_reported_even_if_the_rounds_go_well() -> None:
    """The brokers are only half warm, and nobody knows what the broken load lost."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [], cold=True)
    theirs.breaks_warm_up = [problem_told(ProblemKind.CLUSTER_ERROR, "no record was acknowledged for 15 s")]
    found = runner_of(ours, theirs).measure(time_budget_of(ROUNDS))
    assert list(map(str, found.problems)) == ["the baseline: no record was acknowledged for 15 s"]


@pytest.mark.parametrize("loses", [2.0, 0.0])
def test_lost_records_count_even_if_the_cluster_is_lost_later(loses: float) -> None:
    """Otherwise, fresh trials would follow, and might pass."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [])
    ours.loses, theirs.fails_in = loses, 1
    runner = runner_of(ours, theirs)
    found = runner.measure(time_budget_of(ROUNDS))
    assert found.is_faulty is bool(loses)
    assert len(found.rounds) == bool(loses)
    assert str(found.problems[-1]) == "broker 1 has ended"


def test_a_warm_up_that_breaks_is_a_failure_of_its_own_side_even_if_no_round_follows() -> None:
    """There may be no time left for any, or the cluster is lost."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [], cold=True)
    ours.breaks_warm_up = [problem_told(ProblemKind.CLUSTER_ERROR, "no record was acknowledged for 15 s")]
    found = runner_of(ours, theirs).measure(time_budget_of(ROUNDS, left_s=0))
    assert (found.rounds, found.own_failed, found.other_failed) == ((), True, None)


@pytest.mark.parametrize("left_s", [math.inf, 0])
def test_records_that_a_warm_up_lost_count_even_if_no_round_follows(left_s: float) -> None:
    """The cluster is lost, or there is no time left; an inconclusive test would pass."""
    side = Scripted("A", [], cold=True)
    side.loses, side.fails_in = 2.0, 0
    found = runner_of(side).measure(time_budget_of(ROUNDS, left_s=left_s))
    assert (found.rounds, found.own_failed, found.other_failed) == ((), True, None)
    kinds = [ProblemKind.RECORDS_LOST, *([ProblemKind.CLUSTER_ERROR] if left_s else [])]
    assert [problem.kind for problem in found.problems] == kinds


def test_rounds_of_the_trial_before_do_not_count() -> None:
    """The next trial may fail before it starts."""

    class Gone(Scripted):
        @contextlib.contextmanager
        def started(self, *, label: str, sides: int) -> Iterator[None]:
            if label:
                raise ClusterError("broker 1 has ended")
            with super().started(label=label, sides=sides):
                yield

    side = Gone("A", [], cold=True)
    side.loses, side.meets = 2.0, threading.Barrier(1)
    runner = runner_of(side)
    assert runner.measure(time_budget_of(ROUNDS)).is_faulty
    assert runner.measure_fresh(time_budget_of(ROUNDS), " 2").rounds == ()


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
    assert (found.is_faulty, found.other_failed) == (True, None)
    assert found.other_side is not None
    assert [one.problems for one in found.other_side] == [()] * ROUNDS


def test_records_that_the_other_side_lost_in_its_warm_up_are_no_loss_of_the_test() -> None:
    """But a comparison with it means nothing."""
    ours, theirs = Scripted("A", [], cold=True), Scripted("B", [], cold=True)
    theirs.loses = 2.0
    found = runner_of(ours, theirs).measure(time_budget_of(ROUNDS))
    assert found.is_faulty is False
    assert found.other_failed is not None
    assert found.other_failed.kind is ProblemKind.RECORDS_LOST


def test_so_are_records_that_the_sizing_of_the_workers_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a load like others."""

    class Probe(Scripted):
        def measure(self, workers: Workers) -> Round:
            return dataclasses.replace(super().measure(workers), metrics={"lost": 2.0})

    side = Scripted("A", [])
    side.scenario = Scenario.of({"rounds": ROUNDS, "rate": 100, "producers": 2})
    monkeypatch.setattr(trial_runs, "SideRounds", lambda *_, **__: Probe("P", []))
    monkeypatch.setattr(trial_runs, "usable_cores", lambda: 4)
    runner = TrialRunner([side], warm_up_s=0, allocation=WorkerAllocation())
    found = runner.measure(time_budget_of(ROUNDS))
    assert [one.metrics.get("lost", 0) for one in found.rounds] == [2, 0, 0, 0]

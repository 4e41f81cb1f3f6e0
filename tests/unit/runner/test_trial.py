"""Trials of a test on one side or two: which side begins, when they are warm, and what restarts."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner import trial as trial_runs
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side_rounds import Workers
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.runner.warmup import IDLE_SLICES
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import time_budget_of
from tests.support.scripted_sides import ROUNDS, Scripted, runner_of


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
    monkeypatch.setattr(trial_runs, "SideRounds", lambda *_, **__: Probe("P", []))
    monkeypatch.setattr(trial_runs, "usable_cores", lambda: 4)
    runner = TrialRunner([side], warm_up_s=0, allocation=WorkerAllocation())
    found = runner.measure(time_budget_of(ROUNDS))
    assert [one.metrics.get("lost", 0) for one in found.rounds] == [2, 0, 0, 0]

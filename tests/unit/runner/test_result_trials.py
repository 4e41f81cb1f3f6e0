"""The trials of one test: which of them count, and what they tell."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, NotMeasuredError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Place, Problem, ProblemKind
from pytest_kafkaperf.core.units import Count
from pytest_kafkaperf.runner.result import (
    MOST_INVALIDATED,
    Trial,
    judged,
    problems_of,
    shows_end,
    values_of,
    warnings_of,
)
from pytest_kafkaperf.runner.rounds.round import Round
from tests.support.problems import BUSY, problem_told


def trial(*problems: Problem) -> Trial:
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=(), problems=problems)


SOUND = trial()
SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "round 2: generator too slow: 296 of 6000 records were sent late")
NOISY = trial(SLOW)
LOST = trial(problem_told(ProblemKind.RECORDS_LOST, "round 1: 5 records were lost"), SLOW)


def test_a_further_trial_that_the_machine_has_invalidated_does_not_count_and_is_told() -> None:
    """It says nothing of the cluster, and another one is measured in its place."""
    trials = [SOUND, NOISY, SOUND]
    assert judged(trials) == [SOUND, SOUND]
    assert problems_of(trials) == ()
    assert warnings_of(trials) == (Notice(Remark.TRIAL_REPEATED, {"trial": 2, "problem": SLOW, "cause": SLOW.cause}),)


def test_a_generator_at_its_limit_is_one_warning_of_a_test() -> None:
    """One for each round, with other values, hid the other warnings."""
    limited, free = Round(metrics={}, limited_by_generator=True), Round(metrics={})
    trials = [dataclasses.replace(SOUND, rounds=(limited, free)), dataclasses.replace(SOUND, rounds=(limited,))]
    assert warnings_of(trials) == (Notice(Remark.GENERATOR_LIMITS, {"limited": 2, "rounds": Count(3, "round")}),)


def test_a_warning_of_the_other_side_says_so_unless_it_is_about_this_machine() -> None:
    """Both sides share the machine, so that its warnings stand there once."""
    unsent = Notice(Remark.NEVER_SENT, {"missing": 5})
    one = Round(metrics={}, warnings=(unsent, BUSY))
    both = dataclasses.replace(SOUND, rounds=(one,), other_side=(one,))
    assert warnings_of([both]) == (unsent, BUSY, unsent.of_other_side())


def test_an_application_that_has_ended_explains_why_it_could_not_be_read() -> None:
    """Nobody needs two lines about the same crash."""
    ended = Problem.of(ApplicationError("it exited with status 3", log="Traceback", program="application shop"))
    unread, other = (
        Notice(Remark.NEVER_READ, {"program": program, "probe": "process", "reason": "process 7 not found"})
        for program in ("application shop", "broker 1")
    )
    one = dataclasses.replace(trial(ended), rounds=(Round(metrics={}, warnings=(unread, other)),))
    assert warnings_of([one]) == (other,)
    assert warnings_of([dataclasses.replace(one, problems=())]) == (unread, other)


def test_the_end_of_an_application_is_shown_only_by_its_own_problem() -> None:
    """The output of another application is still worth showing."""
    ended = Problem.of(ApplicationError("it exited with status 3", log="", program="application shop")).of_round(1)
    other = Problem.of(ClusterError("application mail (pid 8) does not answer"))
    programs = ("application shop", "application sho", "application mail")
    assert [shows_end([ended, other], program) for program in programs] == [True, False, False]
    unready = Problem.of(ApplicationError("another instance has its partitions", program="application shop"))
    assert not shows_end([unready], "application shop")


def test_what_the_cluster_has_done_always_counts() -> None:
    """A record that is lost is lost, whatever else was wrong."""
    found = problems_of([SOUND, LOST])
    assert [(each.kind, each.text) for each in found] == [
        (ProblemKind.RECORDS_LOST, "trial 2: round 1: 5 records were lost"),
        (ProblemKind.GENERATOR_TOO_SLOW, f"trial 2: {SLOW}"),
    ]


def test_a_trial_that_lost_records_counts_although_the_machine_has_invalidated_it() -> None:
    """Left out, its loss would be nowhere, and the test would pass."""
    lossy = Round(metrics={"lost": 5.0}, problems=(SLOW,))
    invalidated = Trial(created="", rounds=(lossy,), problems=(SLOW,), is_faulty=True)
    assert judged([SOUND, invalidated, SOUND]) == [SOUND, invalidated, SOUND]
    assert dataclasses.replace(invalidated, is_faulty=False).is_invalidated  # the test allows this loss


FAILED = problem_told(ProblemKind.CLUSTER_ERROR, "broker 1 has ended")
UNREAD = problem_told(ProblemKind.RECORDS_UNREAD, "records unread: 17")


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        (Round(metrics={}), Round(metrics={}, problems=(SLOW, FAILED)), FAILED),
        (Round(metrics={}, problems=(SLOW,)), Round(metrics={}, problems=(UNREAD,)), UNREAD),
        (Round(metrics={}, problems=(FAILED,)), Round(metrics={}, problems=(UNREAD,)), None),
        (Round(metrics={}), Round(metrics={}, problems=(SLOW,)), None),  # such a trial is measured again
        (Round(metrics={}, problems=(FAILED,)), Round(metrics={}), None),
        (Round(metrics={"lost": 2.0}), Round(metrics={}, problems=(FAILED,)), None),  # that is about the own brokers
        (Round(metrics={}), Round(metrics={}), None),
    ],
)
def test_only_a_failure_of_the_other_side_leaves_a_suspected_regression_to_fresh_trials(
    ours: Round, theirs: Round, found: Problem | None
) -> None:
    """Brokers under test that fail are what the test is there to find."""
    own = [each.of_round(1) for each in ours.problems]
    other = [each.of_round(1, other_side=True) for each in theirs.problems]
    is_faulty = "lost" in ours.metrics
    measured = dataclasses.replace(SOUND, rounds=(ours,), other_side=(theirs,), is_faulty=is_faulty)
    failed = dataclasses.replace(measured, problems=(*own, *other)).other_failed
    assert failed == (found and found.of_round(1, other_side=True))


def test_a_warm_up_in_which_the_brokers_under_test_failed_is_not_blamed_on_the_other_side() -> None:
    """The rounds after it may go well; its problem belongs to no round."""
    measured = Round(metrics={})
    own = dataclasses.replace(trial(FAILED), rounds=(measured,), other_side=(measured,))
    assert own.other_failed is None
    theirs = dataclasses.replace(FAILED, place=Place(other_side=True))
    assert dataclasses.replace(own, problems=(theirs,)).other_failed == theirs


def test_a_trial_that_did_not_start_is_tried_again_without_the_other_side() -> None:
    """If the own brokers are the reason, it fails again, and the test with it; a failed restart of theirs is known."""
    assert trial(SLOW, FAILED).other_failed == FAILED
    assert dataclasses.replace(trial(SLOW, FAILED), own_failed=True).other_failed is None


def test_the_first_trial_always_counts() -> None:
    """A generator that is too slow makes the run INVALID, never Kafka slow."""
    assert problems_of([NOISY]) == NOISY.problems


def test_a_machine_that_invalidates_trial_after_trial_is_not_tried_for_ever() -> None:
    """Nothing hangs."""
    trials = [SOUND, *[NOISY] * (MOST_INVALIDATED + 1)]
    assert judged(trials) == trials
    assert len(problems_of(trials)) == MOST_INVALIDATED + 1


def test_a_long_comparison_may_repeat_more_trials() -> None:
    """If one in ten is invalidated, a third one among twenty is no news."""
    invalidated = [NOISY] * (MOST_INVALIDATED + 1)
    assert judged([SOUND, *[SOUND] * 9, *invalidated]) == [SOUND] * 10
    assert problems_of([SOUND, *[SOUND] * 8, *invalidated]) != ()


def test_a_metric_without_a_value_is_refused_with_those_that_have_one() -> None:
    """A test that asks for it may lack a consumer."""
    rounds = [Round(metrics={"errors": 0.0}), Round(metrics={"errors": 2.0, "lost": 0.0})]
    assert values_of("errors", rounds).rounds == (0.0, 2.0)
    with pytest.raises(NotMeasuredError) as caught:
        values_of("e2e.latency.p99", rounds)
    assert str(caught.value) == "e2e.latency.p99 was not measured; measured metrics: errors, lost"
    with pytest.raises(NotMeasuredError, match="measured metrics: none$"):
        values_of("errors", [])

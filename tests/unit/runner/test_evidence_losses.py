"""What no test has to declare: acknowledged records are kept, all records are sent, and none of them fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.capacity import find_capacity
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from tests.support.problems import problem_told
from tests.support.results import NO_FAULTS


def perftest(*thresholds: str, **fields: Any) -> PerfTest:
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    marks += [pytest.mark.kafka_threshold(each).mark for each in thresholds]
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    return read_perftest("a.py::test", marks, {}, settings, folder=Path())


def judged(
    tested: PerfTest, *lost: float | None, actions: Sequence[Action] = (), metrics: Mapping[str, float] = NO_FAULTS
) -> Judgement:
    """Judge one round for each number of lost records; None if it is not known."""
    rest = {name: value for name, value in {**NO_FAULTS, **metrics}.items() if name != "lost"}
    rounds = tuple(Round(metrics=rest if one is None else {**rest, "lost": one}) for one in lost)
    trial = Trial(created="2026-01-01T00:00:00+00:00", rounds=rounds)
    return Judging(tested, BaselineRounds(), tested.settings, actions=actions).judge([trial])


def test_lost_records_violate_an_implied_threshold() -> None:
    """Nobody must declare that acknowledged records are kept."""
    judgement = judged(perftest("errors == 0"), 0, 2, 0, 3)
    assert (judgement.verdict, judgement.problems) == (Verdict.VIOLATED, ())
    broken = judgement.checks[-1]
    assert (broken.expression, broken.observed, broken.outcome, broken.implied, broken.reason) == (
        "lost == 0",
        5,
        Verdict.VIOLATED,
        True,
        "Kafka acknowledged these records, but they are not in the log; this threshold is implied; declare a threshold "
        "on `lost` to replace it",
    )


def test_no_loss_needs_no_line() -> None:
    """The table shows what was declared."""
    judgement = judged(perftest("errors == 0"), 0, 0)
    assert judgement.verdict is Verdict.PASSED
    assert [check.expression for check in judgement.checks] == ["errors == 0"]


def test_a_declared_threshold_replaces_the_implied_one() -> None:
    """A test of an unclean failover may allow some losses."""
    judgement = judged(perftest("lost <= 5"), 2, 3)
    assert judgement.verdict is Verdict.PASSED
    assert [check.expression for check in judgement.checks] == ["lost <= 5"]
    assert judged(perftest("lost <= 5"), 2, 4).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("threshold", "verdict"),
    [("lost == 0", Verdict.VIOLATED), ("lost <= 5", Verdict.VIOLATED), ("lost <= 100", Verdict.INVALID)],
)
def test_a_gap_in_a_log_that_nobody_could_audit_violates_but_meets_no_threshold(
    threshold: str, verdict: Verdict
) -> None:
    """At least these records are lost; perhaps more, whose places others have taken."""
    unknown = problem_told(ProblemKind.LOSSES_UNKNOWN, "losses are unknown")
    gap = Round(metrics={**NO_FAULTS, "lost": 10.0}, problems=(unknown,))
    trial = Trial(created="2026-01-01T00:00:00+00:00", rounds=(gap,), problems=(unknown,))
    tested = perftest(threshold)
    assert Judging(tested, BaselineRounds(), tested.settings).judge([trial]).verdict is verdict


@pytest.mark.parametrize(("threshold", "verdict"), [("lost <= 5", Verdict.INVALID), ("errors == 0", Verdict.VIOLATED)])
def test_a_search_that_a_loss_ended_does_not_pass(threshold: str, verdict: Verdict) -> None:
    """The test allows the loss, but nobody knows the capacity."""
    tested = perftest(threshold).with_search(
        ["produce.latency.p99 <= 20 ms"], low="1k records/s", high="2M records/s", hold="10 s"
    )
    assert tested.plan is not None
    metrics = {**NO_FAULTS, "produce.latency.p99": 0.001, "lost": 3.0}
    found = find_capacity(tested.plan, tested.scenario, lambda *_: Round(metrics=metrics), [])
    trial = Trial(created="2026-01-01T00:00:00+00:00", rounds=(found,), problems=found.problems)
    assert Judging(tested, BaselineRounds(), tested.settings).judge([trial]).verdict is verdict


@pytest.mark.parametrize("is_paired", [True, False])
def test_counts_hold_in_each_trial(is_paired: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A later trial can break a threshold on a count, and many trials do not add up to more."""
    tested = perftest("duplicated <= 5", "lost == 0")
    judge = Judging(tested, BaselineRounds(), tested.settings)

    def verdict(*trials: tuple[float, float]) -> Verdict:
        measured = []
        for duplicated, lost in trials:
            rounds = (Round(metrics={**NO_FAULTS, "duplicated": duplicated, "lost": lost}),) * 2
            other_side = rounds if is_paired else None
            measured.append(Trial(created="2026-01-01T00:00:00+00:00", rounds=rounds, other_side=other_side))
        return judge.judge(measured).verdict

    assert verdict((2, 0), (2, 0), (2, 0)) is Verdict.PASSED
    assert verdict((0, 0), (3, 0), (0, 0)) is Verdict.VIOLATED
    assert verdict((0, 0), (0, 1), (0, 0)) is Verdict.VIOLATED


SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "generator too slow")


def trial_of(duplicated: float, *problems: Problem) -> Trial:
    """A side-by-side trial; the generator was too slow in its second round if there are problems."""
    metrics = {**NO_FAULTS, "duplicated": 0.0}
    rounds = (
        Round(metrics=metrics),
        Round(metrics={**metrics, "duplicated": duplicated}, problems=problems),
    )
    other = (Round(metrics=metrics),) * 2
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=rounds, other_side=other, problems=problems)


@pytest.mark.parametrize(
    ("limit", "verdict"), [("duplicated == 0", Verdict.VIOLATED), ("duplicated <= 5", Verdict.PASSED)]
)
def test_faults_in_the_log_count_even_in_a_trial_that_was_repeated(limit: str, verdict: Verdict) -> None:
    """A machine that is too busy does not write a record twice."""
    tested = perftest(limit, "lost == 0")
    judge = Judging(tested, BaselineRounds(), tested.settings)
    trials = [trial_of(0), trial_of(3, SLOW), trial_of(0)]
    judgement = judge.judge([dataclasses.replace(one, is_faulty=bool(judge.faults(one.rounds))) for one in trials])
    assert (judgement.verdict, judgement.problems) == (verdict, ())
    shown = 3 if verdict is Verdict.VIOLATED else 0
    assert (judgement.checks[0].outcome, judgement.checks[0].observed) == (verdict, shown)


@pytest.mark.parametrize(
    ("limit", "verdict"), [("duplicated == 0", Verdict.VIOLATED), ("duplicated <= 5", Verdict.INVALID)]
)
def test_faults_in_the_log_take_precedence_over_a_slow_generator(limit: str, verdict: Verdict) -> None:
    """Even if the first trial could not be repeated, or was as slow again."""
    tested = perftest(limit, "lost == 0")
    judgement = Judging(tested, BaselineRounds(), tested.settings).judge([trial_of(3, SLOW)])
    assert judgement.verdict is verdict
    assert [problem.kind for problem in (*judgement.problems, *judgement.doubts)] == [SLOW.kind]


THROUGH: dict[str, Any] = {"output_topic": "out", "topic": "in", "consumers": 1, "rate": "100/s"}


def test_an_application_that_drops_records_fails_unless_the_test_allows_it() -> None:
    """One that drops 90% of its input looks faster; a filter does so on purpose, and its test says how many."""
    (check,) = judged(perftest("e2e.latency.p99 <= 1 s", **THROUGH), 90, metrics={"e2e.latency.p99": 0.1}).checks[1:]
    assert (check.expression, check.outcome, check.implied, check.reason) == (
        "lost == 0",
        Verdict.VIOLATED,
        True,
        "these acknowledged records did not come out of the application's output topic in time; this threshold is "
        "implied; declare a threshold on `lost` or `app.output_ratio` to replace it",
    )
    assert judged(perftest("lost <= 90", **THROUGH), 90).verdict is Verdict.PASSED
    ratio = perftest("app.output_ratio >= 10%", **THROUGH)
    assert judged(ratio, 90, metrics={"app.output_ratio": 0.1}).verdict is Verdict.PASSED
    assert judged(ratio, 91, metrics={"app.output_ratio": 0.09}).verdict is Verdict.VIOLATED


def test_a_test_without_thresholds_fails_too() -> None:
    """It is measured, but Kafka lost data."""
    assert judged(perftest(), 1).verdict is Verdict.VIOLATED
    assert judged(perftest(), 0).verdict is Verdict.MEASURED


def test_losses_that_nobody_could_count_are_no_zero() -> None:
    """`lost == 0` would hold in every round that could not be compared with the log."""
    judgement = judged(perftest("errors == 0"), 0, None)
    assert judgement.verdict is Verdict.INVALID
    assert [problem.kind for problem in judgement.problems] == [ProblemKind.VALUE_MISSING]
    assert judged(perftest("errors == 0", acks=0), None).verdict is Verdict.PASSED  # nobody can know
    assert judged(perftest("errors == 0"), 3, None).verdict is Verdict.VIOLATED  # whatever the other round lost


PACED: dict[str, Any] = {"rate": "100/s"}


@pytest.mark.parametrize(
    ("metrics", "thresholds", "verdict"),
    [
        ({"errors": 50.0}, (), Verdict.VIOLATED),
        ({"errors": 50.0}, ("produce.latency.p99 <= 1 s",), Verdict.VIOLATED),
        ({"errors": 50.0}, ("errors <= 50",), Verdict.PASSED),
        ({"errors": 50.0, "error_ratio": 0.5}, ("error_ratio <= 50%",), Verdict.PASSED),
        ({"unsent": 50.0}, (), Verdict.VIOLATED),
        ({"unsent": 50.0}, ("errors <= 50",), Verdict.VIOLATED),
        ({"unsent": 50.0}, ("unsent <= 50",), Verdict.PASSED),
    ],
)
def test_failed_and_unsent_records_violate_an_implied_threshold(
    metrics: dict[str, float], thresholds: tuple[str, ...], verdict: Verdict
) -> None:
    """Half of the load fails, or is never sent, and the rest has a good p99."""
    judgement = judged(perftest(*thresholds, **PACED), 0, metrics={"produce.latency.p99": 0.01, **metrics})
    assert judgement.verdict is verdict
    implied = [check.metric for check in judgement.checks if check.implied]
    assert implied == ([next(iter(metrics))] if verdict is Verdict.VIOLATED else [])


@pytest.mark.parametrize(
    ("fields", "implied"),
    [
        ({}, ["lost == 0", "errors == 0"]),
        (PACED, ["lost == 0", "errors == 0", "unsent == 0"]),
        ({"acks": 0}, ["errors == 0"]),
        ({"producers": 0, "topic": "orders", "consumers": 1}, []),
    ],
)
def test_each_load_has_the_rules_that_can_be_judged(fields: dict[str, Any], implied: list[str]) -> None:
    """A rule on a metric that is not measured would make each such test INVALID."""
    assert [threshold.expression for threshold in perftest(**fields).implied] == implied


def test_a_search_holds_the_rules_at_each_rate() -> None:
    """The capacity is no rate at which records fail; a limit of the search replaces a rule, too."""
    fields: dict[str, Any] = {"low": "1k/s", "high": "1M/s", "hold": "2 s"}
    found = perftest().with_search(["produce.latency.p99 <= 20 ms", "errors <= 5"], **fields)
    assert found.plan is not None
    assert [threshold.expression for threshold in found.plan.implied] == ["lost == 0", "unsent == 0"]
    assert found.implied == found.plan.implied


def test_a_smoke_test_keeps_the_rules_on_lost_and_failed_records() -> None:
    """It shows that the scenario runs, so its records must arrive; how fast they do is not its question."""
    smoke = perftest("produce.latency.p99 <= 1 s", "lost <= 5", **PACED).as_smoke_test()
    assert [judged(smoke, lost).verdict for lost in (0, 5, 6)] == [
        Verdict.MEASURED,
        Verdict.MEASURED,
        Verdict.VIOLATED,
    ]
    assert judged(smoke, 0, metrics={"errors": 1.0}).verdict is Verdict.VIOLATED
    assert judged(smoke, 0, metrics={"unsent": 1.0}).verdict is Verdict.MEASURED


def test_errors_name_the_action_that_may_have_caused_them() -> None:
    """A failover of some seconds causes no errors, because clients retry for 30 s: an error is news."""
    actions = [Action(1.0, print), Action(2.0, print, metric="app.rows")]
    (check,) = judged(perftest(), 0, actions=actions, metrics={"errors": 3.0}).checks
    assert check.reason == (
        "these records could not be sent, after all retries, in rounds with kafka_perf.at('1 s'); this threshold is "
        "implied; declare a threshold on `errors` or `error_ratio` to replace it"
    )

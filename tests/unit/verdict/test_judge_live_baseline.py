"""Limits judged side by side with a live baseline: trial by trial, without a stored baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.sequential import MOST_TRIALS
from pytest_kafkaperf.verdict.side_by_side import SideBySide
from tests.support.problems import problem_told

approx: Any = pytest.approx

RATE = "produce.throughput"
LIMIT = f"{RATE} >= baseline - 10%"
MACHINE = (1.0, 0.6, 1.3, 0.9)
"""What the machine did while each pair ran: far more than what is to be found."""
LEVELS = (0.99, 1.01, 1.0, 0.995, 1.005)
"""By how much trials of the same two brokers differ."""


def side_by_side(factor: float, noise: Sequence[float] = (0.995, 1.0, 1.005, 1.002)) -> Measured:
    """A trial whose rounds are the live baseline's times `factor`, except for a little noise."""
    return Measured(
        rounds=rounds([1e6 * machine * factor * own for machine, own in zip(MACHINE, noise, strict=True)]),
        other_side=rounds([1e6 * machine for machine in MACHINE]),
    )


def rounds(values: Sequence[float]) -> list[Mapping[str, float]]:
    return [{RATE: value} for value in values]


def trials(factor: float, number: int) -> list[Measured]:
    return [side_by_side(factor * LEVELS[place % len(LEVELS)]) for place in range(number)]


def judged(found: Sequence[Measured], *limits: str) -> Judgement:
    return judge([parse_threshold(limit) for limit in limits or (LIMIT,)], found, SideBySide())


def test_pairs_see_through_what_the_machine_did_to_both() -> None:
    """Rounds scatter by a factor of two, and 20% less stands out."""
    judgement = judged(trials(0.8, 5))
    (check,) = judgement.checks
    assert (judgement.verdict, judgement.unsettled) == (Verdict.REGRESSED, False)
    assert check.change == approx(-0.2, abs=0.005)
    assert check.observed is not None
    assert check.baseline is not None
    assert check.observed / check.baseline - 1 == approx(check.change)  # what is shown agrees with what is judged
    assert check.interval is not None
    low, high = check.interval
    assert check.change == approx(math.expm1((math.log1p(low) + math.log1p(high)) / 2))
    assert low < high < -0.1
    assert check.reason == "5 side-by-side trials"


def test_a_pair_of_equals_passes_and_says_what_it_has_excluded() -> None:
    """The same broker twice."""
    judgement = judged(trials(1.0, 6))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert judgement.checks[0].reason == "6 side-by-side trials rule out a change of -16.5%"


def test_a_threshold_that_is_decided_stays_so_while_others_go_on() -> None:
    """Each further trial would be another chance to be undecided at the end."""
    disturbed = [*trials(1.0, 4), side_by_side(0.3)]
    judgement = judged(disturbed)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert len(judgement.checks[0].trials) == 5


def test_a_regression_that_later_trials_show_is_no_pass() -> None:
    """The level covers all looks, so the later evidence counts."""
    judgement = judged([*trials(1.0, 4), *trials(0.5, 20)])
    assert judgement.verdict is Verdict.REGRESSED


def test_a_trial_without_a_reading_does_not_end_the_comparison() -> None:
    """The brokers' readings fail now and then; the report shows which trial does not count."""
    flawed = Measured(rounds=rounds(MACHINE), other_side=[{}] * 4)
    judgement = judged([*trials(0.8, 2), flawed, *trials(0.8, 3)])
    assert judgement.verdict is Verdict.REGRESSED
    assert judgement.checks[0].reason == (
        "5 side-by-side trials (left out: produce.throughput is missing in round 1 of 4 of the baseline (trial 3))"
    )


def test_what_got_better_is_improved() -> None:
    """A newer version that is faster is worth a word."""
    assert judged(trials(1.3, 5)).verdict is Verdict.IMPROVED


def test_one_trial_whose_rounds_agree_can_clear_a_threshold() -> None:
    """Only a change so large that no restart could hide it is ruled out."""
    judgement = judged(trials(1.0, 1))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert judgement.checks[0].reason == "1 side-by-side trial rules out a change of -16.5%"


@pytest.mark.parametrize("factor", [0.1, 0.85, 1.2, 10.0])
def test_one_trial_never_shows_a_change(factor: float) -> None:
    """It does not show the noise of restarts, however far it is off."""
    judgement = judged(trials(factor, 1))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)
    (check,) = judgement.checks
    assert (check.interval, check.detectable_change) == (None, None)
    assert check.reason == "undecided after 1 side-by-side trial"


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, Verdict.REGRESSED), (1.0, Verdict.PASSED), (2.0, Verdict.IMPROVED)]
)
def test_two_trials_that_agree_decide(factor: float, verdict: Verdict) -> None:
    """The pairs of rounds in both also show how little noise there is."""
    judgement = judged(trials(factor, 2))
    assert (judgement.verdict, judgement.unsettled) == (verdict, False)


def test_two_trials_whose_rounds_differ_much_decide_nothing() -> None:
    """Trials may agree by chance; their own pairs of rounds show that."""
    wild = [side_by_side(0.5 * level, noise=(0.4, 1.0, 1.6, 0.8)) for level in LEVELS[:2]]
    assert [one.unsettled for one in (judged(trials(0.5, 2)), judged(wild))] == [False, True]


def test_at_the_most_trials_the_test_ends_undecided() -> None:
    """Nothing runs for ever, and what was not shown is neither passed nor failed."""
    wild = [side_by_side(factor) for factor in (0.5, 1.1) * (MOST_TRIALS // 2)]
    assert judged(wild[:-1]).unsettled
    last = judged(wild)
    assert (last.verdict, last.unsettled) == (Verdict.INCONCLUSIVE, False)
    assert f"undecided after {MOST_TRIALS} side-by-side trials with noise of 46%" in last.checks[0].reason


@pytest.mark.parametrize(("factor", "verdict"), [(0.8, Verdict.REGRESSED), (1.0, Verdict.PASSED)])
def test_trials_without_any_noise_decide(factor: float, verdict: Verdict) -> None:
    """Values of a load at a rate can be the same in every trial."""
    judgement = judged([side_by_side(factor, noise=(1.0,) * 4)] * 2)
    assert (judgement.verdict, judgement.unsettled) == (verdict, False)
    assert judgement.checks[0].detectable_change == approx(-0.1)


def test_limits_that_share_an_error_need_more_evidence() -> None:
    """Each limit that could fail by chance makes a failure by chance likelier."""
    metrics = [f"produce.latency.{quantile}" for quantile in ("p50", "p90", "p99", "p99.9")]

    def trial(factor: float) -> Measured:
        return Measured(rounds=[dict.fromkeys(metrics, factor)] * 4, other_side=[dict.fromkeys(metrics, 1.0)] * 4)

    found = [trial(1.18 * level) for level in LEVELS[:3]]
    limits = [f"{name} <= baseline + 10%" for name in metrics]
    assert judged(found, limits[0]).verdict is Verdict.REGRESSED
    (first, *others) = judged(found, *limits).checks
    assert {check.outcome for check in (first, *others)} == {Verdict.INCONCLUSIVE}
    alone = judged(found, limits[0]).checks[0].detectable_change
    assert alone is not None
    assert first.detectable_change is not None
    assert alone < first.detectable_change


def test_one_regression_ends_the_comparison_and_an_undecided_limit_prolongs_it() -> None:
    """A build that fails anyway need not wait; one that would pass waits for the last limit."""
    other = "e2e.latency.p50"

    def trial(rate: float, latency: float) -> Measured:
        return Measured(rounds=[{RATE: rate, other: latency}] * 4, other_side=[{RATE: 1.0, other: 1.0}] * 4)

    limits = LIMIT, f"{other} <= baseline + 10%"
    wild = (0.7, 1.4, 0.8, 1.3, 1.0)
    slower = judged([trial(0.5 * level, each) for level, each in zip(LEVELS, wild, strict=True)], *limits)
    assert [check.outcome for check in slower.checks] == [Verdict.REGRESSED, Verdict.INCONCLUSIVE]
    assert (slower.verdict, slower.unsettled) == (Verdict.REGRESSED, False)
    equal = judged([trial(level, each) for level, each in zip(LEVELS, wild, strict=True)], *limits)
    assert [check.outcome for check in equal.checks] == [Verdict.PASSED, Verdict.INCONCLUSIVE]
    assert (equal.verdict, equal.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_a_violated_absolute_threshold_does_not_end_the_comparison() -> None:
    """Its median is that of the rounds so far: more of them may show that it is met."""
    limits = LIMIT, f"{RATE} >= 900k records/s"
    begun = judged([side_by_side(0.8)], *limits)
    assert [check.outcome for check in begun.checks] == [Verdict.INCONCLUSIVE, Verdict.VIOLATED]
    assert (begun.verdict, begun.unsettled) == (Verdict.VIOLATED, True)
    ended = judged([side_by_side(0.8), *trials(1.0, 10)], *limits)
    assert [check.outcome for check in ended.checks] == [Verdict.PASSED, Verdict.PASSED]
    assert (ended.verdict, ended.unsettled) == (Verdict.PASSED, False)


def test_absolute_limits_judge_the_test_alone_in_one_trial() -> None:
    """An SLA is the candidate's, and nothing else is asked."""
    for factor, verdict in ((0.5, Verdict.PASSED), (0.3, Verdict.VIOLATED)):
        judgement = judged([side_by_side(factor)], f"{RATE} >= 400k records/s")
        assert (judgement.verdict, judgement.unsettled) == (verdict, False)


def test_a_limit_of_two_parts_stays_open_until_the_trials_settle_it() -> None:
    """The larger of two lower limits needs both parts, the smaller one of them."""
    both, one = (f"{RATE} >= {name}(baseline - 10%, 700k records/s)" for name in ("max", "min"))
    assert judged(trials(0.8, 2), both, one).verdict is Verdict.INCONCLUSIVE
    assert [check.outcome for check in judged(trials(0.8, 5), both, one).checks] == [
        Verdict.REGRESSED,
        Verdict.PASSED,
    ]
    assert [check.outcome for check in judged(trials(0.5, 5), both, one).checks] == [
        Verdict.VIOLATED,
        Verdict.REGRESSED,
    ]


def test_a_metric_that_can_be_zero_is_judged_by_its_absolute_limit() -> None:
    """It has no ratio, and needs none."""
    found = [
        Measured(rounds=[{**one, "errors": 0.0} for one in each.rounds], other_side=each.other_side)
        for each in trials(1.0, 6)
    ]
    judgement = judged(found, "errors == 0", LIMIT)
    assert [check.outcome for check in judgement.checks] == [Verdict.PASSED, Verdict.PASSED]
    assert judgement.checks[0].change is None


def test_of_a_run_that_cannot_be_trusted_no_further_trial_is_needed() -> None:
    """Nothing that they show would count."""
    judgement = judge(
        [parse_threshold(LIMIT)],
        [side_by_side(1.0)],
        SideBySide(),
        problems=[problem_told(ProblemKind.CLUSTER_ERROR, "broker lost")],
    )
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INVALID, False)


def test_the_limit_follows_the_live_baseline() -> None:
    """What the report shows as the limit is what the live baseline reached, less the tolerance."""
    (check,) = judged(trials(1.0, 4)).checks
    assert check.baseline is not None
    assert check.limit_value == approx(0.9 * check.baseline)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -1.0])
def test_what_has_no_ratio_on_either_side_decides_nothing(value: float) -> None:
    """Where more than a quarter of the baseline has no value, there is nothing to compare with."""
    trial = Measured(rounds=rounds([1e6] * 4), other_side=rounds([1e6] * 3 + [value]))
    judgement = judged([*trials(0.5, 1), trial, trial])
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, False)
    assert "in round 4 of 4 of the baseline" in judgement.checks[0].reason


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0])
@pytest.mark.parametrize("place", range(5))
def test_a_trial_without_an_own_value_is_invalid(value: float | None, place: int) -> None:
    """It may be missing because of the change that is tested, so the other trials must not decide alone."""
    found = trials(1.0, 5)
    broken: Mapping[str, float] = {} if value is None else {RATE: value}
    found[place] = Measured(rounds=[*found[place].rounds[:3], broken], other_side=found[place].other_side)
    judgement = judged(found)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INVALID, False)
    assert [problem.kind for problem in judgement.problems] == [ProblemKind.VALUE_MISSING]


def test_a_trial_without_an_own_value_hides_no_regression() -> None:
    """What is worse in all the other trials is worse."""
    holed = Measured(rounds=[{}] * 4, other_side=rounds(MACHINE))
    assert judged([*trials(0.8, 5), holed]).verdict is Verdict.REGRESSED


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("values", [[0.0] * 4, [0.0, 1e6, 1e6, 1e6]])
def test_a_trial_without_anything_is_a_regression(place: int, values: Sequence[float]) -> None:
    """A sink that wrote no row in one trial of five is broken, and no trimmed mean hides that."""
    found = trials(1.0, 5)
    found[place] = Measured(rounds=rounds(values), other_side=rounds([1e6] * 4))
    judgement = judged(found)
    (check,) = judgement.checks
    assert (judgement.verdict, judgement.unsettled) == (Verdict.REGRESSED, False)
    assert (check.observed, check.change, check.interval) == (0.0, -1.0, None)
    assert check.reason == "5 side-by-side trials; produce.throughput was 0 in one of them"


@pytest.mark.parametrize(
    ("ours", "verdict"), [([0.0] * 5, Verdict.IMPROVED), ([0.0, *[1.5] * 4], Verdict.INCONCLUSIVE)]
)
def test_zero_where_less_is_better_improves_only_in_all_trials(ours: Sequence[float], verdict: Verdict) -> None:
    """One trial at 0 hides no regression of the others."""
    name = "app.rejected"
    found = [Measured(rounds=[{name: each}] * 4, other_side=[{name: 1.0}] * 4) for each in ours]
    assert judged(found, f"{name} <= baseline + 10%").verdict is verdict


def test_rounds_without_their_pairs_decide_nothing() -> None:
    """Never a pair of two rounds that did not run side by side."""
    (check,) = judged([Measured(rounds=rounds([1e6] * 5), other_side=rounds([1e6] * 4))]).checks
    assert (check.outcome, check.reason) == (
        Verdict.INCONCLUSIVE,
        "5 rounds cannot be paired with 4 of the baseline (trial 1)",
    )


def test_the_minimum_detectable_change_is_beyond_the_tolerance_and_below_the_target() -> None:
    """With little noise, the middle between both is where a change is as likely to fail as to pass."""
    (check,) = judged(trials(1.0, 6)).checks
    assert check.detectable_change == approx(-0.146, abs=0.01)


def test_what_was_decided_stays_so_although_later_trials_have_no_reading() -> None:
    """They run for another threshold, and none of them says that this one was wrong."""
    decided = trials(1.0, 4)
    assert judged(decided).verdict is Verdict.PASSED
    holed = [Measured(rounds=one.rounds, other_side=[{}] * 4) for one in decided[:2]]
    later = judged([*decided, *holed])
    assert (later.verdict, later.unsettled, len(later.checks[0].trials)) == (Verdict.PASSED, False, 4)
    wild = [side_by_side(factor) for factor in (0.7, 1.0, 0.75, 0.95)]
    assert judged(wild).unsettled
    undecided = judged([*wild, *holed])
    assert "is missing in round 1 of 4 of the baseline" in undecided.checks[0].reason
    assert undecided.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("missing", "verdict"), [(1, Verdict.PASSED), (5, Verdict.INVALID)])
def test_a_reading_of_the_brokers_may_be_missing_now_and_then(missing: int, verdict: Verdict) -> None:
    """Asking them fails sometimes, on both sides alike; where it fails always, nothing is known."""
    name = "broker.memory"
    full = [Measured(rounds=[{name: level}] * 4, other_side=[{name: 1.0}] * 4) for level in LEVELS]
    holed = [Measured(rounds=[*one.rounds[:3], {}], other_side=one.other_side) for one in full]
    assert judged([*full[missing:], *holed[:missing]], f"{name} <= baseline + 10%").verdict is verdict


def test_a_share_of_failed_records_is_judged_in_each_trial() -> None:
    """One trial in which every fourth record failed would vanish in the mean of many, and it ends the comparison."""
    found = [
        Measured(rounds=[{**one, "error_ratio": ratio} for one in each.rounds], other_side=each.other_side)
        for each, ratio in zip(trials(1.0, 3), (0.0, 0.25, 0.0), strict=True)
    ]
    judgement = judged(found, "error_ratio <= 10%", LIMIT)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.VIOLATED, False)

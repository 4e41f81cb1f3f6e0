"""The verdict: limits judged over rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import declare
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import Comparison, NotCompared, judge
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Ungated, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind, Reason
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured
from tests.support.problems import problem_told

approx: Any = pytest.approx


_P99 = "produce.latency.p99"
_RATE = "produce.throughput"
_NO_BASELINE = BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE))

_TEN_MS = (0.0098, 0.0099, 0.010, 0.0101, 0.0102)
"""Five rounds of a p99 of 10 ms, with a noise of 2%."""


def _rounds(name: str, values: Sequence[float]) -> tuple[Mapping[str, float], ...]:
    return tuple({name: value} for value in values)


def _on_days(trial: tuple[Mapping[str, float], ...]) -> BaselineRounds:
    """The same trial on ten days: their noise is known to be small."""
    return BaselineRounds(trials=(trial,) * 10, days=tuple(f"2026-01-{day}" for day in range(10, 20)))


def _times(factor: float, values: Sequence[float] = _TEN_MS) -> list[float]:
    return [value * factor for value in values]


def _gated(comparison: Comparison, *, gate_baseline: bool) -> Comparison:
    return comparison if gate_baseline else NotCompared(shown=comparison, reason=Ungated.ACCEPTED)


def _judge(
    expression: str,
    current: Sequence[float],
    baseline: Sequence[float] | BaselineRounds = (),
    *,
    gate_baseline: bool = True,
) -> Check:
    threshold = parse_threshold(expression)
    if not isinstance(baseline, BaselineRounds):
        baseline = _on_days(_rounds(threshold.metric.name, baseline)) if baseline else _NO_BASELINE
    judgement = judge(
        [threshold],
        [Measured(rounds=_rounds(threshold.metric.name, current))],
        _gated(AgainstStored(baseline=baseline), gate_baseline=gate_baseline),
    )
    (check,) = judgement.checks
    assert judgement.verdict is check.outcome
    return check


# Absolute limits


def test_an_absolute_limit_judges_the_median_over_the_rounds() -> None:
    """One round disturbed by a neighbour must not fail a build."""
    assert _judge(f"{_P99} <= 25 ms", [0.020, 0.021, 0.022, 0.023, 0.9]) == Check(
        expression="produce.latency.p99 <= 25 ms",
        metric=_P99,
        observed=0.022,
        limit_value=0.025,
        baseline=None,
        change=None,
        detectable_change=approx(12.77, abs=0.01),
        outcome=Verdict.PASSED,
        reasons=(Reason("median of 5 rounds, from 20 ms to 900 ms"),),
        spread=(0.020, 0.9),
    )


def test_a_broken_absolute_limit_is_violated() -> None:
    """An SLA needs no baseline and no statistics."""
    check = _judge(f"{_RATE} >= 5k records/s", [4000.0])
    assert (check.outcome, check.observed, check.reason) == (
        Verdict.VIOLATED,
        4000.0,
        "median of 1 round, each 4k records/s",
    )


def test_counts_are_summed_over_the_rounds() -> None:
    """A loss in one round of five would vanish in a median."""
    check = _judge("lost == 0", [0, 0, 0, 0, 3])
    assert (check.outcome, check.observed, check.reason) == (
        Verdict.VIOLATED,
        3.0,
        "sum of 5 rounds, from 0 records to 3 records",
    )


@pytest.mark.parametrize(
    ("operator", "holding"),
    [("<=", (4.0, 5.0)), ("<", (4.0,)), (">=", (5.0, 6.0)), (">", (6.0,)), ("==", (5.0,))],
)
def test_operators_are_exact(operator: str, holding: tuple[float, ...]) -> None:
    """A limit means what it says, at the limit, too."""
    outcomes = {value: _judge(f"errors {operator} 5", [value]).outcome for value in (4.0, 5.0, 6.0)}
    assert outcomes == {value: Verdict.PASSED if value in holding else Verdict.VIOLATED for value in outcomes}


def test_zero_is_a_value_for_an_absolute_limit() -> None:
    """No throughput at all is no excuse."""
    assert _judge(f"{_RATE} >= 1 records/s", [0.0, 0.0, 0.0]).outcome is Verdict.VIOLATED


def test_an_extreme_of_absolute_limits_is_one_limit() -> None:
    """`==` takes it, too."""
    assert _judge("errors == max(1, 2)", [2.0]).outcome is Verdict.PASSED
    assert _judge("errors <= min(1, 2)", [2.0]).outcome is Verdict.VIOLATED


@pytest.mark.parametrize("expression", [f"{_P99} <= 25 ms", f"{_P99} <= baseline", f"{_P99} <= max(baseline, 25 ms)"])
@pytest.mark.parametrize(
    ("value", "flaw"),
    [
        (math.nan, "produce.latency.p99 is nan s in round 2 of 2"),
        (math.inf, "produce.latency.p99 is inf s in round 2 of 2"),
        (-0.001, "produce.latency.p99 is -1 ms in round 2 of 2"),
    ],
)
def test_a_value_that_cannot_be_never_decides(expression: str, value: float, flaw: str) -> None:
    """NaN compares as false: it would pass every `>` and fail every `<=`."""
    check = _judge(expression, [0.001, value], _TEN_MS)
    assert (check.outcome, check.observed, check.change) == (Verdict.INVALID, None, None)
    assert flaw in check.reason


def test_a_missing_value_never_decides() -> None:
    """A median over the other rounds would be a better value than the run gave."""
    judgement = judge(
        [parse_threshold("lost == 0"), parse_threshold(f"{_P99} <= baseline")],
        [Measured(rounds=[{"lost": 0.0, _P99: 0.01}, {"errors": 0.0}])],
        AgainstStored(baseline=BaselineRounds(trials=(_rounds(_P99, _TEN_MS),))),
    )
    assert [(check.outcome, check.observed, check.baseline, check.reason) for check in judgement.checks] == [
        (Verdict.INVALID, None, None, "lost is missing in round 2 of 2"),
        (Verdict.INVALID, None, approx(0.01), "produce.latency.p99 is missing in round 2 of 2"),
    ]
    told = [
        "threshold 'lost == 0' cannot be judged: lost is missing in round 2 of 2",
        "threshold 'produce.latency.p99 <= baseline' cannot be judged: produce.latency.p99 is missing in round 2 of 2",
    ]
    problems = [(ProblemKind.VALUE_MISSING, text) for text in told]
    assert judgement.verdict is Verdict.INVALID
    assert [(each.kind, each.text) for each in judgement.problems] == problems


@pytest.mark.parametrize(
    ("limit", "values", "verdict"),
    [
        (f"{_P99} <= 25 ms", [0.03, 0.03, 0.03, None, None], Verdict.VIOLATED),  # the median is 30 ms at best
        (f"{_P99} <= 25 ms", [0.03, 0.03, 0.01, None, None], Verdict.INVALID),
        (f"{_P99} <= 25 ms", [0.01, 0.01, 0.01, None, None], Verdict.INVALID),  # unknown is not green
        (f"{_RATE} >= 5k records/s", [4000.0, 4000.0, None], Verdict.VIOLATED),
        (f"{_RATE} >= 5k records/s", [4000.0, 6000.0, None], Verdict.INVALID),
        (f"{_RATE} >= 5k records/s", [None], Verdict.INVALID),
        ("error_ratio <= 1%", [0.04, 0.04, None], Verdict.VIOLATED),  # the mean is 2.7% at least
        ("error_ratio <= 1%", [0.01, 0.01, None], Verdict.INVALID),
    ],
)
def test_a_round_without_a_value_makes_a_limit_invalid_unless_the_others_break_it(
    limit: str, values: Sequence[float | None], verdict: Verdict
) -> None:
    """An SLA that nobody could check would pass otherwise."""
    threshold = parse_threshold(limit)
    rounds = [{} if value is None else {threshold.metric.name: value} for value in values]
    judgement = judge([threshold], [Measured(rounds=rounds)], AgainstStored(baseline=_NO_BASELINE))
    assert (judgement.verdict, judgement.checks[0].outcome) == (verdict, verdict)
    kinds = [problem.kind for problem in judgement.problems]
    assert kinds == ([ProblemKind.VALUE_MISSING] if verdict is Verdict.INVALID else [])


_PAUSE = "app.rebalance.pause"


@pytest.mark.parametrize(
    ("limit", "values", "outcome", "observed"),
    [
        ("<= 5 s", [None, None, None], Verdict.PASSED, 0.6),
        ("<= 5 s", [4.0, None, 7.0], Verdict.PASSED, 4.0),
        ("<= 0.5 s", [None, None, None], Verdict.INVALID, None),  # it may be more
        ("<= 0.5 s", [0.7, None, 0.7], Verdict.VIOLATED, None),
        (">= 0.1 s", [None, None, None], Verdict.INVALID, None),
        ("== 0", [None, None, None], Verdict.INVALID, None),
    ],
)
def test_a_value_too_small_to_be_measured_meets_an_upper_limit_that_its_bound_meets(
    limit: str, values: Sequence[float | None], outcome: Verdict, observed: float | None
) -> None:
    """A rebalance that nobody noticed would make a test INVALID that allows one of five seconds."""
    rounds = [{} if value is None else {_PAUSE: value} for value in values]
    bounds = [{_PAUSE: 0.6} if value is None else {} for value in values]
    threshold = parse_threshold(f"{_PAUSE} {limit}")
    trial = Measured(rounds=rounds, at_most=bounds)
    (check,) = judge([threshold], [trial], AgainstStored(baseline=_NO_BASELINE)).checks
    assert (check.outcome, check.observed) == (outcome, observed)
    assert check.is_upper_bound == (observed is not None)


@pytest.mark.parametrize(("p99", "verdict"), [(0.03, Verdict.VIOLATED), (0.01, Verdict.INVALID)])
def test_a_missing_value_hides_no_other_limit_that_is_not_met(p99: float, verdict: Verdict) -> None:
    """A slow cluster is slow, whatever an exporter has left out."""
    limits = [parse_threshold(f"{_P99} <= 25 ms"), parse_threshold("broker.isr_shrinks == 0")]
    judgement = judge(limits, [Measured(rounds=[{_P99: p99}])], AgainstStored(baseline=_NO_BASELINE))
    assert judgement.verdict is verdict


def test_a_problem_explains_the_values_that_are_missing() -> None:
    """One reason, not all its consequences; implied thresholds are not even listed."""
    implied = dataclasses.replace(parse_threshold("lost == 0"), implied=True)
    judgement = judge(
        [parse_threshold(f"{_P99} <= 25 ms"), implied],
        [Measured(rounds=[{}])],
        AgainstStored(baseline=_NO_BASELINE),
        problems=[BROKER_LOST],
    )
    assert (judgement.verdict, judgement.problems) == (Verdict.INVALID, (BROKER_LOST,))
    assert [check.metric for check in judgement.checks] == [_P99]


def test_without_rounds_nothing_is_decided() -> None:
    """A cluster lost in the first round leaves none."""
    check = _judge("errors == 0", [])
    assert (check.outcome, check.observed, check.reason) == (Verdict.INCONCLUSIVE, None, "no round was measured")


# Limits relative to the baseline


def test_worse_by_more_than_the_tolerance_and_beyond_noise_is_regressed() -> None:
    """The main job."""
    check = _judge(f"{_P99} <= baseline + 20%", _times(1.5), _TEN_MS)
    assert check == Check(
        expression="produce.latency.p99 <= baseline + 20%",
        metric=_P99,
        observed=approx(0.015),
        limit_value=approx(0.012),
        baseline=approx(0.010),
        change=approx(0.5),
        detectable_change=approx(0.242, abs=0.001),
        outcome=Verdict.REGRESSED,
        reasons=(
            Reason(
                "+50.0% against the baseline; the threshold is +20.0%; noise can explain up to +9.5% "
                "(baseline of 10 days)"
            ),
        ),
        interval=approx((1.5 / 1.0862 - 1, 1.5 * 1.0862 - 1), abs=1e-3),
        spread=approx((0.0147, 0.0153)),
        is_relative=True,
    )


def test_less_throughput_is_worse() -> None:
    """The direction is the metric's, the change that of the value."""
    check = _judge(f"{_RATE} >= baseline - 10%", _times(0.5), _TEN_MS)
    assert check.outcome is Verdict.REGRESSED
    assert check.change == approx(-0.5)
    assert check.interval == approx((0.5 / 1.0862 - 1, 0.5 * 1.0862 - 1), abs=1e-3)
    assert check.reason == (
        "-50.0% against the baseline; the threshold is -10.0%; noise can explain up to -8.6% (baseline of 10 days)"
    )


def test_within_the_tolerance_passes() -> None:
    """Users say how much worse may be; a significant 15% is within 20%."""
    check = _judge(f"{_P99} <= baseline + 20%", _times(1.15), _TEN_MS)
    assert (check.outcome, check.reason) == (
        Verdict.PASSED,
        "+15.0% against the baseline; the threshold is +20.0%",
    )


def test_worse_but_not_beyond_noise_is_inconclusive_and_says_what_to_do() -> None:
    """Neither a false alarm nor a pass: nobody knows."""
    one_day = BaselineRounds(trials=(_rounds(_P99, _TEN_MS),))
    check = _judge(f"{_P99} <= baseline + 20%", _times(1.3), one_day)
    assert check.outcome is Verdict.INCONCLUSIVE
    assert check.reason == (
        "+30.0% against the baseline; the threshold is +20.0%; noise can explain up to +44.0% (baseline of 1 day): "
        "compare side by side with --kafka-compare, or measure the baseline on more days with "
        "--kafka-update-baselines=add"
    )


def test_better_by_more_than_the_tolerance_and_beyond_noise_is_improved() -> None:
    """A better result must be accepted as the baseline, or it will hide the next regression."""
    check = _judge(f"{_P99} <= baseline + 20%", _times(0.5), _TEN_MS)
    assert (check.outcome, check.change) == (Verdict.IMPROVED, approx(-0.5))
    assert check.reason == (
        "-50.0% against the baseline; the threshold is +20.0%; noise can explain up to -8.6% (baseline of 10 days)"
    )
    assert _judge(f"{_RATE} >= baseline - 10%", _times(1.5), _TEN_MS).outcome is Verdict.IMPROVED


def test_better_within_the_tolerance_or_within_noise_is_not_improved() -> None:
    """IMPROVED is the mirror image: it takes as much as REGRESSED does."""
    assert _judge(f"{_P99} <= baseline + 20%", _times(0.9), _TEN_MS).outcome is Verdict.PASSED
    one_day = BaselineRounds(trials=(_rounds(_P99, _TEN_MS),))
    noisy = _judge(f"{_P99} <= baseline + 20%", _times(0.75), one_day)
    assert (noisy.outcome, noisy.change) == (Verdict.PASSED, approx(-0.25))


@pytest.mark.parametrize(
    ("expression", "factor"), [(f"{_P99} <= baseline + 10%", 1.1), (f"{_RATE} >= baseline - 10%", 0.9)]
)
@pytest.mark.parametrize("value", [0.1, 0.3, 1.7, 123.456, 1e-9, 1e9])
def test_exactly_at_the_limit_passes(expression: str, factor: float, value: float) -> None:
    """log() rounds: the printed limit and the verdict must agree for equal values, too."""
    assert _judge(expression, [value * factor] * 5, [value] * 5).outcome is Verdict.PASSED
    beyond = 1 + math.copysign(1e-6, factor - 1)
    assert _judge(expression, [value * factor * beyond] * 5, [value] * 5).outcome is Verdict.REGRESSED


def test_a_plain_baseline_has_no_tolerance() -> None:
    """`<= baseline` means not worse, beyond noise; equal values are not worse."""
    assert _judge(f"{_P99} <= baseline", _times(1.12), _TEN_MS).outcome is Verdict.REGRESSED
    assert _judge(f"{_P99} <= baseline", _times(1.05), _TEN_MS).outcome is Verdict.INCONCLUSIVE
    assert _judge(f"{_P99} <= baseline", _TEN_MS, _TEN_MS).outcome is Verdict.PASSED
    assert _judge(f"{_P99} < baseline", _TEN_MS, _TEN_MS).outcome is Verdict.PASSED


def test_days_count_alike_however_many_trials_they_have() -> None:
    """An afternoon of trials is one day."""
    trials = (*(_rounds(_P99, [0.010, 0.011, 0.012]),) * 9, _rounds(_P99, [0.040, 0.044, 0.048]))
    known = BaselineRounds(trials=trials, days=("2026-01-01",) * 9 + ("2026-01-02",))
    check = _judge(f"{_P99} <= baseline + 10%", [0.022] * 5, known)
    assert (check.outcome, check.baseline, check.change) == (Verdict.PASSED, approx(0.022), approx(0.0))


def test_one_round_against_one_decides_about_large_changes() -> None:
    """All noise is assumed then. A limit that could never fail would be a gate that sleeps."""
    one_round = BaselineRounds(trials=(_rounds(_P99, [0.010]),))
    outcomes = [_judge(f"{_P99} <= baseline + 20%", [value], one_round).outcome for value in (0.011, 0.014, 0.030)]
    assert outcomes == [Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.REGRESSED]


def test_without_a_baseline_the_limit_is_inconclusive() -> None:
    """The first run of every test: neither passed nor failed."""
    check = _judge(f"{_P99} <= baseline + 20%", _TEN_MS)
    assert check == Check(
        expression="produce.latency.p99 <= baseline + 20%",
        metric=_P99,
        observed=0.010,
        limit_value=None,
        baseline=None,
        change=None,
        detectable_change=None,
        outcome=Verdict.INCONCLUSIVE,
        reasons=(Reason.of(Obstacle(ObstacleKind.NO_BASELINE)),),
        spread=(0.0098, 0.0102),
        is_relative=True,
    )


def test_another_environments_baseline_is_shown_and_never_gates() -> None:
    """A laptop must not fail because of CI's results, and its user wants to see them."""
    elsewhere = BaselineRounds(trials=(_rounds(_P99, _TEN_MS),), obstacle=Obstacle(ObstacleKind.NO_BASELINE))
    check = _judge(f"{_P99} <= baseline + 20%", _times(3), elsewhere)
    assert (check.outcome, check.obstacle) == (Verdict.INCONCLUSIVE, elsewhere.obstacle)
    assert (check.baseline, check.change) == approx((0.010, 2.0))


@pytest.mark.parametrize(
    ("values", "flaw"),
    [
        ([0.01, 0.0], "is 0 s in round 2 of 2 of the baseline's trial 1, so it has no ratio"),
        ([0.01, math.nan], "is nan s in round 2 of 2 of the baseline's trial 1"),
    ],
)
def test_a_baseline_value_without_a_logarithm_never_decides(values: Sequence[float], flaw: str) -> None:
    """There is no ratio to zero."""
    check = _judge(f"{_P99} <= baseline", _TEN_MS, values)
    assert (check.outcome, check.baseline, check.change) == (Verdict.INCONCLUSIVE, None, None)
    assert check.reason == f"produce.latency.p99 {flaw}"


@pytest.mark.parametrize("values", [[0.0] * 5, [0.0, *_TEN_MS[1:]]])
def test_nothing_where_more_is_better_is_regressed(values: Sequence[float]) -> None:
    """A sink that wrote no row is no noise, although zero has no logarithm."""
    check = _judge(f"{_RATE} >= baseline - 10%", values, _TEN_MS)
    assert (check.outcome, check.observed, check.change) == (Verdict.REGRESSED, 0.0, -1.0)


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.0] * 5, Verdict.IMPROVED),
        ([0.0, *_TEN_MS[1:]], Verdict.PASSED),
        ([0.0, *_times(3)[1:]], Verdict.REGRESSED),  # one round at 0 hides nothing
    ],
)
@pytest.mark.usefixtures("catalogue")
def test_zero_where_less_is_better_is_the_best_value(values: Sequence[float], outcome: Verdict) -> None:
    """A metric of the test's own may reach it."""
    declare("app.wait", unit="s", better="lower")
    assert _judge("app.wait <= baseline + 10%", values, _TEN_MS).outcome is outcome


@pytest.mark.parametrize("expression", [f"{_P99} <= baseline + 10%", f"{_P99} <= 25 ms"])
def test_a_latency_of_zero_is_a_failed_reading(expression: str) -> None:
    """Nothing takes no time, so it must neither pass nor improve."""
    assert _judge(expression, [0.0, *_TEN_MS[1:]], _TEN_MS).outcome is Verdict.INVALID


def test_a_baseline_from_before_the_metric_never_decides() -> None:
    """A limit on a new metric meets old files."""
    baseline = BaselineRounds(trials=(({"errors": 0.0},),))
    check = _judge(f"{_P99} <= baseline", _TEN_MS, baseline)
    assert (check.outcome, check.reason) == (
        Verdict.INCONCLUSIVE,
        "produce.latency.p99 is missing in round 1 of 1 of the baseline's trial 1",
    )


# Limits with an absolute and a relative part

_WORSE, _SAME = _times(2), list(_TEN_MS)


@pytest.mark.parametrize(
    ("limit", "current", "baseline", "outcome"),
    [
        # The larger of two upper limits: one part that holds is enough.
        ("max(baseline + 20%, 5 ms)", _WORSE, _TEN_MS, Verdict.REGRESSED),
        ("max(baseline + 20%, 30 ms)", _WORSE, _TEN_MS, Verdict.PASSED),
        ("max(baseline + 20%, 5 ms)", _SAME, _TEN_MS, Verdict.PASSED),
        ("max(5 ms, baseline + 20%)", _times(0.1), _TEN_MS, Verdict.IMPROVED),
        ("max(baseline + 20%, 30 ms)", _WORSE, (), Verdict.PASSED),
        ("max(baseline + 20%, 5 ms)", _WORSE, (), Verdict.INCONCLUSIVE),
        # The smaller of two upper limits: both have to hold.
        ("min(baseline + 20%, 30 ms)", _WORSE, _TEN_MS, Verdict.REGRESSED),
        ("min(baseline + 20%, 5 ms)", _WORSE, _TEN_MS, Verdict.VIOLATED),
        ("min(baseline + 20%, 5 ms)", _SAME, _TEN_MS, Verdict.VIOLATED),
        ("min(baseline + 20%, 30 ms)", _SAME, _TEN_MS, Verdict.PASSED),
        ("min(30 ms, baseline + 20%)", _times(0.1), _TEN_MS, Verdict.IMPROVED),
        ("min(baseline + 20%, 5 ms)", _WORSE, (), Verdict.VIOLATED),
        ("min(baseline + 20%, 30 ms)", _WORSE, (), Verdict.INCONCLUSIVE),
    ],
)
def test_upper_limits_compose(
    limit: str, current: Sequence[float], baseline: Sequence[float], outcome: Verdict
) -> None:
    """VIOLATED where an absolute part alone breaks it, REGRESSED where it takes the baseline."""
    assert _judge(f"{_P99} <= {limit}", current, baseline).outcome is outcome


@pytest.mark.parametrize(
    ("limit", "factor", "baseline", "outcome"),
    [
        ("min(baseline - 10%, 30 records/s)", 0.5, (100.0,) * 5, Verdict.PASSED),
        ("min(baseline - 10%, 80 records/s)", 0.5, (100.0,) * 5, Verdict.REGRESSED),
        ("min(baseline - 10%, 80 records/s)", 0.5, (), Verdict.INCONCLUSIVE),
        ("min(baseline - 10%, 30 records/s)", 0.5, (), Verdict.PASSED),
        ("max(baseline - 10%, 80 records/s)", 0.5, (100.0,) * 5, Verdict.VIOLATED),
        ("max(baseline - 10%, 30 records/s)", 0.5, (100.0,) * 5, Verdict.REGRESSED),
        ("max(baseline - 10%, 80 records/s)", 0.5, (), Verdict.VIOLATED),
        ("max(baseline - 10%, 30 records/s)", 0.5, (), Verdict.INCONCLUSIVE),
        ("max(baseline - 10%, 30 records/s)", 1.0, (100.0,) * 5, Verdict.PASSED),
    ],
)
def test_lower_limits_compose_the_other_way_round(
    limit: str, factor: float, baseline: Sequence[float], outcome: Verdict
) -> None:
    """The smaller of two lower limits is the looser one."""
    assert _judge(f"{_RATE} >= {limit}", [100.0 * factor] * 5, baseline).outcome is outcome


def test_a_composed_limit_gives_both_reasons_and_the_value_that_counts() -> None:
    """Which part broke is the first question."""
    check = _judge(f"{_P99} <= max(baseline + 20%, 5 ms)", _WORSE, _TEN_MS)
    assert check.limit_value == approx(0.012)
    assert check.reason == (
        "baseline + 20%: +100.0% against the baseline; the threshold is +20.0%; noise can explain up to +9.5% "
        "(baseline of 10 days); 5 ms: median of 5 rounds, from 19.6 ms to 20.4 ms"
    )


# Tests


def _outcomes(*outcomes: Verdict) -> list[tuple[str, float]]:
    """A limit and the value of its metric for each outcome."""
    examples = {
        Verdict.PASSED: ("errors == 0", 0.0),
        Verdict.IMPROVED: (f"{_RATE} >= baseline", 20.0),
        Verdict.INCONCLUSIVE: ("e2e.latency.p99 <= baseline", 1.0),
        Verdict.REGRESSED: (f"{_P99} <= baseline", 20.0),
        Verdict.VIOLATED: ("duplicated == 0", 1.0),
    }
    return [examples[outcome] for outcome in outcomes]


BROKER_LOST = problem_told(ProblemKind.CLUSTER_ERROR, "broker lost")


def _judge_all(*outcomes: Verdict, problems: Sequence[Problem] = (), gate_baseline: bool = True) -> Judgement:
    examples = _outcomes(*outcomes)
    thresholds = [parse_threshold(expression) for expression, _ in examples]
    values = {threshold.metric.name: value for threshold, (_, value) in zip(thresholds, examples, strict=True)}
    return judge(
        thresholds,
        [Measured(rounds=[values] * 5)],
        _gated(
            AgainstStored(baseline=BaselineRounds(trials=(({_P99: 10.0, _RATE: 10.0},) * 5,))),
            gate_baseline=gate_baseline,
        ),
        problems=problems,
    )


def test_the_worst_limit_is_the_verdict_of_the_test() -> None:
    """INVALID > VIOLATED > REGRESSED > INCONCLUSIVE > IMPROVED > PASSED."""
    ranked = [
        Verdict.VIOLATED,
        Verdict.REGRESSED,
        Verdict.INCONCLUSIVE,
        Verdict.IMPROVED,
        Verdict.PASSED,
    ]
    for index, least in enumerate(ranked):
        judgement = _judge_all(*reversed(ranked[index:]))
        assert judgement.verdict is least
        assert [check.outcome for check in judgement.checks] == list(reversed(ranked[index:]))


def test_problems_make_the_run_invalid_and_the_limits_are_still_shown() -> None:
    """Results of a run that cannot be trusted still help to find out why."""
    judgement = _judge_all(Verdict.PASSED, Verdict.VIOLATED, problems=[BROKER_LOST])
    assert (judgement.verdict, judgement.problems) == (Verdict.INVALID, (BROKER_LOST,))
    assert [check.outcome for check in judgement.checks] == [Verdict.PASSED, Verdict.VIOLATED]


def test_a_test_without_thresholds_is_measured_unless_it_is_invalid() -> None:
    """Nothing was compared, so nothing passed."""
    verdicts = [
        judge([], [Measured(rounds=[{}])], AgainstStored(baseline=_NO_BASELINE), problems=problems).verdict
        for problems in ([], [BROKER_LOST])
    ]
    assert verdicts == [Verdict.MEASURED, Verdict.INVALID]


def test_regressed_violated_and_invalid_fail() -> None:
    """A build turns red for these, and for no others."""
    failing = {Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID}
    assert {verdict for verdict in Verdict if verdict.fails} == failing
    assert {verdict for verdict in Verdict if verdict.needs_reason} == {*failing, Verdict.INCONCLUSIVE}


@pytest.mark.parametrize(
    ("limit", "values", "verdict"),
    [
        ("== 0", (3.0,), Verdict.VIOLATED),
        ("== 0", (0.0, 3.0), Verdict.VIOLATED),
        ("<= 2", (3.0,), Verdict.VIOLATED),
        ("< 3", (3.0,), Verdict.VIOLATED),
        ("== 0", (0.0,), Verdict.INVALID),
        ("== 3", (3.0,), Verdict.INVALID),
        ("<= 3", (3.0,), Verdict.INVALID),
        ("< 4", (3.0,), Verdict.INVALID),
        (">= 2", (3.0,), Verdict.INVALID),
        ("> 2", (3.0,), Verdict.INVALID),
        ("== 0", (3.0, -1.0), Verdict.VIOLATED),
        ("== 0", (3.0, math.inf), Verdict.VIOLATED),
    ],
)
def test_a_sum_that_is_beyond_its_limit_is_broken_whatever_a_gap_would_add(
    limit: str, values: Sequence[float], verdict: Verdict
) -> None:
    """Three duplicates in one round stay three."""
    judgement = judge(
        [parse_threshold(f"duplicated {limit}")],
        [Measured(rounds=[*_rounds("duplicated", values), {}])],
        AgainstStored(baseline=BaselineRounds()),
    )
    assert judgement.verdict is verdict


def test_thresholds_of_an_accepted_run_are_accepted_and_not_passed() -> None:
    """`--kafka-update-baselines` says: this is the new normal. Nobody compared it, so nothing has passed."""
    check = _judge(f"{_P99} <= baseline", _WORSE, _TEN_MS, gate_baseline=False)
    assert (check.outcome, check.reason) == (Verdict.MEASURED, "the values become the new baseline")
    assert check.change == approx(1.0)
    assert _judge(f"{_P99} <= baseline", _WORSE, gate_baseline=False).outcome is Verdict.MEASURED


@pytest.mark.parametrize(
    ("combined", "absolute_ms", "outcome"),
    [
        ("max", 25, Verdict.PASSED),  # one part is enough, and it holds
        ("max", 1, Verdict.MEASURED),  # the other part could hold
        ("min", 25, Verdict.MEASURED),  # the other part could be broken
        ("min", 1, Verdict.VIOLATED),
    ],
)
def test_a_part_that_is_not_judged_decides_nothing(combined: str, absolute_ms: int, outcome: Verdict) -> None:
    """What the absolute part decides alone is decided."""
    assert _judge(f"{_P99} <= {combined}(baseline, {absolute_ms} ms)", _TEN_MS, gate_baseline=False).outcome is outcome


def test_an_accepted_run_still_holds_its_absolute_limits() -> None:
    """What breaks an SLA never becomes the baseline."""
    judgement = _judge_all(Verdict.REGRESSED, Verdict.VIOLATED, gate_baseline=False)
    assert [check.outcome for check in judgement.checks] == [Verdict.MEASURED, Verdict.VIOLATED]


def test_a_value_that_cannot_be_is_not_accepted() -> None:
    """It could not be compared with afterwards."""
    assert _judge(f"{_P99} <= baseline", [0.01, 0.0], gate_baseline=False).outcome is Verdict.INCONCLUSIVE


_NOISY = st.lists(st.floats(min_value=1e-4, max_value=10), min_size=1, max_size=8)


@given(_NOISY, _NOISY, st.sampled_from(["", " + 5%", " + 50%"]))
def test_both_directions_are_mirror_images(current: list[float], baseline: list[float], tolerance: str) -> None:
    """1/latency is a throughput: every regression of one is a regression of the other."""
    lower = _judge(f"{_P99} <= baseline{tolerance}", current, baseline).outcome
    inverse = {"": "", " + 5%": " - 4.761904761904762%", " + 50%": " - 33.33333333333333%"}[tolerance]
    higher = _judge(
        f"{_RATE} >= baseline{inverse}", [1 / value for value in current], [1 / value for value in baseline]
    ).outcome
    assert lower is higher


@given(_NOISY, _NOISY, st.floats(min_value=1.0, max_value=3))
def test_a_worse_run_is_never_judged_better(current: list[float], baseline: list[float], factor: float) -> None:
    """Otherwise a team could pass by slowing down."""
    order = [Verdict.IMPROVED, Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.REGRESSED]
    before = _judge(f"{_P99} <= baseline + 10%", current, baseline).outcome
    after = _judge(f"{_P99} <= baseline + 10%", _times(factor, current), baseline).outcome
    assert order.index(after) >= order.index(before)


@pytest.mark.parametrize(("value", "verdict"), [(60_000.0, Verdict.PASSED), (40_000.0, Verdict.INVALID)])
def test_a_lower_bound_keeps_a_limit_and_breaks_none(value: float, verdict: Verdict) -> None:
    """How much more there would have been, nobody knows: it is no regression of the cluster."""
    judgement = judge(
        [parse_threshold("capacity >= 50k records/s"), parse_threshold("errors == 0")],
        [Measured(rounds=[{"capacity": value, "errors": 0.0}])],
        AgainstStored(baseline=_NO_BASELINE),
        bounds=["capacity"],
    )
    assert judgement.verdict is verdict
    told = (
        "capacity >= 50k records/s: only a lower bound of capacity is known, so the true value may meet the threshold; "
        "the warnings explain why"
    )
    found = [(each.kind, each.text) for each in judgement.problems]
    assert found == ([(ProblemKind.LOWER_BOUND, told)] if verdict is Verdict.INVALID else [])


def test_a_threshold_that_fails_for_sure_decides_next_to_a_lower_bound() -> None:
    """An application that hangs has lost records, however late they would have come."""
    judgement = judge(
        [parse_threshold("e2e.latency.p99 <= 1 s"), parse_threshold("lost == 0")],
        [Measured(rounds=[{"e2e.latency.p99": 0.1, "lost": 500.0}])],
        AgainstStored(baseline=_NO_BASELINE),
        bounds=["e2e.latency.p99"],
    )
    assert (judgement.verdict, judgement.problems) == (Verdict.VIOLATED, ())


@pytest.mark.parametrize(("value", "verdict"), [(70.0, Verdict.VIOLATED), (50.0, Verdict.INVALID)])
def test_a_lower_bound_breaks_an_upper_limit_and_keeps_none(value: float, verdict: Verdict) -> None:
    """A group that has not committed its last record within a minute may need an hour for it."""
    judgement = judge(
        [parse_threshold("app.drain <= 1 min")],
        [Measured(rounds=[{"app.drain": value}])],
        AgainstStored(baseline=_NO_BASELINE),
        bounds=["app.drain"],
    )
    assert judgement.verdict is verdict
    told = (
        "app.drain <= 1 min: only a lower bound of app.drain is known, so the true value may exceed the threshold; "
        "the warnings explain why"
    )
    found = [(each.kind, each.text) for each in judgement.problems]
    assert found == ([(ProblemKind.LOWER_BOUND, told)] if verdict is Verdict.INVALID else [])


@pytest.mark.parametrize(
    ("values", "limits", "verdict"),
    [
        ([25.9], ["app.recovery <= 10 s"], Verdict.VIOLATED),
        ([25.9], ["app.recovery < 10 s", "errors == 0"], Verdict.VIOLATED),
        ([12.0, 25.9, 9.0], ["app.recovery <= 10 s"], Verdict.VIOLATED),
        ([6.0, 25.9, 9.0], ["app.recovery <= 10 s"], Verdict.INVALID),
        ([25.9], ["app.recovery <= 30 s"], Verdict.INVALID),
        ([25.9], ["app.recovery >= 30 s"], Verdict.INVALID),
        ([25.9], ["errors == 0"], Verdict.INVALID),
    ],
)
def test_an_outage_without_end_fails_if_it_is_too_long_already(
    values: list[float], limits: list[str], verdict: Verdict
) -> None:
    """However long it would have taken; and a median that may be within the limit is undecided."""
    text = "round 1: the group had not caught up when the load ended, so app.recovery is at least 25.9 s"
    problem = problem_told(ProblemKind.NOT_CAUGHT_UP, f"{text}; use a longer duration", "app.recovery")
    judgement = judge(
        [parse_threshold(limit) for limit in limits],
        [Measured(rounds=[{"app.recovery": value, "errors": 0.0} for value in values])],
        AgainstStored(baseline=_NO_BASELINE),
        problems=[problem],
    )
    assert judgement.verdict is verdict
    assert judgement.problems == (() if verdict is Verdict.VIOLATED else (problem,))
    if verdict is Verdict.VIOLATED:
        assert judgement.checks[0].reason.endswith(f"; {text}")


def test_an_outage_without_end_hides_no_other_problem() -> None:
    """A machine that was too slow makes the time itself untrustworthy."""
    slow = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "generator too slow")
    judgement = judge(
        [parse_threshold("app.recovery <= 10 s")],
        [Measured(rounds=[{"app.recovery": 25.9}])],
        AgainstStored(baseline=_NO_BASELINE),
        problems=[slow, problem_told(ProblemKind.NOT_CAUGHT_UP, "the group had not caught up", "app.recovery")],
    )
    assert (judgement.verdict, judgement.problems) == (Verdict.INVALID, (slow,))


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize(
    ("limit", "relative"), [("== 0", False), ("<= baseline + 20%", True), ("<= max(baseline + 20%, 9)", True)]
)
def test_a_metric_may_be_named_after_the_baseline(limit: str, *, relative: bool) -> None:
    """It is the limit that counts."""
    declare("app.baseline_rows", unit="rows", better="lower")
    (check,) = judge(
        [parse_threshold(f"app.baseline_rows {limit}")],
        [Measured(rounds=[{"app.baseline_rows": 1.0}])],
        FreshTrials(first=AgainstStored(baseline=BaselineRounds(), confirmation="fresh")),
    ).checks
    assert check.is_relative is relative

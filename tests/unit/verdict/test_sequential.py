"""The comparison with a live baseline, trial by trial: its bounds, its errors and its power."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.verdict.detectable import POWER
from pytest_kafkaperf.verdict.scale import Difference, Measured
from pytest_kafkaperf.verdict.sequential import (
    BETA,
    FEWEST_TRIALS,
    MARGIN,
    MOST_TRIALS,
    detectable,
    differences_of,
    further_trials,
    is_precise,
    look,
    passing_tolerance,
)
from tests.support.simulated_trials import (
    FREEDOM,
    LOOKS,
    Noise,
    Trials,
    critical,
    differences,
    first_half_widths,
    half_width,
    judged,
    looks,
    moderated,
    trust_of,
    uncertain_restarts,
    with_mean,
)

approx: Any = pytest.approx

ALPHA = 0.01
TOLERANCE = -math.log1p(-0.03)
"""That of `produce.throughput >= baseline - 3%`."""
TEN_PER_CENT = -math.log1p(-0.1)


# Bounds


def _crossed(drawn: Trials, alpha: float, last: int | None = None) -> float:
    """Share of unchanged tests that cross a bound at some look, of which `last` is the final one."""
    crossed = np.zeros(len(drawn.values), dtype=bool)
    for number in range(FEWEST_TRIALS, (last or MOST_TRIALS) + 1):
        mean, error = moderated(drawn, number)
        crossed |= mean >= critical(number, "regressed", alpha, final=number == last) * error
    return float(crossed.mean())


@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_looks_together_cross_their_bounds_as_seldom_as_the_level_says(alpha: float) -> None:
    """40,000 unchanged tests, whose trials are drawn one by one: at most the level, and not far below it.

    Each test has other brokers, so restarts add less noise than expected in one, and more in another.
    """
    runs = 40_000
    found = _crossed(differences(runs=runs, deviation=1.0, restarts=uncertain_restarts(runs), seed=1), alpha)
    noise = math.sqrt(alpha * (1 - alpha) / runs)
    assert 0.8 * alpha - 3 * noise < found < alpha + 3 * noise


@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("restarts", [1.0, 1.5])
def test_looks_together_stay_below_the_level_if_restarts_add_the_expected_noise(alpha: float, restarts: float) -> None:
    """The rule does not rely on it, which has a price: in a fourth of all series, they add more."""
    found = _crossed(differences(runs=40_000, deviation=1.0, restarts=restarts, seed=1), alpha)
    assert 0.2 * alpha < found < alpha


@pytest.mark.parametrize("last", [2, 3, 4, 5, 8, 16])
def test_a_last_look_for_want_of_time_uses_what_is_left_of_the_level(last: int) -> None:
    """40,000 unchanged tests that end after so many trials: at most the level, and most of it."""
    runs = 40_000
    found = _crossed(differences(runs=runs, deviation=1.0, restarts=uncertain_restarts(runs), seed=2), ALPHA, last=last)
    assert 0.5 * ALPHA < found < ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


def test_a_clear_change_is_found_at_a_last_look() -> None:
    """A fall by 93% despite a noise of 40% is no riddle, but a first look is careful."""
    drawn = with_mean(0.9, 2, 0.1)
    found = [look(drawn, tolerance=TOLERANCE, alpha=ALPHA, final=final).decision for final in (False, True)]
    assert found == ["open", "regressed"]


@pytest.mark.parametrize(("decision", "exponent"), [("regressed", 0.15), ("equal", 0.05)])
def test_later_looks_need_weaker_evidence(decision: Literal["regressed", "equal"], exponent: float) -> None:
    """On the scale of the normal distribution: towards the bound of a single test, which a pass reaches sooner."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    needed = [critical(number, decision, ALPHA) for number in LOOKS]
    freedom = [trust_of(number) + number - 2 * (number // 8) - 1 for number in LOOKS]
    normal = [float(stats.norm.isf(stats.t.sf(*each))) for each in zip(needed, freedom, strict=True)]
    shape = [(number / MOST_TRIALS) ** -exponent for number in LOOKS]
    assert [each / normal[-1] for each in normal] == approx(shape, rel=0.005)
    assert normal[-1] > statistics.NormalDist().inv_cdf(1 - (ALPHA if decision == "regressed" else BETA))


def test_a_smaller_level_needs_more_at_every_look() -> None:
    """Several gated metrics share the level of one test."""
    for number in LOOKS:
        assert critical(number, "regressed", ALPHA) < critical(number, "regressed", ALPHA / 4)
        assert critical(number, "equal", ALPHA) == approx(critical(number, "equal", ALPHA / 4))


# Decisions


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("variance", [None, 0.0, 0.01])
def test_one_trial_never_shows_a_regression(variance: float | None, *, final: bool) -> None:
    """It does not show what restarts do, however well its pairs of rounds agree."""
    found = look([Difference(5.0, variance, 3)], tolerance=0.0, alpha=ALPHA, final=final)
    assert (found.decision, found.settled, found.interval, found.deviation) == ("open", False, None, None)
    assert (found.trials, found.mean) == (1, 5.0)


def test_one_trial_of_few_rounds_shows_nothing() -> None:
    """Three pairs may agree by chance, and a single one shows no noise at all."""
    one_pair, three_pairs, usual = Difference(0.0), Difference(0.0, 0.0, 2), Difference(0.0, 0.0, 3)
    found = [look([one], tolerance=0.1, alpha=ALPHA).decision for one in (one_pair, three_pairs, usual)]
    assert found == ["open", "open", "equal"]


@pytest.mark.parametrize(
    ("noise", "mean", "decision"),
    [
        (0.015, 0.0, "equal"),
        (0.015, 0.02, "equal"),
        (0.015, 0.05, "open"),
        (0.015, -0.05, "open"),
        (0.0, 0.03, "equal"),
        (0.06, 0.0, "open"),
    ],
)
def test_one_quiet_trial_can_show_that_nothing_has_changed(noise: float, mean: float, decision: str) -> None:
    """Restarts are assumed to add a noise of 3%, so even pairs that agree perfectly leave an interval."""
    found = look([Difference(mean, noise**2, FREEDOM)], tolerance=TOLERANCE, alpha=ALPHA)
    assert found.decision == decision
    if decision == "equal":
        low, high = found.interval or (math.nan, math.nan)
        assert 0.06 < high - mean <= TOLERANCE + MARGIN - mean
        assert high - mean == approx(mean - low)
        assert found.deviation == approx(math.hypot(math.sqrt(1.5) * noise, 0.03))


@pytest.mark.parametrize("pair", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
def test_the_first_trial_seldom_hides_a_change_of_the_target(pair: float, noise: Noise) -> None:
    """40,000 tests whose restarts add as much noise as assumed."""
    runs, within = 40_000, 1.5 * (pair / 2) ** 2
    deviation = math.sqrt(within + 0.03**2)
    drawn = differences(runs=runs, deviation=deviation, noise=noise, restarts=deviation**2 / (pair / 2) ** 2)
    hidden = float((drawn.values[:, 0] <= -first_half_widths(drawn)).mean())
    assert 0.009 < hidden < 0.018


@pytest.mark.parametrize(
    ("mean", "decision"),
    [
        (0.5, "regressed"),
        (TOLERANCE + MARGIN, "open"),
        (TOLERANCE + MARGIN / 2, "open"),
        (TOLERANCE, "equal"),
        (0.0, "equal"),
        (-TOLERANCE, "equal"),
        (-0.5, "improved"),
    ],
)
def test_the_mean_of_the_trials_decides(mean: float, decision: str) -> None:
    """Six trials with a noise of 3%."""
    found = look(with_mean(mean, 6, 0.03), tolerance=TOLERANCE, alpha=ALPHA)
    assert (found.decision, found.settled) == (decision, decision != "open")
    assert found.deviation == approx(0.03)


def test_after_the_most_trials_every_test_is_settled() -> None:
    """Also one that nothing was shown of."""
    wild = with_mean(TOLERANCE + MARGIN / 2, MOST_TRIALS)
    for number, settled in ((MOST_TRIALS - 1, False), (MOST_TRIALS, True)):
        found = look(wild[:number], tolerance=TOLERANCE, alpha=ALPHA)
        assert (found.decision, found.settled) == ("open", settled)
    assert look([*wild, Difference(0.0)], tolerance=TOLERANCE, alpha=ALPHA).settled


@pytest.mark.parametrize(
    ("mean", "decision"),
    [(0.2, "regressed"), (TOLERANCE, "equal"), (0.0, "equal"), (-TOLERANCE, "equal"), (-0.2, "improved")],
)
def test_trials_without_noise_decide_at_the_first_look(mean: float, decision: str) -> None:
    """Values of a load at a rate can be the same in every trial; exactly the tolerance is within it."""
    found = look([Difference(mean, 0.0, 3)] * FEWEST_TRIALS, tolerance=TOLERANCE, alpha=ALPHA)
    assert (found.decision, found.interval) == (decision, approx((mean, mean)))


_DIFFERENCES = st.lists(
    st.builds(Difference, st.floats(-1, 1), st.floats(0, 0.1), st.integers(1, 7))
    | st.builds(Difference, st.floats(-1, 1)),
    min_size=FEWEST_TRIALS,
    max_size=MOST_TRIALS,
)


def _shifted(drawn: Sequence[Difference], shift: float) -> list[Difference]:
    return [dataclasses.replace(each, value=each.value + shift) for each in drawn]


@given(_DIFFERENCES, st.floats(0, 0.2))
def test_better_is_worse_the_other_way_round(drawn: list[Difference], tolerance: float) -> None:
    """IMPROVED is asked for as strictly as REGRESSED."""
    there = look(drawn, tolerance=tolerance, alpha=ALPHA)
    opposite = [dataclasses.replace(each, value=-each.value) for each in drawn]
    back = look(opposite, tolerance=tolerance, alpha=ALPHA)
    if there.decision in ("regressed", "improved"):
        assert {there.decision, back.decision} == {"regressed", "improved"}
    low, high = there.interval or (math.nan, math.nan)
    assert back.interval == approx((-high, -low))


@given(_DIFFERENCES, st.floats(0, 0.5))
def test_worse_trials_are_never_judged_better(drawn: list[Difference], more: float) -> None:
    """Otherwise a team could pass by slowing down."""
    order = ["improved", "equal", "open", "regressed"]
    before, after = (look(_shifted(drawn, shift), tolerance=TOLERANCE, alpha=ALPHA).decision for shift in (0.0, more))
    assert order.index(before) <= order.index(after)


@given(_DIFFERENCES, st.floats(1, 10))
def test_noisier_rounds_never_decide_sooner(drawn: list[Difference], factor: float) -> None:
    """Whatever the trials are, pairs of rounds that agree less only widen the interval."""
    noisier = [
        each if each.variance is None else dataclasses.replace(each, variance=each.variance * factor) for each in drawn
    ]
    (low, high), (lower, higher) = (
        look(each, tolerance=TOLERANCE, alpha=ALPHA).interval or (math.nan, math.nan) for each in (drawn, noisier)
    )
    assert lower <= low + 1e-9
    assert high <= higher + 1e-9


def test_the_mean_is_that_of_scipy() -> None:
    """Without an eighth of the trials at each end; the error is of the trials with the ends drawn in."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    drawn = np.random.default_rng(3).standard_t(2, MOST_TRIALS)
    for number in LOOKS:
        trials = [Difference(each) for each in drawn[:number].tolist()]
        cut, found = number // 8, look(trials, tolerance=0.0, alpha=ALPHA)
        ends = (cut / number + 1e-9, cut / number + 1e-9)
        spread = float(stats.mstats.winsorize(drawn[:number], ends).std(ddof=1)) * math.sqrt(number - 1)
        kept = number - 2 * cut
        assert found.mean == approx(stats.trim_mean(drawn[:number], ends[0]))
        assert found.deviation == approx(spread / math.sqrt(kept - 1))


@pytest.mark.parametrize(("variances", "typical"), [((0.01, 0.03), 0.02), ((0.01, 0.02, 9.0), 0.02 / 0.7938)])
def test_the_noise_within_trials_counts_in_addition_to_the_noise_between_them(
    variances: tuple[float, ...], typical: float
) -> None:
    """One disturbed trial among three does not determine it. The median of a variance of three degrees is 0.79."""
    values = (0.1, 0.3, 0.2)[: len(variances)]
    drawn = [Difference(*each, FREEDOM) for each in zip(values, variances, strict=True)]
    between, trust = statistics.variance(values), trust_of(len(values))
    own = len(values) - 1
    pooled = (trust * 1.5 * typical + own * between) / (trust + own)
    found = look(drawn, tolerance=0.0, alpha=ALPHA)
    assert found.deviation == approx(math.sqrt(pooled), rel=1e-4)


def test_a_trial_with_a_single_pair_of_rounds_does_not_hide_what_the_others_predict() -> None:
    """It shows no noise of its own, which is not the same as none."""
    known = [Difference(value, 0.01, FREEDOM) for value in (0.1, 0.2)]
    third = look([*known, Difference(0.15)], tolerance=0.0, alpha=ALPHA)
    trust, squares = 0.9 / (1 / 4 + 1 / (2 * FREEDOM)), 2 * 0.05**2
    assert third.deviation == approx(math.sqrt((trust * 1.5 * 0.01 + squares) / (trust + 2)))


# The number of rounds and of further trials


@pytest.mark.parametrize("tolerance", [0.03, 0.1])
@pytest.mark.parametrize("freedom", [FREEDOM, 11])
def test_a_trial_is_precise_if_two_such_trials_rule_a_change_out(tolerance: float, freedom: int) -> None:
    """Unless both are worse by more than one standard error."""

    def precise(deviation: float) -> bool:
        return is_precise(Difference(9.0, deviation**2, freedom), tolerance=tolerance, alpha=ALPHA)

    found = [precise(deviation / 1000) for deviation in range(1, 100)]
    most = found.index(False) / 1000
    assert found == sorted(found, reverse=True)
    error = math.sqrt(1.5 / 2) * most
    worse, far_worse = ([Difference(times * error, most**2, freedom)] * 2 for times in (0.99, 2))
    assert look(worse, tolerance=tolerance, alpha=ALPHA).decision == "equal"
    assert look(far_worse, tolerance=tolerance, alpha=ALPHA).decision == "open"


def test_a_trial_of_one_pair_is_not_extended() -> None:
    """It shows no noise, and its round is as long as the user said."""
    assert is_precise(Difference(0.0), tolerance=0.03, alpha=ALPHA)


@pytest.mark.parametrize("mean", [0.0, 0.02, 0.2, -0.3])
@pytest.mark.parametrize("deviation", [0.06, 0.15, 0.3])
def test_further_trials_are_those_until_the_same_mean_and_noise_decide(mean: float, deviation: float) -> None:
    """The estimate is told to users who wait."""
    begun = look(with_mean(mean, 2, deviation), tolerance=TOLERANCE, alpha=ALPHA)
    later = [
        number
        for number in range(3, MOST_TRIALS + 1)
        if look(with_mean(mean, number, deviation), tolerance=TOLERANCE, alpha=ALPHA).decision != "open"
    ]
    assert further_trials(begun, alpha=ALPHA) == next(iter(later), MOST_TRIALS) - 2


@pytest.mark.parametrize("mean", [0.0, 0.05, 0.3])
def test_with_the_offered_tolerance_one_more_such_trial_passes(mean: float) -> None:
    """And with a smaller one it does not."""
    drawn = with_mean(mean, 2, 0.2), with_mean(mean, 3, 0.2)
    offered = passing_tolerance(look(drawn[0], tolerance=TOLERANCE, alpha=ALPHA))
    found = [look(drawn[1], tolerance=offered + more, alpha=ALPHA).decision for more in (-0.001, 0.001)]
    assert found == ["open", "equal"]


# Errors and power


@pytest.mark.parametrize("noise", get_args(Noise))
def test_the_simulation_is_the_rule(noise: Noise) -> None:
    """Tests at once, as arrays, fare as each does by the rule itself, and have the same errors at every look."""
    drawn = differences(runs=60, deviation=0.08, noise=noise) + 0.06
    together = judged(drawn, tolerance=TOLERANCE, alpha=ALPHA)
    for number in range(60):
        *_, last = looks(drawn.test(number), tolerance=TOLERANCE, alpha=ALPHA)
        assert (together.decisions[number], together.trials[number]) == (last.decision, last.trials)
    assert {*together.decisions.tolist()} >= {"regressed", "equal"}
    for trials in LOOKS:
        means, errors = moderated(drawn, trials)
        for number in range(10):
            found = look(drawn.test(number)[:trials], tolerance=TOLERANCE, alpha=ALPHA)
            expected = errors[number] * math.sqrt(trials - 2 * (trials // 8))
            assert (found.mean, found.deviation) == (approx(means[number]), approx(expected))


@pytest.mark.parametrize("restarts", [1.0, 1.5])
@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
@pytest.mark.parametrize(("deviation", "power"), [(0.02, 0.99), (0.04, 0.97), (0.06, 0.95), (0.08, 0.91)])
def test_the_rule_seldom_cries_wolf_and_finds_ten_per_cent(
    noise: Noise, deviation: float, power: float, restarts: float
) -> None:
    """2,500 tests of each kind: with no change, with a change of just the tolerance, and with a drop by 10%."""
    drawn = differences(runs=2500, deviation=deviation, noise=noise, restarts=restarts)
    same, tolerated, slower = (
        judged(drawn + change, tolerance=TOLERANCE, alpha=ALPHA) for change in (0.0, TOLERANCE, TEN_PER_CENT)
    )
    assert same.share("regressed") + same.share("improved") <= 0.001
    assert same.share("equal") >= 0.995
    assert tolerated.share("regressed") <= ALPHA
    assert slower.share("regressed") >= power
    assert same.trials.mean() < slower.trials.mean() < 17.5


@pytest.mark.parametrize(
    ("deviation", "restarts", "alarms"),
    [(0.02, 9, 0.001), (0.05, 9, 0.001), (0.08, 9, 0.001), (0.02, 25, 0.001), (0.05, 25, 0.001), (0.08, 25, 0.002)],
)
def test_restarts_that_add_much_more_noise_than_expected_cause_few_false_alarms(
    deviation: float, restarts: float, alarms: float
) -> None:
    """The pairs of rounds in a trial promise too much, but the trials themselves correct them."""
    drawn = differences(runs=20_000, deviation=deviation, restarts=restarts)
    same, tolerated = (judged(drawn + change, tolerance=TOLERANCE, alpha=ALPHA) for change in (0.0, TOLERANCE))
    assert same.share("regressed") + same.share("improved") <= alarms
    assert tolerated.share("regressed") <= 0.02


@pytest.mark.parametrize(
    ("pair", "restarts", "trials"),
    [(0.02, 1, 1.0), (0.06, 1, 2.9), (0.12, 1, 5.8), (0.02, 1.5, 1.0), (0.06, 1.5, 3.1), (0.12, 1.5, 6.7)],
)
def test_unchanged_tests_end_early(pair: float, restarts: float, trials: float) -> None:
    """Trials cost most of the time; a trial has four pairs of rounds with this noise."""
    deviation = pair / math.sqrt(4) * math.sqrt(restarts)
    same = judged(differences(runs=2500, deviation=deviation, restarts=restarts), tolerance=TOLERANCE, alpha=ALPHA)
    assert same.share("equal") >= 0.995
    assert same.trials.mean() == approx(trials, abs=0.1)


@pytest.mark.parametrize(("deviation", "power"), [(0.03, 0.98), (0.06, 0.9)])
def test_disturbed_trials_hide_no_change(deviation: float, power: float) -> None:
    """One in eight is five times as noisy, as other programs of a shared machine make it."""
    drawn = differences(runs=2500, deviation=deviation, noise="disturbed")
    same, tolerated, slower = (
        judged(drawn + change, tolerance=TOLERANCE, alpha=ALPHA) for change in (0.0, TOLERANCE, TEN_PER_CENT)
    )
    assert same.share("regressed") + same.share("improved") <= 0.001
    assert same.share("equal") >= 0.99
    assert tolerated.share("regressed") <= ALPHA
    assert slower.share("regressed") >= power


@pytest.mark.parametrize(("deviation", "restarts"), [(0.0316, 10.5), (0.04, 4), (0.06, 1.5), (0.1, 1.5)])
def test_a_change_of_the_target_seldom_counts_as_equal(deviation: float, restarts: float) -> None:
    """What a test says it has excluded, it has excluded; with the first values, restarts add a noise of 3%."""
    drawn = differences(runs=4000, deviation=deviation, restarts=restarts) + TOLERANCE + MARGIN
    found = judged(drawn, tolerance=TOLERANCE, alpha=ALPHA)
    assert found.share("equal") <= BETA + 3 * math.sqrt(BETA * (1 - BETA) / 4000)


@pytest.mark.parametrize("noise", ["normal", "heavy-tailed"])
def test_the_intervals_of_all_looks_hold_the_true_difference(noise: Noise) -> None:
    """A repeated confidence interval may be read at any trial: 40,000 tests."""
    runs = 40_000
    drawn = differences(runs=runs, deviation=1.0, noise=noise)
    held = np.ones(runs, dtype=bool)
    for number in LOOKS:
        mean, error = moderated(drawn, number)
        held &= np.abs(mean) <= half_width(number) * error
    missed = 2 * BETA  # at one end or the other
    assert held.mean() >= 1 - missed - 3 * math.sqrt(missed * (1 - missed) / runs)


# The minimum detectable change


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_without_noise_the_tolerance_is_what_can_be_detected(tolerance: float) -> None:
    """Values of a load at a rate can be the same in every trial."""
    assert detectable(0.0, tolerance=tolerance, alpha=ALPHA, power=POWER) == tolerance


@pytest.mark.parametrize("deviation", [0.02, 0.06, 0.12])
@pytest.mark.parametrize("alpha", [ALPHA, ALPHA / 4])
def test_what_is_detectable_is_found_with_the_promised_probability(deviation: float, alpha: float) -> None:
    """Against the rule itself, with other random numbers."""
    change = detectable(deviation, tolerance=TOLERANCE, alpha=alpha, power=POWER)
    drawn = differences(runs=2000, deviation=deviation, seed=5) + change
    assert judged(drawn, tolerance=TOLERANCE, alpha=alpha).share("regressed") == approx(POWER, abs=0.05)


# Metrics


P99 = metric("produce.latency.p99")


def _trial(value: float | None, other: float | None = 1.0) -> Measured:
    ours, theirs = ([{} if each is None else {P99.name: each}] for each in (value, other))
    return Measured(rounds=ours, other_side=theirs)


def test_each_trial_gives_one_difference() -> None:
    """More rounds do not make more evidence: they share the noise of their trial."""
    found, flaw = differences_of(P99, [_trial(2.0), _trial(0.5)])
    assert (found, flaw) == ([Difference(approx(math.log(2))), Difference(approx(-math.log(2)))], None)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_trial(None), "produce.latency.p99 is missing in round 1 of 1 (trial 2)"),
        (_trial(1.0, None), "produce.latency.p99 is missing in round 1 of 1 of the baseline (trial 2)"),
        (
            _trial(1.0, 0.0),
            "produce.latency.p99 is 0 s in round 1 of 1 of the baseline, so it has no ratio (trial 2)",
        ),
        (Measured(rounds=[], other_side=[]), "no round was measured (trial 2)"),
    ],
)
def test_a_trial_without_the_metric_is_named(broken: Measured, reason: str) -> None:
    """The others decide, and the report tells that they are not all."""
    assert differences_of(P99, [_trial(1.0), broken, _trial(1.0)]) == ([Difference(0.0)] * 2, reason)


@pytest.mark.parametrize(("sound", "broken", "counts"), [(0, 1, False), (1, 1, True), (5, 2, False), (6, 2, True)])
def test_a_quarter_of_the_trials_may_lack_the_metric(sound: int, broken: int, *, counts: bool) -> None:
    """One lost reading ends no comparison; a metric that is often missing has no value."""
    found, flaw = differences_of(P99, [*[_trial(1.0)] * sound, *[_trial(None)] * broken])
    assert found == [Difference(0.0)] * (sound if counts else 0)
    assert flaw == f"produce.latency.p99 is missing in round 1 of 1 (trial {sound + 1})"


def test_a_metric_that_can_be_zero_has_no_differences() -> None:
    """There is no ratio to zero."""
    assert differences_of(metric("errors"), [Measured(rounds=[{"errors": 1.0}], other_side=[{"errors": 1.0}])]) == (
        [],
        "errors can be zero, so it has no ratio to a baseline (trial 1)",
    )

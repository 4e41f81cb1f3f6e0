"""Other changes: which metrics without a limit moved, and how rarely noise is mistaken for a move."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pytest

from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.other_changes import OtherChange, other_changes
from pytest_kafkaperf.verdict.scale import Measured
from tests.support.drawn_runs import drawn_runs

P50, P99 = "produce.latency.p50", "produce.latency.p99"
THROUGHPUT, BANDWIDTH = "produce.throughput", "produce.bandwidth"
NEAR_ONE = (0.98, 0.99, 1.0, 1.01, 1.02)

Trial = list[dict[str, float]]


def _trial(factor: float = 1.0, *, factors: Mapping[str, float] | None = None) -> Trial:
    """Rounds of some metrics; `factors` by the last part of the name."""
    typical = {P50: 0.002, P99: 0.010, THROUGHPUT: 50_000.0, BANDWIDTH: 5_000_000.0, "client.cpu_per_record": 0.5}
    return [
        {
            name: value * factor * near * (factors or {}).get(name.rpartition(".")[2], 1.0)
            for name, value in typical.items()
        }
        for near in NEAR_ONE
    ]


def _baseline(*trials: Trial) -> BaselineRounds:
    """One trial a day."""
    days = tuple(f"2026-01-0{day}" for day in range(1, len(trials) + 1))
    return BaselineRounds(trials=tuple(map(tuple, trials)), days=days)


BASELINE = _baseline(*(_trial(factor) for factor in (0.97, 0.99, 1.0, 1.01, 1.03)))


def _told(*, gated: Sequence[str] = (), **factors: float) -> list[str]:
    found = other_changes([Measured(rounds=_trial(factors=factors))], BASELINE, gated=gated)
    return [f"{one.metric} {'better' if one.better else 'worse'}" for one in found]


def test_an_unchanged_run_gives_no_advice() -> None:
    """Most runs, most of the time."""
    assert _told() == []


def test_advice_names_the_metric_and_by_how_much_it_moved() -> None:
    """All that a report shows of it."""
    (found,) = other_changes([Measured(rounds=_trial(factors={"cpu_per_record": 1.5}))], BASELINE, gated=())
    assert dataclasses.replace(found, change=0.0, baseline=0.0) == OtherChange(
        metric="client.cpu_per_record", observed=0.75, baseline=0.0, change=0.0, better=False
    )
    assert (found.change, found.baseline) == pytest.approx((0.5, 0.5), abs=0.01)


def test_a_gated_metric_is_left_to_its_limit() -> None:
    """Its verdict stands elsewhere, with a tolerance that somebody chose."""
    assert _told(cpu_per_record=1.5, gated=["client.cpu_per_record"]) == []


def test_the_bandwidth_is_not_listed_next_to_the_throughput() -> None:
    """It is the same measurement in other units; a reader looks for the throughput, or has a threshold on it."""
    assert _told(throughput=0.5, bandwidth=0.49) == ["produce.throughput worse"]
    assert _told(throughput=0.5, bandwidth=0.49, gated=[THROUGHPUT]) == []


def test_a_lag_is_named_where_there_was_one_before() -> None:
    """Consumers that fall behind are what many look for first; from no lag at all there is no ratio."""
    before = [[{"lag.max": 100.0 * near * factor} for near in NEAR_ONE] for factor in (0.97, 0.99, 1.0, 1.01, 1.03)]
    now = Measured(rounds=[{"lag.max": 500.0 * near} for near in NEAR_ONE])
    (found,) = other_changes([now], _baseline(*before), gated=())
    assert (found.metric, found.better) == ("lag.max", False)
    assert found.change == pytest.approx(4.0, abs=0.05)
    assert other_changes([now], _baseline([{"lag.max": 0.0}] * 5), gated=()) == ()


def test_higher_throughput_is_better_and_higher_latency_worse_and_the_worst_comes_first() -> None:
    """A reader may stop after the first line."""
    assert _told(throughput=2, cpu_per_record=1.5, p99=3) == [
        "produce.latency.p99 worse",
        "client.cpu_per_record worse",
        "produce.throughput better",
    ]
    assert _told(throughput=0.5, cpu_per_record=0.5) == ["produce.throughput worse", "client.cpu_per_record better"]


def test_of_a_family_only_the_metric_that_moved_most_is_told() -> None:
    """All quantiles of a latency move when one does; seven lines would hide the others."""
    assert _told(p50=1.5, p99=2) == ["produce.latency.p99 worse"]


def test_a_move_within_what_trials_lie_apart_is_noise() -> None:
    """Trials of this baseline differ by as much."""
    wild = _baseline(*(_trial(factor) for factor in (0.7, 0.9, 1.0, 1.1, 1.4)))
    assert other_changes([Measured(rounds=_trial(1.5))], wild, gated=()) == ()


def test_a_small_move_is_not_worth_a_line() -> None:
    """However sure: 8% that nobody set a limit on."""
    assert _told(cpu_per_record=1.08) == []
    assert _told(cpu_per_record=1.3) == ["client.cpu_per_record worse"]


def test_a_baseline_of_few_days_lists_only_large_changes() -> None:
    """One day does not show how far the next one would be from it."""
    one_day = _baseline(_trial())
    assert other_changes([Measured(rounds=_trial(1.4))], BASELINE, gated=()) != ()
    assert other_changes([Measured(rounds=_trial(1.4))], one_day, gated=()) == ()
    assert other_changes([Measured(rounds=_trial(9.0))], one_day, gated=()) != ()
    assert other_changes([Measured(rounds=_trial(9.0))], BaselineRounds(), gated=()) == ()


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, None])
@pytest.mark.parametrize(("side", "changes"), [("current", 0), ("baseline", 1)])
def test_a_trial_in_which_a_metric_has_no_ratio_in_one_round_is_not_compared(
    value: float | None, side: str, changes: int
) -> None:
    """A median without that round would be another one. A baseline has other trials."""
    current, known = _trial(factors={"cpu_per_record": 2.0}), [_trial() for _ in range(5)]
    damaged = (current if side == "current" else known[4])[2]
    if value is None:
        del damaged["client.cpu_per_record"]
    else:
        damaged["client.cpu_per_record"] = value
    assert len(other_changes([Measured(rounds=current)], _baseline(*known), gated=())) == changes


def test_metrics_that_can_be_zero_are_not_compared_and_unknown_ones_are_passed_over() -> None:
    """A baseline may be from a version that measured something else."""
    current = [{"recovery": 1000.0, "gone": 5.0} for _ in range(5)]
    known = [[{"recovery": 1.0, "gone": 1.0} for _ in range(5)] for _ in range(5)]
    assert other_changes([Measured(rounds=current)], _baseline(*known), gated=()) == ()
    assert other_changes([Measured(rounds=[])], _baseline(*known), gated=()) == ()


def test_with_a_live_baseline_its_rounds_are_taken_pair_by_pair() -> None:
    """What the machine did to both does not count; nor does a stored baseline."""
    drifting = [1.0 + 0.2 * number for number in range(12)]
    live_baseline = [{THROUGHPUT: 1000.0 * drift} for drift in drifting]
    slower = [{THROUGHPUT: 500.0 * drift} for drift in drifting]
    (found,) = other_changes([Measured(rounds=slower, other_side=live_baseline)] * 2, BASELINE, gated=())
    assert (found.metric, found.better) == (THROUGHPUT, False)
    assert found.change == pytest.approx(-0.5)
    assert found.observed / found.baseline - 1 == pytest.approx(found.change)
    assert other_changes([Measured(rounds=slower, other_side=live_baseline)] * 1, BASELINE, gated=()) == ()
    assert (
        other_changes([Measured(rounds=live_baseline, other_side=live_baseline)] * 2, BaselineRounds(), gated=()) == ()
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, None])
def test_a_metric_that_many_side_by_side_trials_lack_is_not_listed(value: float | None) -> None:
    """The other trials must not speak for them."""
    sound, broken = {THROUGHPUT: 500.0}, {} if value is None else {THROUGHPUT: value}
    trials = [Measured(rounds=[sound], other_side=[{THROUGHPUT: 1000.0}])] * 4
    for last in (
        Measured(rounds=[broken], other_side=[{THROUGHPUT: 1000.0}]),
        Measured(rounds=[sound], other_side=[broken]),
    ):
        assert other_changes([*trials, last, last], BaselineRounds(), gated=()) == ()


def test_noise_alone_rarely_gives_advice() -> None:
    """Whoever cries wolf is switched off: 24 metrics, in each run."""
    found = drawn_runs(250)
    assert sum(bool(one) for one in found) / len(found) < 0.02


def test_what_falls_by_two_thirds_is_seen() -> None:
    """A rule that never speaks would pass the test above."""
    found = drawn_runs(100, produce_throughput=1 / 3)
    assert sum(any(each.metric == THROUGHPUT for each in one) for one in found) > 80

"""How the end of a window compares with the whole, by the series of a round."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.recorder import Curves
from pytest_kafkaperf.runner.rounds.steadiness import steadiness, steadiness_metrics

THROUGHPUT, P99 = "produce.throughput.steadiness", "e2e.latency.p99.steadiness"


def curves(values: Sequence[float | None], *, first_s: float = 0.0, interval_s: int = 1) -> Curves:
    """A series whose rates and whose p99 are these values."""
    counts = [value or 0.0 for value in values]
    return Curves(interval_s=interval_s, first_s=first_s, count=counts, p50=[], p99=[*values], max=[])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([5] * 12, 1, id="steady"),
        pytest.param([5] * 8 + [4] * 4, 0.8, id="the last third is lower"),
        pytest.param([5] * 8 + [4, 4, 4, 0], 0.8, id="an outlier in the last third"),
        pytest.param([0, 50] + [5] * 8 + [5] * 4, 1, id="outliers before"),
        pytest.param([5] * 9 + [0, 0, 0], 0, id="most of the last third"),
        pytest.param([9, 8, 7, 6, 5, 4, 3, 2, 1], 2 / 5, id="falls all the time"),
        pytest.param([5] * 7 + [1] * 3, 0.2, id="ten values: the last three"),
        pytest.param([5] * 8 + [0] * 4, 0, id="stalled"),
        pytest.param([None, 5, 5, None, 5, 5, 5, 10, None], 1.5, id="places without a value"),
        pytest.param([5] * 6 + [None] * 3, None, id="no value in the last third"),
        pytest.param([0] * 9, None, id="nothing at all"),
        pytest.param([5, 5], None, id="no third"),
        pytest.param([], None, id="empty"),
    ],
)
def test_the_last_third_is_compared_with_the_whole(values: list[float | None], expected: float | None) -> None:
    """What a threshold judges."""
    assert steadiness(values) == (None if expected is None else pytest.approx(expected))


amounts = st.integers(1, 1000).map(float)
factors = st.sampled_from([2.0**power for power in range(-8, 9)])


@given(st.lists(amounts, min_size=3), factors)
def test_the_unit_of_the_values_does_not_matter(values: list[float], factor: float) -> None:
    """Twice the rate is as steady; powers of two are exact."""
    assert steadiness([value * factor for value in values]) == steadiness(values)


@given(st.integers(3, 300), amounts, factors)
def test_what_only_the_last_third_has_shows_in_full(count: int, usual: float, factor: float) -> None:
    """The median of the whole stays the usual one, because a third is less than half."""
    last = count // 3
    assert steadiness([usual] * (count - last) + [usual * factor] * last) == factor


@given(st.lists(amounts, min_size=3), st.randoms(use_true_random=False))
def test_the_order_within_the_last_third_and_before_it_does_not_matter(values: list[float], random: object) -> None:
    """Only when a change happens counts, not how."""
    border = len(values) - len(values) // 3
    before, last = values[:border], values[border:]
    random.shuffle(before)  # type: ignore[attr-defined]
    random.shuffle(last)  # type: ignore[attr-defined]
    assert steadiness([*before, *last]) == steadiness(values)


def test_only_complete_seconds_of_the_window_count() -> None:
    """The warm-up is another load, and the end of a window is not a decline."""
    series = {"produce": curves([90] * 2 + [10] * 8 + [5] * 4 + [1], first_s=-2.0)}
    assert steadiness_metrics(series, 12.4) == {THROUGHPUT: 0.5}
    assert steadiness_metrics(series, None) == {}


def test_a_rate_is_0_and_a_latency_unknown_where_a_series_has_no_interval() -> None:
    """Nothing was acknowledged from the ninth second on; what was not received has no latency."""
    short = curves([10] * 8)
    assert steadiness_metrics({"produce": short, "consume": short}, 12.0) == {THROUGHPUT: 0}
    late = curves([10] * 4 + [30] * 4, first_s=4.0)
    assert steadiness_metrics({"produce": late, "consume": late}, 12.0) == {THROUGHPUT: 3, P99: 1.5}


def test_long_rounds_have_longer_intervals() -> None:
    """An hour has 300 of 12 s."""
    series = curves([10] * 200 + [20] * 100, interval_s=12)
    assert steadiness_metrics({"produce": series, "consume": series}, 3600.0) == {THROUGHPUT: 2, P99: 2}


def test_without_consumers_there_is_no_latency() -> None:
    """A scenario without consumers has one series only."""
    assert set(steadiness_metrics({"produce": curves([10] * 12)}, 12.0)) == {THROUGHPUT}
    assert steadiness_metrics({}, 12.0) == {}

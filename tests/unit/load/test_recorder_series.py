"""The time series of a round against its events one by one."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.recorder import Series, merged, merged_series

SECOND_NS = 10**9
START_NS = 1_234_567_890_123_456_789


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ns: int
    """Since the start."""
    latency_ns: int
    count: int = 1


def instants(reach_s: int) -> st.SearchStrategy[int]:
    seconds = st.integers(-reach_s, reach_s).map(lambda second: second * SECOND_NS)
    return seconds | seconds.map(lambda ns: ns - 1) | st.integers(-reach_s * SECOND_NS, reach_s * SECOND_NS)


def events(*, reach_s: int = 3) -> st.SearchStrategy[list[Event]]:
    latencies = st.integers(0, 10**4) | st.integers(0, 2**41)
    return st.lists(
        st.builds(Event, at_ns=instants(reach_s), latency_ns=latencies, count=st.integers(1, 50)), max_size=30
    )


ROUNDS = events() | events(reach_s=400)


def series_of(*parts: list[Event], interval_s: int = 1) -> Series:
    series = Series(START_NS, interval_s)
    for part in parts:
        at = np.array([START_NS + event.at_ns for event in part], dtype=np.int64)
        counts = np.array([event.count for event in part], dtype=np.int64)
        series.count(at, counts)
        series.record(at, np.array([event.latency_ns for event in part], dtype=np.int64), counts)
    return series


def handed_over(series: Series) -> Series:
    """As it comes out of another process."""
    received: Series = pickle.loads(pickle.dumps(series))  # noqa: S301 - its own
    return received


def state(series: Series) -> tuple[Any, ...]:
    latencies = {
        interval: (merged([latency]).counts.tolist(), latency.max_ns) for interval, latency in series.latencies.items()
    }
    return series.start_ns, series.interval_s, series.events, latencies


@given(ROUNDS, st.integers(1, 9))
def test_each_interval_has_its_events(happened: list[Event], interval_s: int) -> None:
    """Against the slow, obvious version: counts and maxima are exact, quantiles off by less than a hundredth."""
    curves = series_of(happened, interval_s=interval_s).curves()

    by_interval: dict[int, list[int]] = {}
    for event in happened:
        interval = event.at_ns // (curves["interval_s"] * SECOND_NS)
        by_interval.setdefault(interval, []).extend([event.latency_ns] * event.count)
    first = int(curves["first_s"]) // curves["interval_s"]
    intervals = [sorted(by_interval.get(first + place, [])) for place in range(len(curves["count"]))]
    assert sum(map(len, intervals)) == sum(event.count for event in happened)
    assert curves["count"] == [len(values) / curves["interval_s"] for values in intervals]
    assert curves["max"] == [values[-1] / 1e9 if values else None for values in intervals]
    for name, quantile in (("p50", 0.5), ("p99", 0.99)):
        for told, values in zip(curves[name], intervals, strict=True):  # type: ignore[literal-required]
            if not values:
                assert told is None
            elif values[-1] < 2**40:
                exact_s = values[math.ceil(quantile * len(values) - 1e-9) - 1] / 1e9
                assert told == pytest.approx(exact_s, rel=0.0079, abs=1.01e-9)  # 0 ns counts as 1


@given(st.lists(ROUNDS, min_size=1, max_size=4))
def test_merging_is_the_same_as_recording_everything_in_one(parts: list[list[Event]]) -> None:
    """Producers and workers have their own, and some may have seen nothing."""
    each = [series_of(part) for part in parts]
    before = [state(series) for series in each]

    assert state(merged_series(each)) == state(series_of(*parts))
    assert [state(series) for series in each] == before


@given(ROUNDS, st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(happened: list[Event], random: Any) -> None:
    """Acknowledgements overtake each other."""
    shuffled = list(happened)
    random.shuffle(shuffled)

    assert state(series_of(*([event] for event in shuffled))) == state(series_of(happened))


@given(ROUNDS)
def test_a_count_stands_for_that_many_events(happened: list[Event]) -> None:
    """A batch has one acknowledgement for all its records."""
    single = [Event(at_ns=e.at_ns, latency_ns=e.latency_ns) for e in happened for _ in range(e.count)]
    series = Series(START_NS)
    at = np.array([START_NS + event.at_ns for event in single], dtype=np.int64)
    series.count(at)
    series.record(at, np.array([event.latency_ns for event in single], dtype=np.int64))

    assert state(series) == state(series_of(happened))


@pytest.mark.parametrize(("length_s", "interval_s"), [(0, 1), (5.5, 1), (300, 1), (301, 2), (86_400, 288)])
def test_a_long_round_has_longer_intervals(length_s: float, interval_s: int) -> None:
    """A soak test of a day must not fill the memory, nor the report; five minutes are told by the second."""
    assert Series.of(length_s, START_NS) == Series(START_NS, interval_s)


def test_warm_up_and_silence_are_told() -> None:
    """A stall is a gap in the plot, not something left out; the round begins at 0."""
    series = Series(START_NS)
    at = START_NS + np.array([-1_500_000_000, 0, 999_999_999, 3 * SECOND_NS], dtype=np.int64)
    series.count(at, np.array([5, 10, 10, 30], dtype=np.int64))
    series.record(at[:2], np.array([1_000_000, 0], dtype=np.int64))

    curves = series.curves()
    assert curves == {
        "interval_s": 1,
        "first_s": -2.0,
        "count": [5.0, 0.0, 20.0, 0.0, 0.0, 30.0],
        "p50": [0.001, None, 0.0, None, None, None],
        "p99": [0.001, None, 0.0, None, None, None],
        "max": [0.001, None, 0.0, None, None, None],
    }
    assert json.loads(json.dumps(curves, allow_nan=False)) == curves


def test_events_and_latencies_may_lie_in_different_intervals() -> None:
    """An acknowledgement counts when it came, its latency when the record was due."""
    series = Series(0)
    series.count(np.array([4 * SECOND_NS], dtype=np.int64))
    series.record(np.array([SECOND_NS], dtype=np.int64), np.array([3 * SECOND_NS], dtype=np.int64))

    curves = series.curves()
    assert (curves["first_s"], curves["count"], curves["max"]) == (1.0, [0.0, 0.0, 0.0, 1.0], [3.0, None, None, None])


def test_latencies_beyond_the_range_count_as_the_maximum() -> None:
    """Too slow is never told as faster than it was."""
    hour_ns = 3600 * SECOND_NS
    (p50,) = series_of([Event(at_ns=0, latency_ns=hour_ns), Event(at_ns=1, latency_ns=2 * hour_ns)]).curves()["p50"]

    assert p50 == 7200


def test_a_negative_latency_is_refused() -> None:
    """It would be a bug of the clock's use; nothing is dropped."""
    series = Series(0)
    with pytest.raises(ValueError, match=r"^negative latency: -5 ns$"):
        series.record(np.array([1, 2], dtype=np.int64), np.array([3, -5], dtype=np.int64))


def test_nothing_recorded_is_an_empty_plot() -> None:
    """A consumer may get no record."""
    assert Series(7).curves() == {"interval_s": 1, "first_s": 0.0, "count": [], "p50": [], "p99": [], "max": []}


def test_a_long_round_is_small_to_send() -> None:
    """Workers send theirs at the end of the round."""
    random = np.random.default_rng(1)
    series = Series(0)
    for second in range(300):
        at = np.full(1000, second * SECOND_NS, dtype=np.int64)
        series.count(at)
        series.record(at, np.exp(random.uniform(np.log(1e5), np.log(1e9), 1000)).astype(np.int64))
    sent = pickle.dumps(series)

    assert len(sent) < 1 << 20
    assert state(handed_over(series)) == state(series)


@given(ROUNDS)
def test_what_a_worker_hands_over_is_what_it_has_seen(happened: list[Event]) -> None:
    """In as few bytes as the counts need."""
    series = series_of(happened)
    received = handed_over(series)

    assert state(received) == state(series)
    assert received.curves() == series.curves()
    assert state(merged_series([received, received])) == state(series_of(happened, happened))

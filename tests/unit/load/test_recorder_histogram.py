"""The latency histogram against the values themselves."""

from __future__ import annotations

import pickle

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.recorder import Histogram, merged

MICROSECOND_NS, MINUTE_NS = 10**3, 60 * 10**9
QUANTILES = (0.0, 0.001, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)

values = st.lists(st.integers(0, 2**39), min_size=1, max_size=200).map(lambda each: np.array(each, dtype=np.int64))


def histogram_of(*parts: npt.NDArray[np.int64]) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.record(part)
    return histogram


def handed_over(histogram: Histogram) -> Histogram:
    """As it comes out of another process."""
    received: Histogram = pickle.loads(pickle.dumps(histogram))  # noqa: S301 - its own
    return received


def state(histogram: Histogram) -> tuple[list[int], int, int, int]:
    return merged([histogram]).counts.tolist(), histogram.total, histogram.sum_ns, histogram.max_ns


@pytest.mark.parametrize("size", [1, 2, 10, 1000, 100_000])
def test_quantiles_are_off_by_at_most_a_thousandth(size: int) -> None:
    """What a threshold compares is the nearest rank of all values, not of a sample."""
    random = np.random.default_rng(size)
    latencies = np.exp(random.uniform(np.log(MICROSECOND_NS), np.log(MINUTE_NS), size)).astype(np.int64)
    histogram = histogram_of(latencies)

    for quantile in QUANTILES:
        exact_s = float(np.quantile(latencies, quantile, method="inverted_cdf")) / 1e9
        assert histogram.quantile_s(quantile) == pytest.approx(exact_s, rel=1e-3)


@given(values)
def test_mean_maximum_and_count_are_exact(latencies: npt.NDArray[np.int64]) -> None:
    """They are kept next to the buckets."""
    histogram = histogram_of(latencies)

    exact = latencies.tolist()
    assert (histogram.total, int(histogram.counts.sum())) == (len(exact), len(exact))
    assert histogram.max_s == max(exact) / 1e9
    assert histogram.mean_s == sum(exact) / len(exact) / 1e9
    assert histogram.quantile_s(1) <= histogram.max_s


@given(st.lists(values, max_size=5))
def test_merging_is_the_same_as_recording_everything_in_one(parts: list[npt.NDArray[np.int64]]) -> None:
    """Workers' histograms become the round's."""
    assert state(merged([histogram_of(part) for part in parts])) == state(histogram_of(*parts))


@given(st.lists(values, max_size=5))
def test_what_a_worker_hands_over_is_what_it_has_counted(parts: list[npt.NDArray[np.int64]]) -> None:
    """The buckets beyond the lowest and the highest are left out on the way, and nothing else."""
    histograms = [histogram_of(part) for part in parts]
    received = [handed_over(handed_over(each)) for each in histograms]

    assert state(merged(received)) == state(merged(histograms))
    for quantile in QUANTILES:
        assert [each.quantile_s(quantile) for each in received] == [each.quantile_s(quantile) for each in histograms]


@given(st.lists(values, min_size=1, max_size=3))
def test_what_was_handed_over_can_grow(parts: list[npt.NDArray[np.int64]]) -> None:
    """Nobody does it, and nobody should have to know that."""
    received = handed_over(Histogram())
    for part in parts:
        received = handed_over(received)
        received.record(part)

    assert state(received) == state(histogram_of(*parts))


def test_a_histogram_crosses_in_a_tenth_of_its_bytes() -> None:
    """A controller receives several from each of perhaps hundreds of workers."""
    random = np.random.default_rng(1)
    histogram = histogram_of(np.exp(random.normal(np.log(2 * 10**6), 0.6, 1_000_000)).astype(np.int64))

    assert len(pickle.dumps(histogram)) < histogram.counts.nbytes / 10


@pytest.mark.parametrize("number", [2**8 - 1, 2**8, 2**16, 2**32, 2**62])
def test_any_number_of_records_crosses(number: int) -> None:
    """A bucket takes as many bytes as the fullest needs, and what is added to it later fits, too."""
    longest_ns = 2**40
    one = Histogram()
    one.record(np.array([1, 5000, longest_ns]), np.array([number, 1, 1]))
    received = handed_over(one)
    assert state(merged([received])) == state(one)
    received.record(np.array([1, 5000]))

    assert received.counts[[0, -1]].tolist() == [number + 1, 1]
    assert (received.total, int(received.counts.sum())) == (number + 4, number + 4)


@given(values, st.data())
def test_a_count_stands_for_that_many_records(latencies: npt.NDArray[np.int64], data: st.DataObject) -> None:
    """A batch has one acknowledgement for all its records."""
    size = len(latencies)
    counts = np.array(data.draw(st.lists(st.integers(0, 50), min_size=size, max_size=size)), dtype=np.int64)
    histogram = Histogram()
    histogram.record(latencies, counts)

    expected = histogram_of(np.repeat(latencies, counts))
    assert state(histogram)[:3] == state(expected)[:3]


def test_years_of_waiting_in_all_do_not_overflow() -> None:
    """An absurd rate leaves billions of records that waited for minutes each."""
    histogram = Histogram()
    histogram.record(np.array([10**11], dtype=np.int64), np.array([10**10], dtype=np.int64))

    assert histogram.mean_s == 100


def test_a_negative_latency_is_refused() -> None:
    """It would be a bug of the clock's use; dropping it would hide that (and has, in other tools)."""
    with pytest.raises(ValueError, match=r"^negative latency: -5 ns$"):
        histogram_of(np.array([3, -5], dtype=np.int64))


def test_zero_is_a_latency() -> None:
    """Nothing is dropped."""
    histogram = histogram_of(np.zeros(3, dtype=np.int64))

    assert (histogram.total, histogram.quantile_s(0.5), histogram.mean_s) == (3, 0.0, 0.0)


def test_latencies_beyond_the_range_count_as_the_maximum() -> None:
    """Too slow is never told as faster than it was."""
    hour_ns = 3600 * 10**9
    histogram = histogram_of(np.array([1000, hour_ns, 2 * hour_ns], dtype=np.int64))

    assert histogram.quantile_s(0.5) == 7200


def test_an_empty_histogram_has_no_quantile() -> None:
    """No value is not zero."""
    with pytest.raises(ValueError, match=r"^quantile of an empty histogram$"):
        Histogram().quantile_s(0.5)
    histogram = histogram_of(np.array([], dtype=np.int64))
    assert histogram.total == 0

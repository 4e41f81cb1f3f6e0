"""Student's distribution, against tables and scipy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.verdict.sequential import MOST_TRIALS
from pytest_kafkaperf.verdict.student import student_quantile, student_tail

approx: Any = pytest.approx


@pytest.mark.parametrize(
    ("freedom", "tail", "quantile"),
    [
        (1, 0.025, 12.706),
        (2, 0.05, 2.920),
        (3, 0.005, 5.841),
        (4, 0.1, 1.533),
        (5, 0.01, 3.365),
        (10, 0.025, 2.228),
        (23, 0.005, 2.807),
        (120, 0.05, 1.658),
    ],
)
def test_students_distribution_is_that_of_the_tables(freedom: int, tail: float, quantile: float) -> None:
    """The table in every book on statistics."""
    assert student_quantile(tail, freedom) == approx(quantile, abs=0.0005)
    assert student_tail(quantile, freedom) == approx(tail, rel=0.002)


def test_students_distribution_is_that_of_scipy_far_out() -> None:
    """First looks need probabilities of one in ten million."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    for freedom in range(1, MOST_TRIALS):
        for tail in (0.4, 0.1, 1e-3, 1e-6, 1e-9):
            assert student_quantile(tail, freedom) == approx(min(stats.t.isf(tail, freedom), 1e6), rel=1e-4)
            assert student_tail(-1.5, freedom) == approx(1 - student_tail(1.5, freedom))


@given(st.floats(3.4, 30), st.floats(-6, -0.5))
def test_between_whole_degrees_of_freedom_students_distribution_is_close_to_that_of_scipy(
    freedom: float, exponent: float
) -> None:
    """The noise that pairs of rounds predict has fractional ones; the first look has 3.4."""
    from scipy import stats  # noqa: PLC0415 - takes half a second

    tail = 10**exponent
    assert student_quantile(tail, freedom) == approx(stats.t.isf(tail, freedom), rel=0.02)

"""Due times: exact against a slow version in fractions, and the whole of them one load."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_kafkaperf.schedule import NS_PER_S, Schedule, exact_rate

rates = st.fractions(min_value=Fraction(1, 1000), max_value=10**9, max_denominator=10**6)
CENTURIES_NS = 1 << 62
starts = st.integers(0, 10**18)
indexes = st.integers(-(10**9), 10**12)


def schedules(producers: int = 8) -> st.SearchStrategy[Schedule]:
    return st.integers(1, producers).flatmap(
        lambda count: st.builds(
            Schedule, start_ns=starts, rate=rates, producers=st.just(count), producer=st.integers(0, count - 1)
        )
    )


def slow_due_ns(schedule: Schedule, index: int) -> int:
    return math.floor(schedule.start_ns + (index * schedule.producers + schedule.producer) / schedule.rate * NS_PER_S)


@given(schedules(), indexes)
def test_a_record_is_due_by_the_definition(schedule: Schedule, index: int) -> None:
    """Latency runs from here: an error of the schedule would be one of every figure."""
    assert schedule.due_ns(index) == slow_due_ns(schedule, index)


@given(schedules(), st.integers(-(10**9), 10**9), st.integers(0, 200), st.integers(1, 10**4))
@example(Schedule(start_ns=0, rate=Fraction(10**9), producer=0, producers=1), 0, 3, 1)
@example(
    Schedule(start_ns=0, rate=Fraction(10**18 + 1, 10**10), producer=1, producers=3), -2, 3, 10
)  # no room in int64
def test_due_times_of_a_batch_are_those_of_its_records(schedule: Schedule, first: int, count: int, stride: int) -> None:
    """The vectorised arithmetic is the same as the plain one, and never goes back."""
    assume(all(abs(schedule.due_ns(index)) < CENTURIES_NS for index in (first, first + count * stride)))
    dues = schedule.due_between(first, count, stride=stride)

    assert dues.tolist() == [schedule.due_ns(first + k * stride) for k in range(count)]
    assert (dues[1:] >= dues[:-1]).all()


@given(schedules(), st.integers(-(10**18), 10**18))
def test_first_after_is_the_inverse_of_due(schedule: Schedule, instant_ns: int) -> None:
    """A batch takes all records that are due and none that is not."""
    first = schedule.first_after(instant_ns)

    assert schedule.due_ns(first - 1) <= instant_ns < schedule.due_ns(first)


@given(schedules(), indexes)
def test_first_after_a_due_time_comes_after_the_record(schedule: Schedule, index: int) -> None:
    """A producer that wakes at a due time finds something to send: it cannot spin."""
    assert schedule.first_after(schedule.due_ns(index)) > index
    assert schedule.first_after(schedule.due_ns(index) - 1) <= index


@given(rates, starts, st.integers(1, 8), st.integers(-50, 50))
def test_all_producers_together_make_the_whole_load(rate: Fraction, start_ns: int, producers: int, first: int) -> None:
    """No gaps and no overlaps: several producers are one load, shared out in turns."""
    whole = Schedule(start_ns=start_ns, rate=rate)
    parts = [Schedule(start_ns=start_ns, rate=rate, producer=p, producers=producers) for p in range(producers)]

    interleaved = [part.due_ns(index) for index in range(first, first + 20) for part in parts]
    assert interleaved == whole.due_between(first * producers, 20 * producers).tolist()


@pytest.mark.parametrize("rate", [3, 7, 30_000, 999_999, 1e9 / 3])
def test_a_billion_records_do_not_drift(rate: float) -> None:
    """A long soak asks for the rate of the first second in its last one, too."""
    schedule = Schedule(start_ns=0, rate=exact_rate(rate))
    index = 10**9

    assert schedule.due_ns(index) == int(index * NS_PER_S / exact_rate(rate))
    assert schedule.due_ns(index) == pytest.approx(index / rate * NS_PER_S, rel=1e-6)


@given(schedules())
def test_the_warm_up_has_the_negative_indexes(schedule: Schedule) -> None:
    """A record belongs to the window by its index and by its due time: both say the same."""
    assert schedule.due_ns(-1) < schedule.start_ns <= schedule.due_ns(0)


@given(st.floats(1e-300, 1e9))
@example(1e-13)
@example(1 / 3)
def test_a_rate_is_kept_to_one_part_in_a_million(rate: float) -> None:
    """Whatever a marker can hold becomes a rate that is not zero, and not another one."""
    assert abs(exact_rate(rate) - Fraction(rate)) * 1_000_000 <= Fraction(rate)
    assert exact_rate(rate) > 0


@pytest.mark.parametrize("rate", [1, 0.5, 1 / 3, 2.5, 5000, 33_333.333, 1e9])
def test_common_rates_are_short_fractions(rate: float) -> None:
    """They take the fast arithmetic."""
    assert exact_rate(rate).denominator <= 1000

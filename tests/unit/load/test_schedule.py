"""Due times: exact against a slow version in fractions, and the whole of them one load."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.schedule import Schedule, exact_rate
from pytest_kafkaperf.scenarios.rate import Segment, parse_rate

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
    assert isinstance(schedule.rate, Fraction)
    return math.floor(schedule.start_ns + (index * schedule.producers + schedule.producer) / schedule.rate * NS_PER_S)


@given(schedules(), indexes)
def test_a_record_is_due_by_the_definition(schedule: Schedule, index: int) -> None:
    """Latency runs from here: an error of the schedule would be in every value."""
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


def test_the_rate_of_a_scenario_becomes_a_schedule() -> None:
    """The constant rate keeps its exact arithmetic."""
    assert Schedule.of(1 / 3, start_ns=5, producer=1, producers=2) == Schedule(
        start_ns=5, rate=Fraction(1, 3), producer=1, producers=2
    )


@pytest.mark.parametrize("rate", [1, 0.5, 1 / 3, 2.5, 5000, 33_333.333, 1e9])
def test_common_rates_are_short_fractions(rate: float) -> None:
    """They take the fast arithmetic."""
    assert exact_rate(rate).denominator <= 1000


@pytest.mark.parametrize(("rate", "most"), [(0.0031415926, 10**6), (3.1415926535e-7, 10**9)])
def test_slow_rates_are_fractions_as_short_as_a_millionth_lets(rate: float, most: int) -> None:
    """The float itself has a denominator of sixty binary digits and more."""
    assert exact_rate(rate).denominator <= most


Shape = tuple[Segment, ...]


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Steps and ramps, up and down, over all that a scenario takes; one in two ends in a step that lasts."""
    paces = st.one_of(st.floats(1e-3, 1e9), st.sampled_from([1e-3, 1.0, 1000.0, 1e9]))
    times = st.one_of(st.floats(1e-3, 86_400), st.sampled_from([1e-3, 1.0, 30.0, 86_400.0]))
    segments = []
    for _ in range(draw(st.integers(1, 4))):
        start = draw(paces)
        segments.append(Segment(start=start, end=draw(st.one_of(st.just(start), paces)), seconds=draw(times)))
    if draw(st.booleans()):
        last = draw(paces)
        segments.append(Segment(start=last, end=last, seconds=None))
    return tuple(segments)


def slow_count(shape: Shape, offset_ns: int) -> Fraction:
    """Records of the whole load due by an offset from the start: the area under the shape."""
    left, due = Fraction(offset_ns, NS_PER_S), Fraction(0)
    if left < 0:
        return left * Fraction(shape[0].start)
    for start, end, seconds in ((Fraction(one.start), Fraction(one.end), one.seconds) for one in shape):
        length = None if seconds is None else Fraction(round(seconds * NS_PER_S), NS_PER_S)
        if length is None:
            break
        time = min(left, length)
        due += start * time + (end - start) * time**2 / (2 * length)
        left -= time
    return due + left * Fraction(shape[-1].end)


def slow_shaped_due_ns(shape: Shape, position: int) -> int:
    """The first nanosecond by which a record of the whole load is due, found by halving."""
    early, late = -(1 << 70), 1 << 70
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (early, middle) if slow_count(shape, middle) >= position else (middle, late)
    return late


@st.composite
def shaped(draw: st.DrawFn) -> tuple[Shape, Schedule, int]:
    """A schedule of a shape, and an index somewhere in its time or an hour around it."""
    shape, producers = draw(shapes()), draw(st.integers(1, 8))
    hour_ns = 3600 * NS_PER_S
    end_ns = sum(round(one.seconds * NS_PER_S) for one in shape if one.seconds is not None)
    near = draw(st.sampled_from([0, end_ns, -1, 1])) if draw(st.booleans()) else None
    offset_ns = draw(st.integers(-hour_ns, end_ns + hour_ns)) if near is None else near
    schedule = Schedule.of(
        shape, start_ns=draw(starts), producer=draw(st.integers(0, producers - 1)), producers=producers
    )
    return shape, schedule, math.floor(slow_count(shape, offset_ns)) // producers + draw(st.integers(-2, 2))


def _ramp_of_a_day(start: float, end: float, *, index: int) -> tuple[Shape, Schedule, int]:
    shape = (Segment(start=start, end=end, seconds=86_400.0),)
    return shape, Schedule.of(shape, start_ns=0), index


@given(shaped())
@example(_ramp_of_a_day(1e9, 1e-3, index=43_200_000_000_043))
@example(_ramp_of_a_day(1e-3, 1e9, index=1))
def test_a_record_of_a_shape_is_due_within_a_nanosecond(drawn: tuple[Shape, Schedule, int]) -> None:
    """Floating-point arithmetic is fast, and its error stays below the clock's step: on the steepest ramps, too."""
    shape, schedule, index = drawn
    slow_ns = slow_shaped_due_ns(shape, index * schedule.producers + schedule.producer)
    assert schedule.due_ns(index) - schedule.start_ns in (slow_ns - 1, slow_ns)


@given(shaped(), st.integers(0, 100), st.integers(1, 10**4))
def test_due_times_of_a_batch_of_a_shape_are_those_of_its_records(
    drawn: tuple[Shape, Schedule, int], count: int, stride: int
) -> None:
    """Both ways of asking must give one answer, over the joins of segments and the start of the window, too."""
    _, schedule, index = drawn
    assume(schedule.due_ns(index + count * stride) < CENTURIES_NS)
    dues = schedule.due_between(index, count, stride=stride)

    assert dues.tolist() == [schedule.due_ns(index + k * stride) for k in range(count)]
    assert (dues[1:] >= dues[:-1]).all()


@given(shaped(), st.integers(-(10**15), 10**15))
def test_first_after_is_the_inverse_of_due_in_a_shape(drawn: tuple[Shape, Schedule, int], offset_ns: int) -> None:
    """A batch takes all records that are due and none that is not, whatever the rate does."""
    _, schedule, index = drawn
    for instant_ns in (schedule.due_ns(index), schedule.due_ns(index) - 1, schedule.start_ns + offset_ns):
        first = schedule.first_after(instant_ns)
        assert first % 1 == 0
        assert schedule.due_ns(first - 1) <= instant_ns < schedule.due_ns(first)


def test_first_after_is_exact_years_later_at_the_highest_rate() -> None:
    """There floating-point numbers are some records apart, more or less."""
    schedule = Schedule.of(parse_rate("1G records/s for 1 s, 999M records/s", record_bytes=None), start_ns=0)
    for day in range(1000, 1050):
        instant_ns = day * 86_400 * NS_PER_S + day
        first = schedule.first_after(instant_ns)
        assert schedule.due_ns(first - 1) <= instant_ns < schedule.due_ns(first)


@given(shaped(), st.integers(1, 8))
def test_all_producers_together_make_the_whole_shape(drawn: tuple[Shape, Schedule, int], producers: int) -> None:
    """A ramp over ten producers is the ramp of one."""
    shape, schedule, index = drawn
    whole = Schedule.of(shape, start_ns=0)
    parts = [Schedule.of(shape, start_ns=0, producer=p, producers=producers) for p in range(producers)]

    first = index * schedule.producers // producers
    interleaved = [part.due_ns(k) for k in range(first, first + 20) for part in parts]
    assert interleaved == whole.due_between(first * producers, 20 * producers).tolist()


@given(shaped())
def test_the_warm_up_of_a_shape_is_its_first_rate(drawn: tuple[Shape, Schedule, int]) -> None:
    """The window opens on a load that runs already, without a jump."""
    shape, schedule, _ = drawn
    whole = Schedule.of(shape, start_ns=0)
    assert [whole.due_ns(index) for index in (-1, -1000)] == [
        pytest.approx(index * NS_PER_S / shape[0].start, abs=1) for index in (-1, -1000)
    ]
    assert schedule.due_ns(-1) < schedule.start_ns <= schedule.due_ns(0)


def test_a_ramp_has_the_records_of_its_mean_rate_and_ends_in_its_last() -> None:
    """The numbers that a person would check by hand."""
    shape = parse_rate("1k -> 50k records/s over 30 s", record_bytes=None)
    schedule = Schedule.of(shape, start_ns=0)
    seconds = [0, 15, 30, 31, 60]
    assert [schedule.first_after(second * NS_PER_S - 1) for second in seconds] == [
        0,
        1_000 * 15 + 24_500 * 15 // 2,
        51_000 * 15,
        51_000 * 15 + 50_000,
        51_000 * 15 + 50_000 * 30,
    ]
    assert schedule.due_ns(51_000 * 15) == 30 * NS_PER_S


def test_steps_keep_their_rates() -> None:
    """Each step begins where the one before has ended."""
    shape = parse_rate("1k records/s for 10 s, 5k records/s for 10 s, 20k records/s", record_bytes=None)
    schedule = Schedule.of(shape, start_ns=0)
    assert [schedule.due_ns(index) for index in (9_999, 10_000, 10_001, 60_000, 80_000)] == [
        9_999_000_000,
        10_000_000_000,
        10_000_200_000,
        20_000_000_000,
        21_000_000_000,
    ]


def test_a_step_too_short_for_a_record_holds_none() -> None:
    """Indexes have no gap where a segment has no record."""
    shape = (
        Segment(start=1.0, end=1.0, seconds=0.25),
        Segment(start=0.5, end=0.5, seconds=0.5),
        Segment(start=4.0, end=4.0, seconds=None),
    )
    schedule = Schedule.of(shape, start_ns=0)
    expected = [0, 875_000_000, 1_125_000_000]
    assert [schedule.due_ns(index) for index in range(3)] == schedule.due_between(0, 3).tolist() == expected

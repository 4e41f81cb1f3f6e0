"""Rates: constants, ramps and steps, from text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import UnitError
from pytest_kafkaperf.scenarios.rate import Segment, dump_rate, format_rate, parse_rate, peak_rate

RAMP = Segment(start=1000.0, end=50_000.0, seconds=30.0)


def step(rate: float, seconds: float | None = None) -> Segment:
    return Segment(start=rate, end=rate, seconds=seconds)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (5000, 5000.0),
        ("5k", 5000.0),
        ("5k records/s", 5000.0),
        ("1 kB/s", 10.0),
        ("5k records/s for 10 s", (step(5000.0, 10.0),)),
        (["5k records/s"], 5000.0),
        ("5 -> 5 records/s over 10 s, 5 records/s", (step(5.0, 10.0), step(5.0))),
        ("1k -> 50k records/s over 30 s", (RAMP,)),
        ("1k records/s -> 50k records/s over 30 s", (RAMP,)),
        ("1k -> 50k over 30 s", (RAMP,)),
        ("1k→50k records/s over 30 s", (RAMP,)),
        ("1k -> 50k/s over 30 s", (RAMP,)),
        ("1k/s -> 50k msg/s over 30 s", (RAMP,)),
        ("1k -> 50k records/s over 30s, 5k records/s for 2m, 9k records/s", (RAMP, step(5000.0, 120.0), step(9000.0))),
        (" 1000  ->  50k  records/s  over  0.5 min ", (RAMP,)),
        ("100 -> 5000 kB/s over 30 s", (RAMP,)),
        ("100 kB/s -> 50k records/s over 30 s", (RAMP,)),
        ("60k records/min -> 50k records/s over 30 s", (RAMP,)),
        (
            "1k records/s for 10 s, 5k records/s for 10 s, 20k records/s",
            (step(1000.0, 10.0), step(5000.0, 10.0), step(20_000.0)),
        ),
        (["1k records/s for 10 s", 5000], (step(1000.0, 10.0), step(5000.0))),
        (("1k -> 50k records/s over 30 s", "2 records/s for 1 s"), (RAMP, step(2.0, 1.0))),
        ([RAMP, step(2.0)], (RAMP, step(2.0))),
    ],
)
def test_a_rate_is_a_number_or_a_shape(given: object, meant: object) -> None:
    """Each spelling that a person might try, and one value for each load."""
    assert parse_rate(given, record_bytes=100.0) == meant


_RATES = "records/s, records/sec, records/min, for example '500 records/s', '50k records/s'"
_LIKE = "for example '1k -> 50k records/s over 30 s' or '1k records/s for 10 s, 5k records/s'"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, "must be above 0 and at most 1G records/s"),
        ("fast", f"cannot read 'fast' as a record rate; use one of {_RATES}"),
        ([], f"must have at least one segment, {_LIKE}"),
        ([1] * 101, "has 101 segments, must have at most 100"),
        ([None, 5], f"segment 1, None: cannot read None as a record rate; use one of {_RATES}"),
        (
            "1k -> 50k records/s",
            (
                "segment 1, '1k -> 50k records/s': a ramp must have two rates and a duration, for example "
                "'1k -> 50k records/s over 30 s'"
            ),
        ),
        (
            "1 -> 5 records/s over 3",
            "segment 1, '1 -> 5 records/s over 3': a time needs a unit: '3 ms' or '3 s'",
        ),
        (
            "0 -> 5k records/s over 3 s",
            (
                "segment 1, '0 -> 5k records/s over 3 s': invalid rate 0 records/s: must be between 0.001 "
                "and 1G records/s"
            ),
        ),
        (
            "1 records/s for 1 s, 2G records/s",
            "segment 2, '2G records/s': invalid rate 2G records/s: must be between 0.001 and 1G records/s",
        ),
        (
            "1 records/s for 0 s, 2 records/s",
            "segment 1, '1 records/s for 0 s': invalid duration 0 s: must be between 1 ms and 24 h",
        ),
        (
            "1 records/s, 2 records/s",
            f"segment 1, '1 records/s': only the last segment may omit its duration, {_LIKE}",
        ),
        (
            [{"start": 1, "end": 2, "seconds": None}],
            f"segment 1, {{'start': 1, 'end': 2, 'seconds': None}}: a ramp must have a duration, {_LIKE}",
        ),
        (
            "x" * 200 + " for 1 s",
            (f"segment 1, '{'x' * 100}': has 208 characters, must have at most 100, {_LIKE}"),
        ),
    ],
)
def test_what_is_no_rate_is_refused_with_its_segment(given: object, message: str) -> None:
    """A shape of many steps is searched by nobody."""
    with pytest.raises(UnitError) as caught:
        parse_rate(given, record_bytes=100.0)
    assert str(caught.value) == message


def test_a_rate_in_bytes_needs_sizes() -> None:
    """Samples differ in size: how many records make a MiB is not known at collection."""
    with pytest.raises(UnitError) as caught:
        parse_rate("1 -> 2 MiB/s over 3 s", record_bytes=None)
    assert str(caught.value) == (
        "segment 1, '1 -> 2 MiB/s over 3 s': invalid rate '1 MiB/s': samples differ in size, so the rate must be in "
        "records/s"
    )


_PACES = st.floats(1e-3, 1e9)
_TIMES = st.floats(1e-3, 86_400)
_SHAPES = st.lists(st.builds(Segment, start=_PACES, end=_PACES, seconds=_TIMES), min_size=1, max_size=5)


@given(_SHAPES)
def test_a_shape_survives_its_dump(shape: list[Segment]) -> None:
    """Baselines and reports hold the dump."""
    rate = parse_rate(shape, record_bytes=None)
    assert parse_rate(dump_rate(rate), record_bytes=None) == rate


@given(_SHAPES)
def test_a_shape_is_written_as_it_is_read(shape: list[Segment]) -> None:
    """What a report shows can be pasted into a marker; it has six digits."""
    rate = parse_rate(shape, record_bytes=None)
    read = parse_rate(format_rate(rate), record_bytes=None)
    assert peak_rate(read) == pytest.approx(peak_rate(rate), rel=1e-5)


def test_the_peak_is_the_highest_rate() -> None:
    """What a generator must be able to make."""
    assert peak_rate(5.0) == 5.0
    assert peak_rate((RAMP, step(7.0))) == peak_rate((step(7.0, 1.0), RAMP)) == 50_000.0

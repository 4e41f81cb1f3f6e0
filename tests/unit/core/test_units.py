"""Quantities: text to base units and back."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import UnitError
from pytest_kafkaperf.core.units import (
    Unit,
    counted,
    format_percent,
    format_quantity,
    format_ratio,
    parse,
    parse_exact,
    parse_time,
    unit_of,
)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("250 ns", Unit.SECONDS, 250e-9),
        ("250us", Unit.SECONDS, 250e-6),
        ("250 \u00b5s", Unit.SECONDS, 250e-6),
        ("250 \u03bcs", Unit.SECONDS, 250e-6),
        (" 25  ms ", Unit.SECONDS, 0.025),
        ("1.5 s", Unit.SECONDS, 1.5),
        (".5 s", Unit.SECONDS, 0.5),
        ("2 min", Unit.SECONDS, 120.0),
        ("1 h", Unit.SECONDS, 3600.0),
        ("1e3 ms", Unit.SECONDS, 1.0),
        ("0", Unit.SECONDS, 0.0),
        ("-0 ms", Unit.SECONDS, 0.0),
        ("100 B", Unit.BYTES, 100.0),
        ("16 KiB", Unit.BYTES, 16_384.0),
        ("1 MiB", Unit.BYTES, 1_048_576.0),
        ("1 GiB", Unit.BYTES, 2.0**30),
        ("1 TiB", Unit.BYTES, 2.0**40),
        ("1 kB", Unit.BYTES, 1000.0),
        ("1 MB", Unit.BYTES, 1_000_000.0),
        ("1 GB", Unit.BYTES, 1e9),
        ("1 TB", Unit.BYTES, 1e12),
        ("1_000", Unit.RECORDS, 1000.0),
        ("50k", Unit.RECORDS, 50_000.0),
        ("50 K records", Unit.RECORDS, 50_000.0),
        ("1 record", Unit.RECORDS, 1.0),
        ("1.5M records", Unit.RECORDS, 1_500_000.0),
        ("50000", Unit.RECORD_RATE, 50_000.0),
        ("50k", Unit.RECORD_RATE, 50_000.0),
        ("1 record/s", Unit.RECORD_RATE, 1.0),
        ("50k records/s", Unit.RECORD_RATE, 50_000.0),
        ("50krecords/s", Unit.RECORD_RATE, 50_000.0),
        ("1G records/sec", Unit.RECORD_RATE, 1e9),
        ("60 records/min", Unit.RECORD_RATE, 1.0),
        ("5k/s", Unit.RECORD_RATE, 5000.0),
        ("1.56M/s", Unit.RECORD_RATE, 1_560_000.0),
        ("500/s", Unit.RECORD_RATE, 500.0),
        ("5k msg/s", Unit.RECORD_RATE, 5000.0),
        ("5kmsg/s", Unit.RECORD_RATE, 5000.0),
        ("5k msgs/s", Unit.RECORD_RATE, 5000.0),
        ("5k messages/s", Unit.RECORD_RATE, 5000.0),
        ("5k rec/s", Unit.RECORD_RATE, 5000.0),
        ("50 MiB/s", Unit.BYTE_RATE, 52_428_800.0),
        ("50 MB/s", Unit.BYTE_RATE, 50_000_000.0),
        ("1.5", Unit.CORES, 1.5),
        ("1 core", Unit.CORES, 1.0),
        ("0.8 s/M records", Unit.CPU_COST, 0.8),
        ("0.8", Unit.CPU_COST, 0.8),
        ("30%", Unit.RATIO, 0.3),
        ("0.3", Unit.RATIO, 0.3),
        ("3", Unit.COUNT, 3.0),
        (0, Unit.SECONDS, 0.0),
        (3, Unit.BYTES, 3.0),
        (0.025, Unit.SECONDS, 0.025),
    ],
)
def test_a_quantity_is_read_in_its_base_unit(text: str | float, unit: Unit, expected: float) -> None:
    """Everything inside computes in base units; a wrong factor here would be wrong everywhere."""
    assert parse(text, unit) == expected


@pytest.mark.parametrize(
    ("given", "unit", "message"),
    [
        (
            "25 mss",
            Unit.SECONDS,
            "cannot read '25 mss' as a time; use one of ns, us, µs, ms, s, min, h, "
            "for example '250 us', '25 ms', '5 s', '2 min'",
        ),
        (
            "fast",
            Unit.BYTE_RATE,
            "cannot read 'fast' as a byte rate; use one of B/s, KiB/s, MiB/s, GiB/s, TiB/s, kB/s, MB/s, GB/s, TB/s, "
            "for example '500 KiB/s', '50 MiB/s'",
        ),
        (
            "5k B",
            Unit.BYTES,
            "cannot read '5k B' as a size; use one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, "
            "for example '100 B', '16 KiB', '1 MiB'",
        ),
        (
            "0 bananas",
            Unit.RECORDS,
            "cannot read '0 bananas' as a number of records; use records, for example '0', '1000', '50k records'",
        ),
        (
            "50 MB/s",
            Unit.RECORD_RATE,
            "cannot read '50 MB/s' as a record rate; use one of records/s, records/sec, records/min, "
            "for example '500 records/s', '50k records/s'",
        ),
        (" 25 ", Unit.BYTES, "a size needs a unit: '25 B' or '25 KiB'"),
        ("25", Unit.BYTE_RATE, "a byte rate needs a unit: '25 B/s' or '25 KiB/s'"),
        ("1 KB", Unit.BYTES, "'1 KB' is ambiguous: 1000 B or 1 KiB?"),
        ("16384 KB", Unit.BYTES, "'16384 KB' is ambiguous: 16384000 B or 16384 KiB?"),
        ("2.5KB/s", Unit.BYTE_RATE, "'2.5KB/s' is ambiguous: 2500 B/s or 2.5 KiB/s?"),
        ("1e999 KB", Unit.BYTES, "invalid quantity '1e999 KB': too large"),
        (
            "1 KB",
            Unit.RECORD_RATE,
            "cannot read '1 KB' as a record rate; use one of records/s, records/sec, records/min, "
            "for example '500 records/s', '50k records/s'",
        ),
        (
            "5k cores",
            Unit.CORES,
            "cannot read '5k cores' as a number of cores; use cores, for example '1.5 cores'",
        ),
        (
            "\u0663 ms",
            Unit.SECONDS,
            "cannot read '\u0663 ms' as a time; use one of ns, us, µs, ms, s, min, h, "
            "for example '250 us', '25 ms', '5 s', '2 min'",
        ),
        ("half", Unit.RATIO, "cannot read 'half' as a ratio; use %, for example '30%', '0.3'"),
        ("many", Unit.COUNT, "cannot read 'many' as a number; use a number, for example '0', '3'"),
        ("two", Unit.CORES, "cannot read 'two' as a number of cores; use cores, for example '1.5 cores'"),
        (
            "1 s",
            Unit.CPU_COST,
            "cannot read '1 s' as CPU seconds per million records; use s/M records, for example '0.8 s/M records'",
        ),
        (
            None,
            Unit.CORES,
            "cannot read None as a number of cores; use cores, for example '1.5 cores'",
        ),
        (True, Unit.CORES, "cannot read True as a number of cores; use cores, for example '1.5 cores'"),
        ("25", Unit.SECONDS, "a time needs a unit: '25 ms' or '25 s'"),
        ("-25 ms", Unit.SECONDS, "invalid quantity '-25 ms': must be at least 0"),
        (-1, Unit.RECORDS, "invalid quantity -1: must be a finite number of at least 0"),
        (math.nan, Unit.SECONDS, "invalid quantity nan: must be a finite number of at least 0"),
        (math.inf, Unit.SECONDS, "invalid quantity inf: must be a finite number of at least 0"),
        ("1e999 s", Unit.SECONDS, "invalid quantity '1e999 s': too large"),
    ],
)
def test_what_is_no_quantity_is_refused_with_the_valid_units(given: object, unit: Unit, message: str) -> None:
    """The text is all that a user gets at collection."""
    with pytest.raises(UnitError) as caught:
        parse(given, unit)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("5 ms", 0.005),
        ("5 s", 5.0),
        ("10m", 600.0),
        ("10 m ", 600.0),
        (timedelta(minutes=1, microseconds=5), 60.000005),
        (0, 0.0),
        (0.0, 0.0),
        ("0", 0.0),
        (timedelta(0), 0.0),
    ],
)
def test_a_time_is_a_text_with_a_unit_a_timedelta_or_zero(given: object, seconds: float) -> None:
    """Each of these means the same to everybody."""
    assert parse_time(given) == seconds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (5, "a time needs a unit: '5 ms' or '5 s'"),
        (0.5, "a time needs a unit: '0.5 ms' or '0.5 s'"),
        (1e-5, "a time needs a unit: '1e-05 ms' or '1e-05 s'"),
        (" 5 ", "a time needs a unit: '5 ms' or '5 s'"),
        ("1_000", "a time needs a unit: '1_000 ms' or '1_000 s'"),
        (-5, "invalid quantity -5: must be a finite number of at least 0"),
        (timedelta(seconds=-5), "invalid quantity -5.0 s: must be at least 0"),
        (
            True,
            "cannot read True as a time; use one of ns, us, µs, ms, s, min, h, "
            "for example '250 us', '25 ms', '5 s', '2 min'",
        ),
    ],
)
def test_a_bare_number_is_no_time(given: object, message: str) -> None:
    """`linger=5` means 5 ms in Kafka's own configuration, and 5 s in Python's."""
    with pytest.raises(UnitError) as caught:
        parse_time(given)
    assert str(caught.value) == message


def test_a_whole_number_beyond_floats_is_read_exactly_and_refused_as_a_float() -> None:
    """Python's own OverflowError is no answer to a user."""
    assert parse_exact(10**400, Unit.BYTES) == Fraction(10**400)
    for digits in (400, 5000):
        with pytest.raises(UnitError, match="too large"):
            parse(10**digits, Unit.BYTES)
        with pytest.raises(UnitError, match="too large"):
            parse_time(10**digits)


def test_a_hundred_characters_are_read_and_more_are_refused_and_cut() -> None:
    """Longer text is a mistake, and its error stays readable."""
    longest = f"{'0' * 97}1 s"
    assert parse(longest, Unit.SECONDS) == 1
    with pytest.raises(UnitError) as caught:
        parse(f"0{longest}", Unit.SECONDS)
    assert str(caught.value).startswith(f"cannot read '0{longest[:-1]}...' as a time; use one of ")


@given(st.text(), st.sampled_from(Unit))
def test_any_text_is_a_quantity_or_a_unit_error(text: str, unit: Unit) -> None:
    """A traceback at collection would name neither the test nor the mistake."""
    try:
        value = parse(text, unit)
    except UnitError as error:
        assert str(error)
    else:
        assert 0 <= value < math.inf


@given(st.from_regex(r"[0-9_.eE+-]{1,8} ?[kKMG]? ?(B|ms|s|KiB/s|records|records/s|cores)?", fullmatch=True))
def test_text_that_looks_like_a_quantity_is_one_or_a_unit_error(text: str) -> None:
    """Plain random text rarely reaches the numbers."""
    for unit in Unit:
        try:
            value = parse(text, unit)
        except UnitError as error:
            assert str(error)
        else:
            assert 0 <= value < math.inf


@given(st.floats(min_value=1e-9, max_value=1e15), st.sampled_from(Unit), st.sampled_from([3, 6]))
def test_what_is_written_reads_back_to_its_digits(value: float, unit: Unit, digits: int) -> None:
    """Values from a failure message are pasted into limits."""
    text = format_quantity(value, unit, digits=digits)
    assert parse(text, unit) == pytest.approx(value, rel=0.5001 * 10.0 ** (1 - digits))


@given(st.integers(min_value=0, max_value=9999), st.sampled_from([Unit.BYTES, Unit.RECORDS, Unit.RECORD_RATE]))
def test_small_whole_numbers_lose_nothing(value: int, unit: Unit) -> None:
    """`lost: 9999` is a count, not a measurement; sizes below a KiB are counts, too."""
    if unit is not Unit.BYTES or value < 1000:
        assert parse(format_quantity(value, unit), unit) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.SECONDS, "0 s"),
        (25e-9, Unit.SECONDS, "0.025 µs"),
        (0.02512, Unit.SECONDS, "25.1 ms"),
        (0.0999999, Unit.SECONDS, "100 ms"),
        (0.9999, Unit.SECONDS, "1 s"),
        (0.9995, Unit.SECONDS, "1 s"),
        (0.9994, Unit.SECONDS, "999 ms"),
        (90, Unit.SECONDS, "90 s"),
        (0, Unit.BYTES, "0 B"),
        (1023.9, Unit.BYTES, "1 KiB"),
        (1536, Unit.BYTES, "1.5 KiB"),
        (3 * 2**30, Unit.BYTES, "3 GiB"),
        (52_428_800, Unit.BYTE_RATE, "50 MiB/s"),
        (0, Unit.BYTE_RATE, "0 B/s"),
        (0.5, Unit.RECORD_RATE, "0.5 records/s"),
        (999.5, Unit.RECORD_RATE, "1000 records/s"),
        (999.6, Unit.RECORD_RATE, "1000 records/s"),
        (1000, Unit.RECORD_RATE, "1k records/s"),
        (9999, Unit.RECORDS, "9999 records"),
        (9999.6, Unit.RECORD_RATE, "10k records/s"),
        (10_001, Unit.RECORDS, "10k records"),
        (10_500, Unit.RECORDS, "10.5k records"),
        (52_340, Unit.RECORD_RATE, "52.3k records/s"),
        (1_560_000, Unit.RECORD_RATE, "1.56M records/s"),
        (1_234_567, Unit.RECORD_RATE, "1.23M records/s"),
        (999_499, Unit.RECORD_RATE, "999k records/s"),
        (999_500, Unit.RECORD_RATE, "1M records/s"),
        (9_990_000, Unit.RECORDS, "9.99M records"),
        (1e6, Unit.RECORDS, "1M records"),
        (12_345_678, Unit.RECORDS, "12.3M records"),
        (9_994_000_000, Unit.RECORDS, "9.99G records"),
        (1e9, Unit.RECORDS, "1G records"),
        (12_345_678_901, Unit.RECORDS, "12.3G records"),
        (5e10, Unit.RECORDS, "50G records"),
        (1.2345, Unit.CORES, "1.23 cores"),
        (0.8, Unit.CPU_COST, "0.8 s/M records"),
        (0.0655, Unit.RATIO, "6.55%"),
        (2.5, Unit.COUNT, "2.5"),
        (-0.0, Unit.COUNT, "0"),
        (99.96, Unit.COUNT, "100"),
        (120.4, Unit.COUNT, "120"),
        (1_234_567.8, Unit.COUNT, "1234568"),
        (999_999_999_999_999, Unit.COUNT, "999999999999999"),
        (1e15, Unit.COUNT, "1e+15"),
        (-0.02512, Unit.SECONDS, "-25.1 ms"),
        (1e20, Unit.SECONDS, "1e+20 s"),
        (1.7e307, Unit.RATIO, "inf%"),
        (math.nan, Unit.SECONDS, "nan s"),
        (math.inf, Unit.RECORDS, "inf records"),
    ],
)
def test_a_value_is_written_for_people(value: float, unit: Unit, text: str) -> None:
    """Three digits in the largest unit that fits are what a person compares."""
    assert format_quantity(value, unit) == text


def test_more_digits_tell_close_values_apart() -> None:
    """25.04 ms against a limit of 25 ms must not read as 25 ms against 25 ms."""
    assert [format_quantity(0.02504, Unit.SECONDS, digits=digits) for digits in (3, 6)] == ["25 ms", "25.04 ms"]


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.1234, "+12.3%"), (-0.05, "-5.0%"), (0.0004, "0.0%"), (-0.0004, "0.0%"), (0.0, "0.0%"), (1.5, "+150.0%")],
)
def test_a_change_is_written_with_its_sign(change: float, text: str) -> None:
    """Minus nothing would look like a change."""
    assert format_ratio(change) == text


def test_one_is_counted_in_the_singular() -> None:
    """Verdicts are read by people."""
    assert [counted(1, "round"), counted(5, "round")] == ["1 round", "5 rounds"]


def test_units_have_the_names_that_reports_and_files_give_them() -> None:
    """Whoever reads a report's JSON goes by them."""
    assert [*Unit] == ["s", "B", "records", "records/s", "B/s", "cores", "s/M records", "ratio", "count"]


def test_a_ratio_that_is_no_change_is_written_without_a_sign() -> None:
    """Noise goes both ways."""
    assert [format_percent(ratio) for ratio in (0.0, 0.0654, 1.5)] == ["0%", "6.5%", "150%"]


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("rows/s", "1234", 1234),
        ("rows/s", "1.5k rows/s", 1500),
        ("rows/s", "2M", 2_000_000),
        ("keys", "5 keys", 5),
        ("keys", "5k keys", 5000),
        ("M ops", "3 M ops", 3),
        ("°C", "21.5 °C", 21.5),
        ("", "7 of anything", 7),
    ],
)
def test_a_unit_of_a_users_own_is_read_and_may_be_left_out(unit: str, text: str, value: float) -> None:
    """The k of `5 keys` is no multiplier."""
    assert parse(text, unit) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1234, "rows/s", "1234 rows/s"), (56_700, "rows/s", "56.7k rows/s"), (0.25, "pages", "0.25 pages"), (3, "", "3")],
)
def test_a_unit_of_a_users_own_is_written_as_a_rate_of_records_is(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text


def test_another_unit_than_the_users_own_is_refused() -> None:
    """With the unit that is meant."""
    with pytest.raises(UnitError) as caught:
        parse("5 ms", "rows/s")
    assert str(caught.value) == "cannot read '5 ms' as a number of rows/s; use a number, for example '5', '5k rows/s'"


@pytest.mark.parametrize("unit", [*Unit, "rows/s", "%CPU", "GC pauses", "€", "x" * 20])
def test_a_base_unit_and_any_short_text_are_units(unit: str) -> None:
    assert unit_of(str(unit)) == unit
    assert type(unit_of(str(unit))) is type(unit)


@pytest.mark.parametrize("unit", ["", "5", " rows", "rows ", "a  b", "a\nb", "rows)", "<b>", "x" * 21, 7, None])
def test_a_unit_stands_after_a_number_in_a_threshold(unit: object) -> None:
    """So it must be told apart from the rest."""
    with pytest.raises(UnitError) as caught:
        unit_of(unit)
    assert str(caught.value) == f"invalid unit {unit!r}: must be text of 1 to 20 characters, for example 'rows/s'"


@pytest.mark.parametrize(
    ("unit", "base"), [("ms", "s"), ("MiB", "B"), ("KB", "B"), ("%", "ratio"), ("record", "records")]
)
def test_multiples_of_base_units_are_no_units(unit: str, base: str) -> None:
    """Reports choose the prefix."""
    with pytest.raises(UnitError) as caught:
        unit_of(unit)
    assert str(caught.value) == f"invalid unit {unit!r}: convert the values to {base!r}, and set unit={base!r}"

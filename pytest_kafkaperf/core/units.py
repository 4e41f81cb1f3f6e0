"""Parsing and formatting of quantities with units.

Base units are seconds, bytes, records, records per second, bytes per second, cores, CPU seconds per million records,
ratios and plain counts. Prefixes follow IEC 80000-13: `KiB` is 1024 bytes, `kB` is 1000. Kafka's own tools print
`MB` for 2**20 bytes, which is `MiB` here; `MB` is 10**6 bytes.
"""

from __future__ import annotations

import functools
import math
import re
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from pytest_kafkaperf.core.errors import UnitError, shortened
from pytest_kafkaperf.core.text import repr_of

NS_PER_S = 1_000_000_000
"""Nanoseconds per second. The plugin stores times and durations as whole nanoseconds."""


class Unit(StrEnum):
    """Base unit. The enum value is the unit's name in reports and files."""

    SECONDS = "s"
    BYTES = "B"
    RECORDS = "records"
    RECORD_RATE = "records/s"
    BYTE_RATE = "B/s"
    CORES = "cores"
    CPU_COST = "s/M records"
    RATIO = "ratio"
    COUNT = "count"


_BYTES = {
    "B": Fraction(1),
    **{f"{prefix}iB": Fraction(1024) ** power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}B": Fraction(1000) ** power for power, prefix in enumerate("kMGT", start=1)},
}
_AMBIGUOUS = {"KB": ("B", "KiB"), "KB/s": ("B/s", "KiB/s")}
"""Units that mean 1000 bytes to some tools and 1024 to others, each with the two units that error messages suggest."""

_RATE_ALIASES = ("/s", "record/s", "rec/s", "msg/s", "msgs/s", "messages/s")
"""Other names for `records/s`. Tables print `5k/s`, and Kafka users often write `messages/s`."""
_ALIASES = ("μs", "record", "core", *_RATE_ALIASES)
"""Valid unit names that are not listed in error messages."""

_SCALES: dict[str, dict[str, Fraction]] = {
    Unit.SECONDS: {
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),
        "μs": Fraction(1, 10**6),
        "ms": Fraction(1, 1000),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
    },
    Unit.BYTES: _BYTES,
    Unit.RECORDS: {"records": Fraction(1), "record": Fraction(1)},
    Unit.RECORD_RATE: {
        "records/s": Fraction(1),
        "records/sec": Fraction(1),
        "records/min": Fraction(1, 60),
        **dict.fromkeys(_RATE_ALIASES, Fraction(1)),
    },
    Unit.BYTE_RATE: {f"{name}/s": scale for name, scale in _BYTES.items()},
    Unit.CORES: {"cores": Fraction(1), "core": Fraction(1)},
    Unit.CPU_COST: {"s/M records": Fraction(1)},
    Unit.RATIO: {"%": Fraction(1, 100)},
    Unit.COUNT: {},
}

_HELP: dict[str, tuple[str, str]] = {
    Unit.SECONDS: ("a time", "'250 us', '25 ms', '5 s', '2 min'"),
    Unit.BYTES: ("a size", "'100 B', '16 KiB', '1 MiB'"),
    Unit.RECORDS: ("a number of records", "'0', '1000', '50k records'"),
    Unit.RECORD_RATE: ("a record rate", "'500 records/s', '50k records/s'"),
    Unit.BYTE_RATE: ("a byte rate", "'500 KiB/s', '50 MiB/s'"),
    Unit.CORES: ("a number of cores", "'1.5 cores'"),
    Unit.CPU_COST: ("CPU seconds per million records", "'0.8 s/M records'"),
    Unit.RATIO: ("a ratio", "'30%', '0.3'"),
    Unit.COUNT: ("a number", "'0', '3'"),
}
"""Dimension of each unit, with examples, for error messages."""

_PLURALS: dict[str, str] = {Unit.BYTES: "bytes"}
_NEEDING_UNIT: dict[str, tuple[str, str]] = {
    Unit.SECONDS: ("ms", "s"),
    Unit.BYTES: ("B", "KiB"),
    Unit.BYTE_RATE: ("B/s", "KiB/s"),
}
"""Base units for which any text other than zero must include a unit, each with the units that an error suggests."""
_WITHOUT_MULTIPLIER = _SCALES.keys() - {Unit.RECORDS, Unit.RECORD_RATE}
"""Base units that do not accept multipliers such as the k in `50k`."""
_TIME_STEPS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
_BINARY_STEPS = {"GiB": 1024.0**3, "MiB": 1024.0**2, "KiB": 1024.0, "B": 1.0}
_MAX_PLAIN_COUNT = 9999
"""Maximum count that is written with all its digits even if it is not a round number."""
_MIN_EXPONENT = 1e15
"""Smallest number that is written with an exponent."""
_TIMES = 10
"""Smallest ratio that is written as a factor instead of a percentage such as `+100341.8%`."""
_WHOLE_PERCENT = 10
"""Smallest percentage that is shown without decimals."""
_MULTIPLIERS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_QUANTITY = re.compile(
    r"\s*(?P<number>[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*"
    r"(?:(?P<multiplier>[kKMG])(?![iB]))?\s*(?P<unit>\S.*)?",  # the k in 5k/s, but not in kB or KiB
    re.ASCII,
)
_CI_MINUTES = re.compile(r"(?<=[\d\s])m\s*\Z", re.ASCII)
_OWN = re.compile(r"[^\s\d<>=!,().+-](?:[^\s<>=!,()]| (?=\S)){0,19}")
"""Pattern for custom units: text that can follow a number in a threshold."""
_MAX_LENGTH = 100
"""Maximum length of a quantity, in characters."""
_MAX_FLOAT = 10**300
"""Maximum quantity in base units, as a float. The limit prevents overflow when scaling."""


def parse_exact(quantity: object, unit: str) -> Fraction:
    """Parse a quantity: a number in the base unit, or text with a unit of the same dimension.

    Counts and record rates accept a multiplier (`50k`). Text for seconds, bytes and bytes per second must have a unit,
    except for zero. A custom metric's unit can be omitted. If `unit` is empty (not known yet), any unit is accepted.

    Raises:
        UnitError: the quantity is not a number, is not finite, is negative, or has a unit of another dimension.

    """
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise UnitError(_unreadable(quantity, unit))
    if not isinstance(quantity, str):
        # isfinite() raises for an int that is too large for a float.
        if (isinstance(quantity, float) and not math.isfinite(quantity)) or quantity < 0:
            raise UnitError(f"invalid quantity {repr_of(quantity)}: must be a finite number of at least 0")
        return Fraction(quantity)
    return _parse_text(quantity, unit)


def parse_whole(quantity: object, unit: str) -> int:
    """Parse a quantity as `parse_exact` does, and return it as a whole number of base units.

    Raises:
        UnitError: the quantity is invalid or not a whole number of base units.

    """
    exact = parse_exact(quantity, unit)
    if exact.denominator != 1:
        raise UnitError(f"invalid quantity {quantity!r}: must be a whole number of {_PLURALS.get(unit, unit)}")
    return int(exact)


def parse(quantity: object, unit: str) -> float:
    """Parse a quantity as `parse_exact` does, and return it as a float in the base unit.

    >>> parse("25 ms", Unit.SECONDS)
    0.025
    """
    exact = parse_exact(quantity, unit)
    if exact > _MAX_FLOAT:
        raise UnitError(f"invalid quantity {repr_of(quantity)}: too large")
    return float(exact)


def parse_time(given: object) -> float:
    """Parse a user-supplied time (text with a unit, a `timedelta`, or 0), and return seconds.

    Other numbers are invalid, because `linger=5` would be 5 ms in Kafka's configuration but 5 s in Python. `10m` means
    minutes, as in CI systems. Thresholds do not accept `10m`, because it could be a misspelled `10ms`.

    >>> parse_time("25 ms")
    0.025
    """
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
        if seconds < 0:
            raise UnitError(f"invalid quantity {seconds} s: must be at least 0")
        return seconds
    if isinstance(given, str):
        given = _CI_MINUTES.sub("min", given)
    seconds = parse(given, Unit.SECONDS)
    if seconds and not isinstance(given, str):
        raise UnitError(_without_unit(given, Unit.SECONDS))
    return seconds


def format_quantity(value: float, unit: str, *, digits: int = 3) -> str:
    """Format a value in a base unit with a suitable prefix and the given number of significant digits.

    Digits before the decimal point are never rounded away.

    >>> format_quantity(0.02512, Unit.SECONDS)
    '25.1 ms'
    >>> format_quantity(52_340.0, Unit.RECORD_RATE)
    '52.3k records/s'
    """
    if not math.isfinite(value):
        return f"{value} {unit}"
    match unit:
        case Unit.SECONDS:
            text = _scaled(value, _TIME_STEPS, digits)
        case Unit.BYTES | Unit.BYTE_RATE:
            text = _scaled(value, _BINARY_STEPS, digits) + str(unit).removeprefix("B")
        case Unit.RATIO:
            text = f"{_digits(value * 100, digits)}%"
        case Unit.COUNT:
            text = _digits(value, digits)
        case Unit.CORES | Unit.CPU_COST:
            text = f"{_digits(value, digits)} {unit}"
        case Unit.RECORDS if value == 1:
            text = "1 record"
        case _:
            text = f"{_counted(value, digits)} {unit}".strip()
    return text


def unit_of(given: object) -> str:
    """Validate a custom metric's unit: a base unit, or a custom unit such as `rows/s`.

    Raises:
        UnitError: the unit would be unreadable next to a number, or is a multiple of a base unit.

    """
    if not isinstance(given, str) or not given.isprintable() or not _OWN.fullmatch(given):
        raise UnitError(f"invalid unit {repr_of(given)}: must be text of 1 to 20 characters, for example 'rows/s'")
    multiples = {name: base for base, scales in _SCALES.items() for name in scales if name != base}
    multiples |= {name: small for name, (small, _) in _AMBIGUOUS.items()}
    if given in multiples:
        base = multiples[given]
        raise UnitError(f"invalid unit {given!r}: convert the values to {str(base)!r}, and set unit={str(base)!r}")
    return next((base for base in Unit if base == given), given)


def format_ratio(change: float) -> str:
    """Format a relative change with its sign: `+12.3%`; `0.0%` has no sign, and a tenfold value is `×10`."""  # noqa: RUF002 - as it is shown
    if change >= _TIMES - 1:
        return f"\N{MULTIPLICATION SIGN}{_digits(1 + change, 2)}"
    text = f"{change * 100:+.1f}%"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def short_change(change: float) -> str:
    """Format a change with no more precision than is known: `+50%`, `+9.5%`, `0%`, `×1004`."""  # noqa: RUF002 - as it is shown
    text = format_ratio(change)
    number, unit, _ = text.partition("%")
    if unit and abs(change) >= 0.1:  # noqa: PLR2004 - 10%
        number = f"{change * 100:+.0f}"
    return f"{'0' if number == '0.0' else number}{unit}"


def format_percent(ratio: float) -> str:
    """Format a ratio without a sign: `0.65%`, `6.5%`, `65%`."""
    percent = 100 * ratio
    return f"{percent:.0f}%" if percent >= _WHOLE_PERCENT else f"{percent:.2g}%"


class Quantity(NamedTuple):
    """Value with its unit, formatted by `format_quantity`."""

    value: float
    unit: str
    digits: int = 3

    def __str__(self) -> str:
        """Format the value: `25.1 ms`."""
        return format_quantity(self.value, self.unit, digits=self.digits)


class RelativeChange(NamedTuple):
    """Relative change, formatted by `format_ratio`."""

    ratio: float

    def __str__(self) -> str:
        """Format the change: `+12.3%`."""
        return format_ratio(self.ratio)


class Count(NamedTuple):
    """Number of things, formatted by `counted`."""

    number: int
    noun: str

    def __str__(self) -> str:
        """Format the number: `5 rounds`."""
        return counted(self.number, self.noun)


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: `1 round`, `5 rounds`."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


@functools.lru_cache(maxsize=1000)  # tests in the same run parse the same texts again
def _parse_text(quantity: str, unit: str) -> Fraction:
    if len(quantity) > _MAX_LENGTH:
        raise UnitError(_unreadable(quantity, unit))
    is_own = unit not in _SCALES
    text = quantity.strip().removesuffix(unit) if is_own else quantity  # the k in `5 keys/s` is not a multiplier
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(_unreadable(quantity, unit))
    number = Fraction(match["number"].replace("_", "")) * _MULTIPLIERS[match["multiplier"] or ""]
    if number < 0:
        raise UnitError(f"invalid quantity {quantity!r}: must be at least 0")
    name = " ".join((match["unit"] or "").split())
    scale = _scale_of(name, unit)
    if name in _AMBIGUOUS and unit in _NEEDING_UNIT:
        raise UnitError(_ambiguous(quantity, number, name))
    if scale is None or (match["multiplier"] and unit in _WITHOUT_MULTIPLIER):
        raise UnitError(_unreadable(quantity, unit))
    if number and not name and unit in _NEEDING_UNIT:
        raise UnitError(_without_unit(quantity.strip(), unit))
    return number * scale


def _scale_of(name: str, unit: str) -> Fraction | None:
    """Return the factor from the unit `name` to the base unit `unit` (empty if unknown); None if incompatible."""
    if not name or not unit:
        return Fraction(1)
    return _SCALES.get(unit, {}).get(name)


def _without_unit(number: object, unit: str) -> str:
    small, large = _NEEDING_UNIT[unit]
    return f"{_HELP[unit][0]} needs a unit: '{number} {small}' or '{number} {large}'"


def _ambiguous(quantity: str, number: Fraction, name: str) -> str:
    """Return the error for units such as KB, which means 1000 bytes to some tools and 1024 to others."""
    if number > _MAX_FLOAT:
        return f"invalid quantity {quantity!r}: too large"
    small, large = _AMBIGUOUS[name]
    return f"{quantity!r} is ambiguous: {float(number) * 1000:.15g} {small} or {float(number):.15g} {large}?"


def _scaled(value: float, steps: dict[str, float], digits: int) -> str:
    *larger, (base, _) = steps.items()
    if value == 0:
        return f"0 {'s' if 's' in steps else base}"
    name, scale = next((one for one in larger if _reaches(value, one[1], digits)), (base, steps[base]))
    return f"{_digits(value / scale, digits)} {name}"


def _counted(value: float, digits: int) -> str:
    """Format a count, with a multiplier if that makes the text shorter: 1k, 1234, 12.3k, 1.23M."""
    for scale, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        long = abs(value) > _MAX_PLAIN_COUNT and _reaches(value, scale, digits)
        if long or (abs(value) >= scale and value % scale == 0):
            return f"{_digits(value / scale, digits)}{prefix}"
    return _digits(value, digits)


def _reaches(value: float, scale: float, digits: int) -> bool:
    """Return True if the rounded value is at least `scale`, so that 0.9999 s becomes 1 s instead of 1000 ms."""
    return abs(value) >= scale * (1 - 0.5 * 10.0**-digits)


def _digits(value: float, digits: int) -> str:
    if math.isinf(value):
        return str(value)  # the division by the scale overflowed
    return f"{value:.0f}" if 10 ** (digits - 1) <= abs(value) < _MIN_EXPONENT else f"{value:z.{digits}g}"


def _unreadable(quantity: object, unit: str) -> str:
    names = [name for name in _SCALES.get(unit, {}) if name not in _ALIASES] or ["a number"]
    valid = f"use {'one of ' if len(names) > 1 else ''}{', '.join(names)}"
    shown = repr_of(shortened(quantity, _MAX_LENGTH) if isinstance(quantity, str) else quantity)
    dimension, examples = _HELP.get(unit, (f"a number of {unit}", f"'5', '5k {unit}'"))
    return f"cannot read {shown} as {dimension}; {valid}, for example {examples}"

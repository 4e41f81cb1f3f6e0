"""How large records are: one size, or a distribution of sizes. Bytes of a value, without its key."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.machinery import PathFinder
from typing import Any, Literal

from pytest_kafkaperf.core.errors import UnitError, nearest
from pytest_kafkaperf.core.units import Unit, format_quantity, parse_exact

Sizes = Mapping[int, float]
"""Shares of the records by size in bytes, ascending; the shares make 1, but for rounding."""

_MAX_SIZE = 1 << 30

_MAX_SIZES = 100

_MIN_SHARE = 1e-12
"""One record of the most that a round can have."""

_EXAMPLE = "for example {'100 B': 0.9, '10 KiB': 0.1}"


def parse_size(quantity: Any) -> int:
    """Read a size.

    Raises:
        UnitError: not a whole number of bytes.

    """
    exact = parse_exact(quantity, Unit.BYTES)
    if exact.denominator != 1:
        raise UnitError(f"{quantity!r} is not a whole number of bytes")
    return int(exact)


def parse_sizes(given: Any) -> int | Sizes:
    """Read one size, or a mapping of sizes to weights.

    Weights are taken as fractions of their sum. A distribution of one size is that size.

    Raises:
        UnitError: not a size, not a weight, or a size that comes twice.

    """
    if not isinstance(given, Mapping):
        return _checked(given)
    if not given:
        raise UnitError(f"a distribution has at least one size, {_EXAMPLE}")
    if len(given) > _MAX_SIZES:
        raise UnitError(f"{len(given)} sizes; a distribution has at most {_MAX_SIZES}")
    weights: dict[int, Fraction] = {}
    for quantity, weight in given.items():
        size = _named(quantity)
        if size in weights:
            raise UnitError(f"{_size_text(size)} comes twice; give each size once, {_EXAMPLE}")
        weights[size] = _weight(weight, quantity)
    return _shares(weights) if len(weights) > 1 else next(iter(weights))


def mean_size(sizes: Sizes) -> float:
    """The mean over the records, in bytes."""
    return math.fsum(size * share for size, share in sizes.items())


def format_sizes(sizes: int | Sizes) -> str:
    """Sizes for people: `1 KiB`, `100 B: 90 %, 10 KiB: 10 %`."""
    if isinstance(sizes, int):
        return _size_text(sizes)
    return ", ".join(f"{_size_text(size)}: {share * 100:.6g} %" for size, share in sizes.items())


def dump_sizes(sizes: Sizes) -> dict[str, float]:
    """What reports and baselines hold: `{"100 B": 0.9, "10240 B": 0.1}`."""
    return {f"{size} B": share for size, share in sizes.items()}


def _checked(quantity: Any) -> int:
    size = parse_size(quantity)
    if not 1 <= size <= _MAX_SIZE:
        raise UnitError("out of range; use at least 1 B and at most 1 GiB")
    return size


def _named(quantity: Any) -> int:
    try:
        return _checked(quantity)
    except UnitError as error:
        text = str(error)
        raise UnitError(text if repr(quantity) in text else f"{quantity!r}: {text}") from None


def _weight(weight: Any, quantity: Any) -> Fraction:
    number = not isinstance(weight, bool) and isinstance(weight, int | float)
    if not number or not weight > 0 or weight == math.inf:
        raise UnitError(f"weight {weight!r} of {quantity!r}: use a finite number above 0, {_EXAMPLE}")
    return Fraction(weight)


def _shares(weights: Mapping[int, Fraction]) -> Sizes:
    total = sum(weights.values(), Fraction(0))
    if abs(total - 1) * (1 << 53) <= len(weights):
        total = Fraction(1)  # but for rounding they are shares already, and stay as they are
    shares = {size: float(weight / total) for size, weight in sorted(weights.items())}
    rare = [size for size, share in shares.items() if share < _MIN_SHARE]
    if rare:
        raise UnitError(f"{_size_text(rare[0])} is less than one record in 10**12; leave it out")
    return shares


def _size_text(size: int) -> str:
    return format_quantity(size, Unit.BYTES, digits=6)


def size_of_varint(length: int) -> int:
    """Bytes of a non-negative zigzag varint."""
    return max(1, ((2 * length).bit_length() + 6) // 7)


def size_of_headers(headers: Sequence[tuple[str, bytes]]) -> int:
    """Bytes of a record's headers, their count included."""
    parts = [part for name, value in headers for part in (name.encode(), value)]
    return size_of_varint(len(headers)) + sum(size_of_varint(len(part)) + len(part) for part in parts)


_PREFIX = "file:"

_DELIMITER = "\n"

_FIELDS = ("file", "delimiter")

_VALID_SAMPLES = "use 'random', 'zeros', 'file:PATH' or {'file': PATH, 'delimiter': TEXT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Where the samples are, and what stands between two of them."""

    file: str
    """As it was given: relative to the folder of the test's file."""
    delimiter: str = _DELIMITER
    path: str | None = field(default=None, compare=False)
    """Where it was found; None before it is looked for. No part of the workload: each machine has another."""

    def __str__(self) -> str:
        between = "" if self.delimiter == _DELIMITER else f", delimiter {self.delimiter!r}"
        return f"{_PREFIX}{self.file}{between}"


def parse_samples(given: Any) -> Samples:
    """Read `file:PATH`, or a mapping of `file` and `delimiter`.

    Raises:
        ValueError: neither, or one of the two is not text or empty.

    """
    match given:
        case Samples():
            return given
        case str() if given.startswith(_PREFIX):
            given = {"file": given.removeprefix(_PREFIX)}
        case Mapping() if "file" in given:
            pass
        case _:
            raise ValueError(_VALID_SAMPLES)
    for name, value in given.items():
        if name not in _FIELDS:
            raise ValueError(f"unknown {name!r}: {nearest(str(name), _FIELDS)}")
        if not isinstance(value, str) or not value or not is_utf8(value):
            raise ValueError(f"{name} is {value!r}; use text that is not empty, in UTF-8")
    return Samples(**given)


def is_utf8(text: str) -> bool:
    """Whether the text can be written as bytes: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dump_samples(samples: Samples) -> dict[str, str]:
    """What reports and baselines hold."""
    return {"file": samples.file, "delimiter": samples.delimiter}


_MAX_COUNT = {"uniform": 10**9, "zipf": 10**6}
"""A Zipf distribution is drawn from a table of all its keys."""

_VALID_KEYS = "use 'uniform:N', 'zipf:N', 'zipf:N:EXPONENT' or 'sequential', for example 'uniform:10k'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys 0 to `count - 1`, drawn at random; or `sequential`: the index of the record in the whole load."""

    kind: Literal["uniform", "zipf", "sequential"]
    count: int | None = None
    """How many keys there are; None with `sequential` only."""
    exponent: float | None = None
    """With `zipf` only: key `k` comes in proportion to `1 / (k + 1) ** exponent`."""

    def __str__(self) -> str:
        exponent = None if self.exponent == 1 else self.exponent
        return ":".join(str(part) for part in (self.kind, self.count, exponent) if part is not None)


def parse_keys(given: Any) -> Keys:
    """Read `uniform:N`, `zipf:N`, `zipf:N:EXPONENT` or `sequential`; N may have a multiplier.

    Raises:
        ValueError: none of these, or a number that cannot be.

    """
    if isinstance(given, Keys):
        return given
    match given.split(":") if isinstance(given, str) else None:
        case ["sequential"]:
            return Keys(kind="sequential")
        case ["uniform", count]:
            return Keys(kind="uniform", count=_count(count, "uniform"))
        case ["zipf", count]:
            return Keys(kind="zipf", count=_count(count, "zipf"), exponent=1.0)
        case ["zipf", count, exponent]:
            return Keys(kind="zipf", count=_count(count, "zipf"), exponent=_exponent(exponent))
    raise ValueError(_VALID_KEYS)


def _count(text: str, kind: Literal["uniform", "zipf"]) -> int:
    most = _MAX_COUNT[kind]
    try:
        count = parse_exact(text, Unit.RECORDS)
    except UnitError:
        count = Fraction(0)
    if count.denominator != 1 or not 1 <= count <= most:
        raise ValueError(f"{text!r} keys cannot be; {kind} takes a whole number from 1 to {most}, for example '10k'")
    return int(count)


def _exponent(text: str) -> float:
    try:
        exponent = float(text)
    except ValueError:
        exponent = math.nan
    if not 0 < exponent < math.inf:
        raise ValueError(f"exponent {text!r} cannot be; use a finite number above 0, for example 'zipf:10k:1.1'")
    return exponent


HEADER = "kafkaperf-tag"
"""The header that carries a record's tag into an application, and out of it again."""

Correlate = Callable[[Any], bytes | None]
"""Takes a record that came out, with `key`, `value`, `headers` (names and bytes); returns the tag, None without one."""


def tag_in_header(record: Any) -> bytes | None:
    """The tag that an application has passed on."""
    value: bytes
    for name, value in record.headers:
        if name == HEADER:
            return value
    return None


def parse_correlate(given: Any) -> Correlate:
    """A function that worker processes can import.

    Raises:
        ValueError: it is none.

    """
    correlate: Correlate = given
    if not callable(given):
        raise ValueError(  # noqa: TRY004 - pydantic names the field of a ValueError
            "give a function that takes a record and returns the 16 bytes with which the value of the record that went "
            "in begins, or None"
        )
    name, module = getattr(given, "__qualname__", ""), getattr(given, "__module__", "")
    if not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not given:
        raise ValueError(f"{described(given)} must be a function at the top of a module: workers import it by its name")
    if PathFinder.find_spec(module.partition(".")[0]) is None:
        raise ValueError(
            f"workers cannot import {module}, where {name} is: it is not on Python's path; put the function into a "
            "module that is, or run pytest with --import-mode=prepend"
        )
    return correlate


def described(correlate: Any) -> str:
    """Module and name, for people and for baselines."""
    name = getattr(correlate, "__qualname__", None) or repr(correlate)
    return f"{getattr(correlate, '__module__', '')}.{name}".lstrip(".")

"""How large records are: one size, or a distribution of sizes. Bytes of a value, without its key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pytest_kafkaperf.errors import UnitError
from pytest_kafkaperf.units import Unit, format_quantity, parse_exact

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

"""The keys of records: how many there are, and how often each comes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from pytest_kafkaperf.errors import UnitError
from pytest_kafkaperf.units import Unit, parse_exact

_MAX_COUNT = {"uniform": 10**9, "zipf": 10**6}
"""A Zipf distribution is drawn from a table of all its keys."""
_VALID = "use 'uniform:N', 'zipf:N', 'zipf:N:EXPONENT' or 'sequential', for example 'uniform:10k'"


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
    raise ValueError(_VALID)


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

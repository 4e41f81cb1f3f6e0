"""One run of a tool, and the numbers that its output is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError, shortened

NUMBER = r"[-+]?\d[\d.,]*\d|[-+]?\d|NaN|[-+]?Infinity|[-+]?∞"
"""As Java's `%d` and `%f` write it, and what a locale or a hand may have made of that."""
MB = 2**20
"""Bytes."""
_PLAIN = re.compile(r"[-+]?\d{1,18}(?:[.,](?P<decimals>\d{1,18}))?", re.ASCII)
"""Longer ones are no measurement, and cost time to read."""
_COARSE_S = Fraction(1, 100)
"""Below it a millisecond more or less is 10 % and more."""
MAX_SHOWN = 60
"""Characters of a line that cannot be read."""
_GROUP = 3
"""Digits between separators of thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """What one run of a tool gave."""

    tool: str
    line: int
    """Where its figures stand, from 1."""
    metrics: Mapping[str, float]
    """By our names, in base units."""
    notes: tuple[str, ...] = ()
    """What is to know of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A run that was broken off: it has no figures of its own."""

    tool: str
    line: int
    """Where its last line stands, from 1."""
    what: str
    """What there is of it: `5 interval rows and no final row`."""

    def __str__(self) -> str:
        """For people."""
        return f"line {self.line}: a run of {self.tool} was broken off: {self.what}"


def number(text: str, *, line: int, name: str) -> Fraction:
    """Read a number of at least 0; a comma before the decimals is what some locales write.

    Raises:
        UsageError: it is none, not finite or negative, or its comma can be read in two ways.

    """
    found = _PLAIN.fullmatch(text)
    where = f"line {line}: {name} is {shortened(text, MAX_SHOWN)!r}"
    if text.lstrip("-+") in ("NaN", "Infinity", "∞"):
        raise UsageError(f"{where}: nothing was measured; leave this run out")
    if found is None:
        raise UsageError(f"{where}, which is no number such as 1234.5; run the tool with LC_ALL=C")
    if "," in text and len(found["decimals"]) == _GROUP:
        raise UsageError(
            f"{where}: the comma can stand before decimals or between thousands; run the tool with LC_ALL=C, or write "
            "the number with a point"
        )
    value = Fraction(text.replace(",", "."))
    if value < 0:
        raise UsageError(f"{where}, and cannot be negative; leave this run out")
    return value


def without_zeros(figures: Mapping[str, Fraction]) -> tuple[dict[str, float], tuple[str, ...]]:
    """The figures that are not 0, as metrics, and a note on those that are.

    A printed 0 is a rounded one: a latency "of 0 ms" is one below a millisecond. It is no figure that anything can have
    a ratio to, so it is left out rather than kept as the exact 0 that it is not.
    """
    zeros = [name for name, value in figures.items() if value == 0]
    notes = (f"left out, for 0 means too small to print: {', '.join(zeros)}",) if zeros else ()
    return {name: float(value) for name, value in figures.items() if value}, notes


def coarse(percentiles: Mapping[str, Fraction]) -> tuple[str, ...]:
    """A note on latencies that are so small that whole milliseconds blur them."""
    small = [f"{name} {float(value * 1000):g} ms" for name, value in percentiles.items() if 0 < value < _COARSE_S]
    return (f"whole milliseconds, so a ratio to it can be far off: {', '.join(small)}",) if small else ()

"""A run of another tool, and the numbers in its output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError, shortened

NUMBER = r"[-+]?\d[\d.,]*\d|[-+]?\d|NaN|[-+]?Infinity|[-+]?∞"
"""Regular expression of a number that Java's `%d` or `%f` printed, in any locale, possibly edited."""
MB = 2**20
"""Bytes of the unit MB in the output of Kafka's tools."""
_PLAIN = re.compile(r"[-+]?\d{1,18}(?:[.,](?P<decimals>\d{1,18}))?", re.ASCII)
"""A number with a bounded number of digits; longer ones are not measurements and take long to convert."""
_COARSE_S = Fraction(1, 100)
"""Latency below which one millisecond is more than 10 %."""
MAX_SHOWN = 60
"""Maximum characters of a line in an error."""
_GROUP = 3
"""Digits between thousands separators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """The measurements of one run of a tool."""

    tool: str
    line: int
    """Number of the line with the measurements, from 1."""
    metrics: Mapping[str, float]
    """Values in base units by the plugin's names of metrics."""
    notes: tuple[str, ...] = ()
    """Remarks on the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A run that was stopped before the tool printed its result."""

    tool: str
    line: int
    """Number of its last line, from 1."""
    what: str
    """Description of its output: `5 interval rows and no final row`."""

    def __str__(self) -> str:
        """Return the text for errors and notes."""
        return f"line {self.line}: a run of {self.tool} is incomplete: {self.what}"


def number(text: str, *, line: int, name: str) -> Fraction:
    """Read a number of at least 0; the decimal separator may be a comma, as in some locales.

    Raises:
        UsageError: The text is not a finite number of at least 0, or its comma is ambiguous.

    """
    found = _PLAIN.fullmatch(text)
    where = f"line {line}: {name} is {shortened(text, MAX_SHOWN)!r}"
    if text.lstrip("-+") in ("NaN", "Infinity", "∞"):
        raise UsageError(f"{where}, so nothing was measured; remove this run")
    if found is None:
        raise UsageError(f"{where}, which is not a number such as 1234.5; run the tool with LC_ALL=C")
    if "," in text and len(found["decimals"]) == _GROUP:
        raise UsageError(
            f"{where}, in which the comma may separate decimals or thousands; run the tool with LC_ALL=C, or write the "
            "number with a decimal point"
        )
    value = Fraction(text.replace(",", "."))
    if value < 0:
        raise UsageError(f"{where}, but must not be negative; remove this run")
    return value


def without_zeros(figures: Mapping[str, Fraction]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the figures that are not 0, and a note on those that are.

    A printed 0 is rounded: a latency of "0 ms" is below one millisecond. No ratio to it exists, so it is left out
    instead of kept as an exact 0.
    """
    zeros = [name for name, value in figures.items() if value == 0]
    notes = (f"omitted, because 0 means too small to print: {', '.join(zeros)}",) if zeros else ()
    return {name: float(value) for name, value in figures.items() if value}, notes


def coarse(percentiles: Mapping[str, Fraction]) -> tuple[str, ...]:
    """Return a note on latencies that are too small for whole milliseconds."""
    small = [f"{name} {float(value * 1000):g} ms" for name, value in percentiles.items() if 0 < value < _COARSE_S]
    return (f"known only in whole milliseconds, so ratios are inexact: {', '.join(small)}",) if small else ()

"""Axes of charts: a unit that people read, ticks on a logarithmic scale, and text that Plotly shows as it is. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.printable import printable
from pytest_kafkaperf.units import Unit

SPAN = 20
"""Values that span at least this factor are shown on a logarithmic axis."""
_STEPS: dict[Unit, tuple[tuple[str, float], ...]] = {
    Unit.SECONDS: (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    Unit.BYTES: (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0), ("B", 1.0)),
    Unit.BYTE_RATE: (("GiB/s", 1024.0**3), ("MiB/s", 1024.0**2), ("KiB/s", 1024.0), ("B/s", 1.0)),
    Unit.RECORDS: (("million records", 1e6), ("thousand records", 1e4), ("records", 1.0)),
    Unit.RECORD_RATE: (("M records/s", 1e6), ("k records/s", 1e3), ("records/s", 1.0)),
    Unit.RATIO: (("%", 0.01),),
}
_DIGITS = 6
"""Significant digits of a value in a chart: more than a screen shows."""
_MOST_LABEL = 24
"""Characters of a name on an axis or in a legend."""
_TWO_DECADES = 2.2
_MOST_DECADES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How an axis counts."""

    name: str
    """`ms`, for the axis's title."""
    step: float
    """How much of the base unit 1 on the axis is."""

    def of(self, value: float | None) -> float | None:
        """A value of the base unit on the axis; None where it is no number."""
        return None if value is None or not math.isfinite(value) else rounded(value / self.step)


def scale_for(values: Iterable[float | None], unit: Unit) -> Scale:
    """The unit in which the largest of some values is at least 1."""
    most = max((value for value in values if value is not None and math.isfinite(value)), default=0.0)
    steps = _STEPS.get(unit, ((str(unit), 1.0),))
    name, step = next(((name, step) for name, step in steps if most >= step), steps[-1])
    return Scale(name=name, step=step)


def value_axis(values: Iterable[float | None], title: str) -> dict[str, Any]:
    """A vertical axis for these values, as they are on it: from 0, or logarithmic where they span much."""
    known = [value for value in values if value is not None]
    if known and min(known) > 0 and max(known) >= SPAN * min(known):
        low, high = min(known) / 1.25, max(known) * 1.25
        return {"title": {"text": title}, "type": "log", "range": _logs(low, high), **log_ticks(low, high)}
    most = max(known, default=0.0)
    return {"title": {"text": title}, "range": [0, rounded(most * 1.08) if most > 0 else 1]}


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """1, 2, 5 of each decade where there is room, else powers of ten, each written out."""
    decades = math.log10(high / low)
    leads = (1, 2, 5) if decades <= _TWO_DECADES else (1, 3) if decades <= _MOST_DECADES else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [lead * 10.0**exponent for exponent in exponents for lead in leads]
    kept = [value for value in values if low <= value <= high]
    return {"tickvals": [rounded(value) for value in kept], "ticktext": [f"{value:,.10g}" for value in kept]}


def linear_ticks(low: float, high: float) -> list[float]:
    """At most 8 round values between, in steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(lead * power for lead in (1, 2, 5, 10) if lead * power >= rough * (1 - 1e-9))
    return [rounded(number * step) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def rounded(value: float) -> float:
    """A value as short as it can be written for a screen."""
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


def literal(text: str) -> str:
    """Text for a chart, shown as it is: Plotly reads a little HTML in all texts."""
    return html.escape(printable(" ".join(text.split())), quote=False)


def shortened(text: str) -> str:
    """Text for a label that has little room; hovering tells all of it."""
    return literal(text if len(text) <= _MOST_LABEL else f"{text[: _MOST_LABEL - 3]}...")


def _logs(low: float, high: float) -> list[float]:
    return [rounded(math.log10(low)), rounded(math.log10(high))]

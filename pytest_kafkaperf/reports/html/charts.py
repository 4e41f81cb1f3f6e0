"""The common form of all charts: lines on axes, as JSON for Plotly. Pure.

Axes are in base units; Plotly writes them with SI prefixes. Colours are variables of the style sheet. The page's script
replaces them by the values of the light or dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity

Figure = dict[str, Any]
"""The arguments `data` and `layout` of `Plotly.newPlot`."""

NOW, STANDARD, FRESH, LIMIT = "var(--now)", "var(--baseline)", "var(--fresh)", "var(--bad)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Colours of lines of the same kind, such as one line for each broker."""
SPAN = 20
"""Factor between smallest and largest value from which an axis is logarithmic."""
_TICKS: dict[str, tuple[str, str]] = {
    Unit.BYTES: ("~s", "B"),
    Unit.BYTE_RATE: ("~s", "B/s"),
    Unit.SECONDS: ("~s", "s"),
    Unit.RECORD_RATE: ("~s", " records/s"),
    Unit.RATIO: ("~%", ""),
    Unit.COUNT: ("~r", ""),
}
"""Formats of d3 and the unit that follows, where they are not the unit's name."""
_DIGITS = 6
"""Significant digits of a value in a chart, more than a screen can show."""
_MAX_LABEL = 24
"""Maximum characters of a name on an axis or in a legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its caption."""

    title: str
    note: str = ""
    """Explanation next to the title."""
    figure: Figure
    height_px: int = 260
    wide: bool = False
    """True if the chart takes the full width of the page."""


def line(
    name: str,
    points: Mapping[Any, float],
    colour: str,
    *,
    ends: Mapping[Any, Sequence[float]] | None = None,
    **style: Any,
) -> dict[str, Any]:
    """Return a trace through points, with bars from the least to the greatest of `ends`; `style` is for Plotly."""
    places = {x: y for x, y in points.items() if math.isfinite(y)}
    known = {x: [*filter(math.isfinite, (ends or {}).get(x, ())), y] for x, y in places.items()}
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [rounded(max(known[x]) - y) for x, y in places.items()],
        "arrayminus": [rounded(y - min(known[x])) for x, y in places.items()],
    }
    return {
        "mode": "lines",
        "name": literal(name),
        "x": [rounded(x) if isinstance(x, float) else x for x in places],
        "y": [rounded(y) for y in places.values()],
        "line": {"color": colour, "width": 2.5},
        "marker": {"color": colour, "size": 7},
        **({"error_y": bars} if ends else {}),
        **style,
    }


def thin_lines(rounds: Sequence[Mapping[Any, float]], colour: str) -> list[dict[str, Any]]:
    """Return a trace for each round; the legend leaves them out."""
    style: dict[str, Any] = {"line": {"color": colour, "width": 1}, "opacity": 0.5, "showlegend": False}
    return [line(f"round {number}", one, colour, **style) for number, one in enumerate(rounds, 1)]


def labelled(name: str, points: Sequence[tuple[float, Any, str]], **marker: Any) -> dict[str, Any]:
    """Return a trace of points, given as `x`, `y` and the text that each shows; `marker` is for Plotly."""
    places = {"x": [x for x, _, _ in points], "y": [y for _, y, _ in points]}
    texts = [literal(text) for *_, text in points]
    return {"mode": "markers", "name": name, **places, "text": texts, "hoverinfo": "text", "marker": marker}


def line_chart(
    title: str, lines: Sequence[dict[str, Any]], unit: str, *, x: Mapping[str, Any], note: str = "", **layout: Any
) -> Chart | None:
    """Return a chart of lines; `x` is the layout of the horizontal axis. None if no line has two points next to 0."""
    drawn = [each for each in lines if each["x"]]
    values = [value for each in drawn for value in each["y"]]
    if not any(len(each["x"]) > 1 and any(each["y"]) for each in drawn):
        return None
    layout = {"xaxis": {**x}, "yaxis": value_axis(values, unit), **layout}
    return Chart(title=literal(title), note=note, figure={"data": drawn, "layout": layout})


def value_axis(values: Sequence[float], unit: str) -> dict[str, Any]:
    """Return the layout of a vertical axis for values in a base unit: from 0, or logarithmic if they span `SPAN`."""
    tick_format, suffix = _TICKS.get(unit, ("~r", f" {unit}"))
    low, high = min(values), max(values)
    is_log = low > 0 and high >= SPAN * low
    return {
        "type": "log" if is_log else "linear",
        **(_log_ticks(low, high, unit) if is_log else {}),
        "rangemode": "tozero",
        "tickformat": tick_format,
        "hoverformat": f".3{tick_format}",
        "ticksuffix": suffix,
    }


def _log_ticks(low: float, high: float, unit: str) -> dict[str, Any]:
    """Return ticks at 1, 2 and 5 of each decade, or at 1 of many; Plotly's own have no unit at 2 and 5."""
    leads = (1, 2, 5) if high < SPAN**2 * low else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [lead * 10.0**exponent for exponent in exponents for lead in leads]
    return {"tickvals": values, "ticktext": [format_quantity(value, unit) for value in values]}


def mark(colour: str, *, dash: str = "dash", **place: Any) -> dict[str, Any]:
    """Return a line across the chart at `x` or `y`."""
    ((name, at),) = place.items()
    other = "y" if name == "x" else "x"
    ends = {f"{name}0": at, f"{name}1": at, f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    return {"type": "line", "layer": "below", "line": {"color": colour, "width": 1, "dash": dash}, **ends}


def rounded(value: float) -> float:
    """Round a value to the digits that a chart needs."""
    return float(f"{value:.{_DIGITS}g}")


def literal(text: str) -> str:
    """Escape a text for a chart, because Plotly interprets some HTML tags in all texts."""
    return html.escape(printable(" ".join(text.split())), quote=False)


def shortened(text: str) -> str:
    """Cut a label to `_MAX_LABEL` characters."""
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}..."

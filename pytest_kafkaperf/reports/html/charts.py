"""The common parts of all charts: style, axes, and the baseline or reference that a test is compared with. Pure.

Colours are variables of the style sheet. The page's script replaces them by the values of the light or dark scheme.
"""

from __future__ import annotations

import html
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.verdict.comparison import Rounds

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import Result


Figure = dict[str, Any]
"""The arguments `data` and `layout` of `Plotly.newPlot`."""

NOW, BASELINE, FRESH, REFERENCE, LIMIT = (
    "var(--now)",
    "var(--baseline)",
    "var(--fresh)",
    "var(--reference)",
    "var(--bad)",
)

NOW_SOFT = "var(--now-soft)"

SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Colours of lines of the same kind, such as one line for each broker."""

ROUNDS_AND_MEDIAN = "thin: single rounds; thick: median"
"""Note on charts that show both."""

FAMILIES = {"produce.latency": "Produce latency", "e2e.latency": "End-to-end latency"}
"""Families of latency metrics with the titles of their charts."""

_AXIS = {
    "automargin": True,
    "gridcolor": "var(--line)",
    "linecolor": "var(--line)",
    "zeroline": False,
    "ticks": "",
    "tickfont": {"size": 11},
    "title": {"font": {"size": 12}, "standoff": 8},
}

TEMPLATE: Figure = {
    "layout": {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 10, "t": 8, "b": 8},
        "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 12, "color": "var(--dim)"},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--text)", "size": 12},
            "align": "left",
            "namelength": -1,
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
            "traceorder": "normal",
        },
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    },
    "data": {"scatter": [{"hoverinfo": "text"}], "bar": [{"hoverinfo": "text"}]},
}
"""Plotly template of all charts; a figure's own values take precedence."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRounds:
    """The baseline or the reference that a test is compared with."""

    name: str
    colour: str
    rounds: Rounds
    sessions: Sequence[Rounds]


def standard(result: Result) -> list[ComparedRounds]:
    """Return the rounds that a test is compared with: those of the reference if there is one, else of the baseline.

    The list has one item, or none if there is neither.
    """
    references = [[one.metrics for one in session.reference] for session in result.sessions if session.reference]
    if references:
        rounds = list(itertools.chain.from_iterable(references))
        return [ComparedRounds(name="reference", colour=REFERENCE, rounds=rounds, sessions=references)]
    sessions = [session for session in result.baseline.sessions if session]
    rounds = list(itertools.chain.from_iterable(sessions))
    return [ComparedRounds(name="baseline", colour=BASELINE, rounds=rounds, sessions=sessions)] if rounds else []


def fresh_sessions(result: Result) -> list[Rounds]:
    """Return the rounds of each session after the first."""
    return [[one.metrics for one in session.rounds] for session in result.sessions[1:] if session.rounds]


def further_name(result: Result) -> str:
    """Return the name of the sessions after the first."""
    return "fresh sessions" if result.reference is None else "further sessions"


def medians(rounds: Rounds, names: Iterable[str]) -> dict[str, float]:
    """Return the median of each of these metrics over the rounds that have it."""
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: statistics.median(each) for name, each in values.items() if each}


def thin_lines(x: Sequence[float | None], y: Sequence[float | None], colour: str) -> dict[str, Any]:
    """Return a trace of lines for single rounds; None in `x` and `y` separates two lines."""
    return {
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 1},
        "opacity": 0.5,
        "showlegend": False,
    }


def shown(name: str, value: float) -> str:
    """Format the value of a metric."""
    return format_quantity(value, CATALOGUE[name].unit)


SPAN = 20
"""Factor between smallest and largest value from which an axis is logarithmic."""

_STEPS: dict[str, tuple[tuple[str, float], ...]] = {
    Unit.SECONDS: (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    Unit.BYTES: (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0), ("B", 1.0)),
    Unit.BYTE_RATE: (("GiB/s", 1024.0**3), ("MiB/s", 1024.0**2), ("KiB/s", 1024.0), ("B/s", 1.0)),
    Unit.RECORDS: (("million records", 1e6), ("thousand records", 1e4), ("records", 1.0)),
    Unit.RECORD_RATE: (("M records/s", 1e6), ("k records/s", 1e3), ("records/s", 1.0)),
    Unit.RATIO: (("%", 0.01),),
}

_DIGITS = 6
"""Significant digits of a value in a chart, more than a screen can show."""

_MAX_LABEL = 24
"""Maximum characters of a name on an axis or in a legend."""

_TWO_DECADES = 2.2

_MOST_DECADES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The unit of an axis."""

    name: str
    """Name for the title of the axis, such as `ms`."""
    step: float
    """Size of the unit in base units: 0.001 for `ms`."""

    def of(self, value: float | None) -> float | None:
        """Convert a value in base units to this unit; None if it is not finite."""
        return None if value is None or not math.isfinite(value) else rounded(value / self.step)


def scale_for(values: Iterable[float | None], unit: str) -> Scale:
    """Return the largest unit in which the largest of the values is at least 1."""
    most = max((value for value in values if value is not None and math.isfinite(value)), default=0.0)
    steps = _STEPS.get(unit, ((unit, 1.0),))
    name, step = next(((name, step) for name, step in steps if most >= step), steps[-1])
    return Scale(name=name, step=step)


def value_axis(values: Iterable[float | None], title: str) -> dict[str, Any]:
    """Return the layout of a vertical axis for values in its unit: from 0, or logarithmic if they span `SPAN`."""
    known = [value for value in values if value is not None]
    if known and min(known) > 0 and max(known) >= SPAN * min(known):
        low, high = min(known) / 1.25, max(known) * 1.25
        ends = [rounded(math.log10(low)), rounded(math.log10(high))]
        return {"title": {"text": title}, "type": "log", "range": ends, **log_ticks(low, high)}
    most = max(known, default=0.0)
    return {"title": {"text": title}, "range": [0, rounded(most * 1.08) if most > 0 else 1]}


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Return ticks for a logarithmic axis: 1, 2 and 5 of each decade, or fewer if there are many decades."""
    decades = math.log10(high / low)
    leads = (1, 2, 5) if decades <= _TWO_DECADES else (1, 3) if decades <= _MOST_DECADES else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [lead * 10.0**exponent for exponent in exponents for lead in leads]
    kept = [value for value in values if low <= value <= high]
    return {"tickvals": [rounded(value) for value in kept], "ticktext": [f"{value:,.10g}" for value in kept]}


def linear_ticks(low: float, high: float) -> list[float]:
    """Return at most 8 round values between `low` and `high`, in steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(lead * power for lead in (1, 2, 5, 10) if lead * power >= rough * (1 - 1e-9))
    return [rounded(number * step) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def rounded(value: float) -> float:
    """Round a value to the digits that a chart needs, as an int if it is whole."""
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


def literal(text: str) -> str:
    """Escape a text for a chart, because Plotly interprets some HTML tags in all texts."""
    return html.escape(printable(" ".join(text.split())), quote=False)


def shortened(text: str) -> str:
    """Escape a text for a label and cut it to `_MAX_LABEL` characters."""
    return literal(text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}...")

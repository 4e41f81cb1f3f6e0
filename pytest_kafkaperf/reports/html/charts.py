"""What all charts have in common: how they look, and what a test is compared with in them. Pure.

Colours are names of the style sheet's variables, which the page puts in: it has a light and a dark scheme.
"""

from __future__ import annotations

import html
import itertools
import math
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
"""`data` and `layout`, as `Plotly.newPlot` takes them."""

NOW, BASELINE, FRESH, REFERENCE, LIMIT = (
    "var(--now)",
    "var(--baseline)",
    "var(--fresh)",
    "var(--reference)",
    "var(--bad)",
)

NOW_SOFT = "var(--now-soft)"

SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Of lines that are alike: brokers, values of a field."""

ROUNDS_AND_MEDIAN = "thin: each round; thick: median"
"""How to read a chart that has both."""

FAMILIES = {"produce.latency": "Produce latency", "e2e.latency": "End-to-end latency"}
"""Families of latencies, and what charts of them are called."""

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
    }
}
"""What all charts have in common, as Plotly's templates have it: a figure's own layout outranks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure and what stands above it."""

    title: str
    note: str = ""
    """How to read it."""
    figure: Figure
    height_px: int = 260
    wide: bool = False
    """Whether it takes the whole width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRounds:
    """The baseline or the reference: what a test is compared with."""

    name: str
    colour: str
    rounds: Rounds
    sessions: Sequence[Rounds]


def standard(result: Result) -> list[ComparedRounds]:
    """The reference, or else the baseline; nothing where there is neither."""
    reference = [one.metrics for one in result.sessions[0].reference or ()]
    if reference:
        return [ComparedRounds(name="reference", colour=REFERENCE, rounds=reference, sessions=[reference])]
    sessions = [session for session in result.baseline.sessions if session]
    rounds = list(itertools.chain.from_iterable(sessions))
    return [ComparedRounds(name="baseline", colour=BASELINE, rounds=rounds, sessions=sessions)] if rounds else []


def fresh_sessions(result: Result) -> list[Rounds]:
    """The rounds of each session that was to confirm something."""
    return [[one.metrics for one in session.rounds] for session in result.sessions[1:] if session.rounds]


def thin_lines(x: Sequence[float | None], y: Sequence[float | None], colour: str) -> dict[str, Any]:
    """Lines of rounds, behind their median."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": 1},
        "opacity": 0.5,
        "showlegend": False,
    }


def shown(name: str, value: float) -> str:
    """A metric's value for people."""
    return format_quantity(value, CATALOGUE[name].unit)


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

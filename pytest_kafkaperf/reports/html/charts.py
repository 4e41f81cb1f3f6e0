"""What all charts have in common: how they look, and what a test is compared with in them. Pure.

Colours are names of the style sheet's variables, which the page puts in: it has a light and a dark scheme.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.comparison import Rounds
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.units import format_quantity

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

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
class Side:
    """The baseline or the reference: what a test is compared with."""

    name: str
    colour: str
    rounds: Rounds
    sessions: Sequence[Rounds]


def standard(result: Result) -> list[Side]:
    """The reference, or else the baseline; nothing where there is neither."""
    reference = [one.metrics for one in result.trials[0].reference or ()]
    if reference:
        return [Side(name="reference", colour=REFERENCE, rounds=reference, sessions=[reference])]
    sessions = [session for session in result.baseline.sessions if session]
    rounds = list(itertools.chain.from_iterable(sessions))
    return [Side(name="baseline", colour=BASELINE, rounds=rounds, sessions=sessions)] if rounds else []


def fresh_sessions(result: Result) -> list[Rounds]:
    """The rounds of each session that was to confirm something."""
    return [[one.metrics for one in trial.rounds] for trial in result.trials[1:] if trial.rounds]


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

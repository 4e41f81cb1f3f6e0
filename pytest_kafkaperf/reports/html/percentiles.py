"""Latency by percentile, as Plotly's JSON. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.comparison import Rounds
from pytest_kafkaperf.metrics import QUANTILES
from pytest_kafkaperf.reports.html.axes import Scale, rounded, scale_for, value_axis
from pytest_kafkaperf.reports.html.charts import (
    FAMILIES,
    FRESH,
    NOW,
    ROUNDS_AND_MEDIAN,
    Chart,
    Side,
    fresh_sessions,
    shown,
    standard,
    thin_lines,
)
from pytest_kafkaperf.units import Unit

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

_PLACES = {**{part: 1 / (1 - quantile) for part, quantile in QUANTILES.items()}, "max": 10_000.0}
"""Where each stands on the axis: the rarer, the farther right; the maximum at the end."""
_NAMED = ("p50", "p90", "p99", "p99.9", "max")
"""p95 is so near to p90 that their names would touch."""


def percentiles_chart(result: Result, family: str) -> Chart | None:
    """Latency by percentile: each round, their median, and what they are compared with."""
    own = [one.metrics for one in result.rounds if f"{family}.p50" in one.metrics]
    if not own:
        return None
    others = [_over(rounds, family) for rounds in fresh_sessions(result)]
    sides = standard(result)
    scale = scale_for([one.get(f"{family}.p99") for one in own], Unit.SECONDS)
    data = [
        *itertools.chain.from_iterable(_side_lines(side, family, scale) for side in sides),
        _lines(others, family, scale, colour=FRESH, names=(f"session {n}" for n in itertools.count(2)))
        | {"name": "fresh sessions", "showlegend": True, "opacity": 0.9},
        _lines(own, family, scale, colour=NOW, names=(f"round {n}" for n in itertools.count(1))),
        _median_line(own, family, scale, colour=NOW, name="this run"),
    ]
    data = [trace for trace in data if trace["x"]]
    axis = {
        "type": "log",
        "range": [0.2, 4.12],
        "tickvals": [rounded(_PLACES[part]) for part in _NAMED],
        "ticktext": list(_NAMED),
    }
    values = [value for trace in data for value in trace["y"]]
    return Chart(
        title=f"{FAMILIES[family]} by percentile",
        note=ROUNDS_AND_MEDIAN,
        figure={"data": data, "layout": {"xaxis": axis, "yaxis": value_axis(values, scale.name)}},
    )


def _side_lines(side: Side, family: str, scale: Scale) -> Iterator[dict[str, Any]]:
    """The median of each session, or where there is one only its rounds; and the median of all."""
    several = len(side.sessions) > 1
    each = [_over(session, family) for session in side.sessions] if several else side.rounds
    names = (f"{side.name}, {'session' if several else 'round'} {number}" for number in itertools.count(1))
    yield _lines(each, family, scale, colour=side.colour, names=names)
    yield _median_line(side.rounds, family, scale, colour=side.colour, name=side.name)


def _lines(rounds: Rounds, family: str, scale: Scale, *, colour: str, names: Iterable[str]) -> dict[str, Any]:
    """All of them as one trace, with gaps between."""
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str | None] = []
    for one, name in zip(rounds, names, strict=False):
        parts = [part for part in _PLACES if f"{family}.{part}" in one]
        x += [*(rounded(_PLACES[part]) for part in parts), None]
        y += [*(scale.of(one[f"{family}.{part}"]) for part in parts), None]
        text += [*(f"{name}, {part}: {shown(f'{family}.{part}', one[f'{family}.{part}'])}" for part in parts), None]
    return thin_lines(x, y, colour) | {"hovertext": text, "hoverinfo": "text"}


def _median_line(rounds: Rounds, family: str, scale: Scale, *, colour: str, name: str) -> dict[str, Any]:
    whole = _over(rounds, family)
    line = _lines([whole], family, scale, colour=colour, names=[f"{name}, median"])
    return line | _thick(colour, name)


def _over(rounds: Rounds, family: str) -> dict[str, float]:
    """The median of each of a family's metrics over rounds."""
    names = [f"{family}.{part}" for part in _PLACES]
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: statistics.median(each) for name, each in values.items() if each}


def _thick(colour: str, name: str) -> dict[str, Any]:
    return {
        "mode": "lines+markers",
        "name": name,
        "line": {"color": colour, "width": 2.5},
        "marker": {"color": colour, "size": 5},
        "opacity": 1,
        "showlegend": True,
    }

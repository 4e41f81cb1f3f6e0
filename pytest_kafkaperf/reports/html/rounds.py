"""Every round as a point, by metric, as Plotly's JSON. Pure."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.comparison import Rounds
from pytest_kafkaperf.metrics import HEADLINES
from pytest_kafkaperf.reports.html.axes import linear_ticks, literal, rounded
from pytest_kafkaperf.reports.html.charts import FRESH, LIMIT, NOW, Chart, Side, fresh_sessions, shown, standard
from pytest_kafkaperf.units import format_ratio

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

_BEYOND = (0.4, 2.5)
"""Ratios within these are shown as per cent, on a linear axis."""
_TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FAR = 1.5
"""Limits up to this factor are shown in any case, and as far as rounds lie."""
_ROW_PX = 52


def rounds_chart(result: Result) -> Chart | None:
    """Every round as a point, by metric: how far it lies from what it is compared with."""
    names = _compared(result)
    if not names:
        return None
    sides = standard(result)
    centre = sides[0].rounds if sides else [one.metrics for one in result.rounds]
    rows = [_row(result, sides, name, centre) for name in names]
    ratios = [ratio for row in rows for lane in row if lane.colour != LIMIT for ratio, _ in lane.points]
    farthest = max(_FAR, *ratios, *(1 / ratio for ratio in ratios))
    rows = [[lane.within(1 / farthest, farthest) for lane in row] for row in rows]
    ratios = [ratio for row in rows for lane in row for ratio, _ in lane.points]
    percent = _BEYOND[0] <= min(ratios) and max(ratios) <= _BEYOND[1]
    place: Callable[[float], float] = (lambda ratio: rounded((ratio - 1) * 100)) if percent else rounded
    lanes: dict[str, list[tuple[float, float, str]]] = {}
    colours: dict[str, tuple[str, str]] = {}
    for number, row in enumerate(rows):
        for lane in row:
            colours[lane.name] = lane.colour, lane.symbol
            lanes.setdefault(lane.name, []).extend(
                (place(ratio), lane.offset - number, text) for ratio, text in lane.points
            )
    against = f"{sides[0].name}'s median" if sides else "median of the rounds"
    data = [_lane_trace(name, points, *colours[name]) for name, points in lanes.items() if points]
    layout = {
        "xaxis": _ratio_axis(ratios, percent=percent) | {"title": {"text": f"against the {against}"}},
        "yaxis": {"range": [0.62 - len(names), 0.7], "visible": False, "fixedrange": True},
        "margin": {"l": 24, "r": 24},
        "annotations": [_row_name(result, name, number) for number, name in enumerate(names)],
        "shapes": [_centre_line(percent=percent)],
    }
    title = "Rounds" if sides else "Rounds, no baseline"
    note = "each point is one round"
    height_px = 90 + _ROW_PX * len(names)
    return Chart(title=title, note=note, figure={"data": data, "layout": layout}, height_px=height_px, wide=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """Points of one kind in the row of one metric."""

    name: str
    colour: str
    offset: float
    points: list[tuple[float, str]]
    """Ratio, and what hovering tells."""
    symbol: str = "circle"

    def within(self, least: float, most: float) -> _Lane:
        """The same without points beyond: limits so far off would leave the rounds no room, and stand in the table."""
        return dataclasses.replace(self, points=[one for one in self.points if least <= one[0] <= most])


def _compared(result: Result) -> list[str]:
    """Metrics with a limit, then those that people look at first; those that have a ratio."""
    known = result.values()
    wanted = dict.fromkeys([*(check.metric for check in result.checks), *HEADLINES])
    return [name for name in wanted if name in known and all(0 < value < math.inf for value in known[name])]


def _row(result: Result, sides: Sequence[Side], name: str, centre: Rounds) -> list[_Lane]:
    values = [one[name] for one in centre if one.get(name, 0) > 0]
    middle = statistics.median(values or result.values()[name])

    def points(rounds: Rounds, label: str) -> list[tuple[float, str]]:
        return [
            (one[name] / middle, f"{label} {number}: {shown(name, one[name])}, {format_ratio(one[name] / middle - 1)}")
            for number, one in enumerate(rounds, 1)
            if one.get(name, 0) > 0
        ]

    limits = [
        (check.limit_value / middle, literal(f"limit {check.limit}: {shown(name, check.limit_value)}"))
        for check in result.checks
        if check.metric == name and check.limit_value
    ]
    fresh = [one for session in fresh_sessions(result) for one in session]
    lanes = [
        *(
            _Lane(name=side.name, colour=side.colour, offset=-0.24, points=points(side.rounds, f"{side.name}, round"))
            for side in sides
        ),
        _Lane(name="this run", colour=NOW, offset=0.12, points=points([one.metrics for one in result.rounds], "round")),
        _Lane(name="fresh sessions", colour=FRESH, offset=-0.06, points=points(fresh, "fresh sessions, round")),
        _Lane(name="limit", colour=LIMIT, offset=-0.06, points=limits, symbol="line-ns"),
    ]
    return [lane for lane in lanes if lane.points]


def _lane_trace(name: str, points: Sequence[tuple[float, float, str]], colour: str, symbol: str) -> dict[str, Any]:
    marker: dict[str, Any] = {"color": colour, "size": 8, "symbol": symbol, "opacity": 0.7}
    if symbol == "line-ns":  # a line, which has no inside to fill
        marker |= {"size": 12, "line": {"width": 2, "color": colour}, "opacity": 1}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [x for x, _, _ in points],
        "y": [rounded(y) for _, y, _ in points],
        "hovertext": [text for _, _, text in points],
        "hoverinfo": "text",
        "marker": marker,
    }


def _ratio_axis(ratios: Sequence[float], *, percent: bool) -> dict[str, Any]:
    if percent:
        low, high = ((ratio - 1) * 100 for ratio in (min(*ratios, 1.0), max(*ratios, 1.0)))
        room = max(1.0, (high - low) * 0.05)
        values = linear_ticks(low - room, high + room)
        texts = [f"{value:+g} %" if value else "0 %" for value in values]
        return {"range": [rounded(low - room), rounded(high + room)], "tickvals": values, "ticktext": texts}
    ticks = [tick for tick in _TIMES if min(ratios) / 2 <= tick <= max(ratios) * 2]
    texts = ["equal" if tick == 1 else f"{tick:g}x" if tick > 1 else f"1/{1 / tick:g}" for tick in ticks]
    return {"type": "log", "tickvals": ticks, "ticktext": texts}


def _centre_line(*, percent: bool) -> dict[str, Any]:
    x = 0 if percent else 1
    line = {"color": "var(--baseline)", "width": 1}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "below"}


def _row_name(result: Result, name: str, number: int) -> dict[str, Any]:
    return {
        "text": f"{name}: {shown(name, result.metrics[name])}",
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "y": 0.4 - number,
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12, "color": "var(--text)"},
        "bgcolor": "var(--page)",
    }

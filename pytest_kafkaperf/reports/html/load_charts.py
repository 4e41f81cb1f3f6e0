"""Every round as a point, by metric, as Plotly's JSON. Pure."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.metrics import HEADLINES, QUANTILES
from pytest_kafkaperf.core.units import Unit, format_quantity, format_ratio
from pytest_kafkaperf.reports.html.charts import (
    FAMILIES,
    FRESH,
    LIMIT,
    NOW,
    NOW_SOFT,
    ROUNDS_AND_MEDIAN,
    Chart,
    ComparedRounds,
    Scale,
    fresh_sessions,
    linear_ticks,
    literal,
    log_ticks,
    rounded,
    scale_for,
    shown,
    standard,
    thin_lines,
    value_axis,
)
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, LatencyPoint, stick_of
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.round import StepOutcome
from pytest_kafkaperf.verdict.comparison import Rounds

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


def _row(result: Result, sides: Sequence[ComparedRounds], name: str, centre: Rounds) -> list[_Lane]:
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


def _side_lines(side: ComparedRounds, family: str, scale: Scale) -> Iterator[dict[str, Any]]:
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


_SYMBOLS = {
    StepOutcome.HELD: "circle",
    StepOutcome.BROKEN: "x",
    StepOutcome.UNREACHED: "triangle-up-open",
    StepOutcome.DISTURBED: "x-open",
}

_MARGIN = 1.15
"""Beside the lowest and the highest rate, as a factor."""

_HEIGHT_PX = 320


def capacity_chart(result: Result) -> Chart | None:
    """The latency curve; None where nothing was searched."""
    stick = stick_of(result)
    if stick is None:
        return None
    rates = [point.rate for point in stick.points]
    speed = scale_for(rates, Unit.RECORD_RATE)
    values = [value for point in stick.points for value in (point.low, point.high)]
    time = scale_for(values if stick.limit is None else [*values, stick.limit], Unit.SECONDS)
    data = [
        _line(stick.points, [point.low for point in stick.points], speed, time, name=stick.names[0], dash="dot"),
        _line(stick.points, [point.high for point in stick.points], speed, time, name=stick.names[1], dash="solid"),
    ]
    low, high = min(rates) / _MARGIN / speed.step, max(rates) * _MARGIN / speed.step
    heights = [value for trace in data for value in trace["y"] if value]
    if stick.limit is not None:
        heights.append(rounded(stick.limit / time.step))
    layout = {
        "xaxis": {"title": {"text": speed.name}, "type": "log", **log_ticks(low, high)},
        "yaxis": value_axis(heights, time.name),
        "shapes": _marks(stick, speed, time),
    }
    return Chart(
        title="Latency against rate",
        note=_note(stick),
        figure={"data": data, "layout": layout},
        height_px=_HEIGHT_PX,
        wide=True,
    )


def _line(
    points: Sequence[LatencyPoint], values: Sequence[float | None], speed: Scale, time: Scale, *, name: str, dash: str
) -> dict[str, Any]:
    held = [point.outcome is StepOutcome.HELD for point in points]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [speed.of(point.rate) for point in points],
        "y": [time.of(value) for value in values],
        "line": {"color": NOW if dash == "solid" else NOW_SOFT, "width": 2, "dash": dash},
        "marker": {
            "symbol": [_SYMBOLS[point.outcome] for point in points],
            "color": [NOW if each else LIMIT for each in held],
            "size": 8 if dash == "solid" else 5,
        },
        "hovertext": [_hover(point, name, value) for point, value in zip(points, values, strict=True)],
        "hoverinfo": "text",
    }


def _hover(point: LatencyPoint, name: str, value: float | None) -> str:
    figure = "not measured" if value is None else shown(name, value)
    tries = "" if point.tries == 1 else f", most of {point.tries} tries"
    lines = [
        f"{format_quantity(point.rate, Unit.RECORD_RATE)}: {point.outcome}{tries}",
        f"{name}: {figure}",
        literal(point.reason or ""),
    ]
    return "<br>".join(line for line in lines if line)


def _marks(stick: LatencyCurve, speed: Scale, time: Scale) -> list[dict[str, Any]]:
    """The capacity, and the limit on the latency."""
    marks: list[dict[str, Any]] = []
    if stick.capacities:
        x = rounded(statistics.median(stick.capacities) / speed.step)
        marks.append({"x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": NOW, "width": 1}})
    if stick.limit is not None:
        y = rounded(stick.limit / time.step)
        line = {"color": LIMIT, "width": 1, "dash": "dash"}
        marks.append({"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line})
    return [{"type": "line", "layer": "below", **mark} for mark in marks]


def _note(stick: LatencyCurve) -> str:
    if not stick.capacities:
        return "crosses: did not hold"
    bound = "at least " if stick.at_least else ""
    found = format_quantity(statistics.median(stick.capacities), Unit.RECORD_RATE)
    return f"upright line: capacity, {bound}{found}; crosses: did not hold"

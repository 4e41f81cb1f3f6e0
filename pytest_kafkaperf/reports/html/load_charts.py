"""Charts of rounds, of percentiles and of the capacity, as JSON for Plotly. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    further_name,
    linear_ticks,
    literal,
    log_ticks,
    medians,
    rounded,
    scale_for,
    shown,
    standard,
    thin_lines,
    value_axis,
)
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, LatencyPoint, latency_curve
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.round import StepOutcome
from pytest_kafkaperf.verdict.comparison import Rounds

_PERCENT_RANGE = (0.4, 2.5)
"""Range of ratios that are shown in per cent, on a linear axis."""

_RATIO_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

_MIN_SPAN = 1.5
"""Factor within which thresholds are always shown; farther ones only if a round lies as far away."""

_ROW_PX = 52


def rounds_chart(result: Result) -> Chart | None:
    """Return a chart with one row for each metric, in which each round is a point relative to the baseline's median.

    A single round with nothing beside it shows nothing that the table does not, so it has no chart.
    """
    names = _compared(result)
    rounds = [one.metrics for one in result.rounds]
    fresh = [one for session in fresh_sessions(result) for one in session]
    sides = standard(result)
    if not names or not (len(rounds) > 1 or fresh or sides):
        return None
    before = medians(sides[0].rounds, names) if sides else {}
    centre = medians(rounds, names) | {name: value for name, value in before.items() if 0 < value < math.inf}
    lanes = [
        *(_round_lane(side.name, side.colour, -0.24, side.rounds, centre) for side in sides),
        _round_lane("this run", NOW, 0.12, rounds, centre),
        _round_lane(further_name(result), FRESH, -0.06, fresh, centre),
    ]
    ratios = [ratio for lane in lanes for _, ratio, _ in lane.points]
    farthest = max(_MIN_SPAN, *ratios, *(1 / ratio for ratio in ratios))
    # A threshold that is farther away than all rounds would squeeze them together; the table shows it.
    limits = [
        (row, check.limit_value / centre[name], literal(f"threshold {check.limit}: {shown(name, check.limit_value)}"))
        for row, name in enumerate(names)
        for check in result.checks
        if check.metric == name and check.limit_value
        if 1 / farthest <= check.limit_value / centre[name] <= farthest
    ]
    lanes.append(_Lane(name="threshold", colour=LIMIT, offset=-0.06, points=limits, symbol="line-ns"))
    ratios += [ratio for _, ratio, _ in limits]
    percent = _PERCENT_RANGE[0] <= min(ratios) and max(ratios) <= _PERCENT_RANGE[1]
    against = f"{sides[0].name}'s median" if sides else "median of the rounds"
    layout = {
        "xaxis": _ratio_axis(ratios, percent=percent) | {"title": {"text": f"relative to the {against}"}},
        "yaxis": {"range": [0.62 - len(names), 0.7], "visible": False, "fixedrange": True},
        "margin": {"l": 24, "r": 24},
        "annotations": [_row_name(result, name, number) for number, name in enumerate(names)],
        "shapes": [_centre_line(percent=percent)],
    }
    return Chart(
        title="Rounds" if sides else "Rounds, no baseline",
        note="each point is one round",
        figure={"data": [_lane_trace(lane, percent=percent) for lane in lanes if lane.points], "layout": layout},
        height_px=90 + _ROW_PX * len(names),
        wide=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """The points of one kind in the rows of all metrics."""

    name: str
    colour: str
    offset: float
    """Distance above the middle of the row, in rows."""
    points: list[tuple[int, float, str]]
    """Row, ratio and hover text of each point."""
    symbol: str = "circle"


def _compared(result: Result) -> list[str]:
    """Return the metrics with a threshold, then the headline metrics, if all their values are positive and finite."""
    known = result.values()
    wanted = dict.fromkeys([*(check.metric for check in result.checks), *HEADLINES])
    return [name for name in wanted if name in known and all(0 < value < math.inf for value in known[name])]


def _round_lane(name: str, colour: str, offset: float, rounds: Rounds, centre: Mapping[str, float]) -> _Lane:
    """Return the points of rounds relative to `centre`, which has a value for each row."""
    points = [
        (
            row,
            one[metric] / middle,
            f"{name}, round {n}: {shown(metric, one[metric])}, {format_ratio(one[metric] / middle - 1)}",
        )
        for row, (metric, middle) in enumerate(centre.items())
        for n, one in enumerate(rounds, 1)
        if 0 < one.get(metric, 0) < math.inf
    ]
    return _Lane(name=name, colour=colour, offset=offset, points=points)


def _lane_trace(lane: _Lane, *, percent: bool) -> dict[str, Any]:
    marker: dict[str, Any] = {"color": lane.colour, "size": 8, "symbol": lane.symbol, "opacity": 0.7}
    if lane.symbol == "line-ns":  # a line is drawn by its outline alone
        marker |= {"size": 12, "line": {"width": 2, "color": lane.colour}, "opacity": 1}
    return {
        "mode": "markers",
        "name": lane.name,
        "x": [rounded((ratio - 1) * 100 if percent else ratio) for _, ratio, _ in lane.points],
        "y": [rounded(lane.offset - row) for row, _, _ in lane.points],
        "hovertext": [text for _, _, text in lane.points],
        "marker": marker,
    }


def _ratio_axis(ratios: Sequence[float], *, percent: bool) -> dict[str, Any]:
    if percent:
        low, high = ((ratio - 1) * 100 for ratio in (min(*ratios, 1.0), max(*ratios, 1.0)))
        room = max(1.0, (high - low) * 0.05)
        values = linear_ticks(low - room, high + room)
        texts = [f"{value:+g} %" if value else "0 %" for value in values]
        return {"range": [rounded(low - room), rounded(high + room)], "tickvals": values, "ticktext": texts}
    ticks = [tick for tick in _RATIO_TICKS if min(ratios) / 2 <= tick <= max(ratios) * 2]
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


_PLACES = {**{part: 1 / (1 - quantile) for part, quantile in QUANTILES.items()}, "max": 100_000.0}
"""Position of each percentile on the axis: 1 / (1 - quantile), so that the rarest is at the right."""

_TICKS = ("p50", "p90", "p99", "p99.9", "max")
"""Percentiles with a label; the label of p95 would overlap that of p90."""


def percentiles_chart(result: Result, family: str) -> Chart | None:
    """Return the chart of latency by percentile: the rounds, their median, and the baseline or reference."""
    rounds = [one.metrics for one in result.rounds if f"{family}.p50" in one.metrics]
    if not rounds:
        return None
    fresh = [_percentiles(each, family) for each in fresh_sessions(result)]
    scale = scale_for([one.get(f"{family}.p99") for one in rounds], Unit.SECONDS)
    data = [
        *itertools.chain.from_iterable(_side_lines(side, family, scale) for side in standard(result)),
        _lines(fresh, family, scale, colour=FRESH, names=(f"session {n}" for n in itertools.count(2)))
        | {"name": further_name(result), "showlegend": True, "opacity": 0.9},
        _lines(rounds, family, scale, colour=NOW, names=(f"round {n}" for n in itertools.count(1))),
        _median_line(rounds, family, scale, colour=NOW, name="this run"),
    ]
    data = [trace for trace in data if trace["x"]]
    axis = {
        "type": "log",
        "range": [0.2, 4.12],
        "tickvals": [rounded(_PLACES[part]) for part in _TICKS],
        "ticktext": list(_TICKS),
    }
    values = [value for trace in data for value in trace["y"]]
    return Chart(
        title=f"{FAMILIES[family]} by percentile",
        note=ROUNDS_AND_MEDIAN,
        figure={"data": data, "layout": {"xaxis": axis, "yaxis": value_axis(values, scale.name)}},
    )


def _side_lines(side: ComparedRounds, family: str, scale: Scale) -> Iterator[dict[str, Any]]:
    """Yield thin lines for sessions, or for the rounds of a single session, and the median of all rounds."""
    several = len(side.sessions) > 1
    lines = [_percentiles(session, family) for session in side.sessions] if several else side.rounds
    names = (f"{side.name}, {'session' if several else 'round'} {number}" for number in itertools.count(1))
    yield _lines(lines, family, scale, colour=side.colour, names=names)
    yield _median_line(side.rounds, family, scale, colour=side.colour, name=side.name)


def _lines(rounds: Rounds, family: str, scale: Scale, *, colour: str, names: Iterable[str]) -> dict[str, Any]:
    """Return one trace with a line for each round, separated by gaps."""
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str | None] = []
    for one, name in zip(rounds, names, strict=False):
        parts = [part for part in _PLACES if f"{family}.{part}" in one]
        x += [*(rounded(_PLACES[part]) for part in parts), None]
        y += [*(scale.of(one[f"{family}.{part}"]) for part in parts), None]
        text += [*(f"{name}, {part}: {shown(f'{family}.{part}', one[f'{family}.{part}'])}" for part in parts), None]
    return thin_lines(x, y, colour) | {"hovertext": text}


def _median_line(rounds: Rounds, family: str, scale: Scale, *, colour: str, name: str) -> dict[str, Any]:
    line = _lines([_percentiles(rounds, family)], family, scale, colour=colour, names=[f"{name}, median"])
    return line | {
        "mode": "lines+markers",
        "name": name,
        "line": {"color": colour, "width": 2.5},
        "marker": {"color": colour, "size": 5},
        "opacity": 1,
        "showlegend": True,
    }


def _percentiles(rounds: Rounds, family: str) -> dict[str, float]:
    """Return the medians of a family's metrics over rounds."""
    return medians(rounds, [f"{family}.{part}" for part in _PLACES])


_SYMBOLS = {
    StepOutcome.HELD: "circle",
    StepOutcome.BROKEN: "x",
    StepOutcome.UNREACHED: "triangle-up-open",
    StepOutcome.DISTURBED: "x-open",
}

_MARGIN = 1.15
"""Factor by which the axis extends beyond the lowest and the highest rate."""

_HEIGHT_PX = 320


def capacity_chart(result: Result) -> Chart | None:
    """Return the chart of the latency curve; None if the test ran no search."""
    curve = latency_curve(result)
    if curve is None:
        return None
    rates = [point.rate for point in curve.points]
    speed = scale_for(rates, Unit.RECORD_RATE)
    values = [value for point in curve.points for value in (point.low, point.high)]
    time = scale_for(values if curve.limit is None else [*values, curve.limit], Unit.SECONDS)
    data = [
        _line(curve.points, [point.low for point in curve.points], speed, time, name=curve.names[0], dash="dot"),
        _line(curve.points, [point.high for point in curve.points], speed, time, name=curve.names[1], dash="solid"),
    ]
    low, high = min(rates) / _MARGIN / speed.step, max(rates) * _MARGIN / speed.step
    heights = [value for trace in data for value in trace["y"] if value]
    if curve.limit is not None:
        heights.append(rounded(curve.limit / time.step))
    layout = {
        "xaxis": {"title": {"text": speed.name}, "type": "log", **log_ticks(low, high)},
        "yaxis": value_axis(heights, time.name),
        "shapes": _marks(curve, speed, time),
    }
    return Chart(
        title="Latency against rate",
        note=_note(curve),
        figure={"data": data, "layout": layout},
        height_px=_HEIGHT_PX,
        wide=True,
    )


def _line(
    points: Sequence[LatencyPoint], values: Sequence[float | None], speed: Scale, time: Scale, *, name: str, dash: str
) -> dict[str, Any]:
    held = [point.outcome is StepOutcome.HELD for point in points]
    return {
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
    }


def _hover(point: LatencyPoint, name: str, value: float | None) -> str:
    figure = "not measured" if value is None else shown(name, value)
    attempts = "" if point.attempts == 1 else f", most frequent of {point.attempts} attempts"
    lines = [
        f"{format_quantity(point.rate, Unit.RECORD_RATE)}: {point.outcome}{attempts}",
        f"{name}: {figure}",
        literal(point.reason or ""),
    ]
    return "<br>".join(line for line in lines if line)


def _marks(curve: LatencyCurve, speed: Scale, time: Scale) -> list[dict[str, Any]]:
    """Return a vertical line at the capacity and a horizontal one at the threshold of the latency."""
    marks: list[dict[str, Any]] = []
    if curve.capacities:
        x = rounded(statistics.median(curve.capacities) / speed.step)
        marks.append({"x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": NOW, "width": 1}})
    if curve.limit is not None:
        y = rounded(curve.limit / time.step)
        line = {"color": LIMIT, "width": 1, "dash": "dash"}
        marks.append({"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line})
    return [{"type": "line", "layer": "below", **mark} for mark in marks]


def _note(curve: LatencyCurve) -> str:
    if not curve.capacities:
        return "cross: the rate was not sustained"
    bound = "at least " if curve.at_least else ""
    found = format_quantity(statistics.median(curve.capacities), Unit.RECORD_RATE)
    return f"vertical line: capacity, {bound}{found}; cross: the rate was not sustained"

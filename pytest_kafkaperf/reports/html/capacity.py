"""Latency against rate, as Plotly's JSON: what a search for the capacity has seen. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.reports.hockey import Point, Stick, stick_of
from pytest_kafkaperf.reports.html.axes import Scale, literal, log_ticks, rounded, scale_for, value_axis
from pytest_kafkaperf.reports.html.charts import LIMIT, NOW, NOW_SOFT, Chart, shown
from pytest_kafkaperf.steps import Outcome
from pytest_kafkaperf.units import Unit, format_quantity

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

_SYMBOLS = {
    Outcome.HELD: "circle",
    Outcome.BROKEN: "x",
    Outcome.UNREACHED: "triangle-up-open",
    Outcome.DISTURBED: "x-open",
}
_MARGIN = 1.15
"""Beside the lowest and the highest rate, as a factor."""
_HEIGHT_PX = 320


def capacity_chart(result: Result) -> Chart | None:
    """The hockey stick; None where nothing was searched."""
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
    points: Sequence[Point], values: Sequence[float | None], speed: Scale, time: Scale, *, name: str, dash: str
) -> dict[str, Any]:
    held = [point.outcome is Outcome.HELD for point in points]
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


def _hover(point: Point, name: str, value: float | None) -> str:
    figure = "not measured" if value is None else shown(name, value)
    tries = "" if point.tries == 1 else f", most of {point.tries} tries"
    lines = [
        f"{format_quantity(point.rate, Unit.RECORD_RATE)}: {point.outcome}{tries}",
        f"{name}: {figure}",
        literal(point.reason or ""),
    ]
    return "<br>".join(line for line in lines if line)


def _marks(stick: Stick, speed: Scale, time: Scale) -> list[dict[str, Any]]:
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


def _note(stick: Stick) -> str:
    if not stick.capacities:
        return "crosses: did not hold"
    bound = "at least " if stick.at_least else ""
    found = format_quantity(statistics.median(stick.capacities), Unit.RECORD_RATE)
    return f"upright line: capacity, {bound}{found}; crosses: did not hold"

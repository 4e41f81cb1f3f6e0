"""The charts of what brokers did under a test's load, as Plotly's JSON. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.reports.html.axes import rounded, scale_for, shortened, value_axis
from pytest_kafkaperf.reports.html.charts import SERIES, Chart, standard
from pytest_kafkaperf.reports.html.timeline import warm_up
from pytest_kafkaperf.units import Unit, format_quantity

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

_OVER_TIME: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("CPU", (("cpu", "", "solid"),)),
    ("Memory", (("memory", "", "solid"),)),
    ("Disk", (("disk.write", "written", "solid"), ("disk.read", "read", "dot"))),
    ("Network", (("network.out", "sent", "solid"), ("network.in", "received", "dot"))),
    ("Idle request handlers", (("handlers.idle", "", "solid"),)),
    ("Under-replicated partitions", (("under_replicated", "", "solid"),)),
)
"""Title, and the figures in it: name, what to call it, dash."""
_UNLESS_ZERO = ("disk.read", "under_replicated")
"""Told only where there was any."""
_PARTS = (
    ("queue", "in the queue"),
    ("local", "leader"),
    ("remote", "followers, or waiting for data"),
    ("send", "send"),
)
_REQUESTS = {"produce": "Produce requests", "fetch": "Fetch requests"}
_HEIGHT_PX = 200


def broker_charts(result: Result) -> tuple[Chart, ...]:
    """What each broker used over time, and where requests spent their time; what is not known is left out."""
    charts = [*(_over_time(result, title, figures) for title, figures in _OVER_TIME), *_requests(result)]
    return tuple(chart for chart in charts if chart is not None)


_Curve = Mapping[float, float]


def _over_time(result: Result, title: str, figures: Sequence[tuple[str, str, str]]) -> Chart | None:
    lines = [
        (broker, name, what, dash, curve)
        for name, what, dash in figures
        for broker, curve in _medians(result, name).items()
        if name not in _UNLESS_ZERO or any(curve.values())
    ]
    if not lines:
        return None
    unit = CATALOGUE[f"broker.{figures[0][0]}"].unit
    scale = scale_for([value for *_, curve in lines for value in curve.values()], unit)
    axis_title = "partitions" if unit is Unit.COUNT else scale.name
    brokers = list(dict.fromkeys(broker for broker, *_ in lines))
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines" if len(curve) > 1 else "markers",
            "x": [rounded(at_s) for at_s in curve],
            "y": [scale.of(value) for value in curve.values()],
            "name": f"{shortened(_broker(broker))}{f', {what}' if what else ''}",
            "line": {"color": SERIES[brokers.index(broker) % len(SERIES)], "width": 2, "dash": dash},
            "hovertemplate": f"%{{x:.1f}} s: %{{y:,.3~r}} {axis_title}<extra>%{{fullData.name}}</extra>",
        }
        for broker, _, what, dash, curve in lines
    ]
    shown = [value for trace in data for value in trace["y"]]
    layout = {
        "xaxis": {"title": {"text": "seconds"}},
        "yaxis": {**value_axis(shown, axis_title), **({"range": [0, 105]} if unit is Unit.RATIO else {})},
        "shapes": [warm_up(min(at_s for *_, curve in lines for at_s in curve) - 0.5)],
    }
    note = f"median of the rounds{'' if len(data) > 1 else f', {_broker(brokers[0])}'}"
    return Chart(title=title, note=note, figure={"data": data, "layout": layout}, height_px=_HEIGHT_PX)


def _broker(name: str) -> str:
    return f"broker {name}" if name.isdecimal() else name


def _medians(result: Result, name: str) -> dict[str, dict[float, float]]:
    """By broker: the median over the rounds, by the middle of each interval."""
    values: dict[str, dict[float, list[float]]] = {}
    for one in result.rounds:
        if one.brokers is None:
            continue
        first_s, step = one.brokers["first_s"], one.brokers["interval_s"]
        for broker, curves in one.brokers["brokers"].items():
            for place, value in enumerate(curves.get(name, ())):
                if value is not None:
                    at_s = first_s + step * (place + 0.5)
                    values.setdefault(broker, {}).setdefault(at_s, []).append(value)
    return {
        broker: {at_s: statistics.median(found) for at_s, found in sorted(curve.items())}
        for broker, curve in values.items()
    }


def _requests(result: Result) -> Iterator[Chart]:
    """Where requests spend their time at the broker: stacked parts of the mean, now and then."""
    now = [one.metrics for one in result.rounds]
    sides = [("this run", now), *((side.name, side.rounds) for side in standard(result))]
    for kind, title in _REQUESTS.items():
        bars = [(name, parts) for name, rounds in sides if (parts := _parts(kind, rounds))]
        if not bars or bars[0][0] != "this run":
            continue
        scale = scale_for([sum(parts.values()) for _, parts in bars], Unit.SECONDS)
        data: list[dict[str, Any]] = [
            {
                "type": "bar",
                "orientation": "h",
                "name": what,
                "y": [name for name, _ in bars],
                "x": [scale.of(parts.get(part, 0.0)) for _, parts in bars],
                "hovertext": [
                    f"{name}, {what}: {format_quantity(parts.get(part, 0.0), Unit.SECONDS)}" for name, parts in bars
                ],
                "hoverinfo": "text",
                "marker": {"color": SERIES[number]},
            }
            for number, (part, what) in enumerate(_PARTS)
        ]
        layout = {
            "barmode": "stack",
            "bargap": 0.45,
            "xaxis": {"title": {"text": scale.name}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category"},
        }
        figure = {"data": data, "layout": layout}
        yield Chart(title=title, note="mean time at the broker, by part", figure=figure, height_px=_HEIGHT_PX)


def _parts(kind: str, rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {part: f"broker.{kind}.{part}" for part, _ in _PARTS}
    values = {part: [one[name] for one in rounds if name in one] for part, name in names.items()}
    return {part: statistics.median(each) for part, each in values.items() if each}

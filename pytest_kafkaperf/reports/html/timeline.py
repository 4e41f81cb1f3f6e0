"""Charts over time: throughput, latency and the resources that brokers use, as JSON for Plotly. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.html.charts import (
    FAMILIES,
    FRESH,
    LIMIT,
    NOW,
    NOW_SOFT,
    REFERENCE,
    ROUNDS_AND_MEDIAN,
    SERIES,
    Chart,
    Figure,
    Scale,
    literal,
    medians,
    rounded,
    scale_for,
    shortened,
    standard,
    thin_lines,
    value_axis,
)

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import Result
    from pytest_kafkaperf.runner.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario


_SERIES_OF = {"produce.latency": "produce", "e2e.latency": "consume"}

_ROUNDING_S = 1e-9


def throughput_chart(result: Result) -> Chart | None:
    """Return the chart of records per second over time, produced and received; None without a series."""
    curves = [
        _Curve(kind="produce", column="count", name="produced", colour=NOW),
        _Curve(kind="consume", column="count", name="received", colour=SERIES[1]),
    ]
    return _over_time(result, curves, Unit.RECORD_RATE, title="Throughput over time", height_px=240, wide=True)


def latency_chart(result: Result, family: str) -> Chart | None:
    """Return the chart of latency over the time at which records were due; None without a series."""
    kind = _SERIES_OF[family]
    curves = [
        _Curve(kind=kind, column="p99", name="p99", colour=NOW),
        _Curve(kind=kind, column="p50", name="p50", colour=NOW_SOFT),
    ]
    return _over_time(result, curves, Unit.SECONDS, title=f"{FAMILIES[family]} over time")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """One column of the rounds' series."""

    kind: str
    column: str
    name: str
    colour: str

    def of(self, one: Round, scenario: Scenario) -> dict[float, float]:
        """Return values by the middle of their interval in seconds; throughput of full intervals only."""
        series: Any = one.series.get(self.kind)
        if series is None:
            return {}
        step, first = series["interval_s"], series["first_s"]
        values = {first + step * place: value for place, value in enumerate(series[self.column])}
        if self.column == "count":
            values = _full_intervals(values, step, scenario)
        return {begin + step / 2: value for begin, value in values.items() if value is not None}


def _full_intervals(values: Mapping[float, float], step: float, scenario: Scenario) -> dict[float, float]:
    """Leave out intervals that load fills only partly, because they would look slow; keep all if none is full."""
    end_s = max(values, default=0.0) if scenario.duration is None else scenario.duration
    kept = {
        begin: value
        for begin, value in values.items()
        if begin >= -scenario.warmup - _ROUNDING_S and begin + step <= end_s + _ROUNDING_S
    }
    return kept or dict(values)


def _over_time(result: Result, curves: Sequence[_Curve], unit: str, *, title: str, **size: Any) -> Chart | None:
    known = [[curve.of(one, result.scenario) for one in result.rounds] for curve in curves]
    values = [value for rounds in known for one in rounds for value in one.values()]
    if len({at_s for rounds in known for one in rounds for at_s in one}) < _FEWEST_INSTANTS:
        return None
    scale = scale_for(values, unit)
    data = []
    for curve, rounds in zip(curves, known, strict=True):
        if any(rounds):
            data += _round_lines(rounds, scale, curve)
    for name, colour, others in _other_rounds(result):
        # Only the first curve is shown, because more lines would hide each other.
        line = _median([curves[0].of(one, result.scenario) for one in others])
        data += [_line(line, scale, colour, f"{name}: {curves[0].name}", width=1.5)] if line else []
    shown = [value for trace in data for value in trace["y"]]
    x = [value for trace in data for value in trace["x"] if value is not None]
    first_s, last_s = min(*x, 0.0), max(x)
    layout = {
        "xaxis": {"title": {"text": "seconds since the window opened"}, "range": [first_s - 0.5, last_s + 0.5]},
        "yaxis": value_axis(shown, scale.name),
        **_marks(result, first_s - 0.5, at_top=curves[0].column != "count"),
    }
    figure = {"data": [*data, *_events(result)], "layout": layout}
    return Chart(title=title, note=ROUNDS_AND_MEDIAN, figure=figure, **size)


def _round_lines(rounds: Sequence[Mapping[float, float]], scale: Scale, curve: _Curve) -> list[dict[str, Any]]:
    x: list[float | None] = []
    y: list[float | None] = []
    text: list[str | None] = []
    for number, one in enumerate(rounds, 1):
        x += [*one, None]
        y += [*(scale.of(value) for value in one.values()), None]
        text += [f"round {number}"] * len(one) + [None]
    thin = thin_lines(x, y, curve.colour)
    thin |= {"text": text, "hovertemplate": f"%{{x:.1f}} s: %{{y:,.3~r}} {scale.name}<extra>%{{text}}</extra>"}
    return [thin, _line(_median(rounds), scale, curve.colour, curve.name, width=2.5)]


def _line(
    values: Mapping[float, float], scale: Scale, colour: str, name: str, *, width: float, dash: str = "solid"
) -> dict[str, Any]:
    return {
        "mode": "lines" if len(values) > 1 else "markers",
        "x": [rounded(at_s) for at_s in values],
        "y": [scale.of(value) for value in values.values()],
        "name": name,
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 9},
        "hovertemplate": f"%{{x:.1f}} s: %{{y:,.3~r}} {scale.name}<extra>%{{fullData.name}}</extra>",
    }


def _median(rounds: Sequence[Mapping[float, float]]) -> dict[float, float]:
    instants = sorted({at_s for one in rounds for at_s in one})
    return {at_s: statistics.median(one[at_s] for one in rounds if at_s in one) for at_s in instants}


def _other_rounds(result: Result) -> Iterator[tuple[str, str, Sequence[Round]]]:
    reference = result.sessions[0].reference
    if reference:
        yield "reference", REFERENCE, reference
    fresh = [one for session in result.sessions[1:] for one in session.rounds]
    if fresh:
        yield "fresh", FRESH, fresh


def warm_up(first_s: float) -> Figure:
    """Return a shape that shades the time before the window."""
    return {"type": "rect", "x0": first_s, "x1": 0, "fillcolor": "var(--shade)", "line": {"width": 0}, **_FULL_HEIGHT}


_FULL_HEIGHT = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}


def _marks(result: Result, first_s: float, *, at_top: bool) -> dict[str, Any]:
    """Return the layout that shades and labels the warm-up and draws a vertical line at each event."""
    height = {"y": 1, "yanchor": "top"} if at_top else {"y": 0, "yanchor": "bottom"}
    name = {"text": "warm-up", "textangle": -90, "x": 0, "xanchor": "right", "yref": "paper", **height}
    lines = [
        {"type": "line", "x0": at_s, "x1": at_s, "line": {"color": LIMIT, "width": 1, "dash": "dot"}, **_FULL_HEIGHT}
        for at_s in sorted({round(at_s, 1) for one in result.rounds for at_s, _ in one.events})
    ]
    # The markers of events have a second, invisible axis, so that they are always at the top.
    return {
        "shapes": [warm_up(first_s), *lines],
        "annotations": [{**name, "showarrow": False, "font": {"size": 11}}] if first_s < -1 else [],
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
    }


def _events(result: Result) -> list[dict[str, Any]]:
    found = [(at_s, f"round {n}: {text}") for n, one in enumerate(result.rounds, 1) for at_s, text in one.events]
    if not found:
        return []
    return [
        {
            "mode": "markers",
            "name": "events",
            "yaxis": "y2",
            "x": [rounded(at_s) for at_s, _ in found],
            "y": [0.97] * len(found),
            "marker": {"symbol": "triangle-down", "size": 9, "color": LIMIT},
            "hovertext": [literal(text) for _, text in found],
        }
    ]


_FEWEST_INSTANTS = 2
"""Instants of a curve over time: a single point shows nothing that the tables do not. Nor does a curve that is always
0."""
_OVER_TIME: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("CPU", (("cpu", "", "solid"),)),
    ("Memory", (("memory", "", "solid"),)),
    ("Disk", (("disk.write", "written", "solid"), ("disk.read", "read", "dot"))),
    ("Network", (("network.out", "sent", "solid"), ("network.in", "received", "dot"))),
    ("Idle request handlers", (("handlers.idle", "", "solid"),)),
    ("Under-replicated partitions", (("under_replicated", "", "solid"),)),
)
"""Charts of each broker: title and lines. A line has a metric (without the prefix `broker.`), a label and a dash style.

The legend shows the name of the broker and the label, which may be empty."""

_PARTS = (
    ("queue", "in the queue"),
    ("local", "leader"),
    ("remote", "followers, or waiting for data"),
    ("send", "send"),
)

_REQUESTS = {"produce": "Produce requests", "fetch": "Fetch requests"}

_HEIGHT_PX = 200


def broker_charts(result: Result) -> tuple[Chart, ...]:
    """Return the charts of the resources of each broker and of the time of requests, if they were measured."""
    charts = [*(_broker_line_chart(result, title, figures) for title, figures in _OVER_TIME), *_requests(result)]
    return tuple(chart for chart in charts if chart is not None)


def _broker_line_chart(result: Result, title: str, figures: Sequence[tuple[str, str, str]]) -> Chart | None:
    lines = [
        (broker, ", ".join(filter(None, (shortened(_broker(broker)), label))), dash, curve)
        for name, label, dash in figures
        for broker, curve in _broker_medians(result, name).items()
        if len(curve) >= _FEWEST_INSTANTS and any(curve.values())
    ]
    if not lines:
        return None
    unit = CATALOGUE[f"broker.{figures[0][0]}"].unit
    scale = scale_for([value for *_, curve in lines for value in curve.values()], unit)
    if unit is Unit.COUNT:
        scale = Scale(name="partitions", step=1.0)
    colours = dict(zip(dict.fromkeys(broker for broker, *_ in lines), itertools.cycle(SERIES), strict=False))
    data = [_line(curve, scale, colours[broker], name, width=2, dash=dash) for broker, name, dash, curve in lines]
    shown = [value for trace in data for value in trace["y"]]
    layout = {
        "xaxis": {"title": {"text": "seconds"}},
        "yaxis": {**value_axis(shown, scale.name), **({"range": [0, 105]} if unit is Unit.RATIO else {})},
        "shapes": [warm_up(min(at_s for *_, curve in lines for at_s in curve) - 0.5)],
    }
    note = f"median of the rounds{'' if len(data) > 1 else f', {_broker(lines[0][0])}'}"
    return Chart(title=title, note=note, figure={"data": data, "layout": layout}, height_px=_HEIGHT_PX)


def _broker(name: str) -> str:
    return f"broker {name}" if name.isdecimal() else name


def _broker_medians(result: Result, name: str) -> dict[str, dict[float, float]]:
    """Return for each broker the medians over the rounds by the middle of the interval in seconds."""
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
    """Yield charts of the mean time of requests at the broker by part, of this run and of the baseline."""
    now = [one.metrics for one in result.rounds]
    sides = [("this run", now), *((side.name, side.rounds) for side in standard(result))]
    for kind, title in _REQUESTS.items():
        metrics = [f"broker.{kind}.{part}" for part, _ in _PARTS]
        bars = [(name, parts) for name, rounds in sides if (parts := medians(rounds, metrics))]
        if not bars or bars[0][0] != "this run" or not any(bars[0][1].values()):
            continue
        scale = scale_for([sum(parts.values()) for _, parts in bars], Unit.SECONDS)
        data: list[dict[str, Any]] = [
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": [name for name, _ in bars],
                "x": [scale.of(parts.get(metric, 0.0)) for _, parts in bars],
                "hovertext": [
                    f"{name}, {label}: {format_quantity(parts.get(metric, 0.0), Unit.SECONDS)}" for name, parts in bars
                ],
                "marker": {"color": colour},
            }
            for metric, (_, label), colour in zip(metrics, _PARTS, SERIES, strict=False)
        ]
        layout = {
            "barmode": "stack",
            "bargap": 0.45,
            "xaxis": {"title": {"text": scale.name}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category"},
        }
        figure = {"data": data, "layout": layout}
        yield Chart(title=title, note="mean time at the broker, by part", figure=figure, height_px=_HEIGHT_PX)

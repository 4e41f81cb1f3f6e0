"""The charts of a sweep, as Plotly's JSON: throughput and latency against a field. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import format_quantity
from pytest_kafkaperf.reports.html.charts import (
    BASELINE,
    NOW,
    SERIES,
    Chart,
    Scale,
    literal,
    rounded,
    scale_for,
    shortened,
    standard,
    value_axis,
)

if TYPE_CHECKING:
    from pytest_kafkaperf.reports.sweeps import Sweep, SweepPoint
    from pytest_kafkaperf.runner.result import Result

_THROUGHPUTS = {
    "Capacity": {"capacity": "solid"},
    "Throughput": {"produce.throughput": "solid"},
    "Bandwidth": {"produce.bandwidth": "solid"},
    "Consumption": {"consume.throughput": "solid"},
}
_USES = {"Broker CPU": {"broker.cpu": "solid"}, "Broker memory": {"broker.memory": "solid"}}
_LATENCIES = (
    {"e2e.latency.p50": "dot", "e2e.latency.p99": "solid"},
    {"produce.latency.p50": "dot", "produce.latency.p99": "solid"},
)
"""Metrics of one chart, each with its dash; of the families the first that was measured."""
_HEIGHT_PX = 320
_MOST_TICKS = 10


def sweep_charts(sweep: Sweep, results: Mapping[str, Result]) -> tuple[Chart, ...]:
    """Throughput, latency and what brokers used over the field; `results` by nodeid."""
    family = next((each for each in _LATENCIES if _has(sweep, results, next(iter(each)))), None)
    wanted = dict(_THROUGHPUTS)
    if "record_size" not in (sweep.field, sweep.line_field):
        del wanted["Bandwidth"]  # where records are of one size it is the throughput again
    if family is not None:
        wanted["End-to-end latency" if "e2e.latency.p50" in family else "Produce latency"] = family
    charts = (_chart(title, sweep, results, metrics) for title, metrics in {**wanted, **_USES}.items())
    return tuple(chart for chart in charts if chart is not None)


def _has(sweep: Sweep, results: Mapping[str, Result], name: str) -> bool:
    return any(name in results[point.nodeid].metrics for line in sweep.lines.values() for point in line)


def _chart(title: str, sweep: Sweep, results: Mapping[str, Result], dashes: Mapping[str, str]) -> Chart | None:
    points = list(itertools.chain.from_iterable(sweep.lines.values()))
    found = [results[point.nodeid].metrics.get(name) for point in points for name in dashes]
    if not any(found):
        return None
    unit = CATALOGUE[next(iter(dashes))].unit
    scale = scale_for(found, unit)
    data = []
    for number, (label, line) in enumerate(sweep.lines.items()):
        for name, dash in dashes.items():
            part = name.rpartition(".")[2] if len(dashes) > 1 else ""
            of = f"{sweep.line_field} {shortened(label)}" if sweep.line_field else ""
            title_of = ", ".join(filter(None, (of, part))) or "this run"
            colour = SERIES[number % len(SERIES)] if sweep.line_field else NOW
            data.append(_trace(sweep, line, results, name, scale, colour=colour, dash=dash, title=title_of))
            if sweep.line_field is None:
                data += _before(sweep, line, results, name, scale, dash=dash, part=part)
    shown = [value for trace in data for value in _places(trace)]
    layout = {"xaxis": _axis(sweep), "yaxis": value_axis(shown, scale.name)}
    figure = {"data": [trace for trace in data if trace["x"]], "layout": layout}
    spread = "bars: lowest and highest round"
    return Chart(title=f"{title} over {sweep.field}", note=spread, figure=figure, height_px=_HEIGHT_PX)


def _places(trace: Mapping[str, Any]) -> Iterator[float | None]:
    """What has to be on the vertical axis: the points, and the ends of their bars."""
    yield from trace["y"]
    if bars := trace.get("error_y"):
        for middle, below, above in zip(trace["y"], bars["arrayminus"], bars["array"], strict=True):
            if None not in (middle, below, above):
                yield from (middle - below, middle + above)


def _trace(
    sweep: Sweep,
    line: Sequence[SweepPoint],
    results: Mapping[str, Result],
    name: str,
    scale: Scale,
    *,
    colour: str,
    dash: str,
    title: str,
) -> dict[str, Any]:
    values = {point: results[point.nodeid].values()[name] for point in line if name in results[point.nodeid].metrics}
    medians = [statistics.median(each) for each in values.values()]
    pairs = list(zip(medians, values.values(), strict=True))
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": title,
        "x": [_place(sweep, point) for point in values],
        "y": [scale.of(median) for median in medians],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [scale.of(max(each) - median) for median, each in pairs],
            "arrayminus": [scale.of(median - min(each)) for median, each in pairs],
            "thickness": 1.2,
            "width": 3,
            "color": colour,
        },
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"color": colour, "size": 8},
        "hovertext": [
            f"{literal(point.nodeid)}<br>{name}: {format_quantity(median, CATALOGUE[name].unit)}"
            for point, median in zip(values, medians, strict=True)
        ],
        "hoverinfo": "text",
    }


def _before(
    sweep: Sweep,
    line: Sequence[SweepPoint],
    results: Mapping[str, Result],
    name: str,
    scale: Scale,
    *,
    dash: str,
    part: str,
) -> list[dict[str, Any]]:
    """The same of the baseline or the reference, where every test that has the metric has one."""
    known = [(point, side) for point in line for side in standard(results[point.nodeid])]
    medians = [
        (point, statistics.median(values))
        for point, side in known
        if (values := [one[name] for one in side.rounds if name in one])
    ]
    if not medians:
        return []
    title = known[0][1].name
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{title}, {part}" if part else title,
            "x": [_place(sweep, point) for point, _ in medians],
            "y": [scale.of(median) for _, median in medians],
            "line": {"color": BASELINE, "width": 1.5, "dash": dash},
            "marker": {"color": BASELINE, "size": 6},
            "hovertext": [
                f"{literal(point.label)}<br>{title}, {name}: {format_quantity(median, CATALOGUE[name].unit)}"
                for point, median in medians
            ],
            "hoverinfo": "text",
        }
    ]


def _axis(sweep: Sweep) -> dict[str, Any]:
    title: dict[str, Any] = {"title": {"text": sweep.field}}
    if sweep.is_text:
        labels = [shortened(label) for label in sweep.labels]
        places = list(range(len(labels)))
        return {**title, "tickvals": places, "ticktext": labels, "range": [-0.3, len(labels) - 0.7]}
    points = {float(point.value): point.label for line in sweep.lines.values() for point in line}
    ordered = sorted(points)
    if len(ordered) <= _MOST_TICKS:
        title |= {"tickvals": [rounded(value) for value in ordered], "ticktext": [points[value] for value in ordered]}
    return {**title, "type": "log" if sweep.is_log else "linear"}


def _place(sweep: Sweep, point: SweepPoint) -> float:
    """Names stand side by side at 0, 1, 2...: two that begin alike may be shortened to the same text."""
    return sweep.labels.index(point.label) if sweep.is_text else rounded(float(point.value))

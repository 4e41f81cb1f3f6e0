"""The charts of a sweep: throughput, latency and broker resources against a field, as JSON for Plotly. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_LATENCIES = {
    "End-to-end latency": {"e2e.latency.p50": "dot", "e2e.latency.p99": "solid"},
    "Produce latency": {"produce.latency.p50": "dot", "produce.latency.p99": "solid"},
}
"""Metrics of one chart with their dashes; only the first family that was measured is shown."""
_HEIGHT_PX = 320
_MOST_TICKS = 10


def sweep_charts(sweep: Sweep, results: Mapping[str, Result]) -> tuple[Chart, ...]:
    """Return the charts of throughput, latency and broker resources over the sweep's field; `results` is by nodeid."""
    measured = {name for line in sweep.lines.values() for point in line for name in results[point.nodeid].metrics}
    wanted = dict(_THROUGHPUTS)
    if "record_size" not in (sweep.field, sweep.line_field):
        del wanted["Bandwidth"]  # if all records have one size, bandwidth is proportional to throughput
    wanted |= dict([each for each in _LATENCIES.items() if measured.issuperset(each[1])][:1])
    charts = (_chart(title, sweep, results, dashes) for title, dashes in {**wanted, **_USES}.items())
    return tuple(chart for chart in charts if chart is not None)


def _chart(title: str, sweep: Sweep, results: Mapping[str, Result], dashes: Mapping[str, str]) -> Chart | None:
    points = list(itertools.chain.from_iterable(sweep.lines.values()))
    found = [results[point.nodeid].metrics.get(name) for point in points for name in dashes]
    if not any(found):
        return None
    scale = scale_for(found, CATALOGUE[next(iter(dashes))].unit)
    data = []
    for number, (label, line) in enumerate(sweep.lines.items()):
        group = f"{sweep.line_field} {shortened(label)}" if sweep.line_field else ""
        colour = SERIES[number % len(SERIES)] if sweep.line_field else NOW
        sides = [(point, side) for point in line for side in standard(results[point.nodeid])]
        for name, dash in dashes.items():
            part = name.rpartition(".")[2] if len(dashes) > 1 else ""
            now = {p: results[p.nodeid].values()[name] for p in line if name in results[p.nodeid].metrics}
            legend = ", ".join(filter(None, (group, part))) or "this run"
            trace = _trace(sweep, now, name, scale, line={"color": colour, "width": 2, "dash": dash}, legend=legend)
            data.append(trace | {"error_y": _range_bars(now.values(), scale, colour)})
            if sides and sweep.line_field is None:
                before = {
                    point: values
                    for point, side in sides
                    if (values := [one[name] for one in side.rounds if name in one])
                }
                legend = ", ".join(filter(None, (sides[0][1].name, part)))
                style = {"color": BASELINE, "width": 1.5, "dash": dash}
                data.append(_trace(sweep, before, name, scale, line=style, legend=legend))
    heights = [value for trace in data for value in _heights(trace)]
    layout = {"xaxis": _axis(sweep), "yaxis": value_axis(heights, scale.name)}
    figure = {"data": [trace for trace in data if trace["x"]], "layout": layout}
    note = "bars: lowest and highest round"
    return Chart(title=f"{title} over {sweep.field}", note=note, figure=figure, height_px=_HEIGHT_PX)


def _trace(
    sweep: Sweep,
    values: Mapping[SweepPoint, Sequence[float]],
    name: str,
    scale: Scale,
    *,
    line: Mapping[str, Any],
    legend: str,
) -> dict[str, Any]:
    """Return a line through the medians of the values at each point."""
    medians = {point: statistics.median(each) for point, each in values.items()}
    return {
        "mode": "lines+markers",
        "name": legend,
        "x": [_place(sweep, point) for point in medians],
        "y": [scale.of(median) for median in medians.values()],
        "line": line,
        "marker": {"color": line["color"], "size": 7},
        "hovertext": [
            f"{literal(point.nodeid)}<br>{legend}, {name}: {format_quantity(median, CATALOGUE[name].unit)}"
            for point, median in medians.items()
        ],
    }


def _range_bars(values: Iterable[Sequence[float]], scale: Scale, colour: str) -> dict[str, Any]:
    """Return error bars from the lowest to the highest of the values at each point."""
    pairs = [(statistics.median(each), each) for each in values]
    return {
        "type": "data",
        "symmetric": False,
        "array": [scale.of(max(each) - median) for median, each in pairs],
        "arrayminus": [scale.of(median - min(each)) for median, each in pairs],
        "thickness": 1.2,
        "width": 3,
        "color": colour,
    }


def _heights(trace: Mapping[str, Any]) -> Iterator[float | None]:
    """Yield the values that the vertical axis must show: the points and the ends of their bars."""
    yield from trace["y"]
    if bars := trace.get("error_y"):
        for middle, below, above in zip(trace["y"], bars["arrayminus"], bars["array"], strict=True):
            if None not in (middle, below, above):
                yield from (middle - below, middle + above)


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
    """Return the position of a point; texts are at 0, 1, 2..., because two labels may be shortened to the same text."""
    return sweep.labels.index(point.label) if sweep.is_text else rounded(float(point.value))

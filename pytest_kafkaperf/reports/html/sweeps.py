"""The charts of a sweep: throughput, latency and broker CPU against a field. Pure."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.reports.html.charts import SERIES, STANDARD, Chart, line, line_chart, literal, shortened
from pytest_kafkaperf.reports.html.results import medians, standard_rounds
from pytest_kafkaperf.runner.result import standard_of

if TYPE_CHECKING:
    from pytest_kafkaperf.reports.sweeps import Sweep

_METRICS = (
    "capacity",
    "produce.throughput",
    "produce.bandwidth",
    "consume.throughput",
    "produce.latency.p99",
    "e2e.latency.p99",
    "broker.cpu",
)


def sweep_charts(sweep: Sweep) -> list[Chart]:
    """Return a chart of each metric over the sweep's field, in equal steps."""
    charts = (_chart(name, sweep) for name in _METRICS)
    return [chart for chart in charts if chart is not None]


def _chart(name: str, sweep: Sweep) -> Chart | None:
    lines = []
    for (label, line_tests), colour in zip(sweep.lines.items(), itertools.cycle(SERIES), strict=False):
        tests = {place: line_tests[value] for place, value in enumerate(sweep.labels) if value in line_tests}
        if sweep.line_field is None:
            rounds = {place: itertools.chain.from_iterable(standard_rounds(one)) for place, one in tests.items()}
            earlier = {place: medians([*found], [name]) for place, found in rounds.items()}
            before = {place: found[name] for place, found in earlier.items() if found}
            lines.append(line(standard_of(next(iter(tests.values()))), before, STANDARD, mode="lines+markers"))
        values = {place: found for place, one in tests.items() if (found := one.values().get(name))}
        middles = {place: statistics.median(found) for place, found in values.items()}
        legend = "this run" if sweep.line_field is None else f"{sweep.line_field} {shortened(label)}"
        lines.append(line(legend, middles, colour, mode="lines+markers", ends=values))
    labels = [literal(shortened(label)) for label in sweep.labels]
    ticks = {"tickvals": list(range(len(labels))), "ticktext": labels, "range": [-0.3, len(labels) - 0.7]}
    x = {"title": {"text": literal(sweep.field)}, **ticks}
    return line_chart(name, lines, CATALOGUE[name].unit, x=x, note="bars: lowest and highest round")

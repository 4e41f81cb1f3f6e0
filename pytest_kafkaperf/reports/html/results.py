"""The charts of one test: rounds, trials, latency by percentile, by rate and over time, and brokers. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES, QUANTILES
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.html.charts import (
    FRESH,
    LIMIT,
    NOW,
    SERIES,
    STANDARD,
    Chart,
    labelled,
    line,
    line_chart,
    mark,
    rounded,
    shortened,
    thin_lines,
)
from pytest_kafkaperf.reports.latency_curve import latency_curve
from pytest_kafkaperf.runner.round import StepOutcome
from pytest_kafkaperf.verdict.comparison import Rounds, change_of

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import Result
    from pytest_kafkaperf.runner.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario

_FAR = 1.5
"""Ratio to the baseline within which thresholds are always shown; farther ones only if a round lies as far away."""
_PARTS = (*QUANTILES, "max")
_OVER_TIME = {
    "Throughput over time": (("produced", "produce", "count"), ("received", "consume", "count")),
    "Produce latency over time": (("p99", "produce", "p99"), ("p50", "produce", "p50")),
    "End-to-end latency over time": (("p99", "consume", "p99"), ("p50", "consume", "p50")),
}
"""Name, series and column of the lines of each chart."""
_SECONDS = {"title": {"text": "seconds since the window opened"}}
_ROUNDING_S = 1e-9
_ROUNDS_AND_MEDIAN = "thin: single rounds; thick: median"


def charts_of(result: Result) -> list[Chart]:
    """Return the charts of the load; charts without data are left out."""
    charts = [
        rounds_chart(result),
        *trial_charts(result),
        capacity_chart(result),
        *percentile_charts(result),
        *time_charts(result),
    ]
    return [chart for chart in charts if chart is not None]


def standard_rounds(result: Result) -> list[Rounds]:
    """Return the rounds of each trial that a test is compared with: of the live baseline, or else the stored one."""
    other_side: list[Rounds] = [
        [one.metrics for one in trial.other_side] for trial in result.trials if trial.other_side
    ]
    return other_side or [trial for trial in result.baseline.trials if trial]


def rounds_chart(result: Result) -> Chart | None:
    """Return a chart with one row for each metric, in which each round is a point relative to the baseline's median.

    A single round with nothing next to it shows nothing that the table does not, so it has no chart.
    """
    known = result.values()
    wanted = dict.fromkeys([*(check.metric for check in result.checks), *HEADLINES])
    names = [name for name in wanted if name in known and all(0 < value < math.inf for value in known[name])]
    sides = {
        "baseline": (STANDARD, list(itertools.chain.from_iterable(standard_rounds(result)))),
        "this run": (NOW, [one.metrics for one in result.rounds]),
        "further trials": (FRESH, [one.metrics for trial in result.trials[1:] for one in trial.rounds]),
    }
    if not names or sum(len(rounds) for _, rounds in sides.values()) <= 1:
        return None
    against = "baseline" if sides["baseline"][1] else "this run"
    before = medians(sides[against][1], names)
    centre = medians(sides["this run"][1], names) | {name: it for name, it in before.items() if 0 < it < math.inf}
    data = [_round_points(side, colour, rounds, centre) for side, (colour, rounds) in sides.items() if rounds]
    farthest = max(_FAR, *(max(ratio, 1 / ratio) for trace in data for ratio in trace["x"]))
    # A threshold that is farther away than all rounds would squeeze them together; the table shows it.
    limits = [
        (rounded(check.limit_value / centre[check.metric]), check.metric, check.expression)
        for check in result.checks
        if check.metric in names and check.limit_value
        if 1 / farthest <= check.limit_value / centre[check.metric] <= farthest
    ]
    data.append(labelled("threshold", limits, symbol="line-ns", size=30, line={"width": 2, "color": LIMIT}))
    title = {"text": f"ratio to the median ({against})"}
    layout = {
        "xaxis": {"type": "log", "tickformat": "~r", "tickangle": 0, "nticks": 6, "title": title},
        "yaxis": {"type": "category", "autorange": "reversed"},
        "boxmode": "group",
    }
    return Chart(
        title="Rounds",
        note="each point is one round",
        figure={"data": [trace for trace in data if trace["x"]], "layout": layout},
        height_px=100 + 60 * len(names),
        wide=True,
    )


def _round_points(side: str, colour: str, rounds: Rounds, centre: Mapping[str, float]) -> dict[str, Any]:
    points = [
        (one[name], middle, name)
        for name, middle in centre.items()
        for one in rounds
        if 0 < one.get(name, 0) < math.inf
    ]
    return {
        "type": "box",
        "orientation": "h",
        "name": side,
        "x": [rounded(value / middle) for value, middle, _ in points],
        "y": [name for *_, name in points],
        "text": [f"{side}: {format_quantity(value, CATALOGUE[name].unit)}" for value, _, name in points],
        "hoverinfo": "text",
        "hoveron": "points",
        "boxpoints": "all",
        "pointpos": 0,
        "jitter": 0,
        "marker": {"color": colour, "size": 7, "opacity": 0.7},
        "line": {"width": 1},
        "fillcolor": "rgba(0,0,0,0)",
    }


def trial_charts(result: Result) -> list[Chart | None]:
    """Return for each threshold that is judged side by side the estimated change after each trial."""
    charts = []
    for check in (each for each in result.checks if each.trials):
        subject, last = CATALOGUE[check.metric], check.trials[-1]
        singles = {each.trials: change_of(subject, each.last) for each in check.trials}
        means = {each.trials: change_of(subject, each.mean) for each in check.trials}
        ends = {last.trials: [change_of(subject, end) for end in last.interval or ()]}
        lines = [
            line("single trial", singles, STANDARD, mode="markers"),
            line("mean so far", means, NOW, mode="lines+markers", ends=ends),
        ]
        limit = mark(LIMIT, y=change_of(subject, last.tolerance))
        x = {"title": {"text": "trials"}, "tickformat": "d"}
        note = "dashed: the threshold; bar: the interval at the end"
        title = f"Change of {check.metric} by trial"
        charts.append(line_chart(title, lines, Unit.RATIO, x=x, note=note, shapes=[limit]))
    return charts


def capacity_chart(result: Result) -> Chart | None:
    """Return the chart of the latency curve; None if the test ran no search."""
    curve = latency_curve(result)
    if curve is None:
        return None
    symbols = ["circle" if point.outcome is StepOutcome.HELD else "x" for point in curve.points]
    low = {point.rate: point.low for point in curve.points if point.low is not None}
    high = {point.rate: point.high for point in curve.points if point.high is not None}
    lines = [
        line(name, points, colour, mode="lines+markers", marker={"symbol": symbols, "size": 8, "color": colour})
        for name, points, colour in zip(curve.names, (low, high), (STANDARD, NOW), strict=True)
    ]
    marks = [mark(LIMIT, y=curve.limit)] if curve.limit is not None else []
    note = "cross: the rate was not sustained"
    if curve.capacities:
        found = statistics.median(curve.capacities)
        marks.append(mark(NOW, x=found, dash="solid"))
        bound = "at least " if curve.at_least else ""
        note = f"vertical line: capacity, {bound}{format_quantity(found, Unit.RECORD_RATE)}; {note}"
    x = {"type": "log", "tickformat": "~s", "title": {"text": "records/s"}}
    return line_chart("Latency against rate", lines, Unit.SECONDS, x=x, note=note, shapes=marks)


def percentile_charts(result: Result) -> list[Chart | None]:
    """Return the charts of latency by percentile: the rounds, their median, and the baseline's."""
    rounds = [one.metrics for one in result.rounds]
    before = list(itertools.chain.from_iterable(standard_rounds(result)))
    charts = []
    for family, title in (("produce.latency", "Produce latency"), ("e2e.latency", "End-to-end latency")):
        names = {part: f"{family}.{part}" for part in _PARTS}
        lines = [
            *thin_lines([{part: one[name] for part, name in names.items() if name in one} for one in rounds], NOW),
            line("baseline", _by_part(before, names), STANDARD),
            line("this run", _by_part(rounds, names), NOW),
        ]
        x = {"type": "category", "categoryarray": list(_PARTS)}
        charts.append(line_chart(f"{title} by percentile", lines, Unit.SECONDS, x=x, note=_ROUNDS_AND_MEDIAN))
    return charts


def _by_part(rounds: Rounds, names: Mapping[str, str]) -> dict[str, float]:
    found = medians(rounds, list(names.values()))
    return {part: found[name] for part, name in names.items() if name in found}


def time_charts(result: Result) -> list[Chart | None]:
    """Return the charts of throughput and latency over time, with the warm-up and the events."""
    events = [(at_s, f"round {n}: {text}") for n, one in enumerate(result.rounds, 1) for at_s, text in one.events]
    charts = []
    for title, columns in _OVER_TIME.items():
        lines = []
        for (name, kind, column), colour in zip(columns, SERIES, strict=False):
            curves = [_curve(one, kind, column, result.scenario) for one in result.rounds]
            lines += [*thin_lines(curves, colour), line(name, _median_curve(curves), colour)]
        values = [value for each in lines for value in each["y"]]
        if values and events:
            points = [(rounded(at_s), min(values), text) for at_s, text in events]
            lines.append(labelled("events", points, symbol="triangle-up", size=9, color=LIMIT))
        unit = Unit.RECORD_RATE if column == "count" else Unit.SECONDS
        shapes = [_warm_up(lines), *(mark(LIMIT, x=rounded(at_s), dash="dot") for at_s, _ in events)]
        charts.append(line_chart(title, lines, unit, x=_SECONDS, note=_ROUNDS_AND_MEDIAN, shapes=shapes))
    return charts


def _curve(one: Round, kind: str, column: str, scenario: Scenario) -> dict[float, float]:
    """Return values by the middle of their interval in seconds; throughput of full intervals only.

    Intervals that load fills only partly would look slow; all are kept if none is full.
    """
    series: Any = one.series.get(kind)
    if series is None:
        return {}
    step = series["interval_s"]
    values = {series["first_s"] + step * place: value for place, value in enumerate(series[column])}
    if column == "count":
        end_s = max(values, default=0.0) if scenario.duration is None else scenario.duration
        full = [begin for begin in values if -scenario.warmup - _ROUNDING_S <= begin <= end_s - step + _ROUNDING_S]
        values = {begin: values[begin] for begin in full or values}
    return {begin + step / 2: value for begin, value in values.items() if value is not None}


def _median_curve(curves: Sequence[Mapping[float, float]]) -> dict[float, float]:
    instants = sorted({at_s for one in curves for at_s in one})
    return {at_s: statistics.median(one[at_s] for one in curves if at_s in one) for at_s in instants}


def _warm_up(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a shape that shades the time before the window."""
    first_s = min((at_s for each in lines for at_s in each["x"]), default=0.0)
    across = {"yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
    return {"type": "rect", "x0": min(first_s, 0), "x1": 0, "fillcolor": "var(--shade)", "line": {"width": 0}, **across}


def broker_charts(result: Result) -> list[Chart]:
    """Return a chart of each broker metric over time, with a line for each broker: the median of the rounds."""
    charts = []
    for name in (name for name in CATALOGUE if name.startswith("broker.")):
        curves: dict[str, list[dict[float, float]]] = {}
        for known in (one.brokers for one in result.rounds if one.brokers is not None):
            first_s, step = known["first_s"], known["interval_s"]
            for broker, tracks in known["brokers"].items():
                values = enumerate(tracks.get(name.removeprefix("broker."), ()))
                curve = {first_s + step * (place + 0.5): value for place, value in values if value is not None}
                curves.setdefault(broker, []).append(curve)
        lines = [
            line(shortened(f"broker {broker}" if broker.isdecimal() else broker), _median_curve(found), colour)
            for (broker, found), colour in zip(curves.items(), itertools.cycle(SERIES), strict=False)
        ]
        note, unit = "median of the rounds", CATALOGUE[name].unit
        charts.append(line_chart(name, lines, unit, x=_SECONDS, note=note, shapes=[_warm_up(lines)]))
    return [chart for chart in charts if chart is not None]


def medians(rounds: Rounds, names: Sequence[str]) -> dict[str, float]:
    """Return the median of each of these metrics over the rounds that have it."""
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: statistics.median(each) for name, each in values.items() if each}

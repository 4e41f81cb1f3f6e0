"""The charts of one test, as JSON for Plotly. Pure.

Axes are in base units; Plotly writes them with SI prefixes. Colours are variables of the style sheet. The page's script
replaces them by the values of the light or dark scheme.
"""

from __future__ import annotations

import html
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES, QUANTILES
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.latency_curve import latency_curve
from pytest_kafkaperf.runner.rounds.round import StepOutcome
from pytest_kafkaperf.verdict.scale import Rounds, change_of

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import Result
    from pytest_kafkaperf.runner.rounds.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario
    from pytest_kafkaperf.verdict.outcome import Check


Figure = dict[str, Any]
"""The arguments `data` and `layout` of `Plotly.newPlot`."""

NOW = "var(--now)"
STANDARD = "var(--baseline)"
FRESH = "var(--fresh)"
LIMIT = "var(--bad)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Colours of lines of the same kind, such as one line for each broker."""
SPAN = 20
"""Factor between smallest and largest value from which an axis is logarithmic."""
_TICKS: dict[str, tuple[str, str]] = {
    Unit.BYTES: ("~s", "B"),
    Unit.BYTE_RATE: ("~s", "B/s"),
    Unit.SECONDS: ("~s", "s"),
    Unit.RECORD_RATE: ("~s", " records/s"),
    Unit.RATIO: ("~%", ""),
    Unit.COUNT: ("~r", ""),
}
"""Formats of d3 and the unit that follows, where they are not the unit's name."""
_DIGITS = 6
"""Significant digits of a value in a chart, more than a screen can show."""
_MAX_LABEL = 24
"""Maximum characters of a name on an axis or in a legend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its caption."""

    title: str
    note: str = ""
    """Explanation next to the title."""
    figure: Figure
    height_px: int = 260
    wide: bool = False
    """True if the chart takes the full width of the page."""


def line(
    name: str,
    points: Mapping[Any, float],
    colour: str,
    *,
    ends: Mapping[Any, Sequence[float]] | None = None,
    **style: Any,
) -> dict[str, Any]:
    """Return a trace through points, with bars from the least to the greatest of `ends`; `style` is for Plotly."""
    places = {x: y for x, y in points.items() if math.isfinite(y)}
    known = {x: [*filter(math.isfinite, (ends or {}).get(x, ())), y] for x, y in places.items()}
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [rounded(max(known[x]) - y) for x, y in places.items()],
        "arrayminus": [rounded(y - min(known[x])) for x, y in places.items()],
    }
    return {
        "mode": "lines",
        "name": literal(name),
        "x": [rounded(x) if isinstance(x, float) else x for x in places],
        "y": [rounded(y) for y in places.values()],
        "line": {"color": colour, "width": 2.5},
        "marker": {"color": colour, "size": 7},
        **({"error_y": bars} if ends else {}),
        **style,
    }


def thin_lines(rounds: Sequence[Mapping[Any, float]], colour: str) -> list[dict[str, Any]]:
    """Return a trace for each round; the legend leaves them out."""
    style: dict[str, Any] = {"line": {"color": colour, "width": 1}, "opacity": 0.5, "showlegend": False}
    return [line(f"round {number}", one, colour, **style) for number, one in enumerate(rounds, 1)]


def labelled(name: str, points: Sequence[tuple[float, Any, str]], **marker: Any) -> dict[str, Any]:
    """Return a trace of points, given as `x`, `y` and the text that each shows; `marker` is for Plotly."""
    places = {"x": [x for x, _, _ in points], "y": [y for _, y, _ in points]}
    texts = [literal(text) for *_, text in points]
    return {"mode": "markers", "name": name, **places, "text": texts, "hoverinfo": "text", "marker": marker}


def line_chart(
    title: str, lines: Sequence[dict[str, Any]], unit: str, *, x: Mapping[str, Any], note: str = "", **layout: Any
) -> Chart | None:
    """Return a chart of lines; `x` is the layout of the horizontal axis. None if no line has two points next to 0."""
    drawn = [each for each in lines if each["x"]]
    values = [value for each in drawn for value in each["y"]]
    if not any(len(each["x"]) > 1 and any(each["y"]) for each in drawn):
        return None
    layout = {"xaxis": {**x}, "yaxis": value_axis(values, unit), **layout}
    return Chart(title=literal(title), note=note, figure={"data": drawn, "layout": layout})


def value_axis(values: Sequence[float], unit: str) -> dict[str, Any]:
    """Return the layout of a vertical axis for values in a base unit: from 0, or logarithmic if they span `SPAN`."""
    tick_format, suffix = _TICKS.get(unit, ("~r", f" {unit}"))
    low, high = min(values), max(values)
    is_log = low > 0 and high >= SPAN * low
    return {
        "type": "log" if is_log else "linear",
        **(_log_ticks(low, high, unit) if is_log else {}),
        "rangemode": "tozero",
        "tickformat": tick_format,
        "hoverformat": f".3{tick_format}",
        "ticksuffix": suffix,
    }


def _log_ticks(low: float, high: float, unit: str) -> dict[str, Any]:
    """Return ticks at 1, 2 and 5 of each decade, or at 1 of many; Plotly's own have no unit at 2 and 5."""
    leads = (1, 2, 5) if high < SPAN**2 * low else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [lead * 10.0**exponent for exponent in exponents for lead in leads]
    return {"tickvals": values, "ticktext": [format_quantity(value, unit) for value in values]}


def mark(colour: str, *, dash: str = "dash", **place: Any) -> dict[str, Any]:
    """Return a line across the chart at `x` or `y`."""
    ((name, at),) = place.items()
    other = "y" if name == "x" else "x"
    ends = {f"{name}0": at, f"{name}1": at, f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    return {"type": "line", "layer": "below", "line": {"color": colour, "width": 1, "dash": dash}, **ends}


def rounded(value: float) -> float:
    """Round a value to the digits that a chart needs."""
    return float(f"{value:.{_DIGITS}g}")


def literal(text: str) -> str:
    """Escape a text for a chart, because Plotly interprets some HTML tags in all texts."""
    return html.escape(printable(" ".join(text.split())), quote=False)


def shortened(text: str) -> str:
    """Cut a label to `_MAX_LABEL` characters."""
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}..."


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
    names = _names_in_chart(result)
    baseline: Rounds = list(itertools.chain.from_iterable(standard_rounds(result)))
    now: Rounds = [one.metrics for one in result.rounds]
    further: Rounds = [one.metrics for trial in result.trials[1:] for one in trial.rounds]
    if not names or len(baseline) + len(now) + len(further) <= 1:
        return None
    centre = medians(now, names)
    centre |= {name: value for name, value in medians(baseline, names).items() if 0 < value < math.inf}
    sides = (("baseline", STANDARD, baseline), ("this run", NOW, now), ("further trials", FRESH, further))
    data = [_round_points(side, colour, rounds, centre) for side, colour, rounds in sides if rounds]
    farthest = max(_FAR, *(max(ratio, 1 / ratio) for trace in data for ratio in trace["x"]))
    limits = _limits_in_chart(result.checks, centre, farthest)
    data.append(labelled("threshold", limits, symbol="line-ns", size=30, line={"width": 2, "color": LIMIT}))
    title = {"text": f"ratio to the median ({'baseline' if baseline else 'this run'})"}
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


def _names_in_chart(result: Result) -> list[str]:
    """Return the metrics with a threshold and the headlines, without those that a ratio cannot show."""
    known = result.values()
    wanted = dict.fromkeys([*(check.metric for check in result.checks), *HEADLINES])
    return [name for name in wanted if name in known and all(0 < value < math.inf for value in known[name])]


def _limits_in_chart(
    checks: Sequence[Check], centre: Mapping[str, float], farthest: float
) -> list[tuple[float, str, str]]:
    """Return the thresholds as ratio, metric and expression.

    One that is farther away than all rounds would squeeze them together; the table shows it.
    """
    limits = []
    for check in checks:
        if check.metric not in centre or not check.limit_value:
            continue
        ratio = check.limit_value / centre[check.metric]
        if 1 / farthest <= ratio <= farthest:
            limits.append((rounded(ratio), check.metric, check.expression))
    return limits


def _round_points(side: str, colour: str, rounds: Rounds, centre: Mapping[str, float]) -> dict[str, Any]:
    points = []
    for name, middle in centre.items():
        values = (one.get(name, 0) for one in rounds)
        points += [(value, middle, name) for value in values if 0 < value < math.inf]
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
        subject = CATALOGUE[check.metric]
        last = check.trials[-1]
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
    rounds = enumerate(result.rounds, 1)
    events = [(each.at_s, f"round {number}: {each.notice}") for number, one in rounds for each in one.events]
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
        note = "median of the rounds"
        unit = CATALOGUE[name].unit
        charts.append(line_chart(name, lines, unit, x=_SECONDS, note=note, shapes=[_warm_up(lines)]))
    return [chart for chart in charts if chart is not None]


def medians(rounds: Rounds, names: Sequence[str]) -> dict[str, float]:
    """Return the median of each of these metrics over the rounds that have it."""
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: statistics.median(each) for name, each in values.items() if each}

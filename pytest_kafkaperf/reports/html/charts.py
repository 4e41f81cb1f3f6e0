"""Charts for one test. Pure.

Colors are style sheet variables with values for the light and dark schemes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES, QUANTILES
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.html.plot import (
    Axis,
    Bar,
    Chart,
    Mark,
    Point,
    Trace,
    label_axis,
    line_chart,
    log_axis,
    span_axis,
    xs_of,
)
from pytest_kafkaperf.reports.latency_curve import latency_curve
from pytest_kafkaperf.reports.wording import short
from pytest_kafkaperf.runner.rounds.round import StepOutcome
from pytest_kafkaperf.verdict.scale import Rounds, change_of

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import Result
    from pytest_kafkaperf.runner.rounds.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario
    from pytest_kafkaperf.verdict.outcome import Check

NOW = "var(--now)"
BASELINE = "var(--baseline)"
STORED = "var(--stored)"
RETESTS = "var(--retests)"
LIMIT = "var(--bad)"
SERIES = tuple(f"var(--series-{number})" for number in range(1, 7))
"""Colors for lines of the same kind, such as one line per broker."""
THIS_TRIAL = "this trial"
_MAX_LABEL = 24
"""Maximum length, in characters, of a name on an axis or in a legend."""


def line(
    name: str,
    points: Mapping[Any, float],
    colour: str,
    *,
    ends: Mapping[Any, Sequence[float]] | None = None,
    dots_in: str | None = None,
) -> Trace:
    """Return a line through points, with bars from the minimum to the maximum of `ends`.

    If `dots_in` is a unit, the points have dots that show their values in this unit.
    """
    known = {x: y for x, y in points.items() if math.isfinite(y)}
    bars = []
    for x, values in (ends or {}).items():
        finite = [value for value in values if math.isfinite(value)]
        if x in known and finite:
            bars.append(Bar(x, min(*finite, known[x]), max(*finite, known[x])))
    return Trace(
        name=name,
        colour=colour,
        points=tuple(Point(x, y, short(y, dots_in) if dots_in else "") for x, y in known.items()),
        dots="dot" if dots_in else "",
        bars=tuple(bars),
    )


def dots(name: str, points: Sequence[Point], colour: str, *, square: bool = False) -> Trace:
    """Return points without a line."""
    return Trace(name=name, colour=colour, points=tuple(points), line="", dots="square" if square else "dot")


def thin_lines(rounds: Sequence[Mapping[Any, float]], colour: str) -> list[Trace]:
    """Return a line for each round; the legend does not list these lines."""
    lines = (line(f"round {number}", one, colour) for number, one in enumerate(rounds, 1))
    return [dataclasses.replace(each, line="thin") for each in lines]


def shortened(text: str) -> str:
    """Truncate a label to `_MAX_LABEL` characters."""
    return text if len(text) <= _MAX_LABEL else f"{text[: _MAX_LABEL - 3]}..."


_FAR = 1.5
"""Ratio to the baseline within which thresholds are always shown; others appear only if a round is just as far away."""
_ROW_PX = 24
"""Height of a row in the rounds chart, without its points."""
_SIDE_PX = 14
"""Height of the points for one side."""
_LABEL = 0.3
"""Fraction of a row that the label occupies."""
_COLOURS = (BASELINE, STORED)
"""Colors for the baselines, starting with the decisive baseline."""
_PARTS = (*QUANTILES, "max")
_OVER_TIME = {
    "Throughput over time": (("produced", "produce", "count"), ("received", "consume", "count")),
    "Produce latency over time": (("p99", "produce", "p99"), ("p50", "produce", "p50")),
    "End-to-end latency over time": (("p99", "consume", "p99"), ("p50", "consume", "p50")),
}
"""Name, series and column of the lines in each chart."""
_SECONDS = "seconds since the window opened"
_ROUNDING_S = 1e-9
_ROUNDS_AND_MEDIAN = "thin: single rounds; thick: median"


def charts_of(result: Result) -> list[Chart]:
    """Return the charts about the load, excluding charts without data."""
    charts = [
        rounds_chart(result),
        *trial_charts(result),
        capacity_chart(result),
        *percentile_charts(result),
        *time_charts(result),
    ]
    return [chart for chart in charts if chart is not None]


def baselines_of(result: Result) -> dict[str, list[Rounds]]:
    """Return the rounds in each trial of each baseline, by baseline name, starting with the decisive baseline.

    The decisive baseline is the live baseline or, in side-by-side re-tests, the re-tested baseline, because the stored
    one only raised the suspicion.
    """
    live: list[Rounds] = [[one.metrics for one in trial.other_side] for trial in result.trials if trial.other_side]
    stored: list[Rounds] = [trial for trial in result.baseline.trials if trial]
    name = "re-test baseline" if result.live_baseline is None else "live baseline"
    return {title: trials for title, trials in ((name, live), ("stored baseline", stored)) if trials}


def rounds_chart(result: Result) -> Chart | None:
    """Return a chart with a row for each metric, in which each round is a point relative to a median.

    The median is the baseline's, or this trial's if there is no baseline. Values on the right are worse for all
    metrics. A single round without a comparison does not get a chart, because the table already shows its values.
    """
    names = _names_in_chart(result)
    sides = _sides(result)
    if not names or sum(len(rounds) for _, _, rounds in sides) <= 1:
        return None
    reference, _, standard = sides[0]
    centre = medians([one.metrics for one in result.rounds], names)
    centre |= {name: at for name, at in medians(standard, names).items() if 0 < at < math.inf}
    series = [
        dots(name, _round_points(rounds, centre, height=(place + 0.5) / len(sides)), colour)
        for place, (name, colour, rounds) in enumerate(sides)
    ]
    farthest = max(_FAR, *(max(ratio, 1 / ratio) for ratio in xs_of(series)))
    limits = _limits_in_chart(result.checks, centre, farthest)
    series.append(Trace(name="threshold", colour=LIMIT, line="", bars=limits))
    return Chart(
        title="Rounds",
        note=f"each dot is one round; 1 is the median ({reference})",
        x=log_axis([1.0, *xs_of(series)], lambda ratio: f"{ratio:.3g}"),
        y=Axis(low=len(centre), high=0, ticks=dict(enumerate(centre))),
        series=[each for each in series if each.points or each.bars],
        marks=[Mark(x=(1.0,), colour=BASELINE, style="dashed")],
        ends=("← faster", "slower →"),
        height_px=(_ROW_PX + _SIDE_PX * len(sides)) * len(centre),
        wide=True,
    )


def _sides(result: Result) -> list[tuple[str, str, Rounds]]:
    """Return the name, color and rounds for each side that has rounds, starting with the baselines."""
    baselines = zip(baselines_of(result).items(), _COLOURS, strict=False)
    further: Rounds = [one.metrics for trial in result.trials[1:] for one in trial.rounds]
    sides = [
        *((name, colour, _joined(trials)) for (name, trials), colour in baselines),
        (THIS_TRIAL, NOW, [one.metrics for one in result.rounds]),
        ("re-tests" if result.live_baseline is None else "further trials", RETESTS, further),
    ]
    return [side for side in sides if side[2]]


def _names_in_chart(result: Result) -> list[str]:
    """Return the metrics with a threshold and the headline metrics, excluding metrics without a ratio."""
    known = result.values()
    wanted = dict.fromkeys([*(check.metric for check in result.checks), *HEADLINES])
    return [name for name in wanted if name in known and all(0 < value < math.inf for value in known[name])]


def _slowness(name: str, value: float, centre: float) -> float:
    """Return the ratio to the center, or its inverse if higher values are better; a result above 1 is worse."""
    return value / centre if CATALOGUE[name].better == "lower" else centre / value


def _limits_in_chart(checks: Sequence[Check], centre: Mapping[str, float], farthest: float) -> tuple[Bar, ...]:
    """Return a bar through each threshold's row.

    A threshold that is farther away than all rounds would squeeze the rounds together, so it appears only in the table.
    """
    rows = {name: row for row, name in enumerate(centre)}
    bars = []
    for check in checks:
        if check.metric not in centre or not check.limit_value:
            continue
        slowness = _slowness(check.metric, check.limit_value, centre[check.metric])
        if 1 / farthest <= slowness <= farthest:
            row = rows[check.metric]
            bars.append(Bar(slowness, row + _LABEL, row + 1, check.expression))
    return tuple(bars)


def _round_points(rounds: Rounds, centre: Mapping[str, float], *, height: float) -> list[Point]:
    """Return the points for one side's rounds, at this height below each row's label."""
    points = []
    for row, (name, middle) in enumerate(centre.items()):
        y = row + _LABEL + (1 - _LABEL) * height
        values = (value for one in rounds if 0 < (value := one.get(name, 0)) < math.inf)
        unit = CATALOGUE[name].unit
        points += [Point(_slowness(name, value, middle), y, short(value, unit)) for value in values]
    return points


def trial_charts(result: Result) -> list[Chart | None]:
    """Return a chart for each threshold that is judged side by side, with the estimated change after each trial."""
    charts = []
    for check in (each for each in result.checks if each.trials):
        subject = CATALOGUE[check.metric]
        last = check.trials[-1]
        singles = {each.trials: change_of(subject, each.last) for each in check.trials}
        means = {each.trials: change_of(subject, each.mean) for each in check.trials}
        ends = {last.trials: [change_of(subject, end) for end in last.interval or ()]}
        series = [
            dots("single trial", [Point(*each) for each in singles.items()], BASELINE),
            line("mean so far", means, NOW, ends=ends, dots_in=Unit.RATIO),
        ]
        limit = Mark(y=change_of(subject, last.tolerance), colour=LIMIT, style="dashed")
        x = span_axis(xs_of(series), title="trials", least_step=1)
        note = "dashed: the threshold; bar: the interval at the end"
        title = f"Change of {check.metric} by trial"
        charts.append(line_chart(title, series, Unit.RATIO, x=x, note=note, marks=[limit]))
    return charts


def capacity_chart(result: Result) -> Chart | None:
    """Return the latency curve chart; None if the test did not run a search."""
    curve = latency_curve(result)
    if curve is None:
        return None
    low = {point.rate: point.low for point in curve.points if point.low is not None}
    high = {point.rate: point.high for point in curve.points if point.high is not None}
    series = [
        line(name, points, colour, dots_in=Unit.SECONDS)
        for name, points, colour in zip(curve.names, (low, high), (BASELINE, NOW), strict=True)
    ]
    broken = {point.rate for point in curve.points if point.outcome is not StepOutcome.HELD}
    unsustained = [point for each in series for point in each.points if point.x in broken]
    series.append(dots("not sustained", unsustained, LIMIT, square=True))
    marks = [] if curve.limit is None else [Mark(y=curve.limit, colour=LIMIT, style="dashed")]
    note = ""
    if curve.capacities:
        found = statistics.median(curve.capacities)
        marks.append(Mark(x=(found,), colour=NOW, style="solid"))
        bound = "at least " if curve.at_least else ""
        note = f"vertical line: capacity, {bound}{format_quantity(found, Unit.RECORD_RATE)}"
    rates = [*xs_of(series), *(x for mark in marks for x in mark.x)]
    if not rates:
        return None
    x = log_axis(rates, lambda rate: short(rate, Unit.RECORD_RATE), title="rate, log scale")
    return line_chart("Latency against rate", series, Unit.SECONDS, x=x, note=note, marks=marks)


def percentile_charts(result: Result) -> list[Chart | None]:
    """Return charts of latency by percentile for the rounds, their median, and the baselines' medians."""
    rounds = [one.metrics for one in result.rounds]
    charts = []
    for family, title in (("produce.latency", "Produce latency"), ("e2e.latency", "End-to-end latency")):
        names = [f"{family}.{part}" for part in _PARTS]
        before = zip(baselines_of(result).items(), _COLOURS, strict=False)
        lines = [
            *thin_lines([_by_place([one], names) for one in rounds], NOW),
            *(line(name, _by_place(_joined(trials), names), colour) for (name, trials), colour in before),
            line(THIS_TRIAL, _by_place(rounds, names), NOW, dots_in=Unit.SECONDS),
        ]
        x = label_axis(_PARTS)
        charts.append(line_chart(f"{title} by percentile", lines, Unit.SECONDS, x=x, note=_ROUNDS_AND_MEDIAN))
    return charts


def _by_place(rounds: Rounds, names: Sequence[str]) -> dict[int, float]:
    """Return the medians of the metrics, by position in the list."""
    found = medians(rounds, names)
    return {place: found[name] for place, name in enumerate(names) if name in found}


def _joined(trials: Sequence[Rounds]) -> Rounds:
    return list(itertools.chain.from_iterable(trials))


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
        values = [point.y for each in lines for point in each.points]
        if values and events:
            lines.append(dots("events", [Point(at_s, min(values), text) for at_s, text in events], LIMIT, square=True))
        unit = Unit.RECORD_RATE if column == "count" else Unit.SECONDS
        marks = [Mark(x=(at_s,), colour=LIMIT, style="dotted") for at_s, _ in events]
        charts.append(_over_time(title, lines, unit, note=_ROUNDS_AND_MEDIAN, marks=marks))
    return charts


def _over_time(title: str, lines: Sequence[Trace], unit: str, *, note: str, marks: Sequence[Mark] = ()) -> Chart | None:
    """Return a chart over the seconds in a round; the time before the window is shaded."""
    seconds = [0.0, *xs_of(lines), *(x for mark in marks for x in mark.x)]
    warm_up = Mark(x=(min(seconds), 0.0), colour="none", style="shade")
    x = span_axis(seconds, title=_SECONDS)
    return line_chart(title, lines, unit, x=x, note=note, marks=[warm_up, *marks])


def _curve(one: Round, kind: str, column: str, scenario: Scenario) -> dict[float, float]:
    """Return values by the midpoint of their interval, in seconds; for throughput, only those from full intervals.

    Intervals that are only partly filled with load would look slow; all intervals are kept if none is full.
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


def broker_charts(result: Result) -> list[Chart]:
    """Return a chart of each broker metric over time, with one line per broker that shows the median of the rounds."""
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
        charts.append(_over_time(name, lines, CATALOGUE[name].unit, note="median of the rounds"))
    return [chart for chart in charts if chart is not None]


def medians(rounds: Rounds, names: Sequence[str]) -> dict[str, float]:
    """Return each of these metrics' median over the rounds that measured the metric."""
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    return {name: statistics.median(each) for name, each in values.items() if each}

"""The charts of the HTML report, as values before they are drawn."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.load.recorder import Curves
from pytest_kafkaperf.reports.html.charts import (
    BASELINE,
    NOW,
    RETESTS,
    STORED,
    broker_charts,
    charts_of,
    line,
    percentile_charts,
    rounds_chart,
    time_charts,
    trial_charts,
)
from pytest_kafkaperf.reports.html.plot import (
    Chart,
    Mark,
    Trace,
    label_axis,
    line_chart,
    log_axis,
    span_axis,
    value_axis,
)
from pytest_kafkaperf.reports.html.sweeps import find_sweeps, sweep_charts
from pytest_kafkaperf.runner.result import Result, Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from tests.support import results
from tests.support.problems import event_told


def _result(*rounds: Round, fresh: tuple[Round, ...] = (), **fields: Any) -> Result:
    trials = [Trial(created="2025-01-31T12:00:00+00:00", rounds=each) for each in (rounds, fresh) if each]
    return results.bare_result(
        *(trials or [Trial(created="", rounds=())]),
        nodeid="test_x.py::test_y",
        scenario=Scenario(duration="3 s", warmup="1 s"),
        cluster=results.KnownCluster(bootstrap_servers="127.0.0.1:9092"),
        **fields,
    )


def _latency(p50_ms: float) -> dict[str, float]:
    ratios = {"p50": 1.0, "p90": 2.0, "p95": 2.5, "p99": 4.0, "p99.9": 6.0, "max": 8.0}
    return {f"produce.latency.{part}": p50_ms / 1000 * ratio for part, ratio in ratios.items()}


def _series(chart: Chart | None) -> Sequence[Trace]:
    assert chart is not None
    return chart.series


def _named(chart: Chart | None, name: str) -> Trace:
    (found,) = [each for each in _series(chart) if each.name == name]
    return found


def _xs(series: Trace) -> list[float]:
    return [point.x for point in series.points]


def _ys(series: Trace) -> list[float]:
    return [point.y for point in series.points]


def _titled(charts: Sequence[Chart | None], title: str) -> Chart:
    (chart,) = [chart for chart in charts if chart is not None and chart.title == title]
    return chart


def test_percentiles_are_lines_of_the_rounds_and_their_median() -> None:
    """How far rounds lie apart shows whether a difference means anything."""
    rounds = (Round(metrics=_latency(2)), Round(metrics=_latency(4)))
    result = _result(*rounds, baseline=BaselineRounds(trials=((_latency(1),) * 2,)))
    chart = _titled(percentile_charts(result), "Produce latency by percentile")
    median, (thin, *_) = _named(chart, "this trial"), _series(chart)
    assert [*chart.x.ticks.values()] == ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"]
    assert dict(zip(_xs(median), _ys(median), strict=True)) == pytest.approx(
        {0: 0.003, 1: 0.006, 2: 0.0075, 3: 0.012, 4: 0.018, 6: 0.024}
    )
    assert (thin.name, thin.line, thin.points[3].y) == ("round 1", "thin", 0.008)
    before = _named(chart, "stored baseline")
    assert (before.points[0].y, before.colour) == (0.001, BASELINE)
    assert median.points[0].text == "3 ms"


def test_the_baseline_that_decides_is_the_reference_of_the_rounds() -> None:
    """Limits are judged by the live baseline; a stored one only shows what raised the suspicion."""
    result = results.side_by_side()
    names = {each.name for each in _series(rounds_chart(result))}
    assert names == {"live baseline", "this trial", "further trials", "threshold"}
    re_tested = dataclasses.replace(result, live_baseline=None, baseline=results.regression().baseline)
    chart = rounds_chart(re_tested)
    colours = {each.name: each.colour for each in _series(chart)}
    assert colours | {"threshold": ""} == {
        "re-test baseline": BASELINE,
        "stored baseline": STORED,
        "this trial": NOW,
        "re-tests": RETESTS,
        "threshold": "",
    }
    assert chart is not None
    assert chart.note == "each dot is one round; 1 is the median (re-test baseline)"


def test_the_change_is_shown_after_each_trial() -> None:
    """It settles as trials are added; the bar at the end is the interval that decided."""
    result = results.side_by_side()
    throughput, latency = trial_charts(result)
    assert throughput is not None
    assert latency is not None
    assert [throughput.title, latency.title] == [
        "Change of produce.throughput by trial",
        "Change of produce.latency.p99 by trial",
    ]
    mean = _named(throughput, "mean so far")
    last = result.checks[0].trials[-1]
    assert last.interval is not None
    assert (_xs(mean)[-1], len(mean.points)) == (last.trials, len(result.checks[0].trials))
    (bar,) = mean.bars
    assert bar.low < mean.points[-1].y < bar.high
    (limit,) = throughput.marks
    assert limit.y == pytest.approx(-0.1)


def _curves(count: list[float], first_s: float = -1.0) -> Curves:
    values: list[float | None] = [one / 1e6 for one in count]
    return Curves(interval_s=1, first_s=first_s, count=count, p50=values, p99=values, max=values)


def _throughput(result: Result) -> Chart:
    return _titled(time_charts(result), "Throughput over time")


def test_throughput_leaves_out_what_load_did_not_fill() -> None:
    """The last interval has what was still on its way, and would look as if the cluster had stalled."""
    one = Round(metrics={}, series={"produce": _curves([1000, 2000, 3000, 4000, 50])})
    produced = _named(_throughput(_result(one)), "produced")
    assert (_xs(produced), _ys(produced)) == ([-0.5, 0.5, 1.5, 2.5], [1000, 2000, 3000, 4000])


def test_a_warm_up_that_does_not_fill_an_interval_is_left_out_too() -> None:
    """Half a second of load in the first second would show half the throughput."""
    one = Round(metrics={}, series={"produce": _curves([10, 500, 2000, 3000, 4000, 50], first_s=-2.0)})
    assert _xs(_named(_throughput(_result(one)), "produced")) == [-0.5, 0.5, 1.5, 2.5]


def test_a_round_shorter_than_an_interval_has_no_chart_over_time() -> None:
    """Its only point would be too low, and shows no course."""
    one = Round(metrics={}, series={"produce": _curves([500.0], first_s=0.0)})
    short = dataclasses.replace(_result(one), scenario=Scenario(duration="500 ms"))
    assert not any(time_charts(short))


def test_the_warm_up_is_shaded_and_events_are_marked() -> None:
    """What happened then is not what is measured; what happened to a broker explains a peak."""
    event = event_told(1.25, "stop_broker(<2>)")
    one = Round(metrics={}, series={"produce": _curves([1, 2, 3, 4, 5])}, events=(event,))
    chart = _throughput(_result(one, Round(metrics={}, series={"produce": _curves([1, 2, 3])})))
    (point,) = _named(chart, "events").points
    assert (point.x, point.text) == (1.25, "round 1: at 1.2 s: stop_broker(<2>)")
    assert [(mark.style, mark.x) for mark in chart.marks] == [("shade", (-0.5, 0)), ("dotted", (1.25,))]


def test_gaps_in_a_series_stay_out_of_the_median() -> None:
    """A second in which nothing was due has no latency."""
    rounds = [Round(metrics={}, series={"produce": _curves([1000, 2000, 3000])}) for _ in range(2)]
    rounds[0].series["produce"]["p50"][1] = None
    median = _named(_titled(time_charts(_result(*rounds)), "Produce latency over time"), "p50")
    assert (_xs(median), _ys(median)) == ([-0.5, 0.5, 1.5], [0.001, 0.002, 0.003])


def test_rounds_are_dots_around_what_they_are_compared_with() -> None:
    """Metrics of any unit fit into one picture, in which the right side is worse, and a bar is a threshold."""
    chart = rounds_chart(results.regression())
    assert chart is not None
    names = [*chart.y.ticks.values()]
    assert names[:3] == ["produce.throughput", "produce.latency.p99", "e2e.latency.p99"]
    throughput, latency, *_ = _named(chart, "threshold").bars
    assert (throughput.x, latency.x) == pytest.approx((1 / 0.9, 1.2), abs=0.001)
    assert throughput.text == "produce.throughput >= baseline - 10%"
    counts = {"stored baseline": 25, "this trial": 5, "re-tests": 15}
    assert {name: len(_named(chart, name).points) // len(names) for name in counts} == counts
    assert [each.colour for each in chart.series[:3]] == [BASELINE, NOW, RETESTS]
    assert chart.ends == ("← faster", "slower →")
    assert all(re.fullmatch(r"[\d.]+( ms|/s)", point.text) for point in _named(chart, "this trial").points)


def test_limits_that_are_far_away_do_not_press_the_rounds_together() -> None:
    """`<= 5 s` where rounds lie at 1.4 s; the table shows it."""
    assert "threshold" not in {each.name for each in _series(rounds_chart(results.failover()))}


def test_without_a_round_there_is_no_chart() -> None:
    """A test that could not run has a table only."""
    nothing = _result()
    assert charts_of(nothing) == broker_charts(nothing) == []
    assert charts_of(_result(Round(metrics={"errors": 0.0}))) == []


def test_brokers_have_a_line_each() -> None:
    """Which broker was busy."""
    charts = {chart.title: chart for chart in broker_charts(results.regression())}
    assert list(charts) == [
        *("broker.cpu", "broker.memory", "broker.disk.write", "broker.network.in", "broker.network.out"),
        "broker.handlers.idle",
    ]
    assert [each.name for each in charts["broker.network.in"].series] == ["broker 1"]
    three = {chart.title: chart for chart in broker_charts(results.failover())}
    assert [each.name for each in three["broker.cpu"].series] == ["broker 1", "broker 2", "broker 3"]


def test_a_sweep_shows_throughput_and_latency_against_its_field() -> None:
    """The picture that every write-up of a benchmark shows; the baseline is in it where it is one line."""
    (sweep,) = find_sweeps(results.sizes())
    charts = {chart.title: chart for chart in sweep_charts(sweep)}
    assert list(charts) == ["produce.throughput", "produce.bandwidth", "produce.latency.p99", "broker.cpu"]
    throughput = charts["produce.throughput"]
    assert throughput.x.ticks == {0: "100 B", 1: "1 KiB", 2: "10 KiB", 3: "100 KiB"}
    assert [(each.name, _xs(each)) for each in throughput.series] == [
        ("baseline", [0, 1, 2, 3]),
        ("this trial", [0, 1, 2, 3]),
    ]


def test_a_second_field_is_the_colour_of_a_line() -> None:
    """The axis shows names in the order in which they ran."""
    (sweep,) = find_sweeps(results.codecs())
    throughput = {chart.title: chart for chart in sweep_charts(sweep)}["produce.throughput"]
    assert [*throughput.x.ticks.values()] == ["none", "lz4", "zstd", "gzip"]
    assert [each.name for each in throughput.series] == ["producers 1", "producers 4"]
    assert len({each.colour for each in throughput.series}) == 2


def test_the_bars_of_a_sweep_are_the_lowest_and_the_highest_round() -> None:
    """A round far from the median is what the bars are there to show."""
    found = []
    for size, most in ((100, 0.6), (200, 3.0)):
        rounds = (Round(metrics={"broker.cpu": cores}) for cores in (0.4, 0.5, most))
        scenario = Scenario(record_size=size)
        found.append(dataclasses.replace(_result(*rounds), nodeid=f"t.py::t[{size}]", scenario=scenario))
    (sweep,) = find_sweeps(found)
    (chart,) = sweep_charts(sweep)
    assert _named(chart, "this trial").bars == ((0, 0.4, 0.6, ""), (1, 0.4, 3.0, ""))


def _drawn(chart: Chart) -> str:
    paths = [path.d for each in chart.series for _, paths in chart.paths_of(each) for path in paths]
    places = [place for place, _ in (*chart.x_labels, *chart.y_labels)]
    return " ".join([chart.grid, *map(chart.path_of, chart.marks), *paths, *places])


def test_whatever_is_drawn_lies_within_its_chart() -> None:
    """A value that is no number, or a mark beyond an axis, would break the drawing or cover another one."""
    wild = {
        "produce.latency.p99": float("inf"),
        "produce.latency.max": float("inf"),
        "produce.throughput": float("nan"),
    }
    tests = [results.regression(), results.failover(), results.capacity(), results.side_by_side()]
    for result in (*tests, _result(Round(metrics={**_latency(2), **wild}))):
        for chart in (*charts_of(result), *broker_charts(result)):
            drawn = _drawn(chart)
            assert re.fullmatch(r"[MLHVZh\d. -]+", drawn), chart.title
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", drawn)]
            assert 0 <= min(numbers) <= max(numbers) <= 100, chart.title


@pytest.mark.parametrize(("values", "is_log"), [([1, 19], False), ([1, 20], True), ([0, 20], False)])
def test_an_axis_is_logarithmic_where_values_span_much(values: list[float], *, is_log: bool) -> None:
    """2 ms and a stall of a second do not fit on one line otherwise; 0 has no logarithm."""
    assert value_axis(values, Unit.SECONDS).is_log is is_log


@pytest.mark.parametrize(
    ("values", "unit", "labels"),
    [
        ([0.0031, 0.0107], Unit.SECONDS, ["0 s", "5 ms", "10 ms", "15 ms"]),
        ([1_480_000], Unit.RECORD_RATE, ["0/s", "500k/s", "1M/s", "1.5M/s"]),
        ([3e9], Unit.BYTES, ["0 B", "1 GiB", "2 GiB", "3 GiB"]),
        ([0.0], Unit.CORES, ["0 cores", "0.2 cores"]),
        ([0.001, 0.05], Unit.SECONDS, ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]),
        ([0.001, 5.0], Unit.SECONDS, ["1 ms", "10 ms", "100 ms", "1 s"]),
        ([1024, 1 << 20], Unit.BYTE_RATE, ["1 KiB/s", "4 KiB/s", "16 KiB/s", "64 KiB/s", "256 KiB/s", "1 MiB/s"]),
    ],
)
def test_an_axis_has_round_labels_with_units(values: list[float], unit: Unit, labels: list[str]) -> None:
    """From 0, so that the height of a line is the size of a value."""
    assert [*value_axis(values, unit).ticks.values()] == labels


@given(
    st.lists(st.floats(min_value=1e-12, max_value=1e15), min_size=1, max_size=5),
    st.sampled_from([Unit.SECONDS, Unit.BYTES, Unit.RECORD_RATE]),
)
@example([450359962737050.06], Unit.SECONDS)  # `place * step` is rounded to less than the value
def test_values_and_labels_lie_on_their_axis(values: list[float], unit: Unit) -> None:
    """A label beyond the end would cover the caption; an axis without two labels has no scale."""
    plain = span_axis(values, title="")
    for axis in (value_axis(values, unit), log_axis(values, str), plain):
        places = [axis.place(each) for each in (*values, *axis.ticks)]
        assert -0.01 <= min(places) <= max(places) <= 100.01
        assert len(axis.ticks) <= 10
    assert len(value_axis(values, unit).ticks) > 1


def test_long_labels_stand_upright() -> None:
    """Side by side, the names of twelve codecs and sizes would cover each other on a phone."""
    lines = [line("a", {0: 1.0, 1: 2.0}, NOW)]
    chart = line_chart("a", lines, Unit.COUNT, x=label_axis(["a" * 20, "b" * 17]))
    assert chart is not None
    assert chart.below_ch == 20
    short = line_chart("a", lines, Unit.COUNT, x=label_axis(["1 KiB", "10 KiB"]))
    assert short is not None
    assert short.below_ch == 0


def test_a_chart_is_drawn_in_percent_of_its_area() -> None:
    """Then the browser fits it to a phone, a screen and paper."""
    lines = [line("a", {0: 0.0, 1: 5.0, 2: 10.0}, NOW, ends={1: [2.5, 5.0]}, dots_in=Unit.COUNT)]
    marks = [Mark(x=(0, 1), colour=NOW, style="shade"), Mark(x=(2,), colour=NOW, style="solid")]
    marks.append(Mark(y=5.0, colour=NOW, style="dashed"))
    chart = line_chart("a", lines, Unit.COUNT, x=span_axis([0, 2], title="s"), marks=marks)
    assert chart is not None
    paths = dict(chart.paths_of(chart.series[0]))
    assert paths == {
        "bar": [("M50 75L50 50", "")],
        "line": [("M0 100L50 50L100 0", "")],
        "dot": [("M0 100h0", "0"), ("M50 50h0", "5"), ("M100 0h0", "10")],
    }
    assert [*map(chart.path_of, chart.marks)] == ["M0 0V100H50V0Z", "M100 0V100", "M0 50H100"]


@pytest.mark.parametrize("points", [{}, {1.0: 5.0}, {1.0: 0.0, 2.0: 0.0}, {1.0: 5.0, 2.0: math.inf}])
def test_a_chart_that_would_show_nothing_is_left_out(points: dict[float, float]) -> None:
    """A dot is no curve, and brokers that did nothing are no news."""
    assert line_chart("CPU", [line("broker 1", points, NOW)], Unit.CORES, x=span_axis([0, 1], title="")) is None


def test_a_single_round_next_to_nothing_has_no_chart() -> None:
    """It is no comparison."""
    assert rounds_chart(_result(Round(metrics=_latency(2)))) is None

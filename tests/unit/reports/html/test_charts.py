"""The charts of the HTML report, as the values that Plotly is given."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.load.recorder import Curves
from pytest_kafkaperf.reports.html.charts import (
    FRESH,
    LIMIT,
    NOW,
    STANDARD,
    Chart,
    broker_charts,
    charts_of,
    line,
    line_chart,
    literal,
    percentile_charts,
    rounded,
    rounds_chart,
    time_charts,
    trial_charts,
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


def _traces(chart: Chart | None) -> list[dict[str, Any]]:
    assert chart is not None
    traces: list[dict[str, Any]] = chart.figure["data"]
    return traces


def _named(chart: Chart | None, name: str) -> dict[str, Any]:
    (trace,) = [trace for trace in _traces(chart) if trace.get("name") == name]
    return trace


def _titled(charts: Sequence[Chart | None], title: str) -> Chart:
    (chart,) = [chart for chart in charts if chart is not None and chart.title == title]
    return chart


def test_percentiles_are_lines_of_the_rounds_and_their_median() -> None:
    """How far rounds lie apart says whether a difference means anything."""
    rounds = (Round(metrics=_latency(2)), Round(metrics=_latency(4)))
    result = _result(*rounds, baseline=BaselineRounds(trials=((_latency(1),) * 2,)))
    chart = _titled(percentile_charts(result), "Produce latency by percentile")
    median, (thin, *_) = _named(chart, "this run"), _traces(chart)
    assert median["x"] == ["p50", "p90", "p95", "p99", "p99.9", "max"]
    assert median["y"] == pytest.approx([0.003, 0.006, 0.0075, 0.012, 0.018, 0.024])
    assert (thin["name"], thin["y"][3]) == ("round 1", 0.008)
    assert (_named(chart, "baseline")["y"][0], _named(chart, "baseline")["line"]["color"]) == (0.001, STANDARD)
    assert chart.figure["layout"]["yaxis"]["ticksuffix"] == "s"


def test_a_live_baseline_takes_the_place_of_the_stored_one() -> None:
    """Limits are judged by it, so it is what is shown."""
    result = results.side_by_side()
    names = {trace["name"] for trace in _traces(rounds_chart(result))}
    assert names == {"baseline", "this run", "further trials", "threshold"}
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
    assert (mean["x"][-1], len(mean["x"])) == (last.trials, len(result.checks[0].trials))
    assert all(bar > 0 for bar in (mean["error_y"]["array"][-1], mean["error_y"]["arrayminus"][-1]))
    (limit,) = throughput.figure["layout"]["shapes"]
    assert limit["y0"] == pytest.approx(-0.1)


def _curves(count: list[float], first_s: float = -1.0) -> Curves:
    values: list[float | None] = [one / 1e6 for one in count]
    return Curves(interval_s=1, first_s=first_s, count=count, p50=values, p99=values, max=values)


def _throughput(result: Result) -> Chart:
    return _titled(time_charts(result), "Throughput over time")


def test_throughput_leaves_out_what_load_did_not_fill() -> None:
    """The last interval has what was still on its way, and would look as if the cluster had stalled."""
    one = Round(metrics={}, series={"produce": _curves([1000, 2000, 3000, 4000, 50])})
    trace = _named(_throughput(_result(one)), "produced")
    assert (trace["x"], trace["y"]) == ([-0.5, 0.5, 1.5, 2.5], [1000, 2000, 3000, 4000])


def test_a_warm_up_that_does_not_fill_an_interval_is_left_out_too() -> None:
    """Half a second of load in the first second would show half the throughput."""
    one = Round(metrics={}, series={"produce": _curves([10, 500, 2000, 3000, 4000, 50], first_s=-2.0)})
    assert _named(_throughput(_result(one)), "produced")["x"] == [-0.5, 0.5, 1.5, 2.5]


def test_a_round_shorter_than_an_interval_has_no_chart_over_time() -> None:
    """Its only point would be too low, and says nothing of time."""
    one = Round(metrics={}, series={"produce": _curves([500.0], first_s=0.0)})
    short = dataclasses.replace(_result(one), scenario=Scenario(duration="500 ms"))
    assert not any(time_charts(short))


def test_the_warm_up_is_shaded_and_events_are_marked() -> None:
    """What happened then is not what is measured; what happened to a broker explains a peak."""
    event = event_told(1.25, "stop_broker(<2>)")
    one = Round(metrics={}, series={"produce": _curves([1, 2, 3, 4, 5])}, events=(event,))
    chart = _throughput(_result(one, Round(metrics={}, series={"produce": _curves([1, 2, 3])})))
    marks = _named(chart, "events")
    assert (marks["x"], marks["text"]) == ([1.25], ["round 1: at 1.2 s: stop_broker(&lt;2&gt;)"])
    shade, line = chart.figure["layout"]["shapes"]
    assert (shade["type"], shade["x0"], shade["x1"], line["x0"]) == ("rect", -0.5, 0, 1.25)


def test_gaps_in_a_series_stay_out_of_the_median() -> None:
    """A second in which nothing was due has no latency."""
    rounds = [Round(metrics={}, series={"produce": _curves([1000, 2000, 3000])}) for _ in range(2)]
    rounds[0].series["produce"]["p50"][1] = None
    trace = _named(_titled(time_charts(_result(*rounds)), "Produce latency over time"), "p50")
    assert (trace["x"], trace["y"]) == ([-0.5, 0.5, 1.5], [0.001, 0.002, 0.003])


def test_rounds_are_points_around_what_they_are_compared_with() -> None:
    """Metrics of any unit stand in one picture, and a limit shows where it would be broken."""
    chart = rounds_chart(results.regression())
    names = list(dict.fromkeys(_named(chart, "this run")["y"]))
    assert names[:3] == ["produce.throughput", "produce.latency.p99", "e2e.latency.p99"]
    limits = _named(chart, "threshold")
    assert limits["marker"]["line"]["color"] == LIMIT
    assert limits["x"][:2] == pytest.approx([0.9, 1.2], abs=0.001)
    counts = {"baseline": 25, "this run": 5, "further trials": 15}
    assert {name: len(_named(chart, name)["x"]) // len(names) for name in counts} == counts
    colours = [trace["marker"].get("color") for trace in _traces(chart)]
    assert colours[:3] == [STANDARD, NOW, FRESH]


def test_limits_that_are_far_away_do_not_press_the_rounds_together() -> None:
    """`<= 5 s` where rounds lie at 1.4 s; it stands in the table."""
    chart = rounds_chart(results.failover())
    assert "threshold" not in {trace["name"] for trace in _traces(chart)}


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
    assert [trace["name"] for trace in _traces(charts["broker.network.in"])] == ["broker 1"]
    three = {chart.title: chart for chart in broker_charts(results.failover())}
    assert [trace["name"] for trace in _traces(three["broker.cpu"])] == ["broker 1", "broker 2", "broker 3"]


def test_a_sweep_shows_throughput_and_latency_against_its_field() -> None:
    """The picture that every write-up of a benchmark shows; the baseline is in it where it is one line."""
    (sweep,) = find_sweeps(results.sizes())
    charts = {chart.title: chart for chart in sweep_charts(sweep)}
    assert list(charts) == ["produce.throughput", "produce.bandwidth", "produce.latency.p99", "broker.cpu"]
    throughput = charts["produce.throughput"]
    assert throughput.figure["layout"]["xaxis"]["ticktext"] == ["100 B", "1 KiB", "10 KiB", "100 KiB"]
    assert [(trace["name"], trace["x"]) for trace in _traces(throughput)] == [
        ("baseline", [0, 1, 2, 3]),
        ("this run", [0, 1, 2, 3]),
    ]


def test_a_second_field_is_the_colour_of_a_line() -> None:
    """Names stand on the axis in the order in which they ran."""
    (sweep,) = find_sweeps(results.codecs())
    throughput = {chart.title: chart for chart in sweep_charts(sweep)}["produce.throughput"]
    assert throughput.figure["layout"]["xaxis"]["ticktext"] == ["none", "lz4", "zstd", "gzip"]
    assert [trace["name"] for trace in _traces(throughput)] == ["producers 1", "producers 4"]
    assert len({trace["line"]["color"] for trace in _traces(throughput)}) == 2


def test_the_bars_of_a_sweep_are_the_lowest_and_the_highest_round() -> None:
    """A round far from the median is what the bars are there to show."""
    found = []
    for size, most in ((100, 0.6), (200, 3.0)):
        rounds = (Round(metrics={"broker.cpu": cores}) for cores in (0.4, 0.5, most))
        scenario = Scenario(record_size=size)
        found.append(dataclasses.replace(_result(*rounds), nodeid=f"t.py::t[{size}]", scenario=scenario))
    (sweep,) = find_sweeps(found)
    (chart,) = sweep_charts(sweep)
    bars = _named(chart, "this run")["error_y"]
    assert (bars["array"], bars["arrayminus"]) == ([pytest.approx(0.1), 2.5], [pytest.approx(0.1)] * 2)


def test_all_of_it_is_json() -> None:
    """NaN and infinity are not, and a page with one would show nothing at all."""
    wild = {
        "produce.latency.p99": float("inf"),
        "produce.latency.max": float("inf"),
        "produce.throughput": float("nan"),
    }
    for result in (results.regression(), results.failover(), _result(Round(metrics={**_latency(2), **wild}))):
        for chart in (*charts_of(result), *broker_charts(result)):
            json.dumps(chart.figure, allow_nan=False)


@pytest.mark.parametrize(("values", "kind"), [([1, 19], "linear"), ([1, 20], "log"), ([0, 20], "linear")])
def test_an_axis_is_logarithmic_where_values_span_much(values: list[float], kind: str) -> None:
    """2 ms and a stall of a second do not fit on one line otherwise; 0 has no logarithm."""
    assert value_axis(values, Unit.SECONDS)["type"] == kind


def test_a_logarithmic_axis_has_ticks_with_units() -> None:
    """Plotly would write 2 ms as `2m`."""
    axis = value_axis([0.001, 0.05], Unit.SECONDS)
    assert axis["ticktext"][:6] == ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]
    assert value_axis([0.001, 5.0], Unit.SECONDS)["ticktext"] == ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]


@pytest.mark.parametrize(
    ("unit", "ticks"),
    [
        (Unit.SECONDS, ("~s", "s")),
        (Unit.RECORD_RATE, ("~s", " records/s")),
        (Unit.CORES, ("~r", " cores")),
        (Unit.RATIO, ("~%", "")),
    ],
)
def test_an_axis_names_its_unit(unit: Unit, ticks: tuple[str, str]) -> None:
    """Plotly writes 0.002 as `2m`, and the unit follows: `2ms`."""
    axis = value_axis([1], unit)
    assert (axis["tickformat"], axis["ticksuffix"]) == ticks


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_rounding_for_a_screen_loses_less_than_a_screen_shows(value: float) -> None:
    """The report would be many times as large otherwise."""
    assert rounded(value) == pytest.approx(value, rel=5.1e-6)


def test_text_in_charts_is_shown_as_it_is() -> None:
    """Plotly makes links and bold text of it otherwise, and takes `&lt;` for `<`."""
    assert literal('<b>"&lt;"</b>\n x') == '&lt;b&gt;"&amp;lt;"&lt;/b&gt; x'


@pytest.mark.parametrize("points", [{}, {1.0: 5.0}, {1.0: 0.0, 2.0: 0.0}, {1.0: 5.0, 2.0: math.inf}])
def test_a_chart_that_would_show_nothing_is_left_out(points: dict[float, float]) -> None:
    """A dot is no curve, and brokers that did nothing are no news."""
    assert line_chart("CPU", [line("broker 1", points, NOW)], Unit.CORES, x={}) is None


def test_a_single_round_next_to_nothing_has_no_chart() -> None:
    """It is no comparison."""
    assert rounds_chart(_result(Round(metrics=_latency(2)))) is None

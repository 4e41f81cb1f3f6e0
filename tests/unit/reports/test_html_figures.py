"""The charts of the HTML report, as the values that Plotly is given."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.load.timeseries import Curves
from pytest_kafkaperf.reports.html.charts import (
    BASELINE,
    FRESH,
    LIMIT,
    NOW,
    REFERENCE,
    Chart,
    linear_ticks,
    literal,
    log_ticks,
    rounded,
    scale_for,
    value_axis,
)
from pytest_kafkaperf.reports.html.load_charts import percentiles_chart, rounds_chart
from pytest_kafkaperf.reports.html.page import charts_of
from pytest_kafkaperf.reports.html.sweeps import sweep_charts
from pytest_kafkaperf.reports.html.timeline import broker_charts, latency_chart, throughput_chart
from pytest_kafkaperf.reports.sweeps import find_sweeps
from pytest_kafkaperf.runner.result import MeasuredSession, Result
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from tests.support import results


def _result(*rounds: Round, fresh: tuple[Round, ...] = (), **fields: Any) -> Result:
    sessions = [MeasuredSession(created="2025-01-31T12:00:00+00:00", rounds=each) for each in (rounds, fresh) if each]
    return results.bare_result(
        *(sessions or [MeasuredSession(created="", rounds=())]),
        nodeid="test_x.py::test_y",
        scenario=Scenario(duration="3 s", warmup="1 s"),
        cluster=Cluster(bootstrap_servers="127.0.0.1:9092"),
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


def test_percentiles_stand_by_how_rare_they_are() -> None:
    """p99 is as far from p90 as p99.9 from p99: each a factor of ten."""
    chart = percentiles_chart(_result(Round(metrics=_latency(2)), Round(metrics=_latency(4))), "produce.latency")
    median, thin = _named(chart, "this run"), _traces(chart)[0]
    assert median["x"] == [2, 10, 20, 100, 1000, 100_000, None]
    assert median["y"] == [3, 6, 7.5, 12, 18, 24, None]
    assert thin["y"] == [2, 4, 5, 8, 12, 16, None, 4, 8, 10, 16, 24, 32, None]
    assert thin["hovertext"][3] == "round 1, p99: 8 ms"
    assert chart is not None
    assert chart.figure["layout"]["yaxis"]["title"]["text"] == "ms"


def test_the_baseline_stands_beside_each_session_as_a_line() -> None:
    """How far sessions lie apart says whether a difference means anything."""
    sessions = tuple((_latency(level),) * 2 for level in (1, 2, 3))
    now, fresh = Round(metrics=_latency(4)), (Round(metrics=_latency(5)),)
    result = _result(now, fresh=fresh, baseline=BaselineRounds(sessions=sessions))
    chart = percentiles_chart(result, "produce.latency")
    assert [(trace["line"]["color"], trace["y"][0], len(trace["y"])) for trace in _traces(chart)] == [
        (BASELINE, 1, 21),
        (BASELINE, 2, 7),
        (FRESH, 5, 7),
        (NOW, 4, 7),
        (NOW, 4, 7),
    ]


def test_a_reference_takes_the_place_of_the_baseline() -> None:
    """Limits are judged by it, so it is what is shown."""
    by_title = {chart.title: chart for chart in charts_of(results.side_by_side())}
    assert [title for title in by_title if title.endswith("session by session")] == [
        "produce.throughput, session by session",
        "produce.latency.p99, session by session",
    ]
    sequence = by_title["produce.throughput, session by session"]
    assert len(_named(sequence, "pair of rounds")["x"]) == 5 * len(_named(sequence, "single session")["x"])
    low, high = sequence.figure["layout"]["yaxis"]["range"]
    assert all(low < value < high for value in _named(sequence, "single session")["y"])
    rounds = by_title["Rounds"]
    names = {trace.get("name") for trace in _traces(rounds)}
    assert names == {"reference", "this run", "further sessions", "threshold"}
    assert _named(rounds, "reference")["marker"]["color"] == REFERENCE


def _curves(count: list[float], first_s: float = -1.0) -> Curves:
    values: list[float | None] = [one / 1e6 for one in count]
    return Curves(interval_s=1, first_s=first_s, count=count, p50=values, p99=values, max=values)


def test_throughput_leaves_out_what_load_did_not_fill() -> None:
    """The last interval has what was still on its way, and would look as if the cluster had stalled."""
    one = Round(metrics={}, series={"produce": _curves([1000, 2000, 3000, 4000, 50])})
    chart = throughput_chart(_result(one))
    trace = _named(chart, "produced")
    assert (trace["x"], trace["y"]) == ([-0.5, 0.5, 1.5, 2.5], [1, 2, 3, 4])


def test_a_warm_up_that_does_not_fill_an_interval_is_left_out_too() -> None:
    """Half a second of load in the first second would show half the throughput."""
    one = Round(metrics={}, series={"produce": _curves([10, 500, 2000, 3000, 4000, 50], first_s=-2.0)})
    assert _named(throughput_chart(_result(one)), "produced")["x"] == [-0.5, 0.5, 1.5, 2.5]


def test_a_round_shorter_than_an_interval_has_no_chart_over_time() -> None:
    """Its only point would be too low, and says nothing of time."""
    one = Round(metrics={}, series={"produce": _curves([500.0], first_s=0.0)})
    short = dataclasses.replace(_result(one), scenario=Scenario(duration="500 ms"))
    assert throughput_chart(short) is None


def test_the_warm_up_is_shaded_and_events_are_marked() -> None:
    """What happened then is not what is measured; what happened to a broker explains a peak."""
    event = (1.25, "at 1.2 s: stop_broker(<2>)")
    one = Round(metrics={}, series={"produce": _curves([1, 2, 3, 4, 5])}, events=(event,))
    chart = throughput_chart(_result(one, Round(metrics={}, series={"produce": _curves([1, 2, 3])})))
    marks = _named(chart, "events")
    assert (marks["x"], marks["hovertext"]) == ([1.25], ["round 1: at 1.2 s: stop_broker(&lt;2&gt;)"])
    assert chart is not None
    shade, line = chart.figure["layout"]["shapes"]
    assert (shade["type"], shade["x1"], line["x0"]) == ("rect", 0, 1.2)


def test_gaps_in_a_series_stay_out_of_the_median() -> None:
    """A second in which nothing was due has no latency."""
    rounds = [Round(metrics={}, series={"produce": _curves([1000, 2000, 3000])}) for _ in range(2)]
    rounds[0].series["produce"]["p50"][1] = None
    trace = _named(latency_chart(_result(*rounds), "produce.latency"), "p50")
    assert (trace["x"], trace["y"]) == ([-0.5, 0.5, 1.5], [1, 2, 3])


def test_rounds_are_points_around_what_they_are_compared_with() -> None:
    """Metrics of any unit stand in one picture, and a limit shows where it would be broken."""
    chart = rounds_chart(results.regression())
    assert chart is not None
    names = [one["text"].partition(":")[0] for one in chart.figure["layout"]["annotations"]]
    assert names[:3] == ["produce.throughput", "produce.latency.p99", "e2e.latency.p99"]
    limits = _named(chart, "threshold")
    assert limits["marker"]["color"] == LIMIT
    assert limits["x"][:2] == pytest.approx([-10, 20], abs=0.1)
    assert {
        name: len(_named(chart, name)["x"]) // len(names) for name in ("baseline", "this run", "fresh sessions")
    } == {
        "baseline": 25,
        "this run": 5,
        "fresh sessions": 15,
    }


def test_limits_that_are_far_away_do_not_press_the_rounds_together() -> None:
    """`<= 5 s` where rounds lie at 1.4 s; it stands in the table."""
    chart = rounds_chart(results.failover())
    assert "threshold" not in {trace["name"] for trace in _traces(chart)}


def test_ratios_that_span_much_are_told_as_times() -> None:
    """+900 % and -90 % are as far from equal as each other, and no linear axis shows that."""
    rounds = [Round(metrics={"produce.throughput": value}) for value in (10.0, 1.0, 0.1)]
    chart = rounds_chart(_result(*rounds))
    assert chart is not None
    axis = chart.figure["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert {"1/10", "equal", "10x"} <= set(axis["ticktext"])


def test_without_a_round_there_is_no_chart() -> None:
    """A test that could not run has a table only."""
    nothing = _result()
    assert charts_of(nothing) == broker_charts(nothing) == ()
    assert charts_of(_result(Round(metrics={"errors": 0.0}))) == ()


def test_brokers_have_a_line_each_and_requests_their_parts() -> None:
    """Which broker was busy, and where the time went, then and now."""
    charts = {chart.title: chart for chart in broker_charts(results.regression())}
    assert set(charts) == {"CPU", "Memory", "Disk", "Network", "Idle request handlers", "Produce requests"}
    assert [trace["name"] for trace in _traces(charts["Network"])] == ["loopback, sent", "loopback, received"]
    three = {chart.title: chart for chart in broker_charts(results.failover())}
    assert [trace["name"] for trace in _traces(three["CPU"])] == ["broker 1", "broker 2", "broker 3"]
    assert [trace["y"] for trace in _traces(charts["Produce requests"])] == [["this run", "baseline"]] * 4


def test_a_sweep_shows_throughput_and_both_latencies_against_its_field() -> None:
    """The picture that every write-up of a benchmark shows; the baseline is in it where it is one line."""
    found = {result.nodeid: result for result in results.sizes()}
    (sweep,) = find_sweeps({nodeid: result.scenario for nodeid, result in found.items()})
    charts = {chart.title: chart for chart in sweep_charts(sweep, found)}
    assert list(charts) == [
        *("Throughput over record_size", "Bandwidth over record_size", "Produce latency over record_size"),
        *("Broker CPU over record_size", "Broker memory over record_size"),
    ]
    throughput, latency = charts["Throughput over record_size"], charts["Produce latency over record_size"]
    axis = throughput.figure["layout"]["xaxis"]
    assert (axis["type"], axis["ticktext"]) == ("log", ["100 B", "1 KiB", "10 KiB", "100 KiB"])
    assert [trace["name"] for trace in _traces(throughput)] == ["this run", "baseline"]
    assert {trace["name"] for trace in _traces(latency)} == {"p50", "baseline, p50", "p99", "baseline, p99"}
    assert [trace["x"] for trace in _traces(throughput)] == [[100, 1024, 10_240, 102_400]] * 2


def test_a_second_field_is_the_colour_of_a_line() -> None:
    """Names stand on the axis in the order in which they ran."""
    found = {result.nodeid: result for result in results.codecs()}
    (sweep,) = find_sweeps({nodeid: result.scenario for nodeid, result in found.items()})
    charts = {chart.title.partition(" over ")[0]: chart for chart in sweep_charts(sweep, found)}
    assert "Bandwidth" not in charts  # records are of one size: it is the throughput again
    throughput, latency = charts["Throughput"], charts["Produce latency"]
    assert throughput.figure["layout"]["xaxis"]["ticktext"] == ["none", "lz4", "zstd", "gzip"]
    assert [trace["name"] for trace in _traces(throughput)] == ["producers 1", "producers 4"]
    colours = {trace["name"]: trace["line"]["color"] for trace in _traces(latency)}
    assert colours["producers 1, p50"] == colours["producers 1, p99"] != colours["producers 4, p99"]


def test_the_bars_of_a_sweep_are_on_its_axis_whole() -> None:
    """A round far from the median is what the bars are there to show."""
    found = {}
    for size, most in ((100, 0.6), (200, 3.0)):
        rounds = (Round(metrics={"broker.cpu": cores}) for cores in (0.5, 0.5, most))
        found[f"t.py::t[{size}]"] = dataclasses.replace(_result(*rounds), scenario=Scenario(record_size=size))
    (sweep,) = find_sweeps({nodeid: result.scenario for nodeid, result in found.items()})
    (chart,) = [chart for chart in sweep_charts(sweep, found) if chart.title.startswith("Broker CPU")]
    assert chart.figure["layout"]["yaxis"]["range"] == [0, pytest.approx(3.0 * 1.08)]


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


@pytest.mark.parametrize(
    ("values", "unit", "name", "shown"),
    [
        ([0.0021, 0.01], Unit.SECONDS, "ms", 2.1),
        ([2e-7], Unit.SECONDS, "µs", 0.2),
        ([12.5], Unit.SECONDS, "s", 12.5),
        ([4999.0], Unit.RECORD_RATE, "k records/s", 4.999),
        ([2_500_000.0], Unit.RECORD_RATE, "M records/s", 2.5),
        ([1024.0 * 1536], Unit.BYTE_RATE, "MiB/s", 1.5),
        ([0.5], Unit.RATIO, "%", 50),
        ([0.5], Unit.CORES, "cores", 0.5),
        ([None], Unit.SECONDS, "µs", None),
    ],
)
def test_an_axis_counts_in_the_unit_of_its_largest_value(
    values: list[float | None], unit: Unit, name: str, shown: float | None
) -> None:
    """Nobody reads 0.0021 s."""
    scale = scale_for(values, unit)
    assert (scale.name, scale.of(values[0])) == (name, shown)


@pytest.mark.parametrize(("values", "kind"), [([1, 19], None), ([1, 20], "log"), ([0, 20], None), ([], None)])
def test_an_axis_is_logarithmic_where_values_span_much(values: list[float], kind: str | None) -> None:
    """2 ms and a stall of a second do not fit on one line otherwise; 0 has no logarithm."""
    assert value_axis(values, "ms").get("type") == kind


_SIZES = st.floats(min_value=1e-6, max_value=1e9)


@given(_SIZES, st.floats(min_value=20, max_value=1e6))
def test_a_logarithmic_axis_has_a_few_ticks_within_it(low: float, factor: float) -> None:
    """None would be an axis without numbers, many would lie on each other."""
    ticks = log_ticks(low, low * factor)
    assert 2 <= len(ticks["tickvals"]) <= 13
    assert all(low * 0.999 <= tick <= low * factor * 1.001 for tick in ticks["tickvals"])


@given(st.floats(min_value=-100, max_value=1000), st.floats(min_value=0.1, max_value=1e4))
def test_a_linear_axis_has_a_few_ticks_within_it(low: float, length: float) -> None:
    """As above."""
    ticks = linear_ticks(low, low + length)
    assert 2 <= len(ticks) <= 9
    assert ticks == sorted(set(ticks))


@given(st.floats(min_value=-1e300, max_value=1e300))
def test_rounding_for_a_screen_loses_less_than_a_screen_shows(value: float) -> None:
    """The report would be many times as large otherwise."""
    assert rounded(value) == pytest.approx(value, rel=5.1e-6)


def test_text_in_charts_is_shown_as_it_is() -> None:
    """Plotly makes links and bold text of it otherwise, and takes `&lt;` for `<`."""
    assert literal('<b>"&lt;"</b>\n x') == '&lt;b&gt;"&amp;lt;"&lt;/b&gt; x'


def test_a_chart_that_would_show_nothing_is_left_out() -> None:
    """A dot is no curve, a single round beside nothing is no comparison, and brokers that did nothing are no news."""
    whole = results.drawn_result("a.py::test_x", before=None, now=results.Behaviour(jmx=True))
    one = whole.rounds[0]
    short: Any = {
        kind: {**series, **{name: values[:1] for name, values in series.items() if isinstance(values, list)}}
        for kind, series in one.series.items()
    }
    metrics = {name: 0.0 if name.startswith("broker.produce") else value for name, value in one.metrics.items()}
    assert one.brokers is not None
    idle: Any = {**one.brokers, "brokers": {"1": {"cpu": [0.0] * 9, "memory": [6.4e8]}}}
    bare = dataclasses.replace(one, series=short, brokers=idle, metrics=metrics)
    session = dataclasses.replace(whole.sessions[0], rounds=(bare,))
    charts = charts_of(dataclasses.replace(whole, sessions=(session,)))
    assert {chart.title.partition(" by")[0] for chart in charts} == {"Produce latency", "End-to-end latency"}
    assert broker_charts(dataclasses.replace(whole, sessions=(session,))) == ()

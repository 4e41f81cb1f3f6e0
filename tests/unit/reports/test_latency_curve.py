"""Latency against rate, as terminals and pages show it."""

from __future__ import annotations

import dataclasses

from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.html.charts import capacity_chart
from pytest_kafkaperf.reports.latency_curve import describe_search, latency_curve
from pytest_kafkaperf.reports.terminal import render_latency_curve
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round, Step, StepOutcome
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from tests.support import results


def step(rate: float, p99_s: float | None, outcome: StepOutcome = StepOutcome.HELD, reason: str | None = None) -> Step:
    metrics = {} if p99_s is None else {"produce.latency.p50": p99_s / 4, "produce.latency.p99": p99_s}
    return Step(rate=rate, outcome=outcome, reason=reason, settled=False, metrics=metrics)


def searched(
    *steps: Step, limits: tuple[str, ...] = ("produce.latency.p99 <= 20 ms",), at_least: tuple[str, ...] = ()
) -> Result:
    """A test of one search."""
    plan = SearchPlan(limits=tuple(map(parse_threshold, limits)), low=1000.0, high=2e6)
    one = Round(metrics={"capacity": 2000.0}, steps=steps, at_least=at_least)
    whole = results.capacity(searches=1)
    return dataclasses.replace(whole, plan=plan, trials=(dataclasses.replace(whole.trials[0], rounds=(one,)),))


SEARCHED = searched(
    step(1000, 0.002),
    step(2000, 0.008),
    step(4000, 0.3, StepOutcome.BROKEN, "produce.latency.p99 300 ms (limit <= 20 ms)"),
    step(2000, 0.006),
)


def test_each_rate_is_one_point_however_often_it_was_tried() -> None:
    curve = latency_curve(SEARCHED)
    assert curve is not None
    assert [(point.rate, point.high, point.attempts) for point in curve.points] == [
        (1000, 0.002, 1),
        (2000, 0.007, 2),
        (4000, 0.3, 1),
    ]
    assert (curve.names, curve.limit) == (("produce.latency.p50", "produce.latency.p99"), 0.02)
    assert curve.capacities == (2000.0,)


def test_the_latency_is_that_of_the_limit_or_of_the_whole_way() -> None:
    curve = latency_curve(searched(step(1000, 0.002), limits=("produce.latency.p99.9 <= 20 ms",)))
    assert curve is not None
    assert curve.names == ("produce.latency.p50", "produce.latency.p99.9")
    curve = latency_curve(searched(step(1000, 0.002), limits=("errors == 0",)))
    assert curve is not None
    assert (curve.names[1], curve.limit) == ("produce.latency.p99", None)


def test_a_test_without_a_search_has_none() -> None:
    assert latency_curve(results.regression()) is None
    assert capacity_chart(results.regression()) is None


def test_the_terminal_has_a_row_a_rate_and_says_what_broke() -> None:
    curve = latency_curve(SEARCHED)
    assert curve is not None
    assert render_latency_curve(curve, Paper()).splitlines() == [
        "        rate      p50     p99",
        "1k records/s   500 µs    2 ms  held",
        "2k records/s  1.75 ms    7 ms  held (2 attempts)",
        "4k records/s    75 ms  300 ms  broken",
        "4k records/s: produce.latency.p99 300 ms (limit <= 20 ms)",
    ]


def test_a_step_that_measured_nothing_has_no_values() -> None:
    curve = latency_curve(
        searched(step(1000, 0.002), step(2000, None, StepOutcome.UNREACHED, "generator too slow: 5 late"))
    )
    assert curve is not None
    *_, row, why = render_latency_curve(curve, Paper()).splitlines()
    assert row.split() == ["2k", "records/s", "-", "-", "unreached"]
    assert why == "2k records/s: generator too slow: 5 late"


def test_the_chart_marks_the_capacity_the_limit_and_what_did_not_hold() -> None:
    chart = capacity_chart(SEARCHED)
    assert chart is not None
    low, high, broken = chart.series
    assert (low.name, high.name) == ("produce.latency.p50", "produce.latency.p99")
    assert [point.x for point in high.points] == [1000, 2000, 4000]
    assert [(point.x, point.y) for point in broken.points] == [(4000, 0.075), (4000, 0.3)]
    horizontal, vertical = chart.marks
    assert (vertical.x, horizontal.y) == ((2000,), 0.02)
    assert chart.note == "vertical line: capacity, 2k records/s; log scale"


def test_a_lower_bound_is_called_so() -> None:
    chart = capacity_chart(searched(step(1000, 0.002), step(2000, 0.003), at_least=("capacity",)))
    assert chart is not None
    assert chart.note.startswith("vertical line: capacity, at least 2k records/s")


def test_what_was_searched_for_stands_in_one_line() -> None:
    assert SEARCHED.plan is not None
    assert describe_search(SEARCHED.plan) == "the highest from 1k to 2M records/s with produce.latency.p99 <= 20 ms"

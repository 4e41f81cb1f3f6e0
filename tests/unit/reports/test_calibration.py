"""The texts of `--kafka-calibrate`: what will happen, what has happened, and what a tolerance is worth."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.reports.calibration import (
    calibration_cells,
    calibration_remarks,
    describe_plan,
    describe_trial,
    remaining_s,
)
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.terminal import render_calibration
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.detectable import Calibrated
from tests.support import results
from tests.support.problems import problem_told

RATE = "produce.throughput"


def perftest(name: str, *thresholds: str, cluster: str = "local", trials: int = 3) -> PerfTest:
    given = {"cluster": cluster, "calibrate": str(trials)}
    settings = read_settings(given, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold(each).mark for each in thresholds]
    return read_perftest(f"perf/test_orders.py::{name}", marks, {}, settings, folder=Path())


GATED = perftest("test_flood", f"{RATE} >= baseline - 10%", "errors == 0")
BOUND = perftest("test_sla", "produce.latency.p99 <= 20 ms")


def trial(*problems: Problem, value: float = 1_310_000.0) -> Trial:
    return Trial(created=results.CREATED, rounds=(Round(metrics={RATE: value}),), problems=problems)


def calibrated(detectable: float, of_days: float = 0.0, *, tolerance: float = math.log(1 / 0.9)) -> Calibrated:
    (found,) = results.calibration().calibration.values()
    return dataclasses.replace(found, tolerance=tolerance, detectable_change=detectable, detectable_over_days=of_days)


def remarks(found: Calibrated, metric: str = RATE, **scenario: Any) -> list[str]:
    return calibration_remarks(metric, found, results.bare_result(trial(), scenario=Scenario(**scenario)))


def test_the_plan_says_how_much_will_run_and_what_will_not() -> None:
    """Seven minutes without a word look like a hang."""
    assert describe_plan([GATED, BOUND, GATED], 3) == [
        "calibration: 2 tests, 3 trials each, about 3 min in total",
        "calibration: tests without a threshold on the baseline are skipped: test_orders.py::test_sla",
    ]


def test_nobody_else_s_cluster_is_restarted_or_warmed_up() -> None:
    """It takes less time."""
    theirs = perftest("test_flood", f"{RATE} >= baseline - 10%", cluster="kafka:9092", trials=2)
    assert describe_plan([theirs], 2) == ["calibration: 1 test, 2 trials each, about 30 s in total"]


def test_a_run_with_nothing_to_calibrate_says_so() -> None:
    """A run of skipped tests is green, and its user would wait for values."""
    assert describe_plan([BOUND, BOUND], 3) == [
        "calibration: no perf test has a threshold on the baseline, so all are skipped; add one, for example "
        "kafka_threshold('produce.throughput >= baseline - 20%')"
    ]


def test_each_trial_has_a_line() -> None:
    """Its number, its values, and the time that is left."""
    late = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "late; use more producers")
    lost = problem_told(ProblemKind.RECORDS_LOST, "records lost")
    assert [
        describe_trial(GATED, [trial(), trial()], 3, left_s=200),
        describe_trial(GATED, [trial()] * 3, 3, left_s=0),
        describe_trial(GATED, [trial(), trial(late)], 3, left_s=50),
        describe_trial(GATED, [trial(lost)], 3, left_s=50),
    ] == [
        f"test_flood: trial 2 of 3, {RATE} 1.31M/s, about 4 min left",
        f"test_flood: trial 3 of 3, {RATE} 1.31M/s",
        "test_flood: a trial is repeated: late",
        "test_flood: trial 1 of 3: INVALID: records lost",
    ]


def test_a_trial_with_one_colder_side_is_measured_again() -> None:
    """It has no problem, and does not count."""
    cold = Round(metrics={RATE: 1.0}, compiler={1: 0.5})
    uneven = dataclasses.replace(trial(), rounds=(cold,), other_side=trial().rounds)
    line = describe_trial(GATED, [trial(), uneven], 3, left_s=50)
    assert line == "test_flood: a trial is repeated: one side was less warm than the other"


def test_the_time_left_follows_the_speed_of_this_machine() -> None:
    """Trials of 50 s each, whatever was expected, will take as long again; tests that are skipped take no time."""
    assert remaining_s(GATED, [BOUND, GATED], 2, 3, took_s=2 * 50.0) == pytest.approx((1 + 3) * 50.0)


@pytest.mark.parametrize(
    ("found", "scenario", "text"),
    [
        (
            calibrated(-math.log(0.52), -math.log(0.67)),
            {},
            "can catch drops of 48% or more; your tolerance (10%) is too small for this machine's noise / "
            "try paced load, a baseline of 5 days (at best -33%), or a tolerance of 30%",
        ),
        (
            calibrated(-math.log(0.52), -math.log(0.8)),
            {"rate": 5000.0},
            "can catch drops of 48% or more; your tolerance (10%) is too small for this machine's noise / "
            "try a baseline of 5 days (at best -20%)",
        ),
        (
            calibrated(-math.log(0.66), -math.log(0.68)),
            {"rate": 5000.0},
            "can catch drops of 34% or more; your tolerance (10%) is too small for this machine's noise / "
            "try a quieter machine or a tolerance of 30%",
        ),
        (
            calibrated(-math.log(0.75), -math.log(0.8)),
            {},
            "can catch drops of 25% or more with your tolerance of 10%",
        ),
        (
            calibrated(math.inf, math.inf),
            {"rate": 5000.0},
            "can catch no drops for certain; your tolerance (10%) is too small for this machine's noise / "
            "try a quieter machine",
        ),
    ],
)
def test_a_tolerance_that_the_noise_drowns_is_told(found: Calibrated, scenario: dict[str, Any], text: str) -> None:
    """A green test of 10% that misses 30% is worse than none."""
    assert " / ".join(remarks(found, **scenario)) == text


def test_a_tolerance_above_50_percent_is_no_cure() -> None:
    """It would not notice that a throughput has halved."""
    found = calibrated(math.log(2.1), math.log(1.66), tolerance=math.log(1.1))
    assert remarks(found, "produce.latency.p99", rate=5000.0) == [
        "can catch rises of 110% or more; your tolerance (10%) is too small for this machine's noise",
        "try a quieter machine",
    ]


@pytest.mark.parametrize(
    ("limited", "cost", "metric", "shares"),
    [
        (True, {"broker.cpu_per_record": 0.42, "client.cpu_per_record": 0.58}, RATE, ["42%"]),
        (True, {"broker.cpu_per_record": 0.42, "client.cpu_per_record": 0.58}, "produce.latency.p99", []),
        (True, {"client.cpu_per_record": 0.58}, RATE, []),  # the brokers run elsewhere
        (False, {"broker.cpu_per_record": 0.42, "client.cpu_per_record": 0.58}, RATE, []),
    ],
)
def test_a_calibration_says_how_much_of_a_throughput_is_about_kafka(
    cost: dict[str, float], metric: str, shares: list[str], *, limited: bool
) -> None:
    """Where the generator is the limit, a threshold guards the generator, too."""
    one = Trial(created=results.CREATED, rounds=(Round(metrics={RATE: 1e6, **cost}, limited_by_generator=limited),))
    whole = results.bare_result(one)
    assert calibration_remarks(metric, calibrated(math.log(1.01)), whole)[1:] == [
        f"the generator may be the limit: at most {share} of this value is about Kafka (the brokers' share of the CPU "
        "time of a record)"
        for share in shares
    ]


def test_the_noise_fits_into_80_columns() -> None:
    """The width that terminals open with, and that CI logs have; the remark is below the rows."""
    noisy = calibrated(math.log(31.3), math.log(13), tolerance=math.log(1.2))
    noisy = dataclasses.replace(noisy, noise=dataclasses.replace(noisy.noise, within=1.1034, assumed=True))
    assert list(calibration_cells("produce.latency.p99", noisy).values())[:2] == ["110%", "4.1%?"]
    whole = results.bare_result(trial(), calibration={"produce.latency.p99": noisy})
    assert render_calibration(whole, Paper()).splitlines() == [
        "produce.latency.p99: can catch rises of 3030% or more; your tolerance (20%) is",
        "    too small for this machine's noise",
        "metric               within  between  tolerance  suspected  can detect",
        "produce.latency.p99    110%    4.1%?       +20%     1 of 5      +3030%",
        "produce.latency.p99: try paced load or a quieter machine",
    ]

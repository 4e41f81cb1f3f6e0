"""What clocks that are not known exactly leave open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S, Quantity, Unit
from pytest_kafkaperf.load.messages import Consumed, WorkerReport
from pytest_kafkaperf.load.recorder import Histogram
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.validity import resolution_problems, resolution_warnings, skew_problems
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import limit_value, parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.observations import observed
from tests.support.problems import problem_told


def of(*seconds: float | None) -> list[Round]:
    return [Round(metrics={}, e2e_uncertainty_s=each) for each in seconds]


def test_the_least_exact_round_counts_and_is_told() -> None:
    """Whoever reads the values must not take more from them than there is."""
    assert resolution_warnings(of(None, None)) == []
    assert resolution_warnings(of(None, 0.0002, 0.000397)) == [
        Notice(Remark.CLOCKS_UNCERTAIN, {"uncertainty": Quantity(0.000397, Unit.SECONDS, digits=2)})
    ]


@pytest.mark.parametrize(
    ("expression", "baseline_s", "is_open"),
    [
        ("e2e.latency.p99 <= 0.3 ms", None, True),
        ("e2e.latency.p99 <= 0.4 ms", None, False),
        ("e2e.latency.p99 <= 5 ms", None, False),
        ("produce.latency.p99 <= 0.3 ms", None, False),
        ("e2e.latency.p50 <= baseline + 20%", None, False),
        ("e2e.latency.p50 <= baseline + 20%", 0.0003, True),
        ("e2e.latency.p50 <= baseline + 20%", 0.0004, False),
        ("e2e.latency.p50 <= max(baseline + 20%, 0.3 ms)", None, True),
        ("e2e.latency.p50 <= max(baseline + 20%, 0.3 ms)", 0.01, False),
        ("e2e.latency.p50 <= min(baseline + 20%, 0.3 ms)", 0.01, True),
        ("errors == 0", None, False),
    ],
)
def test_a_limit_that_is_finer_than_the_clocks_cannot_be_judged(
    expression: str, baseline_s: float | None, *, is_open: bool
) -> None:
    """Whether it holds would be a matter of clocks, not of Kafka."""
    threshold = parse_threshold(expression)
    value = limit_value(threshold.limit, baseline_s)
    assert bool(resolution_problems([threshold], [value], of(0.0004))) == is_open
    assert resolution_problems([threshold], [value], of(None)) == []


def test_the_reason_names_limit_and_clocks_and_what_to_do() -> None:
    """The load is not to blame."""
    threshold = parse_threshold("e2e.latency.p99 <= 0.3 ms")
    assert resolution_problems([threshold], [0.0003], of(0.0004)) == [
        problem_told(
            ProblemKind.CLOCK_UNCERTAIN,
            "threshold 'e2e.latency.p99 <= 0.3 ms' cannot be judged, because the clock offset between the sending and "
            "receiving machines is known only to ±400 µs; raise the threshold, move the machines and the Dask "
            "scheduler into one network, or send and receive on the same machine",
        )
    ]


def test_the_commit_interval_is_that_of_most_rounds_and_is_told() -> None:
    """A rebalance in one round makes it longer there."""
    rounds = [Round(metrics={}, commit_interval_s=each) for each in (0.2, 0.9, None, 0.25)]
    told = [Notice(Remark.COMMIT_INTERVAL, {"interval": Quantity(0.25, Unit.SECONDS)})]
    assert (resolution_warnings(rounds), resolution_warnings([])) == (told, [])


@pytest.mark.parametrize(
    ("expression", "is_open"),
    [
        ("app.delay.p99 <= 300 ms", True),
        ("app.drain <= 300 ms", True),
        ("app.recovery <= 300 ms", True),
        ("app.start <= 300 ms", True),
        ("app.recovery.throughput >= 0.1 records/s", False),
        ("app.delay.p99 <= 1 s", False),
        ("e2e.latency.p99 <= 300 ms", False),
        ("app.lag.max <= 1", False),
    ],
)
def test_a_limit_finer_than_the_commit_interval_cannot_be_judged(expression: str, *, is_open: bool) -> None:
    """It would judge when the application commits, not how fast it is."""
    threshold = parse_threshold(expression)
    value = limit_value(threshold.limit, None)
    problem = problem_told(
        ProblemKind.COMMIT_INTERVAL,
        f"threshold {expression!r} cannot be judged, because the group commits only every 1 s; raise the threshold, or "
        "have the application commit more often (offsets are read every 100 ms)",
    )
    assert resolution_problems([threshold], [value], [Round(metrics={}, commit_interval_s=1.0)]) == [problem] * is_open
    assert resolution_problems([threshold], [value], of(None)) == []


@pytest.mark.parametrize(("measured_s", "is_open"), [(4.9, False), (1.4, True)])
def test_a_limit_that_is_exceeded_beyond_doubt_is_judged(measured_s: float, *, is_open: bool) -> None:
    """A sink that falls behind commits rarely, too: that is no reason to hide that it is late."""
    one = Round(metrics={"app.delay.p50": measured_s}, commit_interval_s=1.0)
    assert bool(resolution_problems([parse_threshold("app.delay.p50 <= 500 ms")], [0.5], [one])) is is_open


def test_clocks_that_differ_leave_no_latency_to_judge() -> None:
    """Records that are 5 s younger than nothing would pass every threshold with 0 s."""
    thresholds = [parse_threshold(text) for text in ("e2e.latency.p99 <= 10 s", "consume.throughput >= 1k records/s")]
    skewed = [Round(metrics={}, clock_skew_s=4.9), Round(metrics={}, clock_skew_s=5.0), Round(metrics={})]
    why = "because records carry timestamps up to 5 s after their receipt, so the clocks differ by at least that much"
    assert resolution_warnings(skewed) == [Notice(Remark.LATENCY_UNKNOWN, {"skew": Quantity(5.0, Unit.SECONDS)})]
    assert skew_problems(thresholds, skewed) == [
        problem_told(
            ProblemKind.CLOCK_UNCERTAIN,
            f"threshold 'e2e.latency.p99 <= 10 s': the latency is unknown, {why}; synchronize the clocks, for example "
            "with NTP, or remove the threshold",
        )
    ]
    assert skew_problems(thresholds, of(None)) == []


@pytest.mark.parametrize(("ahead_ms", "is_known"), [(0, True), (1, True), (2, False)])
def test_records_from_the_future_have_no_latency(ahead_ms: int, *, is_known: bool) -> None:
    """Timestamps are whole milliseconds, so that one of them proves nothing."""
    reading = Scenario.of({"producers": 0, "topic": "orders", "consumers": 1})
    latency = Histogram()
    latency.record(np.array([0, 3_000_000]))
    part = Consumed(received=2, total=2, last_ns=2 * NS_PER_S, latency=latency, ahead_ns=ahead_ms * 1_000_000)
    report = observed(workers=[WorkerReport(consumed=[part])], start_ns=1, drain_ns=NS_PER_S)
    one = fold(report, reading)
    assert ("e2e.latency.p99" in one.metrics) is is_known
    assert one.clock_skew_s == (None if is_known else ahead_ms / 1000)
    assert one.metrics["consume.throughput"] == 2
    assert one.problems == ()


def test_a_test_with_a_latency_from_the_future_is_invalid() -> None:
    """For this reason alone, and not also for the values that are missing."""
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_scenario(producers=0, topic="orders", consumers=1).mark]
    marks.append(pytest.mark.kafka_threshold("e2e.latency.p99 <= 1 s").mark)
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    trial = Trial(created="", rounds=(Round(metrics={}, clock_skew_s=5.0),))
    judgement = Judging(perftest, BaselineRounds(), settings).judge([trial])
    assert judgement.verdict is Verdict.INVALID
    assert [problem.kind for problem in judgement.problems] == [ProblemKind.CLOCK_UNCERTAIN]

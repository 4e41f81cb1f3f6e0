"""Lines about the trials so far: what is still open, and for how long."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.units import Count
from pytest_kafkaperf.plugin.console import TrialLines
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.reports.standing import describe_repeat, describe_slowest, describe_standing, further_by_check
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Verdict
from pytest_kafkaperf.verdict.reasons import Reason

P50, P99 = "produce.latency.p50", "produce.latency.p99"
OPEN, ABSOLUTE = f"{P50} <= baseline + 30%", f"{P99} <= 10 s"


def perftest() -> PerfTest:
    settings = read_settings({"cluster": "local", "compare": "local:4.1.0"}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_scenario(rate="1k records/s").mark, pytest.mark.kafka_threshold(OPEN, ABSOLUTE).mark]
    return read_perftest("perf/test_orders.py::test_orders", marks, {}, settings, folder=Path())


def round_of(p50_s: float) -> Round:
    return Round(metrics={P50: p50_s, P99: 2.0, "lost": 0.0, "errors": 0.0, "unsent": 0.0})


def trials_of(*ratios: float) -> list[Trial]:
    """Trials side by side whose own latency is so many times that of the live baseline."""
    level = [round_of(1.0 + step / 1000) for step in range(4)]
    return [
        Trial(
            created="2026-01-01T00:00:00+00:00",
            rounds=tuple(round_of(ratio * one.metrics[P50]) for one in level),
            other_side=tuple(level),
        )
        for ratio in ratios
    ]


def judged(*ratios: float) -> Judgement:
    test = perftest()
    return Judging(test, BaselineRounds(), test.settings).judge(trials_of(*ratios))


def test_a_line_shows_the_open_thresholds_and_the_usual_time_that_is_left() -> None:
    """Minutes without a word look like a hang; what is decided or absolute is left out."""
    assert describe_standing(perftest(), trials_of(1.35, 1.45), judged(1.35, 1.45), left_s=170) == (
        f"test_orders: trial 2, about 3 min left; undecided: {P50} +40% (+24…+57%)"
    )


def test_the_number_of_further_trials_follows_from_the_noise() -> None:
    """A constant "3 min left" for ten minutes is worse than no estimate."""
    (few,), (many,) = (
        further_by_check(perftest(), judged(*ratios)).values() for ratios in ((1.35, 1.45), (3.0, 1.1, 4.0, 1.2))
    )
    assert (few, many) == (4, 16)
    assert further_by_check(perftest(), judged(1.35)) == {}


def test_one_threshold_that_takes_long_is_named_with_the_tolerance_that_would_not() -> None:
    """Nobody waits for it knowingly. If several take long, no single one is to blame."""
    (check,) = [each for each in judged(1.5, 1.0).checks if each.expression == OPEN]
    assert describe_slowest({check: 9}, 540) == (
        f"{OPEN}: needs about 9 more trials (about 9 min), because it differs by 16% between trials; with a tolerance "
        "of 73%, one more would do"
    )
    other = dataclasses.replace(check, expression="another")
    assert describe_slowest({check: 9, other: 4}, 540) == describe_slowest({check: 9}, 540)
    assert describe_slowest({check: 9, other: 5}, 540) is None
    assert describe_slowest({check: 3}, 180) is None
    assert describe_slowest({}, 60) is None


BROKEN = Check(
    expression=ABSOLUTE,
    metric=P99,
    observed=59.3,
    limit_value=10.0,
    outcome=Verdict.VIOLATED,
    reasons=(Reason("why"),),
)
COLD = Problem(Cause.COLD_BROKER, {"names": "broker 1", "cold": 1, "rounds": Count(3, "round"), "most": 0.5})
LATE = Problem(Cause.LOSSES_UNKNOWN, {"reason": "no answer"})


@pytest.mark.parametrize(
    ("outcome", "problems", "why"),
    [
        (Verdict.VIOLATED, (), f"{P99} 59.3 s breaks its limit"),
        (Verdict.INVALID, (COLD,), f"{P99} 59.3 s breaks its limit"),
        (Verdict.VIOLATED, (LATE,), "losses are unknown: no answer"),
        (
            Verdict.PASSED,
            (COLD,),
            "broker 1 still compiled code in 1 of 3 rounds, using up to 50% of a core, and may be faster when warm",
        ),
    ],
)
def test_a_line_shows_why_the_first_trial_is_measured_again(
    outcome: Verdict, problems: tuple[Problem, ...], why: str
) -> None:
    """It may take three times as long as the first one."""
    check = dataclasses.replace(BROKEN, outcome=outcome)
    judgement = Judgement(verdict=Verdict.INVALID, checks=(check,), problems=problems)
    assert describe_repeat(perftest(), judgement) == f"test_orders: {why}; measuring again"


def test_the_line_of_the_last_trial_has_the_verdict() -> None:
    """The table comes after the last test, which may be an hour later."""
    ratios = [2.0, 2.01, 2.02, 2.03]
    line = describe_standing(perftest(), trials_of(*ratios), judged(*ratios), left_s=60)
    assert line == "test_orders: trial 4 decides: REGRESSED"


def test_each_trial_has_a_line_unless_the_first_one_decides() -> None:
    """For a single trial, pytest's own line is enough."""
    lines: list[str] = []
    ratios = [2.0, 2.5, 2.1, 2.2]
    show = TrialLines(perftest(), [], lines.append, calibrate=None)
    for count in range(1, len(ratios) + 1):
        show(trials_of(*ratios[:count]), judged(*ratios[:count]))
    assert [line.partition(",")[0] for line in lines] == [
        "test_orders: trial 1",
        "test_orders: trial 2",
        "test_orders: trial 3",
        "test_orders: trial 4 decides: REGRESSED",
    ]
    decided: list[str] = []
    TrialLines(perftest(), [], decided.append, calibrate=None)(trials_of(1.0), judged(*ratios))
    assert decided == []

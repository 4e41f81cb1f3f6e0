"""Metrics that a test records: its functions are asked at the end of a round."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest

from pytest_kafkaperf.core.metrics import declare
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.runner.rounds import actions
from pytest_kafkaperf.runner.rounds.actions import Action, ActionTimer
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import problem_told

MUST = "it must return a finite number of at least 0"
ENDED = LoadReport(workers=(), start_ns=5)


def recorded(function: Callable[[], object], report: LoadReport = ENDED) -> Observations:
    """A load with the value of one metric, `app.rows`."""
    with ActionTimer([Action(math.inf, function, metric="app.rows")]) as recorder:
        recorder.settle(report)
    return Observations(load=report, action_problems=tuple(recorder.problems), recorded=recorder.recorded)


def raise_error() -> None:
    raise RuntimeError("no such counter")


@pytest.mark.parametrize("value", [0, 7, 2.5, np.int64(9), np.float32(0.5)])
def test_the_value_of_a_round_is_what_the_function_returns(value: float) -> None:
    report = recorded(lambda: value)
    assert (report.recorded, report.problems) == ({"app.rows": float(value)}, ())


@pytest.mark.usefixtures("catalogue")
def test_a_round_has_the_metric_next_to_those_of_the_load() -> None:
    """Thresholds, baselines and reports see no difference."""
    declare("app.rows", unit="rows", better="higher")
    one = fold(recorded(lambda: 7), Scenario.of({"rate": 100, "duration": "10 s"}))
    assert one.metrics["app.rows"] == 7


@pytest.mark.parametrize(
    ("function", "text"),
    [
        *(
            (
                lambda value=value: value,
                f"ValueError: the function returned {value!r}; it must return a finite number of at least 0",
            )
            for value in (-1, math.nan, math.inf, None, True, "7", Decimal(7))
        ),
        (raise_error, "RuntimeError: no such counter"),
    ],
)
def test_a_value_that_is_no_value_is_a_problem_of_the_round(function: Callable[[], object], text: str) -> None:
    """A round without the value would be compared with rounds that have one."""
    report = recorded(function)
    problem = problem_told(ProblemKind.ACTION_FAILED, f"kafka_perf.add_metric('app.rows'): {text}")
    assert (report.recorded, report.problems) == ({}, (problem,))


def test_a_function_that_hangs_is_a_problem_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may wait for an application that is gone."""
    monkeypatch.setattr(actions, "_JOIN_TIMEOUT_S", 0.05)
    released = threading.Event()
    report = recorded(released.wait)
    released.set()
    text = "kafka_perf.add_metric('app.rows'): it did not finish before the end of the round"
    assert report.problems == (problem_told(ProblemKind.ACTION_FAILED, text),)


@pytest.mark.parametrize(
    "report",
    [
        LoadReport(workers=(), start_ns=None),
        LoadReport(workers=(), start_ns=5, problems=(problem_told(ProblemKind.WORKER_LOST, "gone"),)),
    ],
)
def test_after_a_load_that_failed_nothing_is_asked(report: LoadReport) -> None:
    """One reason is enough."""
    assert recorded(raise_error, report) == Observations(load=report)

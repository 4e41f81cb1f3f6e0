"""A first trial that ends early: only where the rounds that are left could not fail the test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from tests.support.results import NO_FAULTS

RATE, P99 = "produce.throughput", "produce.latency.p99"
RELATIVE = f"{RATE} >= baseline - 10%"
SPREAD = (0.97, 0.99, 1.0, 1.01, 1.03)


def suffices(
    rates: Sequence[float],
    *thresholds: str,
    trials: int = 3,
    options: dict[str, str] | None = None,
    metrics: dict[str, float] | None = None,
    **fields: Any,
) -> bool:
    """Return True if a trial may end after rounds of these rates; the baseline's are about 1."""
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    marks += [pytest.mark.kafka_threshold(each).mark for each in thresholds]
    settings = read_settings(options or {}, {}, invocation_folder=Path(), root=Path())
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    baseline = BaselineRounds(trials=tuple(tuple({RATE: one} for one in SPREAD) for _ in range(trials)))
    return Judging(perftest, baseline, settings).suffices(
        [Round(metrics={RATE: rate, P99: 0.01, **NO_FAULTS, **(metrics or {})}) for rate in rates]
    )


@pytest.mark.parametrize(
    ("rates", "enough"),
    [
        ([1.0, 1.0], False),  # the other three decide the median
        ([1.0, 1.0, 1.0], True),
        ([0.95, 0.93, 0.92], True),
        ([1.0, 0.89, 1.0], False),
        ([1.0, 0.89, 1.0, 1.0], True),
        ([0.89, 0.89, 1.0, 1.0], False),
        ([0.5, 0.5, 0.5], False),  # a suspected regression needs all rounds
        ([2.0, 2.0, 2.0], False),  # so does an improvement
    ],
)
def test_a_trial_ends_when_most_of_its_rounds_are_within_the_tolerance(rates: list[float], *, enough: bool) -> None:
    """The median of five rounds is within it, too, whatever the others are."""
    assert suffices(rates, RELATIVE) == enough


@pytest.mark.parametrize(
    ("threshold", "enough"),
    [
        (f"{P99} <= 10 ms", True),
        (f"{P99} < 10 ms", False),
        ("errors == 0", False),  # the sum of all rounds
        (f"{RATE} >= max(baseline - 10%, 0.5 records/s)", True),
    ],
)
def test_absolute_thresholds_count_by_their_median(threshold: str, *, enough: bool) -> None:
    """An error in the fourth round would be missed."""
    assert suffices([1.0] * 3, threshold, metrics={"errors": 0.0}) == enough
    assert suffices([1.0] * 3, threshold, RELATIVE, metrics={"errors": 0.0}) == enough


@pytest.mark.parametrize(
    "given",
    [
        {"rounds": 5},
        {"options": {"update-baselines": "add"}},
        {"options": {"calibrate": "3"}},
        {"options": {"compare": "local:4.0.0", "cluster": "local"}},
        {"trials": 0},
    ],
)
def test_a_trial_is_measured_as_a_whole_where_its_rounds_are_needed(given: dict[str, Any]) -> None:
    """For a baseline, for the noise of the test, and because somebody said so."""
    assert not suffices([1.0] * 3, RELATIVE, **given)


def test_without_a_threshold_all_rounds_are_measured() -> None:
    """Nothing says how close they are to anything."""
    assert not suffices([1.0] * 4)

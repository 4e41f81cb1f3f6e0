"""The minimum detectable change of a limit is that of all its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured

approx: Any = pytest.approx

P99, RATE = "produce.latency.p99", "produce.throughput"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def trial(level: float, name: str = P99) -> list[Mapping[str, float]]:
    return [{name: level * factor} for factor in SPREAD]


def found(limit: str, *, level: float = 0.01, trials: int = 5) -> float | None:
    threshold = parse_threshold(limit)
    rounds = trial(level, threshold.metric.name)
    days = tuple(f"2026-01-0{day}" for day in range(1, trials + 1))
    baseline = BaselineRounds(trials=(tuple(rounds),) * trials, days=days)
    judgement = judge(
        [threshold],
        [Measured(rounds=rounds)],
        FreshTrials(first=AgainstStored(baseline=baseline, confirmation="fresh")),
    )
    return judgement.checks[0].detectable_change


def test_a_limit_on_the_baseline_finds_a_little_more_than_its_tolerance() -> None:
    """In the metric's direction."""
    assert found(f"{P99} <= baseline + 10%") == approx(0.178, abs=0.01)
    assert found(f"{RATE} >= baseline - 10%", level=1e6) == approx(-0.151, abs=0.01)


def test_an_absolute_limit_finds_what_is_a_little_beyond_it() -> None:
    """However far the values are from it now."""
    assert found(f"{P99} <= 25 ms") == approx(0.035, abs=0.01)
    assert found(f"{RATE} >= 100k records/s", level=1e6) == approx(-0.035, abs=0.01)
    assert found(f"{P99} == 25 ms") is None


def test_of_two_limits_the_one_that_decides_counts() -> None:
    """`max(baseline + 10%, 100 ms)` at 10 ms lets everything up to 100 ms pass: a value of 11% would be a lie."""
    assert found(f"{P99} <= max(baseline + 10%, 100 ms)") == approx(9.36, abs=0.1)
    assert found(f"{P99} <= max(baseline + 10%, 5 ms)") == found(f"{P99} <= baseline + 10%")
    assert found(f"{P99} <= min(baseline + 50%, 12 ms)") == approx(0.243, abs=0.01)
    assert found(f"{RATE} >= min(baseline - 10%, 100k records/s)", level=1e6) == approx(-0.9, abs=0.01)


def test_without_noise_to_go_by_there_is_no_value() -> None:
    """A baseline of another machine says nothing of this one."""
    assert found(f"{P99} <= baseline + 10%", trials=0) is None
    elsewhere = BaselineRounds(trials=(tuple(trial(0.01)),), obstacle=Obstacle(ObstacleKind.NO_BASELINE))
    (check,) = judge(
        [parse_threshold(f"{P99} <= baseline + 10%")],
        [Measured(rounds=trial(0.01))],
        FreshTrials(first=AgainstStored(baseline=elsewhere, confirmation="fresh")),
    ).checks
    assert check.detectable_change is None


def test_limits_that_share_an_error_find_less() -> None:
    """Each of two must be surer than one alone: its value is that of the rule that judges it."""
    names = (P99, "e2e.latency.p99")
    rounds = [dict.fromkeys(names, 0.01 * factor) for factor in SPREAD]
    limits = [parse_threshold(f"{name} <= baseline + 10%") for name in names]
    alone, together = (
        judge(
            limits[:number],
            [Measured(rounds=rounds)],
            FreshTrials(
                first=AgainstStored(baseline=BaselineRounds(trials=(tuple(rounds),) * 5), confirmation="fresh")
            ),
        )
        .checks[0]
        .detectable_change
        for number in (1, 2)
    )
    assert alone is not None
    assert together is not None
    assert alone < together

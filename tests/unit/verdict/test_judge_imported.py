"""Against results of another tool the ratio alone decides: their noise is not known."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured

P99 = "produce.latency.p99"
ONE_ROUND = BaselineRounds(trials=(({P99: 0.010},),), imported="kafka-producer-perf-test")
ALONE = (
    "against a baseline imported from kafka-producer-perf-test (by ratio alone, because the noise of imported results "
    "is unknown)"
)
THRESHOLD = "the threshold is +10.0%"


def judged(
    first: float,
    fresh: Sequence[float] | None = None,
    *,
    baseline: BaselineRounds = ONE_ROUND,
    limit: str = f"{P99} <= baseline + 10%",
) -> Judgement:
    """Each trial has two rounds around so many times 10 ms."""

    def trial(factor: float) -> Measured:
        return Measured(rounds=[{P99: 0.0099 * factor}, {P99: 0.010 * factor}, {P99: 0.0101 * factor}])

    alone = AgainstStored(baseline=baseline, confirmation="none" if fresh is None else "fresh")
    trials = [trial(factor) for factor in (first, *(fresh or ()))]
    return judge([parse_threshold(limit)], trials, FreshTrials(first=alone))


@pytest.mark.parametrize(
    ("first", "verdict", "reason"),
    [
        (1.5, Verdict.REGRESSED, f"+50.0% {ALONE}; {THRESHOLD}"),
        (1.05, Verdict.PASSED, f"+5.0% {ALONE}; {THRESHOLD}"),
        (1.1, Verdict.PASSED, f"+10.0% {ALONE}; {THRESHOLD}"),
        (0.5, Verdict.IMPROVED, f"-50.0% {ALONE}; {THRESHOLD}"),
    ],
)
def test_one_trial_against_a_single_round_is_judged_by_its_ratio(first: float, verdict: Verdict, reason: str) -> None:
    """A rank test of three against one could never decide, and a gate that sleeps is none."""
    judgement = judged(first)
    assert (judgement.verdict, judgement.checks[0].reason, judgement.unsettled) == (verdict, reason, False)


@pytest.mark.parametrize(
    ("fresh", "verdict", "unsettled", "reason"),
    [
        (
            (),
            Verdict.INCONCLUSIVE,
            True,
            f"+50.0% {ALONE}; {THRESHOLD}; suspected regression, not yet confirmed by fresh trials",
        ),
        (
            (1.5,),
            Verdict.INCONCLUSIVE,
            True,
            f"suspected regression, after 1 fresh trial: +50.0% {ALONE}; {THRESHOLD}",
        ),
        (
            (1.0, 1.05),
            Verdict.PASSED,
            False,
            f"suspected regression, not confirmed by 2 fresh trials: 0.0%, +5.0% {ALONE}; {THRESHOLD}",
        ),
        (
            (1.5, 1.5),
            Verdict.INCONCLUSIVE,
            True,
            f"suspected regression, after 2 fresh trials: +50.0%, +50.0% {ALONE}; {THRESHOLD}",
        ),
        (
            (1.5, 1.0, 1.2),
            Verdict.REGRESSED,
            False,
            f"confirmed by 3 fresh trials: +50.0%, 0.0%, +20.0% {ALONE}; {THRESHOLD}",
        ),
    ],
)
def test_a_suspected_regression_is_confirmed_by_the_median_of_three_trials(
    fresh: Sequence[float], verdict: Verdict, *, unsettled: bool, reason: str
) -> None:
    """Our own noise between trials is there anyway."""
    judgement = judged(1.5, fresh)
    found = (judgement.verdict, judgement.unsettled, judgement.checks[0].reason)
    assert found == (verdict, unsettled, reason)


def test_no_change_is_said_to_be_found() -> None:
    """The minimum detectable change rests on noise; that of an absolute limit on our own rounds."""
    assert judged(1.0).checks[0].detectable_change is None
    absolute = judged(1.0, limit=f"{P99} <= 20 ms").checks[0].detectable_change
    assert absolute == judged(1.0, baseline=BaselineRounds(), limit=f"{P99} <= 20 ms").checks[0].detectable_change
    assert absolute is not None


def test_an_obstacle_stays_one() -> None:
    """Imported results of another environment do not count either."""
    elsewhere = dataclasses.replace(ONE_ROUND, obstacle=Obstacle(ObstacleKind.NO_BASELINE))
    check = judged(3, baseline=elsewhere).checks[0]
    assert (check.outcome, check.obstacle) == (Verdict.INCONCLUSIVE, elsewhere.obstacle)


def test_a_value_that_was_left_out_decides_nothing() -> None:
    """A p99 that was printed as 0 ms is no baseline."""
    without = dataclasses.replace(ONE_ROUND, trials=(({"produce.throughput": 5.0},),))
    check = judged(3, baseline=without).checks[0]
    assert (check.outcome, check.reason) == (
        Verdict.INCONCLUSIVE,
        "produce.latency.p99 is missing in round 1 of 1 of the baseline's trial 1",
    )

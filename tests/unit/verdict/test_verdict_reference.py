"""Limits judged against a reference that ran beside the test: pair by pair, without a stored baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_kafkaperf.scenario.threshold import parse_threshold
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.comparison import Measured
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Judgement, judge

approx: Any = pytest.approx

RATE = "produce.throughput"
MACHINE = (1.0, 0.6, 1.3, 0.9, 1.1, 0.7, 1.2)
"""What the machine did while each pair ran: far more than what is to be found."""


def beside(factor: float, *, pairs: int = 5) -> Measured:
    """A session whose rounds are the reference's times `factor`, but for a little noise."""
    noise = (0.995, 1.0, 1.005, 1.002, 0.998, 1.001, 0.999)
    return Measured(
        rounds=rounds([1e6 * machine * factor * own for machine, own in zip(MACHINE, noise, strict=True)][:pairs]),
        reference=rounds([1e6 * machine for machine in MACHINE][:pairs]),
    )


def rounds(values: Sequence[float]) -> list[Mapping[str, float]]:
    return [{RATE: value} for value in values]


def judged(
    first: Measured, *fresh: Measured, confirm: bool = True, limit: str = f"{RATE} >= baseline - 10%"
) -> Judgement:
    return judge(
        thresholds=[parse_threshold(limit)],
        session=first,
        baseline=BaselineRounds(),
        fresh=fresh if confirm else None,
    )


def test_pairs_see_through_what_the_machine_did_to_both() -> None:
    """Rounds scatter by a factor of two, and 20 % less stands out."""
    judgement = judged(beside(0.8), *[beside(0.8)] * 3)
    (check,) = judgement.checks
    assert judgement.verdict is Verdict.REGRESSED
    assert check.change == approx(-0.2, abs=0.005)
    assert check.baseline == 1e6
    assert check.reason == (
        "confirmed by 3 fresh sessions: -20.0 %, -20.0 %, -20.0 %; the threshold is -10.0 %; significant "
        "(p = 3.05e-05, 15 pairs)"
    )


def test_a_pair_of_equals_passes() -> None:
    """The same broker twice."""
    judgement = judged(beside(1.0))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert judgement.checks[0].reason == "0.0 % against the reference, the threshold is -10.0 %"


def test_beside_a_reference_a_stored_baseline_is_no_obstacle() -> None:
    """There need not be one, and another machine's says nothing."""
    judgement = judge(
        thresholds=[parse_threshold(f"{RATE} >= baseline - 10%")],
        session=beside(0.5, pairs=7),
        baseline=BaselineRounds(obstacle="no baseline for this test"),
    )
    assert judgement.verdict is Verdict.REGRESSED


def test_a_suspect_waits_for_fresh_sessions_of_both() -> None:
    """As against a stored baseline: one pair of clusters differs by chance, too."""
    assert judged(beside(0.8)).unsettled
    assert judged(beside(0.8), beside(1.0), beside(0.99)).verdict is Verdict.PASSED


def test_five_pairs_alone_cannot_decide_and_say_what_can() -> None:
    """All five worse has p = 1/32: a limit that could never fail must not pass."""
    (check,) = judged(beside(0.5), confirm=False).checks
    assert (check.outcome, check.reason) == (
        Verdict.INCONCLUSIVE,
        "too few rounds to prove a regression: 5 pairs; use rounds=7 or more",
    )
    assert judged(beside(0.5, pairs=7), confirm=False).verdict is Verdict.REGRESSED
    (check,) = judged(beside(0.5, pairs=2)).checks
    assert check.reason == "too few rounds to prove a regression: 2 pairs; use rounds=3 or more"


def test_limits_that_share_an_error_need_rounds_for_it() -> None:
    """Three pairs a session give p = 1/512 at best: enough for one limit, and never below 0.01 / 6 for one of six."""
    metrics = [f"produce.latency.{quantile}" for quantile in ("mean", "p50", "p90", "p95", "p99", "p99.9")]
    worse = Measured(
        rounds=[dict.fromkeys(metrics, 1.0 + own / 100) for own in range(3)],
        reference=[dict.fromkeys(metrics, 0.1) for _ in range(3)],
    )
    limits = [parse_threshold(f"{name} <= baseline + 10%") for name in metrics]
    (check, *others) = judge(thresholds=limits, session=worse, baseline=BaselineRounds(), fresh=[worse] * 3).checks
    assert {each.outcome for each in (check, *others)} == {Verdict.INCONCLUSIVE}
    assert check.reason == "too few rounds to prove a regression: 3 pairs; use rounds=4 or more"
    assert (
        judge(thresholds=limits[:5], session=worse, baseline=BaselineRounds(), fresh=[worse] * 3).verdict
        is Verdict.REGRESSED
    )


def test_seven_pairs_show_what_got_better() -> None:
    """A newer version that is faster is worth a word."""
    assert judged(beside(1.3, pairs=7)).verdict is Verdict.IMPROVED


def test_the_limit_follows_the_reference() -> None:
    """What the report shows as the limit is what the reference gave, less the tolerance."""
    (check,) = judged(beside(1.0)).checks
    assert check.limit_value == approx(0.9e6)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf"), -1.0])
def test_what_has_no_ratio_on_either_side_decides_nothing(value: float) -> None:
    """A broken figure of the reference is as bad as one of our own."""
    sound = rounds([1e6] * 5)
    broken = rounds([1e6] * 4 + [value])
    for session in (Measured(rounds=sound, reference=broken), Measured(rounds=broken, reference=sound)):
        assert judged(session).verdict is Verdict.INCONCLUSIVE
    (check,) = judged(Measured(rounds=sound, reference=broken)).checks
    assert "of the reference" in check.reason


def test_rounds_without_their_pairs_decide_nothing() -> None:
    """Never a pair of two rounds that did not run side by side."""
    (check,) = judged(Measured(rounds=rounds([1e6] * 5), reference=rounds([1e6] * 4))).checks
    assert (check.outcome, check.reason) == (Verdict.INCONCLUSIVE, "5 rounds and 4 of the reference do not form pairs")


def test_absolute_limits_judge_the_test_alone() -> None:
    """An SLA is the candidate's."""
    assert judged(beside(0.5), limit=f"{RATE} >= 400k records/s").verdict is Verdict.PASSED
    assert judged(beside(0.3), limit=f"{RATE} >= 400k records/s").verdict is Verdict.VIOLATED


def test_the_minimum_detectable_change_is_that_of_the_differences() -> None:
    """Pairs differ by half a per cent: little more than the tolerance is found."""
    (check,) = judged(beside(1.0)).checks
    assert check.detectable == approx(-0.105, abs=0.004)

"""Obstacles to a comparison, and the reasons of thresholds: reports show each with or without its advice."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind, Reason, joined

_ONE = "measure one with --kafka-update-baselines"
_NEW = "measure a new baseline with --kafka-update-baselines"
_CHANGES = {"changes": "brokers: 3 -> 2; kafka: 4.0 -> 4.1"}


@pytest.mark.parametrize(
    ("obstacle", "fact", "advice"),
    [
        (Obstacle(ObstacleKind.NO_BASELINE), "no baseline for this test", _ONE),
        (
            Obstacle(ObstacleKind.OTHER_ENVIRONMENT, {"environment": "new", "known": "'ci', 'laptop'"}),
            "no baseline for environment 'new' (there is one for 'ci', 'laptop')",
            _ONE,
        ),
        (
            Obstacle(ObstacleKind.OTHER_SCENARIO, _CHANGES),
            "the scenario differs from the baseline's (brokers: 3 -> 2; kafka: 4.0 -> 4.1)",
            _NEW,
        ),
        (
            Obstacle(ObstacleKind.OTHER_CLUSTER, _CHANGES),
            "the baseline was measured on another cluster (brokers: 3 -> 2; kafka: 4.0 -> 4.1)",
            f"run the test on that cluster, use --kafka-environment for separate baselines, or {_NEW}",
        ),
        (
            Obstacle(ObstacleKind.INVALID_REPORT, {"problem": "round 1: the broker was lost"}),
            "the base run is INVALID: round 1: the broker was lost",
            "",
        ),
        (
            Obstacle(ObstacleKind.OTHER_SCENARIO_REPORTED, _CHANGES),
            "the scenario differs from the base report (brokers: 3 -> 2; kafka: 4.0 -> 4.1)",
            "",
        ),
        (
            Obstacle(ObstacleKind.OTHER_ENVIRONMENT_REPORTED, {"base": "ci", "head": "laptop"}),
            "the base report is from environment 'ci', not 'laptop'; the change is shown but not judged",
            "",
        ),
    ],
    ids=lambda value: value.kind.name if isinstance(value, Obstacle) else "",
)
def test_each_obstacle_has_a_fact_and_perhaps_advice(obstacle: Obstacle, fact: str, advice: str) -> None:
    """Reports show the fact next to the test's name, and the advice only where no command follows."""
    assert (obstacle.fact, obstacle.advice) == (fact, advice)
    assert str(obstacle) == (f"{fact}; {advice}" if advice else fact)


def test_a_command_replaces_the_advice_to_make_a_baseline() -> None:
    """The command that makes one follows, so the advice would be there twice."""
    reason = Reason.of(Obstacle(ObstacleKind.NO_BASELINE))
    assert str(reason) == f"no baseline for this test; {_ONE}"
    assert reason.before_command == "no baseline for this test"


def test_a_command_does_not_replace_other_advice() -> None:
    """No command of a report runs a test on another cluster."""
    reason = Reason.of(Obstacle(ObstacleKind.OTHER_CLUSTER, _CHANGES))
    assert reason.before_command == str(reason)


def test_a_reason_of_a_part_keeps_its_advice() -> None:
    """A limit may have an absolute part, which needs no baseline."""
    relative = Reason.of(Obstacle(ObstacleKind.NO_BASELINE)).of_part("baseline + 10%")
    absolute = Reason("median of 5 rounds, each 30 ms").of_part("25 ms")
    assert joined([relative, absolute]) == (
        f"baseline + 10%: no baseline for this test; {_ONE}; 25 ms: median of 5 rounds, each 30 ms"
    )
    assert relative.before_command == "baseline + 10%: no baseline for this test"

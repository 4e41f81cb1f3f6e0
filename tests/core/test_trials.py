"""The sessions of one test: which of them count, and what they tell."""

from __future__ import annotations

from pytest_kafkaperf.flaws import TOO_SLOW
from pytest_kafkaperf.result import MOST_SPOILT, Trial, judged, problems_of, warnings_of


def trial(*problems: str) -> Trial:
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=(), problems=problems)


SOUND = trial()
SPOILT = trial(f"round 2: {TOO_SLOW}: 296 of 6000 records were sent late")
LOST = trial("round 1: 5 records were lost", f"round 2: {TOO_SLOW}: so what")


def test_a_further_session_that_the_machine_has_spoilt_does_not_count_and_is_told() -> None:
    """It says nothing of the cluster, and another one is measured in its place."""
    trials = [SOUND, SPOILT, SOUND]
    assert judged(trials) == [SOUND, SOUND]
    assert problems_of(trials) == ()
    assert warnings_of(trials) == (
        "session 2 was measured again: round 2: generator too slow: 296 of 6000 records were sent late",
    )


def test_what_the_cluster_has_done_always_counts() -> None:
    """A record that is lost is lost, whatever else was wrong."""
    assert problems_of([SOUND, LOST]) == (
        "session 2: round 1: 5 records were lost",
        f"session 2: round 2: {TOO_SLOW}: so what",
    )


def test_the_first_session_always_counts() -> None:
    """A generator that is too slow makes the run INVALID, never Kafka slow."""
    assert problems_of([SPOILT]) == SPOILT.problems


def test_a_machine_that_spoils_session_after_session_is_not_tried_for_ever() -> None:
    """Nothing hangs."""
    trials = [SOUND, *[SPOILT] * (MOST_SPOILT + 1)]
    assert judged(trials) == trials
    assert len(problems_of(trials)) == MOST_SPOILT + 1

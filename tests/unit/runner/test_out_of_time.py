"""A suspect for whose confirmation there is no time: it fails if it is clear, and says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.case import read_case
from pytest_kafkaperf.runner.judging import CaseJudge
from pytest_kafkaperf.runner.result import MeasuredSession
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.side_by_side import Rebuilt

RATE = "produce.throughput"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def judged(*levels: float, busy: str | None = None, reference: bool = False, imported: str | None = None) -> Judgement:
    """Judge sessions of these levels, without time for another one."""
    return judge_of(imported).judge_clear(
        [session(level, busy, with_reference=reference and number > 0) for number, level in enumerate(levels)]
    )


def judge_of(imported: str | None = None) -> CaseJudge:
    """Return the judge of a test whose baseline has the level 1."""
    marks = [pytest.mark.kafka_threshold(*(f"{RATE} >= baseline - 10%",)).mark]
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    case = read_case("a.py::test", marks, {}, settings, folder=Path())
    baseline = BaselineRounds(sessions=(tuple({RATE: one} for one in SPREAD),) * 3, imported=imported)
    return CaseJudge(case, baseline, settings)


def session(level: float, busy: str | None, *, with_reference: bool) -> MeasuredSession:
    rounds: Sequence[Round] = [Round(metrics={RATE: level * factor}, busy_warning=busy) for factor in SPREAD]
    other = tuple(rounds) if with_reference else None
    return MeasuredSession(created="2026-01-01T00:00:00+00:00", rounds=tuple(rounds), reference=other)


def test_a_machine_that_is_known_to_be_slower_explains_a_clear_suspect() -> None:
    """Then only a session beside the baseline's brokers tells Kafka from the machine."""
    judge = judge_of()
    judge.rebuilt = Rebuilt(slower_machine="test_b")
    judgement = judge.judge_clear([session(0.5, None, with_reference=False)])
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_a_clear_suspect_fails_and_says_why_nothing_confirmed_it() -> None:
    """A job whose time is over would be green with half of the throughput."""
    judgement = judged(0.5)
    (check,) = judgement.checks
    assert (judgement.verdict, check.outcome, judgement.unsettled) == (Verdict.REGRESSED, Verdict.REGRESSED, False)
    assert check.reason == (
        "-50.0 % against the baseline, the threshold is -10.0 %; suspected regression, not yet confirmed by fresh "
        "sessions; there is no time to confirm it, but it is clear: each round is worse than twice the tolerance and "
        "the noise, and no other program used much of this machine"
    )


@pytest.mark.parametrize(
    ("levels", "given"),
    [
        ((0.85,), {}),
        ((0.5,), {"busy": "this machine was busy"}),
        ((0.5, 0.85), {}),
        ((0.5, 0.5), {"reference": True}),  # sessions beside the baseline's brokers have their own rule
        ((0.5,), {"imported": "kafka-producer-perf-test"}),  # its noise is unknown
    ],
)
def test_any_other_suspect_stays_inconclusive(levels: tuple[float, ...], given: dict[str, Any]) -> None:
    """A false alarm costs more than another run."""
    judgement = judged(*levels, **given)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_a_session_within_the_tolerance_passes() -> None:
    """Only suspects are concerned."""
    assert judged(1.0).verdict is Verdict.PASSED

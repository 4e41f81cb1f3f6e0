"""A loss of acknowledged records is a failure of Kafka: an implied threshold fails the test and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.case import Case, read_case
from pytest_kafkaperf.runner.judging import CaseJudge
from pytest_kafkaperf.runner.result import MeasuredSession
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict


def case(*thresholds: str, **fields: Any) -> Case:
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    marks += [pytest.mark.kafka_threshold(each).mark for each in thresholds]
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    return read_case("a.py::test", marks, {}, settings, folder=Path())


def judged(tested: Case, *lost: float | None) -> Judgement:
    """Judge one round for each number of lost records; None if it is not known."""
    rounds = [Round(metrics={"errors": 0.0} if one is None else {"errors": 0.0, "lost": one}) for one in lost]
    session = MeasuredSession(created="2026-01-01T00:00:00+00:00", rounds=tuple(rounds))
    return CaseJudge(tested, BaselineRounds(), tested.settings).judge([session])


def test_lost_records_violate_an_implied_threshold() -> None:
    """Nobody must declare that acknowledged records are kept."""
    judgement = judged(case("errors == 0"), 0, 2, 0, 3)
    assert (judgement.verdict, judgement.problems) == (Verdict.VIOLATED, ())
    broken = judgement.checks[-1]
    assert (broken.expression, broken.observed, broken.outcome, broken.implied, broken.reason) == (
        "lost == 0",
        5,
        Verdict.VIOLATED,
        True,
        "Kafka acknowledged these records, and they are not in the log; this threshold is implied, and a threshold of "
        "your own on `lost` replaces it",
    )


@pytest.mark.parametrize("lost", [0.0, None])
def test_no_loss_needs_no_line(lost: float | None) -> None:
    """The table shows what was declared."""
    judgement = judged(case("errors == 0"), lost, lost)
    assert judgement.verdict is Verdict.PASSED
    assert [check.expression for check in judgement.checks] == ["errors == 0"]


def test_a_declared_threshold_replaces_the_implied_one() -> None:
    """A test of an unclean failover may allow some losses."""
    judgement = judged(case("lost <= 5"), 2, 3)
    assert judgement.verdict is Verdict.PASSED
    assert judged(case("lost <= 5"), 2, 4).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("with_reference", [True, False])
def test_counts_hold_in_each_session(with_reference: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A later session can break a threshold on a count, and many sessions do not add up to more."""
    tested = case("duplicated <= 5", "lost == 0")
    judge = CaseJudge(tested, BaselineRounds(), tested.settings)

    def verdict(*sessions: tuple[float, float]) -> Verdict:
        measured = []
        for duplicated, lost in sessions:
            rounds = (Round(metrics={"duplicated": duplicated, "lost": lost}),) * 2
            reference = rounds if with_reference else None
            measured.append(MeasuredSession(created="2026-01-01T00:00:00+00:00", rounds=rounds, reference=reference))
        return judge.judge(measured).verdict

    assert verdict((2, 0), (2, 0), (2, 0)) is Verdict.PASSED
    assert verdict((0, 0), (3, 0), (0, 0)) is Verdict.VIOLATED
    assert verdict((0, 0), (0, 1), (0, 0)) is Verdict.VIOLATED


def test_an_application_may_drop_records() -> None:
    """A filter drops records on purpose; its test says how many with a threshold on `lost`."""
    fields = {"output_topic": "out", "topic": "in", "consumers": 1, "rate": "100/s"}
    assert judged(case("errors == 0", **fields), 7).verdict is Verdict.PASSED


def test_a_test_without_thresholds_fails_too() -> None:
    """It is measured, but Kafka lost data."""
    assert judged(case(), 1).verdict is Verdict.VIOLATED

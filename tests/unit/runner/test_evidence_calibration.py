"""What a calibration says of a test's thresholds, next to the values of its noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.scale import change_of
from tests.support.results import NO_FAULTS

RATE = "produce.throughput"
ROUNDS = tuple(tuple({RATE: level * own} for own in (0.98, 1.0, 1.01)) for level in (0.97, 1.0, 1.02))
TRIALS = [Trial(created="", rounds=tuple(Round(metrics={**one, **NO_FAULTS}) for one in rounds)) for rounds in ROUNDS]


def judge_of(threshold: str) -> Judging:
    settings = read_settings({"calibrate": "3"}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold(threshold).mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    return Judging(perftest, BaselineRounds(trials=ROUNDS), settings, alone=None)


def test_a_threshold_detects_the_same_in_both_tables() -> None:
    """Against a baseline of the same trials; suspected regressions will be confirmed in the same way."""
    judge = judge_of(f"{RATE} >= baseline - 10%")
    found, notes = judge.calibrate(TRIALS)
    (check,) = judge.judge(TRIALS).checks
    assert notes == []
    assert check.detectable_change == change_of(CATALOGUE[RATE], found[RATE].detectable_change)


def test_of_a_limit_of_two_parts_the_relative_one_is_calibrated() -> None:
    """The other may hide much larger changes."""
    limit = f"{RATE} >= min(baseline - 10%, 1 records/s)"
    _, notes = judge_of(limit).calibrate(TRIALS)
    assert notes == [Notice(Remark.PARTLY_CALIBRATED, {"expression": limit})]


def test_a_metric_that_a_round_lacks_is_told_by_trial_and_round() -> None:
    """There is no baseline in a calibration."""
    lacking = Trial(created="", rounds=(*TRIALS[0].rounds, Round(metrics={})))
    _, notes = judge_of(f"{RATE} >= baseline - 10%").calibrate([TRIALS[1], lacking])
    assert notes == [Notice(Remark.NOT_CALIBRATED, {"reason": f"{RATE} is missing in round 4 of 4 of trial 2"})]

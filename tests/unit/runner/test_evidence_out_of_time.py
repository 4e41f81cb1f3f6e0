"""A suspected regression for whose confirmation there is no time: it fails if it is clear, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.environment import Change, Part
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from tests.support.problems import BUSY
from tests.support.results import NO_FAULTS

RATE = "produce.throughput"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def judged(
    *levels: float,
    busy: bool = False,
    cold: bool = False,
    live_baseline: float | None = None,
    imported: str | None = None,
) -> Judgement:
    """Judge trials, of which the further ones may run side by side with a live baseline; there is no time for more."""
    first, *others = levels
    trials = [
        trial(first, busy=busy, cold=cold),
        *(trial(level, busy=busy, live_baseline=live_baseline) for level in others),
    ]
    return judge_of(imported).judge_clear(trials, brokers=None if live_baseline is None else BaselineBrokers())


def judge_of(imported: str | None = None, options: Mapping[str, str] | None = None) -> Judging:
    """Return the judge of a test whose baseline has the level 1."""
    marks = [pytest.mark.kafka_threshold(*(f"{RATE} >= baseline - 10%",)).mark]
    settings = read_settings(options or {}, {}, invocation_folder=Path(), root=Path())
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    baseline = BaselineRounds(trials=(tuple({RATE: one} for one in SPREAD),) * 3, imported=imported)
    return Judging(perftest, baseline, settings)


def trial(level: float, *, busy: bool = False, cold: bool = False, live_baseline: float | None = None) -> Trial:
    seen: dict[str, Any] = {"warnings": (BUSY,) * busy, "compiler": {1: 0.8 * cold}}
    ours, theirs = (
        tuple(Round(metrics={RATE: each * factor, **NO_FAULTS}, **seen) for factor in SPREAD)
        for each in (level, live_baseline or level)
    )
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=ours, other_side=None if live_baseline is None else theirs)


def test_a_machine_that_is_known_to_be_slower_explains_a_clear_suspected_regression() -> None:
    """Then only a trial side by side with the baseline's brokers tells Kafka from the machine."""
    judgement = judge_of().judge_clear([trial(0.5)], brokers=BaselineBrokers(slower_machine="test_b"))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_unchanged_brokers_are_not_the_cause_of_a_clear_suspected_regression() -> None:
    judgement = judge_of().judge_clear([trial(0.5)], brokers=BaselineBrokers(are_own=True))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_a_clear_suspected_regression_fails_and_says_why_nothing_confirmed_it() -> None:
    """A job whose time is over would be green with half of the throughput."""
    judgement = judged(0.5)
    (check,) = judgement.checks
    assert (judgement.verdict, check.outcome, judgement.unsettled) == (Verdict.REGRESSED, Verdict.REGRESSED, False)
    assert check.reason == (
        "-50.0% against the baseline; the threshold is -10.0%; suspected regression, not yet confirmed by fresh "
        "trials; there is no time to confirm it, but it is clear: each round is worse than twice the tolerance and "
        "the noise, and no other program was seen to use much of this machine"
    )


@pytest.mark.parametrize(
    ("levels", "given"),
    [
        ((0.85,), {}),
        ((0.5,), {"busy": True}),
        ((0.5,), {"cold": True}),
        ((0.5, 0.85), {}),
        ((0.5, 0.62), {"live_baseline": 0.7}),  # trials side by side with the baseline's brokers have their own rule
        ((0.5,), {"imported": "kafka-producer-perf-test"}),  # its noise is unknown
    ],
)
def test_any_other_suspected_regression_stays_inconclusive(levels: tuple[float, ...], given: dict[str, Any]) -> None:
    """A false alarm costs more than another run."""
    judgement = judged(*levels, **given)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


@pytest.mark.parametrize("side_by_side", [(0.5, 0.5), (0.5, 0.51), (0.5, 0.52, 0.49)])
def test_a_clear_change_side_by_side_fails_after_two_trials(side_by_side: tuple[float, ...]) -> None:
    """With none of them, the first trial alone would have failed it."""
    judgement = judged(0.5, *side_by_side, live_baseline=1.0)
    assert (judgement.verdict, judgement.unsettled) == (Verdict.REGRESSED, False)


def test_two_trials_side_by_side_that_differ_much_leave_it_open() -> None:
    """Their noise is not known well enough."""
    assert judged(0.5, 0.5, 0.75, live_baseline=1.0).verdict is Verdict.INCONCLUSIVE


def test_a_trial_within_the_tolerance_passes() -> None:
    """Only suspected regressions are concerned."""
    assert judged(1.0).verdict is Verdict.PASSED


def test_a_suspected_regression_that_nothing_could_decide_is_not_added_to_the_baseline() -> None:
    """Its first trial was selected for being slow."""
    judge = judge_of(options={"update-baselines": "add"}).judge
    assert judge([trial(1.0)]).verdict is Verdict.PASSED
    python = Change("python", "3.12", "3.13", Part.CLIENT)
    undecided = judge([trial(0.5)] * 3, brokers=BaselineBrokers(are_own=True, common_changes=(python,)))
    assert (undecided.verdict, undecided.unsettled) == (Verdict.INCONCLUSIVE, False)

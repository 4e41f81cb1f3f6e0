"""The baseline that judges a test: the live one of its trials, or the stored one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import Judging
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Judgement, Ungated, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from tests.support.results import NO_FAULTS

RATE = "produce.throughput"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)
STORED = BaselineRounds(trials=(tuple({RATE: one} for one in SPREAD),) * 3)


def judged(
    *trials: Trial,
    baseline: BaselineRounds = STORED,
    confirm: bool = True,
    alone: str | None = "no load has run",
    brokers: BaselineBrokers | None = None,
) -> Judgement:
    settings = read_settings({} if confirm else {"no-confirm": True}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold(f"{RATE} >= baseline - 10%").mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    return Judging(perftest, baseline, settings, alone=alone).judge(trials, brokers=brokers)


def trial(level: float, other: float | None = None) -> Trial:
    return Trial(
        created="2026-01-01T00:00:00+00:00",
        rounds=rounds(level),
        other_side=None if other is None else rounds(other),
    )


def rounds(level: float) -> tuple[Round, ...]:
    return tuple(Round(metrics={RATE: level * factor, **NO_FAULTS}) for factor in SPREAD)


@pytest.mark.parametrize(("level", "verdict"), [(0.5, Verdict.REGRESSED), (1.0, Verdict.PASSED)])
@pytest.mark.parametrize(
    "baseline",
    [
        BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE)),
        BaselineRounds(trials=(({RATE: 3.0},) * 5,)),
        BaselineRounds(trials=(({RATE: 3.0},),), imported="kafka-producer-perf-test"),
    ],
)
def test_with_a_live_baseline_a_stored_one_neither_decides_nor_hinders(
    baseline: BaselineRounds, level: float, verdict: Verdict
) -> None:
    """There may be none, and the results of another day would only add their noise."""
    trials = [trial(level * own, 1.0) for own in (0.99, 1.01, 1.0, 0.995)]
    judgement = judged(*trials, baseline=baseline)
    assert judgement.verdict is verdict
    assert judgement.checks[0].reason.startswith("4 side-by-side trials")
    assert judged(*trials, baseline=baseline, confirm=False).checks == judgement.checks


@pytest.mark.parametrize("ungated", [Ungated.NEW_TEST, Ungated.BASE])
def test_without_another_side_only_absolute_thresholds_are_judged(ungated: Ungated) -> None:
    """A new test, or the base itself, passes with `--kafka-strict`: nothing is undecided."""
    expressions = (f"{RATE} >= baseline - 10%", "errors == 0", "produce.bandwidth >= baseline - 10%")
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    perftest = read_perftest(
        "a.py::test", [pytest.mark.kafka_threshold(*expressions).mark], {}, settings, folder=Path()
    )

    def outcomes(**values: float) -> tuple[Verdict, list[Verdict]]:
        measured = {RATE: 1.0, "produce.bandwidth": 0.0, **NO_FAULTS, **values}
        one = Trial(created="2026-01-01T00:00:00+00:00", rounds=(Round(metrics=measured),) * 5)
        judgement = Judging(perftest, BaselineRounds(ungated=ungated), settings).judge([one])
        assert not judgement.unsettled
        return judgement.verdict, [each.outcome for each in judgement.checks]

    measured = Verdict.MEASURED
    assert outcomes() == (measured, [measured, Verdict.PASSED, measured])
    assert outcomes(errors=1.0) == (Verdict.VIOLATED, [measured, Verdict.VIOLATED, measured])
    assert outcomes(**{RATE: float("nan")})[0] is Verdict.INVALID


NOISY = (1.0, 1.3, 0.8, 1.2)
QUIET = (1.0, 1.01, 0.99, 1.0)


@pytest.mark.parametrize(
    ("threshold", "ours", "options", "precise"),
    [
        (f"{RATE} >= baseline - 10%", QUIET, {}, True),
        (f"{RATE} >= baseline - 10%", NOISY, {}, False),
        (f"{RATE} >= baseline - 95%", NOISY, {}, True),
        (f"{RATE} >= 0.1", NOISY, {}, True),
        ("broker.cpu_per_record <= baseline + 10%", NOISY, {}, True),
        (f"{RATE} >= baseline - 10%", NOISY, {"rounds": 4}, True),
    ],
    ids=["quiet", "noisy", "wide", "absolute", "without readings", "command line"],
)
def test_noisy_pairs_are_imprecise_if_a_threshold_compares_them(
    threshold: str, ours: tuple[float, ...], options: dict[str, int], *, precise: bool
) -> None:
    """Further rounds help the comparison alone, and the user's own number of rounds is kept."""
    settings = read_settings(options, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold(threshold).mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    own, other = (tuple(Round(metrics={RATE: level, **NO_FAULTS}) for level in levels) for levels in (ours, (1.0,) * 4))
    measured = Trial(created="2026-01-01T00:00:00+00:00", rounds=own, other_side=other)
    judging = Judging(perftest, BaselineRounds(), settings)
    assert judging.is_precise(measured) is precise
    too_slow = Problem.of(ClusterError("the brokers are gone"))
    assert judging.is_precise(dataclasses.replace(measured, problems=(too_slow,)))


def test_a_suspected_regression_is_judged_by_what_re_tested_it() -> None:
    """The first trial alone never fails a test, unless it is all there will be."""
    first = trial(0.5)
    assert (judged(first).verdict, judged(first).unsettled) == (Verdict.INCONCLUSIVE, True)
    assert judged(first, confirm=False).verdict is Verdict.REGRESSED
    fresh = judged(first, trial(1.0), trial(1.0))
    assert (fresh.verdict, fresh.checks[0].rerun) == (Verdict.PASSED, True)
    side_by_side = judged(
        first, *(trial(0.5 * own, 1.0) for own in (0.99, 1.01, 1.0, 0.995)), brokers=BaselineBrokers()
    )
    assert side_by_side.checks[0].reason.endswith("confirmed by 4 side-by-side trials")
    unchanged = judged(first, trial(0.5), trial(0.5), brokers=BaselineBrokers(are_own=True))
    assert (unchanged.verdict, unchanged.both_slower) == (Verdict.PASSED, True)


def test_what_will_re_test_a_suspected_regression_decides_what_is_detectable() -> None:
    """Trials side by side find smaller changes than fresh trials of another day."""
    found = [judged(trial(1.0), alone=alone).checks[0].detectable_change for alone in (None, "no load has run")]
    by_rebuilt, by_fresh = (abs(one or 0.0) for one in found)
    assert 0.1 < by_rebuilt != by_fresh > 0.1

"""Suspected regressions of a test whose Kafka has not changed: a disturbance that is over, or a slower machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_kafkaperf.core.environment import Change, differences
from pytest_kafkaperf.core.notices import Remark
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers
from pytest_kafkaperf.verdict.unchanged_brokers import UnchangedBrokers

RATE = "produce.throughput"
LIMIT = f"{RATE} >= baseline - 10%"
NOISE = (0.995, 1.0, 1.005)
_KERNEL = differences({"kernel": "6.1.0"}, {"kernel": "6.8.0"})
_CLIENT = differences({"aiokafka": "0.12"}, {"aiokafka": "0.13"})
_JAVA = differences({"java": "17.0.1"}, {"java": "21.0.1"})


def rounds(factor: float) -> tuple[Mapping[str, float], ...]:
    return tuple({RATE: 1e6 * factor * own} for own in NOISE)


BASELINE = BaselineRounds(trials=(rounds(0.99), rounds(1.0), rounds(1.01)))


def judged(
    *levels: float, changes: Sequence[Change] = (), slower_machine: str | None = None, threshold: str = LIMIT
) -> Judgement:
    """Judge a first trial and new trials on unchanged brokers, each at a level of so many times the baseline."""
    brokers = BaselineBrokers(are_own=True, common_changes=tuple(changes), slower_machine=slower_machine)
    return judge(
        [parse_threshold(threshold)],
        [Measured(rounds=rounds(level)) for level in levels],
        UnchangedBrokers(first=AgainstStored(baseline=BASELINE, confirmation="side by side"), brokers=brokers),
    )


def test_a_first_trial_that_is_slower_is_only_suspected() -> None:
    assert judged(0.7).unsettled


def test_a_disturbance_that_is_over_passes_after_one_trial() -> None:
    judgement = judged(0.7, 0.97)
    assert (judgement.verdict, judgement.unsettled, judgement.warnings) == (Verdict.PASSED, False, ())
    assert judgement.checks[0].reason == (
        "first trial: -30.0% against the stored baseline; not confirmed by 1 fresh trial: -3.0%"
    )


def test_after_another_change_a_slowdown_must_last_for_two_trials() -> None:
    """The test would not pass because of it."""
    assert judged(0.7, 0.7, changes=_CLIENT).unsettled
    assert judged(0.7, 0.7, 0.97, changes=_CLIENT).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("changes", "remark"), [((), Remark.MACHINE_SLOWER), (_KERNEL, Remark.MACHINE_CHANGED)], ids=["none", "kernel"]
)
def test_a_slowdown_that_persists_is_the_machines_and_passes_with_a_warning(
    changes: Sequence[Change], remark: Remark
) -> None:
    """Whatever a second trial showed, the test would pass."""
    judgement = judged(0.7, 0.71, changes=changes)
    (check,), (warning,) = judgement.checks, judgement.warnings
    assert (judgement.verdict, judgement.unsettled, judgement.both_slower) == (Verdict.PASSED, False, True)
    assert warning.remark is remark
    assert "produce.throughput is -29.0% compared with the stored baseline, with unchanged brokers" in str(warning)
    assert check.reason == (
        "first trial: -30.0% against the stored baseline; 1 fresh trial: -29.0%; Kafka and its settings are the same "
        "as in the baseline"
    )


@pytest.mark.parametrize("changes", [_CLIENT, _JAVA, (*_CLIENT, *_KERNEL)])
def test_what_else_has_changed_may_be_the_cause(changes: Sequence[Change]) -> None:
    """A green test would hide that the new client or the new Java is slower."""
    judgement = judged(0.7, 0.71, 0.69, changes=changes)
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "or one of these changes is the cause: " in judgement.checks[0].reason


def test_one_slow_trial_is_enough_on_a_machine_that_is_known_to_be_slower() -> None:
    assert judged(0.7, 0.7, changes=_CLIENT, slower_machine="test_b").verdict is Verdict.INCONCLUSIVE


def test_a_test_that_comes_to_a_standstill_fails_whatever_else_is_unchanged() -> None:
    """No machine is so slow that nothing is acknowledged."""
    assert judged(0.7, 0.0).verdict is Verdict.REGRESSED


def test_a_limit_of_two_parts_passes_by_its_absolute_part() -> None:
    limit = f"{RATE} >= min(baseline - 10%, 650k/s)"
    assert judged(0.6, 0.6, 0.6, threshold=limit, changes=_CLIENT).verdict is Verdict.INCONCLUSIVE
    assert judged(0.6, 0.7, 0.7, threshold=limit, changes=_CLIENT).verdict is Verdict.PASSED


def test_an_absolute_limit_is_judged_over_the_new_trials_as_well() -> None:
    """They run alone, so that their rounds are as fast as those of the first trial."""
    assert judged(0.7, 0.97, 0.97, threshold=f"{RATE} >= 900k/s").verdict is Verdict.PASSED

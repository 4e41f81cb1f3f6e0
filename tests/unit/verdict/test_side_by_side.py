"""Suspected regressions, re-tested side by side with the baseline's rebuilt brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_kafkaperf.core.environment import Change, differences
from pytest_kafkaperf.core.notices import Remark
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.outcome import Judgement, Verdict
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.side_by_side import SideBySideWithStored
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers

approx: Any = pytest.approx

RATE = "produce.throughput"
LIMIT = f"{RATE} >= baseline - 10%"
NOISE = (0.995, 1.0, 1.005, 1.002)
LEVELS = (0.99, 1.01, 1.0, 0.995)
_KERNEL = differences({"kernel": "6.1.0"}, {"kernel": "6.8.0"})
_CLIENT = differences({"aiokafka": "0.12"}, {"aiokafka": "0.13"})


def rounds(factor: float, noise: Sequence[float] = NOISE) -> tuple[Mapping[str, float], ...]:
    return tuple({RATE: 1e6 * factor * own} for own in noise)


BASELINE = BaselineRounds(trials=(rounds(0.99), rounds(1.0), rounds(1.01)))


def judged(
    first: float,
    *pairs: tuple[float, float],
    changes: Sequence[Change] = (),
    slower_machine: str | None = None,
    threshold: str = LIMIT,
    noise: Sequence[float] = NOISE,
) -> Judgement:
    """Judge a first trial and trials side by side with the rebuilt brokers, each of (own, other) times the baseline."""
    side_by_side = [Measured(rounds=rounds(own, noise), other_side=rounds(other)) for own, other in pairs]
    return judge(
        [parse_threshold(threshold)],
        [Measured(rounds=rounds(first)), *side_by_side],
        SideBySideWithStored(
            first=AgainstStored(baseline=BASELINE, confirmation="fresh"),
            brokers=BaselineBrokers(common_changes=tuple(changes), slower_machine=slower_machine),
        ),
    )


def equal(level: float, number: int = 4) -> list[tuple[float, float]]:
    return [(level * own, level) for own in LEVELS[:number]]


def test_worse_than_the_rebuilt_brokers_is_a_regression() -> None:
    judgement = judged(0.7, *((0.7 * own, 1.0) for own in LEVELS))
    (check,) = judgement.checks
    assert (judgement.verdict, judgement.unsettled, judgement.warnings) == (Verdict.REGRESSED, False, ())
    assert not judgement.both_slower
    assert check.change == approx(-0.3, abs=0.01)
    assert check.reason == "first trial: -30.0% against the stored baseline; confirmed by 4 side-by-side trials"
    assert (check.rerun, len(check.trials)) == (True, 4)


def told(judgement: Judgement) -> tuple[Remark, object, str, object]:
    """Return the row of the only warning, and its values."""
    (warning,) = judgement.warnings
    values = warning.values
    return warning.remark, values["metric"], str(values["change"]), values["changes"]


def test_a_machine_that_is_slower_for_both_passes_with_a_warning() -> None:
    judgement = judged(0.7, *equal(0.7))
    assert (judgement.verdict, judgement.unsettled) == (Verdict.PASSED, False)
    assert told(judgement) == (Remark.MACHINE_SLOWER, RATE, "-30.0%", "")
    assert judgement.both_slower
    assert judgement.checks[0].reason == (
        "first trial: -30.0% against the stored baseline; not confirmed: 4 side-by-side trials rule out a change "
        "of -16.5%"
    )


def test_a_reading_that_is_missing_does_not_hide_that_both_sides_are_slower() -> None:
    """One trial without it is also left out of the comparison."""
    *pairs, last = [Measured(rounds=rounds(0.7 * own), other_side=rounds(0.7)) for own in (*LEVELS, 1.0)]
    holed = Measured(rounds=last.rounds, other_side=[{}, *(last.other_side or ())[1:]])
    judgement = judge(
        [parse_threshold(LIMIT)],
        [Measured(rounds=rounds(0.7)), *pairs, holed],
        SideBySideWithStored(
            first=AgainstStored(baseline=BASELINE, confirmation="fresh"),
            brokers=BaselineBrokers(common_changes=_CLIENT),
        ),
    )
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "-30.0% compared with the stored baseline, on both sides" in judgement.checks[0].reason


def test_a_machine_that_was_changed_passes_with_a_warning_that_says_so() -> None:
    """A pool of machines has several kernels; whatever they cost, Kafka is not the reason."""
    (cpu,) = differences({"cpu": "Xeon"}, {"cpu": "EPYC"})
    changes = [*_KERNEL, cpu.with_remark("between trials of the baseline")]
    judgement = judged(0.7, *equal(0.7), changes=changes)
    assert judgement.verdict is Verdict.PASSED
    assert judgement.both_slower
    changed = "kernel: 6.1.0 -> 6.8.0; cpu: Xeon -> EPYC (between trials of the baseline)"
    assert told(judgement) == (Remark.MACHINE_CHANGED, RATE, "-30.0%", changed)


@pytest.mark.parametrize("machine", [(), _KERNEL])
def test_both_slower_but_something_else_differs_is_inconclusive(machine: tuple[Change, ...]) -> None:
    """The rebuilt brokers run with today's client: it may be the reason."""
    judgement = judged(0.7, *equal(0.7), changes=[*_CLIENT, *machine])
    (check,) = judgement.checks
    assert (judgement.verdict, check.outcome) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert "or one of these changes is the cause: aiokafka: 0.12 -> 0.13" in check.reason


def test_a_disturbance_that_is_over_leaves_no_warning() -> None:
    """Both sides are as fast as the baseline now, so what differs from it explains nothing."""
    judgement = judged(0.7, *equal(1.0), changes=_CLIENT)
    assert (judgement.verdict, judgement.warnings) == (Verdict.PASSED, ())


def test_short_rounds_on_shared_cores_do_not_show_how_slow_the_machine_is() -> None:
    """Both sides are slower there than alone, so the value is that of the first trial."""
    judgement = judged(0.7, *equal(0.4))
    assert told(judgement) == (Remark.MACHINE_SLOWER, RATE, "-30.0%", "")
    assert judgement.both_slower


def test_a_suspected_regression_that_was_cleared_early_stays_cleared_when_no_trial_is_left() -> None:
    """The last look decides for the suspected regressions that are still open."""
    pairs = [(0.69, 0.7), *((0.7 * level, 0.7) for level in (0.7, 1.1, 0.75, 1.2) * 7)]
    assert judged(0.7, *pairs[:28], slower_machine="test_b").verdict is Verdict.PASSED


def test_a_limit_of_two_parts_is_confirmed_by_the_part_that_the_first_trial_did_not_meet() -> None:
    """Shorter rounds may be below the other part, which the first trial has met; that is no reason to pass."""
    both = f"{RATE} >= max(baseline - 10%, 650k records/s)"
    worse = judged(0.7, *((0.6 * own, 1.0) for own in LEVELS), threshold=both)
    assert (worse.verdict, worse.checks[0].change) == (Verdict.REGRESSED, approx(-0.4, abs=0.01))
    assert worse.checks[0].expression.endswith("max(baseline - 10%, 650k records/s)")
    assert judged(0.7, *equal(0.6), threshold=both).verdict is Verdict.PASSED


def test_a_suspected_regression_that_is_cleared_early_stays_cleared() -> None:
    """While other suspected regressions of the test go on, a later trial may be worse by chance."""
    pairs = [(0.69, 0.7), (0.5, 0.7)]
    assert judged(0.7, *pairs, slower_machine="test_b").verdict is Verdict.PASSED


def test_one_lucky_trial_does_not_clear_what_another_showed_to_be_slower() -> None:
    """Each trial would be another chance, so the mean of the trials clears, even where the machine is slower."""
    assert judged(0.7, (0.55, 0.7), (0.69, 0.7), slower_machine="test_b").unsettled
    assert judged(0.7, (0.55, 0.7), (0.69, 0.7), (0.7, 0.7), slower_machine="test_b").verdict is Verdict.PASSED


def test_one_quiet_trial_clears_it_and_an_uncertain_one_leaves_it_open() -> None:
    """A single one does not show the noise of restarts, which may hide more than these 11%."""
    quiet, uncertain = judged(0.7, *equal(0.7, 1)), judged(0.7, (0.62, 0.7))
    assert (quiet.verdict, quiet.unsettled) == (Verdict.PASSED, False)
    assert (uncertain.verdict, uncertain.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_one_trial_within_the_tolerance_clears_where_the_machine_is_known_to_be_slower() -> None:
    """Even if its rounds differ so much that the question would stay open otherwise."""
    judgement = judged(0.7, (0.7, 0.7), slower_machine="test_a.py::test_x", noise=(0.9, 1.1, 1.0, 0.95))
    (check,) = judgement.checks
    assert (judgement.verdict, judgement.unsettled, len(judgement.warnings)) == (Verdict.PASSED, False, 1)
    assert check.reason.endswith(
        "within the tolerance side by side, which is enough because the re-test of test_a.py::test_x found that "
        "the baseline's brokers are also slower"
    )


def test_one_trial_never_convicts() -> None:
    """Also where the machine is known to be slower."""
    judgement = judged(0.5, (0.5, 1.0), slower_machine="test_a.py::test_x")
    assert (judgement.verdict, judgement.unsettled) == (Verdict.INCONCLUSIVE, True)


def test_what_was_not_suspected_stays_as_it_was() -> None:
    """Trials that one threshold needs do not judge the others."""
    judgement = judge(
        [parse_threshold(LIMIT), parse_threshold(f"{RATE} >= baseline - 50%")],
        [
            Measured(rounds=rounds(0.7)),
            *(Measured(rounds=rounds(0.3 * own), other_side=rounds(1.0)) for own in LEVELS),
        ],
        SideBySideWithStored(first=AgainstStored(baseline=BASELINE, confirmation="fresh"), brokers=BaselineBrokers()),
    )
    assert [check.outcome for check in judgement.checks] == [Verdict.REGRESSED, Verdict.PASSED]
    assert judgement.checks[1].change == approx(-0.3, abs=0.01)

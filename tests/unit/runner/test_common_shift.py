"""Many suspected regressions in one run have one reason, and one comparison side by side finds out which."""

from __future__ import annotations

from typing import Any

from pytest_kafkaperf.runner.common_shift import CommonShift
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.scale import Difference
from pytest_kafkaperf.verdict.sequential import look
from tests.support.results import bare_result

SIDE_BY_SIDE = (look([Difference(each) for each in (0.0, 0.01, 0.0, -0.01)], tolerance=0.1, alpha=0.01),)
WARM, COLD = (Trial(created="", rounds=(Round(metrics={}, compiler={1: share}),)) for share in (0.0, 0.9))


def add(
    shift: CommonShift,
    name: str,
    outcome: Verdict,
    *,
    suspected: bool,
    side_by_side: bool = False,
    rerun: bool = True,
    **fields: Any,
) -> None:
    check = Check(
        expression="produce.throughput >= baseline - 10%",
        metric="produce.throughput",
        observed=0.7 if suspected else 0.99,
        limit_value=0.9,
        baseline=1.0,
        change=-0.3 if suspected else -0.01,
        detectable_change=None,
        outcome=outcome,
        reasons=(),
        rerun=suspected and rerun,
        is_relative=True,
        trials=SIDE_BY_SIDE if side_by_side else (),
    )
    fields = {"nodeid": f"test_a.py::{name}", "baseline_trials": 3, "trial": WARM, **fields}
    trials, both_slower = fields.pop("trials", 1), fields.pop("both_slower", side_by_side)
    result = bare_result(*[fields.pop("trial")] * trials, checks=(check,), verdict=outcome, **fields)
    shift.add(result, both_slower=both_slower and outcome is Verdict.PASSED)


def test_a_few_suspected_regressions_are_no_common_shift() -> None:
    shift = CommonShift()
    for number in range(8):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=number < 2, side_by_side=True)
    assert (shift.is_common, shift.slower_machine) == (False, None)


def test_five_tests_say_nothing_yet() -> None:
    shift = CommonShift()
    for number in range(5):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=True, side_by_side=True)
    assert not shift.is_common
    add(shift, "test_5", Verdict.PASSED, suspected=False)
    assert shift.is_common


def test_one_comparison_side_by_side_names_the_machine() -> None:
    shift = CommonShift()
    for number in range(6):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=number < 3, side_by_side=number == 2)
    assert shift.slower_machine == "test_a.py::test_2"
    assert str(shift) == (
        "3 of 6 tests have suspected regressions: the machine or all of Kafka is slower; the re-test of "
        "test_2 found that the baseline's brokers are also slower"
    )


def test_cold_brokers_do_not_make_the_machine_slower() -> None:
    """They are slower than those of the baseline on any machine."""
    shift = CommonShift()
    for number in range(6):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=True, side_by_side=True, trial=COLD)
    assert (shift.is_common, shift.slower_machine) == (True, None)


def test_suspected_regressions_that_nothing_could_confirm_count_as_well() -> None:
    """Otherwise, each of them would make it less likely that the machine is known to be slower."""
    shift = CommonShift()
    for number in range(6):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=number < 3, side_by_side=number == 2)
    for number in range(6, 12):
        add(shift, f"test_{number}", Verdict.INCONCLUSIVE, suspected=True, rerun=False)
    assert shift.slower_machine == "test_a.py::test_2"


def test_a_test_that_ran_out_of_time_within_its_limit_is_not_suspected() -> None:
    """Half of all unchanged tests are a little slower than their baseline."""
    shift = CommonShift()
    for number in range(6):
        add(shift, f"test_{number}", Verdict.INCONCLUSIVE, suspected=False)
    assert not shift.is_common


def test_a_regression_side_by_side_takes_that_back() -> None:
    """Then the suspected regressions after it have to be confirmed one by one."""
    shift = CommonShift()
    for number in range(6):
        add(shift, f"test_{number}", Verdict.PASSED, suspected=number < 3, side_by_side=True)
    assert shift.slower_machine is not None
    add(shift, "test_6", Verdict.REGRESSED, suspected=True, side_by_side=True)
    assert shift.is_common
    assert str(shift) == "4 of 7 tests have suspected regressions: the machine or all of Kafka is slower"


def test_one_fresh_trial_on_the_same_brokers_does_not_make_the_machine_slower() -> None:
    """Their JVM may have had a bad start, which only others can show."""

    def shift_after(trials: int) -> CommonShift:
        shift = CommonShift()
        for number in range(6):
            add(shift, f"test_{number}", Verdict.PASSED, suspected=True, trials=trials, both_slower=True)
        return shift

    assert (shift_after(2).is_common, shift_after(2).slower_machine) == (True, None)
    assert shift_after(3).slower_machine == "test_a.py::test_5"

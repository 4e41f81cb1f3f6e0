"""A test that another plugin repeats: which of its runs counts."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.runner.perf_run import repeated
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from tests.support.results import bare_result, rounds, trial_at


def result_of(verdict: Verdict, *, lost: float | None = None, metric: str = "lost") -> Result:
    checks: list[Any] = []
    if lost is not None:
        outcome = Verdict.VIOLATED if lost else Verdict.PASSED
        checks.append(
            Check(expression=f"{metric} == 0", metric=metric, observed=lost, limit_value=0, outcome=outcome, reasons=())
        )
    return bare_result(trial_at(10, *rounds()), verdict=verdict, checks=tuple(checks))


PASSED, VIOLATED, REGRESSED, INCONCLUSIVE, INVALID = (
    Verdict.PASSED,
    Verdict.VIOLATED,
    Verdict.REGRESSED,
    Verdict.INCONCLUSIVE,
    Verdict.INVALID,
)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (result_of(REGRESSED), result_of(PASSED), PASSED),
        (result_of(PASSED), result_of(REGRESSED), REGRESSED),
        (result_of(VIOLATED, lost=3), result_of(PASSED, lost=0), VIOLATED),
        (result_of(VIOLATED, lost=3), result_of(INVALID), VIOLATED),
        (result_of(VIOLATED, lost=0.1, metric="app.output_ratio"), result_of(PASSED), VIOLATED),
        (result_of(VIOLATED, lost=3, metric="duplicated"), result_of(PASSED), VIOLATED),
        (result_of(VIOLATED, lost=3, metric="errors"), result_of(PASSED), PASSED),
        (result_of(REGRESSED), result_of(INCONCLUSIVE), REGRESSED),
        (result_of(VIOLATED), result_of(INCONCLUSIVE), VIOLATED),
        (result_of(INVALID), result_of(INCONCLUSIVE), INVALID),
        (result_of(PASSED), result_of(INCONCLUSIVE), INCONCLUSIVE),
    ],
)
def test_a_repetition_clears_a_failure_only_by_a_measurement(before: Result, after: Result, verdict: Verdict) -> None:
    """Lost records stay lost, and a repetition for which there was no time shows nothing."""
    assert repeated(after, before).verdict is verdict

"""What `--kafka-accept=regressed` accepts: a slowdown that is certain, and nothing next to it."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.runner.evidence import is_acceptable
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Verdict

VIOLATED, REGRESSED, INVALID, PASSED = Verdict.VIOLATED, Verdict.REGRESSED, Verdict.INVALID, Verdict.PASSED


def judgement(verdict: Verdict, *outcomes: Verdict, doubts: tuple[Problem, ...] = ()) -> Judgement:
    checks = [
        Check(expression="errors == 0", metric="errors", observed=0, limit_value=0, outcome=one, reasons=())
        for one in outcomes
    ]
    return Judgement(verdict=verdict, checks=tuple(checks), problems=(), doubts=doubts)


@pytest.mark.parametrize(
    ("judged", "acceptable"),
    [
        (judgement(REGRESSED, REGRESSED, PASSED), True),
        (judgement(REGRESSED, REGRESSED, Verdict.INCONCLUSIVE), True),  # --kafka-strict decides on the latter
        (judgement(REGRESSED, REGRESSED, INVALID), False),
        (judgement(REGRESSED, REGRESSED, VIOLATED), False),
        (judgement(VIOLATED, REGRESSED, VIOLATED), False),
        (judgement(REGRESSED, REGRESSED, doubts=(Problem(Cause.SENT_LATE, {"late": 3, "due": 9}),)), False),
        (judgement(PASSED, PASSED), False),
    ],
)
def test_only_a_certain_slowdown_can_be_accepted(judged: Judgement, *, acceptable: bool) -> None:
    """Whoever accepts a slowdown has not accepted lost records, or a run that nobody can trust."""
    assert is_acceptable(judged.verdict, judged) is acceptable

"""What becomes a baseline: never what is broken, cut or lucky."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.runner.baseline_update import accepted
from pytest_kafkaperf.runner.result import MeasuredSession
from pytest_kafkaperf.runner.round import Round
from pytest_kafkaperf.scenario.threshold import parse_threshold
from pytest_kafkaperf.verdict.outcome import Verdict

P99, RATE = "produce.latency.p99", "produce.throughput"
LIMITS = [parse_threshold(f"{P99} <= baseline + 10%"), parse_threshold(f"{RATE} >= baseline - 10%")]
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def rounds(p99: float = 1.0, rate: float = 1.0) -> list[Mapping[str, float]]:
    return [{P99: 0.01 * p99 * factor, RATE: 1e6 * rate * factor} for factor in SPREAD]


def session(p99: float = 1.0, rate: float = 1.0, *problems: Problem) -> MeasuredSession:
    measured = tuple(Round(metrics=one) for one in rounds(p99, rate))
    return MeasuredSession(created="2026-01-01T00:00:00+00:00", rounds=measured, problems=problems)


BASELINE = [rounds()] * 5


def chosen(
    mode: str,
    *sessions: MeasuredSession,
    verdict: Verdict = Verdict.PASSED,
    exists: bool = True,
    calibrated: bool = False,
) -> tuple[int, tuple[str, ...]]:
    found = accepted(
        mode, verdict, sessions, thresholds=LIMITS, baseline=BASELINE, exists=exists, calibrated=calibrated
    )
    assert all(any(one is each for each in sessions) for one in found.sessions)
    return len(found.sessions), found.notes


@pytest.mark.parametrize("mode", ["all", "new", "improved", "append"])
@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID])
def test_what_fails_is_no_baseline(mode: str, verdict: Verdict) -> None:
    """It would be the new normal."""
    assert chosen(mode, session(), verdict=verdict) == (0, ())


def test_each_mode_takes_its_sessions() -> None:
    """One that stands alone, or all that count."""
    suspects = [session(1.2), session(), session(1.0, 1.0, Problem(ProblemKind.GENERATOR_TOO_SLOW, "late")), session()]
    assert chosen("all", *suspects) == (1, ())
    assert chosen("append", *suspects) == (3, ())
    assert chosen("all", session(), session(), calibrated=True) == (2, ())
    assert chosen("new", session()) == (0, ())
    assert chosen("new", session(), exists=False) == (1, ())
    assert chosen("improved", session(0.5)) == (0, ())


def test_a_gain_is_taken_from_fresh_sessions_alone() -> None:
    """The session that looked better was picked for that; a baseline of it would fail what did not change."""
    faster = [session(0.5)] * 3
    assert chosen("improved", session(0.4), *faster, verdict=Verdict.IMPROVED) == (3, ())
    count, notes = chosen("improved", session(0.5), session(), session(), session(), verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        ("the baseline is not changed: fresh sessions confirm no improvement beyond tolerance and noise",),
    )
    count, notes = chosen("improved", session(0.5), session(0.5), verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        ("the baseline is not changed: 3 fresh sessions must confirm an improvement, and 1 ran",),
    )


def test_what_got_worse_does_not_come_in_with_what_got_better() -> None:
    """8 % within a tolerance of 10 %, and again 8 %: a ratchet turns one way."""
    traded = [session(1.08, 1.5)] * 4
    count, notes = chosen("improved", *traded, verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        ("the baseline is not changed: produce.latency.p99 got worse: +8.0 % against the baseline",),
    )


def test_a_session_with_a_gap_is_not_taken() -> None:
    """Nothing could be compared with it later, and the gate would sleep."""
    holed = MeasuredSession(created="2026-01-01T00:00:00+00:00", rounds=(Round(metrics={P99: 0.0, RATE: 1.0}),))
    assert chosen("append", session(), holed) == (
        1,
        ("not written into the baseline: produce.latency.p99 is 0 s in round 1 of 1, so it has no ratio",),
    )
    assert chosen("all", holed)[0] == 0


def test_sessions_beside_other_brokers_are_no_baseline() -> None:
    """They confirm a suspect; their rounds are shorter, and another broker worked beside them."""
    pair = session()
    beside = MeasuredSession(created=pair.created, rounds=pair.rounds, reference=pair.rounds)
    assert chosen("append", session(), beside, beside) == (1, ())

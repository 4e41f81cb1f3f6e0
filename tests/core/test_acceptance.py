"""What becomes a baseline: never what is broken, cut or lucky."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_kafkaperf.acceptance import accepted
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.flaws import TOO_SLOW
from pytest_kafkaperf.result import Trial
from pytest_kafkaperf.round import Round
from pytest_kafkaperf.threshold import parse_threshold

P99, RATE = "produce.latency.p99", "produce.throughput"
LIMITS = [parse_threshold(f"{P99} <= baseline + 10%"), parse_threshold(f"{RATE} >= baseline - 10%")]
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def rounds(p99: float = 1.0, rate: float = 1.0) -> list[Mapping[str, float]]:
    return [{P99: 0.01 * p99 * factor, RATE: 1e6 * rate * factor} for factor in SPREAD]


def trial(p99: float = 1.0, rate: float = 1.0, *problems: str) -> Trial:
    measured = tuple(Round(metrics=one) for one in rounds(p99, rate))
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=measured, problems=problems)


BASELINE = [rounds()] * 5


def chosen(
    mode: str,
    *trials: Trial,
    verdict: Verdict = Verdict.PASSED,
    exists: bool = True,
    calibrated: bool = False,
) -> tuple[int, tuple[str, ...]]:
    found = accepted(mode, verdict, trials, thresholds=LIMITS, baseline=BASELINE, exists=exists, calibrated=calibrated)
    assert all(any(one is each for each in trials) for one in found.trials)
    return len(found.trials), found.notes


@pytest.mark.parametrize("mode", ["all", "new", "improved", "append"])
@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID])
def test_what_fails_is_no_baseline(mode: str, verdict: Verdict) -> None:
    """It would be the new normal."""
    assert chosen(mode, trial(), verdict=verdict) == (0, ())


def test_each_mode_takes_its_sessions() -> None:
    """One that stands alone, or all that count."""
    suspects = [trial(1.2), trial(), trial(1.0, 1.0, f"round 1: {TOO_SLOW}"), trial()]
    assert chosen("all", *suspects) == (1, ())
    assert chosen("append", *suspects) == (3, ())
    assert chosen("all", trial(), trial(), calibrated=True) == (2, ())
    assert chosen("new", trial()) == (0, ())
    assert chosen("new", trial(), exists=False) == (1, ())
    assert chosen("improved", trial(0.5)) == (0, ())


def test_a_gain_is_taken_from_fresh_sessions_alone() -> None:
    """The session that looked better was picked for that; a baseline of it would fail what did not change."""
    faster = [trial(0.5)] * 3
    assert chosen("improved", trial(0.4), *faster, verdict=Verdict.IMPROVED) == (3, ())
    count, notes = chosen("improved", trial(0.5), trial(), trial(), trial(), verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        (
            (
                "the baseline is left as it is: on fresh sessions nothing was better by more than its tolerance, "
                "beyond noise"
            ),
        ),
    )
    count, notes = chosen("improved", trial(0.5), trial(0.5), verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        ("the baseline is left as it is: a gain is confirmed by 3 fresh sessions, and 1 ran",),
    )


def test_what_got_worse_does_not_come_in_with_what_got_better() -> None:
    """8 % within a tolerance of 10 %, and again 8 %: a ratchet turns one way."""
    traded = [trial(1.08, 1.5)] * 4
    count, notes = chosen("improved", *traded, verdict=Verdict.IMPROVED)
    assert (count, notes) == (
        0,
        ("the baseline is left as it is: produce.latency.p99 got worse, by +8.0 % against it",),
    )


def test_a_session_with_a_gap_is_not_taken() -> None:
    """Nothing could be compared with it later, and the gate would sleep."""
    holed = Trial(created="2026-01-01T00:00:00+00:00", rounds=(Round(metrics={P99: 0.0, RATE: 1.0}),))
    assert chosen("append", trial(), holed) == (
        1,
        ("not taken into the baseline: produce.latency.p99 is 0 s in round 1 of 1 and so has no ratio",),
    )
    assert chosen("all", holed)[0] == 0

"""Fresh sessions confirm or clear what one session made suspect, and how often they err is measured."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.verdict.comparison import Comparison
from pytest_kafkaperf.verdict.confirmation import SESSIONS, Fresh, holm
from tests.support.simulated_rounds import ALPHA, Draw, Setting, draws, judged_by_rule, rates

TOLERANCE = math.log1p(0.1)
BASELINE = tuple(0.01 * number for number in range(25))
SAME = [0.05, 0.1, 0.12, 0.15, 0.2]
WORSE = [0.55, 0.6, 0.62, 0.65, 0.7]


def fresh(*sessions: list[float]) -> Fresh:
    return Fresh.of(
        [Comparison(current=tuple(session), baseline=BASELINE) for session in sessions], tolerance=TOLERANCE
    )


def test_two_sessions_within_the_tolerance_clear_a_suspect() -> None:
    """A third one would cost time and change nothing."""
    assert not fresh(SAME).settled
    assert fresh(SAME, SAME).cleared
    assert not fresh(SAME, WORSE).settled
    assert fresh(WORSE, SAME, SAME).cleared


def test_three_sessions_settle_it_and_the_median_decides() -> None:
    """One bad session out of three is noise between sessions."""
    assert not fresh(WORSE, WORSE).settled
    assert fresh(WORSE, WORSE, WORSE).settled
    assert fresh(WORSE, WORSE, SAME).exceeds
    assert not fresh(WORSE, SAME, SAME).exceeds
    assert fresh(WORSE, WORSE, WORSE).p < ALPHA


def test_without_a_session_nothing_is_known() -> None:
    """A suspect is not yet anything."""
    assert (fresh().p, fresh().settled, fresh().exceeds) == (Fraction(1), False, False)


@given(st.lists(st.sampled_from([SAME, WORSE]), max_size=SESSIONS), st.lists(st.sampled_from([SAME, WORSE])))
def test_what_is_settled_stays_so(sessions: list[list[float]], more: list[list[float]]) -> None:
    """Stopping early never changes the outcome."""
    now, then = fresh(*sessions), fresh(*[*sessions, *more][:SESSIONS])
    if now.cleared:
        assert then.cleared
        assert not then.exceeds


@given(st.lists(st.fractions(0, 1), max_size=5), st.integers(0, 3))
def test_holm_agrees_with_its_definition(ps: list[Fraction], others: int) -> None:
    """Significant are the longest run of smallest p that all keep their bounds; what is not among them has p = 1."""
    gated = len(ps) + others
    every = sorted([*ps, *[Fraction(1)] * others])
    kept = list(itertools.takewhile(lambda one: one[1] < ALPHA / (gated - one[0]), enumerate(every)))
    levels = holm(ps, gated=gated, alpha=ALPHA)
    assert sorted(p for p, level in zip(ps, levels, strict=True) if p < level) == [p for _, p in kept]


@pytest.mark.parametrize(
    ("within", "between", "least_at_25", "least_at_50"),
    [(0.03, 0.05, 0.95, 0.99), (0.06, 0.065, 0.75, 0.99), (0.10, 0.10, 0.45, 0.97)],
)
def test_the_rule_seldom_cries_wolf_and_does_not_sleep(
    within: float, between: float, least_at_25: float, least_at_50: float
) -> None:
    """The promise of a gate, measured at three levels of noise."""
    same, slower, slow = (
        rates(Setting(within=within, between=between, tolerance=TOLERANCE, worse=math.log1p(worse), baseline=5))
        for worse in (0, 0.25, 0.5)
    )
    assert same.failed <= 0.01
    assert slower.failed >= least_at_25
    assert slow.failed >= least_at_50


@pytest.mark.parametrize("baseline", [1, 5])
@pytest.mark.parametrize("confirmed", [True, False])
def test_the_simulation_is_the_rule(*, baseline: int, confirmed: bool) -> None:
    """Tests at once, as arrays, fare as each does by the rule itself."""
    setting = Setting(
        within=0.1, between=0.1, tolerance=TOLERANCE, worse=0.3, baseline=baseline, rounds=7, confirmed=confirmed
    )
    (draw,) = draws(setting, runs=100, seed=1)
    failed, suspect, fresh = judged_by_rule(draw, setting)
    together = list(zip(failed.tolist(), suspect.tolist(), fresh.tolist(), strict=True))
    assert together == [_judged(draw, number, confirmed=confirmed) for number in range(100)]
    assert 10 < sum(failed) < 99


def _judged(draw: Draw, number: int, *, confirmed: bool) -> tuple[bool, bool, float]:
    """One test by the rule itself: whether it fails, whether it was suspect, and its fresh sessions."""
    first, *more = (
        Comparison(current=tuple(session), baseline=tuple(draw.baseline[number].tolist()))
        for session in draw.sessions[number].tolist()
    )
    if first.shift <= TOLERANCE:
        return False, False, 0
    if not confirmed:
        return first.worse_p(TOLERANCE) < ALPHA, True, 0
    found = Fresh.of([], tolerance=TOLERANCE)
    while not found.settled:
        found = Fresh.of(more[: len(found.shifts) + 1], tolerance=TOLERANCE)
    return found.exceeds and found.p < ALPHA, True, len(found.shifts)

"""A regression that nobody has to confirm: it fails even if there is no time for fresh trials."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.regression import ALPHA, is_clear
from pytest_kafkaperf.verdict.scale import Measured

RATE = "produce.throughput"
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def clear(*trials: Sequence[float], limit: str = "baseline - 10%", levels: Sequence[float] = (1.0, 1.0, 1.0)) -> bool:
    """Judge trials of these rates against a baseline whose trials have these levels."""
    stored = tuple(tuple({RATE: level * factor} for factor in SPREAD) for level in levels)
    baseline = BaselineRounds(trials=stored, days=tuple(f"2026-01-{day}" for day in range(10, 10 + len(stored))))
    measured = [Measured(rounds=[{RATE: rate} for rate in rates]) for rates in trials]
    return is_clear(parse_threshold(f"{RATE} >= {limit}"), measured, baseline, alpha=ALPHA)


def around(level: float) -> list[float]:
    return [level * factor for factor in SPREAD]


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (around(0.5), True),
        (around(0.75), True),
        (around(0.85), False),  # a suspected regression that fresh trials may clear
        ([*around(0.5)[:4], 0.9], False),  # one round says otherwise
        ([0.75, 0.6, 0.5, 0.4, 0.75], False),  # its own noise may be the reason
        ([0.5, 0.5], False),
        ([0.5, 0.5, 0.5], True),
        (around(1.0), False),
        ([0.0] * 5, True),  # nothing at all
        ([*around(1.0)[:4], 0.0], False),
    ],
)
def test_every_round_is_worse_than_twice_the_tolerance_and_the_noise(rates: list[float], *, expected: bool) -> None:
    """A trial of unchanged software is never that far off."""
    assert clear(rates) == expected


def test_noise_between_the_trials_of_the_baseline_counts() -> None:
    """Such a baseline has been as far off itself."""
    assert clear(around(0.7))
    assert not clear(around(0.7), levels=(0.7, 1.0, 1.3))


def test_every_trial_has_to_be_clear() -> None:
    """A fresh trial that is better shows that the first one was unlucky."""
    assert clear(around(0.5), around(0.6))
    assert not clear(around(0.5), around(0.9))


def test_what_noise_may_explain_is_not_clear() -> None:
    """One day does not show how far another may be off; and limits with another part are left to more trials."""
    assert not clear(around(0.73), levels=(1.0,))
    assert clear(around(0.5), levels=(1.0,))
    assert not clear(around(0.5), limit="max(baseline - 10%, 3 records/s)")
    assert not clear(around(0.5), levels=())

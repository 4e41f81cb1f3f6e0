"""Other changes in trials with more rounds than by default."""

from __future__ import annotations

from tests.support.drawn_runs import drawn_runs


def test_noise_alone_rarely_gives_advice_for_ten_rounds() -> None:
    """Whoever cries wolf is switched off: 24 metrics, in each run."""
    found = drawn_runs(250, rounds=10)
    assert sum(bool(one) for one in found) / len(found) < 0.02

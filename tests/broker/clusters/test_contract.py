"""What every provider gives: the life of a local cluster; `tests/nightly` has containers, more brokers and logins."""

from __future__ import annotations

from tests.support.cluster_life import live_through


def test_a_cluster_lives_its_life() -> None:
    """It starts, takes load, loses a broker and gets it back, and leaves nothing behind."""
    live_through("local", 1, None)

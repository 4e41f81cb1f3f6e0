"""A fresh trial on local brokers."""

from __future__ import annotations

from tests.support.cluster_life import renew


def test_brokers_start_again_and_what_was_set_up_stays() -> None:
    """A quota that a fixture has set is part of the test: without, a regression would be cleared."""
    renew("local")

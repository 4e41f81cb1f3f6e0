"""What every provider gives: the same life for local brokers and for containers."""

from __future__ import annotations

import pytest

from tests.support.cluster_life import SECURED, live_through


@pytest.mark.parametrize(
    ("provider", "security"), [("local", None), pytest.param("docker", SECURED, marks=pytest.mark.docker)]
)
def test_a_cluster_lives_its_life(provider: str, security: str | None) -> None:
    """It starts, takes load, loses a broker and gets it back, and leaves nothing behind."""
    live_through(provider, 1, security)

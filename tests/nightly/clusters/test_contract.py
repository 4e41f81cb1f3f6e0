"""What every provider gives, for each provider, number of brokers and protocol that the shorter run leaves out."""

from __future__ import annotations

import pytest

from tests.support.cluster_life import SECURED, live_through


@pytest.mark.parametrize(
    ("provider", "brokers", "security"),
    [
        ("local", 1, SECURED),
        ("local", 3, None),
        ("local", 3, SECURED),
        pytest.param("docker", 1, None, marks=pytest.mark.docker),
        pytest.param("docker", 1, SECURED, marks=pytest.mark.docker),
        pytest.param("docker", 3, None, marks=pytest.mark.docker),
        pytest.param("docker", 3, SECURED, marks=pytest.mark.docker),
        pytest.param("docker", 1, "sasl_oauth+tls", marks=pytest.mark.docker),
    ],
)
def test_a_cluster_lives_its_life(provider: str, brokers: int, security: str | None) -> None:
    """It starts, takes load, loses a broker and gets it back, and leaves nothing behind."""
    live_through(provider, brokers, security)

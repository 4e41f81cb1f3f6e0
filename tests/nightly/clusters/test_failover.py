"""A broker in a container that goes and comes back under load."""

from __future__ import annotations

import pytest

from tests.support.failover import kill_and_start_a_broker, pause_a_broker

pytestmark = pytest.mark.docker


def test_a_container_that_is_killed_and_comes_back_loses_nothing_and_shows() -> None:
    """Killing a container is another way through the code than killing a process."""
    kill_and_start_a_broker("docker")


def test_a_paused_container_stalls_the_load_for_as_long() -> None:
    """The daemon freezes it."""
    pause_a_broker("docker")

"""A broker that goes and comes back under load."""

from __future__ import annotations

from tests.support.failover import kill_and_start_a_broker, pause_a_broker


def test_a_broker_that_is_killed_and_comes_back_loses_nothing_and_shows() -> None:
    """Three brokers, three replicas, acks=all and idempotence: Kafka promises that no record is lost."""
    kill_and_start_a_broker("local")


def test_a_paused_broker_stalls_the_load_for_as_long() -> None:
    """No connection breaks and no leader moves: only time passes."""
    pause_a_broker("local")

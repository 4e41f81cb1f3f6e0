"""What one worker process is to do. A plain picklable value."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kafkaperf.access import Access
from pytest_kafkaperf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One worker's part of one round."""

    worker: int
    """Index of the worker: its row on the board."""
    board: str
    """Path of the board that all workers and the controller share."""
    bootstrap_servers: str
    access: Access
    topic: str
    group: str
    """Name of the consumer groups, but for their numbers; and of transactional producers."""
    scenario: Scenario
    read_partitions: int
    """Of the topic that consumers read."""
    producers: tuple[int, ...] = ()
    """Which of the scenario's producers this worker runs."""
    consumers: tuple[int, ...] = ()
    """The group of each consumer that this worker runs."""
    seed: int = 0
    """Of the payload."""

"""Brokers that do not start: what is told, and what is removed."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.clusters.brokers.config import Security
from pytest_kafkaperf.clusters.brokers.fleet import Fleet, launched
from pytest_kafkaperf.core.errors import ClusterError


class Broker:
    """A broker that does not start, and that may be impossible to remove."""

    pid = None

    def __init__(self, *, stays: bool) -> None:
        self.stays = stays
        self.removed = False

    def start(self) -> None:
        if not self.stays:
            raise ClusterError("broker 2 exited with status 1", log="no space left on device")

    def remove(self) -> None:
        if self.stays:
            raise ClusterError("broker 1 did not exit within 10 s after SIGKILL")
        self.removed = True


def test_a_broker_that_cannot_be_removed_does_not_hide_why_another_did_not_start() -> None:
    """Both may have the same cause, such as a broken disk, and the log of the first error shows it."""
    servers: Any = {1: Broker(stays=True), 2: Broker(stays=False)}
    fleet = Fleet(
        servers=servers,
        bootstrap_servers="127.0.0.1:1",
        cluster_id="",
        security=Security.make(None, []),
        shared_probes={},
    )
    with (
        pytest.warns(UserWarning, match=r"^broker 1 did not exit within 10 s after SIGKILL$"),
        pytest.raises(ClusterError) as raised,
        launched(lambda: fleet, what="Kafka 4.1.0"),
    ):
        pass
    assert raised.value.reason == "Kafka 4.1.0 did not start: broker 2 exited with status 1"
    assert raised.value.log == "no space left on device"
    assert servers[2].removed

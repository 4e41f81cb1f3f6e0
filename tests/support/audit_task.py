"""An audit of a log that cannot be read."""

from __future__ import annotations

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.load.audit import AuditTask
from pytest_kafkaperf.load.identity import NO_NONCE
from pytest_kafkaperf.scenarios.scenario import Scenario

UNREADABLE = AuditTask(
    bootstrap_servers="127.0.0.1:9",
    access=Access(),
    topic="topic",
    scenario=Scenario.of({}),
    offsets={0: (0, 5)},
    failed=[],
    acknowledged=5,
    nonce=NO_NONCE,
)

"""The aiokafka engine."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_kafkaperf.load.engines.aiokafka import client_config

if TYPE_CHECKING:
    from pytest_kafkaperf.load.audit import AuditTask
    from pytest_kafkaperf.load.messages import Assignment, Audit, WorkerReport
    from pytest_kafkaperf.scenarios.scenario import Scenario


class AiokafkaEngine:
    """Engine that uses aiokafka. It imports aiokafka and NumPy only for a load, so that collection stays fast."""

    clients = ("batch", "record")

    def problems(self, scenario: Scenario) -> Iterator[str]:
        """Yield an error text for each invalid client parameter."""
        yield from client_config.problems("producer", scenario.producer_config)
        yield from client_config.problems("consumer", scenario.consumer_config)

    def facts(self) -> Mapping[str, str]:
        """Return the aiokafka version."""
        return {"aiokafka": importlib.metadata.version("aiokafka")}

    def check(self) -> None:
        """Check the aiokafka version."""
        from pytest_kafkaperf.load.engines.aiokafka.clients import check_aiokafka  # noqa: PLC0415 - see the class

        check_aiokafka()

    def work(self, assignment: Assignment) -> WorkerReport:
        """Run one worker's part of one round."""
        from pytest_kafkaperf.load.engines.aiokafka.worker import work  # noqa: PLC0415 - see the class

        return work(assignment)

    def audit(self, task: AuditTask) -> Audit:
        """Read the round's part of the log and compare it with the acknowledged records."""
        from pytest_kafkaperf.load.engines.aiokafka.log_reader import audit  # noqa: PLC0415 - see the class

        return audit(task)

"""Interface between the load generator and Kafka clients, with one engine per client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_kafkaperf.load.audit import AuditTask
    from pytest_kafkaperf.load.messages import Assignment, Audit, WorkerReport
    from pytest_kafkaperf.scenarios.scenario import Scenario


class Engine(Protocol):
    """Kafka client that generates a worker process's load.

    An engine is stateless and picklable. It encapsulates all client specifics: parameters, errors and encoding.
    """

    @property
    def clients(self) -> Sequence[str]:
        """Values of the scenario field `client` that select this engine."""

    def problems(self, scenario: Scenario) -> Iterator[str]:
        """Yield an error text for each invalid parameter in `producer_config` or `consumer_config`.

        The method is called during scenario validation, when parameters still have the names that the user wrote.
        """

    def facts(self) -> Mapping[str, str]:
        """Return the versions that can affect results, by name, as in a fingerprint."""

    def check(self) -> None:
        """Check that the installed client can generate the load.

        Raises:
            LoadError: the client is not suitable; the message contains the command that installs a suitable one.

        """

    def work(self, assignment: Assignment) -> WorkerReport:
        """Run one worker's part of one round in this process, from the first connection to the report.

        Raises:
            LoadError: a client could not connect or join its group; the message shows the client and the reason.

        """

    def audit(self, task: AuditTask) -> Audit:
        """Read the round's part of the log and compare it with the acknowledged records.

        Raises:
            LoadError: the log could not be read to its end, records carry no tags, or compaction has removed records.

        """


def engines() -> tuple[Engine, ...]:
    """Return all engines."""
    from pytest_kafkaperf.load.engines.aiokafka.aiokafka_engine import AiokafkaEngine  # noqa: PLC0415 - the seam

    return (AiokafkaEngine(),)


def engine_of(client: str) -> Engine:
    """Return the engine for a `client` value in a scenario."""
    return next(engine for engine in engines() if client in engine.clients)


def client_problems(scenario: Scenario) -> Iterator[str]:
    """Yield an error text for each client parameter that is invalid for the scenario's engine."""
    return engine_of(scenario.client).problems(scenario)

"""The seam between the load generator and Kafka's clients: one engine for each client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_kafkaperf.load.audit import AuditTask
    from pytest_kafkaperf.load.messages import Assignment, Audit, WorkerReport
    from pytest_kafkaperf.scenarios.scenario import Scenario


class Engine(Protocol):
    """A Kafka client that makes the load of a worker process.

    An engine has no state and can be pickled. Everything of its client is behind it: parameters, errors, encoding.
    """

    @property
    def clients(self) -> Sequence[str]:
        """Values of the scenario's field `client` that it serves."""

    def problems(self, scenario: Scenario) -> Iterator[str]:
        """Yield an error text for each parameter in `producer_config` or `consumer_config` that is not valid.

        Called while the scenario is validated, when the parameters still have the names that the user has given.
        """

    def facts(self) -> Mapping[str, str]:
        """Return versions that results depend on, by name, as in a fingerprint."""

    def check(self) -> None:
        """Check that the installed client can make the load.

        Raises:
            LoadError: it cannot; the text says what to install.

        """

    def work(self, assignment: Assignment) -> WorkerReport:
        """Run one worker's part of one round in this process, from the first connection to the report.

        Raises:
            LoadError: a client could not connect or join its group; the text names the client and the reason.

        """

    def audit(self, task: AuditTask) -> Audit:
        """Read the round's part of the log and compare it with the acknowledged records.

        Raises:
            LoadError: the log could not be read to its end, the records carry no tag, or compaction has removed some.

        """


def engines() -> tuple[Engine, ...]:
    """Return all engines."""
    from pytest_kafkaperf.load.engines.aiokafka.aiokafka_engine import AiokafkaEngine  # noqa: PLC0415 - the seam

    return (AiokafkaEngine(),)


def engine_of(client: str) -> Engine:
    """Return the engine for a value of the scenario's field `client`."""
    return next(engine for engine in engines() if client in engine.clients)


def client_problems(scenario: Scenario) -> Iterator[str]:
    """Yield an error text for each parameter of clients that is not valid for the scenario's engine."""
    return engine_of(scenario.client).problems(scenario)

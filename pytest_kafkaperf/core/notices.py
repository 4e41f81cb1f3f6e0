"""Problems: the reasons why a measurement cannot be trusted, each with a kind for programs and a text for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from pytest_kafkaperf.core.errors import ApplicationError, ClusterError


class ProblemKind(StrEnum):
    """Kinds of problems, as the JSON report names them (`problem_kinds`)."""

    GENERATOR_TOO_SLOW = "generator_too_slow"
    """The machine left the workers too little time to make the load."""
    LOAD_NOT_REACHED = "load_not_reached"
    """The workers did not send all records of a closed loop within an hour."""
    NOTHING_ACKNOWLEDGED = "nothing_acknowledged"
    """The cluster acknowledged no record of the window."""
    RECORDS_LOST = "records_lost"
    """The cluster acknowledged records that are not in the log."""
    LOSSES_UNKNOWN = "losses_unknown"
    """The log could not be compared with the acknowledged records."""
    RECORDS_UNREAD = "records_unread"
    """The consumers did not receive all records in time."""
    NO_OUTPUT = "no_output"
    """The application wrote no record to its output topic."""
    APPLICATION_ENDED = "application_ended"
    """An application of `kafka_app` ended by itself, or was not ready in time after a restart."""
    NO_COMMIT = "no_commit"
    """A watched consumer group committed nothing."""
    NOT_CAUGHT_UP = "not_caught_up"
    """After a stop of the application, or with a backlog, the lag was not back at its level when the load ended."""
    CLUSTER_ERROR = "cluster_error"
    """The Kafka cluster or the Dask cluster is not reachable, refused a request, or was lost."""
    WORKER_FAILED = "worker_failed"
    """A worker could not start its part of the load, failed, or did not finish in time."""
    WORKER_LOST = "worker_lost"
    """A worker process died, for example for want of memory, or was killed because it hung."""
    ACTION_FAILED = "action_failed"
    """An action of `kafka_perf.at(...)` or a function of `kafka_perf.add_metric(...)` failed or did not end in time."""
    CAPACITY_NOT_FOUND = "capacity_not_found"
    """A search for the capacity found no rate that holds its thresholds."""
    LOWER_BOUND = "lower_bound"
    """Only a lower bound of a metric is known, which does not decide its threshold."""
    VALUE_MISSING = "value_missing"
    """A metric with a threshold has no value in some round, and that round could change the verdict."""
    COMMIT_INTERVAL = "commit_interval"
    """A threshold on a time of a group is below the interval of its commits."""
    COLD_BROKER = "cold_broker"
    """A broker or an application still compiled its code in a round that decides the verdict."""
    CLOCK_UNCERTAIN = "clock_uncertain"
    """A threshold on end-to-end latency is below the uncertainty of the clocks of the machines."""


MACHINE_MADE = frozenset({ProblemKind.GENERATOR_TOO_SLOW, ProblemKind.WORKER_LOST})
"""Kinds that this machine causes, and not Kafka; such a trial is measured again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a round, a trial or a test is INVALID."""

    kind: ProblemKind
    text: str
    metric: str | None = None
    """Metric that has only a lower bound because of it; it counts no longer if that bound exceeds a threshold."""

    @classmethod
    def of(cls, error: ClusterError) -> Problem:
        """Return the problem of a cluster, or of an application on it."""
        ended = isinstance(error, ApplicationError)
        return cls(ProblemKind.APPLICATION_ENDED if ended else ProblemKind.CLUSTER_ERROR, str(error))

    def __str__(self) -> str:
        """Return the text alone."""
        return self.text

    def within(self, place: str) -> Problem:
        """Return the same problem with the place where it occurred before its text: `round 2: ...`."""
        return replace(self, text=f"{place}: {self.text}")


class EventKind(StrEnum):
    """Kinds of what a test does to brokers and applications."""

    STOPPED = "stopped"
    KILLED = "killed"
    STARTED = "started"
    READY = "ready"
    READY_AGAIN = "ready again"
    """A broker that was stopped."""
    PAUSED = "paused"
    RESUMED = "resumed"


class Event(NamedTuple):
    """One stop, start or pause of a broker or an application by the test."""

    at_ns: int
    """On the monotonic clock."""
    kind: EventKind
    subject: str
    """`broker 1`, or the name of the application."""
    detail: str = ""
    """Ending of a process that was stopped: `exited with status 0`."""

    def __str__(self) -> str:
        """Return a text such as `broker 1 started`."""
        text = f"{self.subject} {self.kind}"
        return f"{text} ({self.detail})" if self.detail else text

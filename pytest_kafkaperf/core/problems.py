"""Problems, which make a round, a trial or a test INVALID: one table has their kinds, texts and advice.

Warnings and notes, which make nothing INVALID, are in `notices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from pytest_kafkaperf.core.errors import ApplicationError, ClusterError


class ProblemKind(StrEnum):
    """Kinds of problems, as in the JSON report."""

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


_TOO_SLOW_ADVICE = "use more producers, larger records or a lower rate, or give the machine more cores"
_BELOW = "threshold {expression!r}: the threshold is {limit}, and the "
_NOT_IN_LOG = "records lost: {lost:.0f} records were acknowledged and are not in the log"
SKEWED = "records carry timestamps up to {skew} later than their reception, so the clocks differ by at least that"
"""The reason why end-to-end latency is unknown."""
_COLD = (
    "{names} still compiled code in {cold} of {rounds}, with up to {most:.0%} of a core, and may be faster when warm"
)


class Cause(Enum):
    """Everything that can be a problem: the kind, the text with the names of its values, and what to do about it.

    This is the one table of these texts; nothing reads them back.
    """

    SENT_LATE = (
        ProblemKind.GENERATOR_TOO_SLOW,
        "generator too slow: {late} of {due} records were sent late although the in-flight limit allowed sending them",
        _TOO_SLOW_ADVICE,
    )
    NOT_SENT_IN_TIME = (
        ProblemKind.GENERATOR_TOO_SLOW,
        (
            "generator too slow: {unsent} of {due} records were not sent in the window, and a worker would need "
            "{cores:.0%} of a core to send them in time"
        ),
        _TOO_SLOW_ADVICE,
    )
    LOWEST_RATE_UNREACHED = (
        ProblemKind.GENERATOR_TOO_SLOW,
        "{reason} (at the lowest rate, {rate}: the capacity is unknown)",
    )
    LOAD_NOT_REACHED = (
        ProblemKind.LOAD_NOT_REACHED,
        "load not reached: {missing} of {records} records were not sent within {timeout_s} s",
        "use fewer records, or a duration",
    )
    NOTHING_ACKNOWLEDGED = (
        ProblemKind.NOTHING_ACKNOWLEDGED,
        "no record of the window was acknowledged{failures}",
    )
    RECORDS_LOST = (ProblemKind.RECORDS_LOST, _NOT_IN_LOG)
    RECORDS_LOST_BEFORE = (
        ProblemKind.RECORDS_LOST,
        f"{_NOT_IN_LOG}, in a load before the first round (the broker warm-up, or the sizing of the workers)",
    )
    OUTPUT_LOST = (
        ProblemKind.RECORDS_LOST,
        "records lost: {lost:.0f} records were acknowledged and did not come out of the output topic",
    )
    LOSSES_UNKNOWN = (ProblemKind.LOSSES_UNKNOWN, "losses are unknown: {reason}")
    EMPTY_TOPIC = (ProblemKind.RECORDS_UNREAD, "nothing was read from topic {topic!r}: it holds no record")
    RECORDS_UNREAD = (
        ProblemKind.RECORDS_UNREAD,
        (
            "records unread: {unread} records in the log were not received by the consumers in time; end-to-end "
            "values would leave out the slowest"
        ),
    )
    REJOINED = (ProblemKind.RECORDS_UNREAD, "records unread: {reason}")
    HEADERS_MISSING = (
        ProblemKind.NO_OUTPUT,
        (
            "no record came out with the header {header!r}, but {others} arrived in {output_topic!r}: let the "
            "application copy headers, or name a function with correlate="
        ),
    )
    NOTHING_MATCHED = (
        ProblemKind.NO_OUTPUT,
        (
            "{function} matched no record, but {others} arrived in {output_topic!r}: it must return the first "
            "{tag_bytes} bytes of the value that went in, which the application must keep"
        ),
    )
    NO_OUTPUT = (
        ProblemKind.NO_OUTPUT,
        (
            "no record arrived in {output_topic!r}: start the application before kafka_perf(), and look into its log; "
            "check that it reads {topic!r}, that it accepts what the test sends (payload=), and to which topic it "
            "writes"
        ),
    )
    APPLICATION_ENDED = (ProblemKind.APPLICATION_ENDED, "{reason}")
    NO_COMMIT = (
        ProblemKind.NO_COMMIT,
        (
            "group {group!r} committed nothing on topic {topic!r} since the load began: check that the application "
            "runs, reads this topic and commits its offsets"
        ),
    )
    NOT_CAUGHT_UP = (
        ProblemKind.NOT_CAUGHT_UP,
        "{who} had not caught up when the load ended, so {metric} is at least {waited}",
        "use a duration longer than the times of the stop and of the threshold together, or a lower rate",
    )
    CLUSTER_ERROR = (ProblemKind.CLUSTER_ERROR, "{reason}")
    OFFSETS_UNREAD = (
        ProblemKind.CLUSTER_ERROR,
        (
            "the offsets of group {group!r} could not be read in the last {unread} of the load: its coordinator, or "
            "the leader of a partition of topic {topic!r}, did not answer"
        ),
    )
    WORKER_FAILED = (ProblemKind.WORKER_FAILED, "{reason}")
    WORKER_CRASHED = (ProblemKind.WORKER_FAILED, "worker {worker} failed: {error}\n{traceback}")
    WORKER_LOST = (ProblemKind.WORKER_LOST, "{reason}")
    WORKER_KILLED = (ProblemKind.WORKER_LOST, "worker {worker} did not report within {timeout_s} s and was killed")
    ACTION_FAILED = (ProblemKind.ACTION_FAILED, "{action}: {reason}")
    SEARCH_ENDED_BY_LOSS = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "the search ended at {rate}, because {lost:.0f} acknowledged records were lost, so the capacity is unknown",
        "to allow losses, give kafka_perf.capacity() a threshold on `lost`",
    )
    SEARCH_UNENDED = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "the search did not end within {steps} steps: rates that held once failed later",
        "hold each rate for longer",
    )
    NO_RATE_HELD = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "no rate held the thresholds: at the lowest rate, {rate}, {reason}",
        "give a lower low=, or other thresholds",
    )
    LOWER_BOUND = (
        ProblemKind.LOWER_BOUND,
        "{expression}: {metric} is a lower bound here, so the true value may {may} the threshold",
        "see the warnings",
    )
    VALUE_MISSING = (ProblemKind.VALUE_MISSING, "threshold {expression!r} cannot be judged: {reason}")
    COMMIT_INTERVAL = (
        ProblemKind.COMMIT_INTERVAL,
        f"{_BELOW}group commits every {{interval}}, so nothing finer is known",
        "raise the threshold, or have the application commit more often (offsets are read every 100 ms)",
    )
    CLOCK_UNCERTAIN = (
        ProblemKind.CLOCK_UNCERTAIN,
        f"{_BELOW}clocks of the machines that send and receive are known to ±{{uncertainty}} only",
        (
            "raise the threshold, move the machines and the Dask scheduler into one network, or let one machine send "
            "and receive"
        ),
    )
    CLOCKS_DIFFER = (
        ProblemKind.CLOCK_UNCERTAIN,
        f"threshold {{expression!r}}: the latency is unknown, because {SKEWED}",
        "synchronize the clocks, for example by NTP, or remove the threshold",
    )
    COLD_BROKER = (ProblemKind.COLD_BROKER, _COLD)
    WARM_UP_OFF = (ProblemKind.COLD_BROKER, f"{_COLD} (kafka_broker_warmup is 0 s)")
    WARM_UP_TOO_SHORT = (
        ProblemKind.COLD_BROKER,
        _COLD,
        "the warm-up took as long as kafka_broker_warmup allows: raise it, or use a machine with more cores",
    )

    def __init__(self, kind: ProblemKind, text: str, advice: str = "") -> None:
        self.kind = kind
        self.text = text
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Place:
    """Place where a problem occurred; empty if it is about the test as a whole, or the first trial."""

    trial: int | None = None
    """Number of a further trial."""
    other_side: bool = False
    """True for the live baseline, or the brokers of the stored one."""
    round: int | None = None

    def __str__(self) -> str:
        """Return a text such as `trial 2: the baseline, round 1`."""
        trial = "" if self.trial is None else f"trial {self.trial}"
        number = "" if self.round is None else f"round {self.round}"
        side = ", ".join(filter(None, ("the baseline" if self.other_side else "", number)))
        return ": ".join(filter(None, (trial, side)))


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a round, a trial or a test is INVALID."""

    cause: Cause
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    """The values that the text of the cause names."""
    metric: str | None = None
    """Metric that has only a lower bound because of it; it counts no longer if that bound exceeds a threshold."""
    place: Place = Place()
    excuse: str = ""
    """Possible explanation: `other programs used 1.5 of its 2 cores`."""

    @classmethod
    def of(cls, error: ClusterError) -> Problem:
        """Return the problem of a cluster, or of an application on it."""
        ended = isinstance(error, ApplicationError)
        return cls(Cause.APPLICATION_ENDED if ended else Cause.CLUSTER_ERROR, {"reason": str(error)})

    @property
    def kind(self) -> ProblemKind:
        """The kind, for programs."""
        return self.cause.kind

    @property
    def fact(self) -> str:
        """The place and what is wrong there, without advice."""
        return self._placed(self.cause.text.format_map(self.values))

    @property
    def text(self) -> str:
        """The place, what is wrong there, and what to do about it."""
        excuse = f"perhaps because {self.excuse}" if self.excuse else ""
        return "; ".join(filter(None, (self.fact, excuse, self.cause.advice)))

    def _placed(self, text: str) -> str:
        return ": ".join(filter(None, (str(self.place), text)))

    def __str__(self) -> str:
        """Return the text alone."""
        return self.text

    def of_trial(self, number: int) -> Problem:
        """Return the same problem as one of a further trial: `trial 2: round 1: ...`."""
        return replace(self, place=replace(self.place, trial=number))

    def of_round(self, number: int, *, other_side: bool = False) -> Problem:
        """Return the same problem as one of a round: `round 2: ...`, or `the baseline, round 2: ...`."""
        return replace(self, place=Place(other_side=other_side, round=number))

    def perhaps_because(self, excuse: str) -> Problem:
        """Return the same problem with a possible explanation."""
        return replace(self, excuse=excuse)

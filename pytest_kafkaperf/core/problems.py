"""Problems that make a round, a trial or a test INVALID, and the table of their kinds, texts and advice.

Warnings and notes do not make anything INVALID; they are in `notices`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from pytest_kafkaperf.core.errors import END_OF_LOG, ApplicationError, ClusterError, with_log
from pytest_kafkaperf.core.units import counted


class ProblemKind(StrEnum):
    """Kinds of problems, as in the JSON report."""

    GENERATOR_TOO_SLOW = "generator_too_slow"
    """The workers got too little CPU time to generate the load."""
    LOAD_NOT_REACHED = "load_not_reached"
    """The workers did not send all records of a closed loop within an hour."""
    NOTHING_ACKNOWLEDGED = "nothing_acknowledged"
    """The cluster did not acknowledge any records in the window."""
    RECORDS_LOST = "records_lost"
    """Acknowledged records are missing from the log."""
    LOSSES_UNKNOWN = "losses_unknown"
    """The log could not be compared with the acknowledged records."""
    RECORDS_UNREAD = "records_unread"
    """The consumers did not receive all records in time."""
    NO_OUTPUT = "no_output"
    """The application did not write any records to its output topic."""
    APPLICATION_ENDED = "application_ended"
    """An application started by `kafka_app` exited unexpectedly, or was not ready in time after a restart."""
    NO_COMMIT = "no_commit"
    """A watched consumer group committed no offsets."""
    NOT_CAUGHT_UP = "not_caught_up"
    """By the end of the load, the lag caused by a backlog or an application stop had not returned to normal."""
    CLUSTER_ERROR = "cluster_error"
    """The Kafka or Dask cluster is not reachable, refused a request, or was lost."""
    WORKER_FAILED = "worker_failed"
    """A worker could not start its part of the load, failed, or did not finish in time."""
    WORKER_LOST = "worker_lost"
    """A worker process died, for example because it ran out of memory, or was killed because it hung."""
    ACTION_FAILED = "action_failed"
    """A `kafka_perf.at(...)` action or a `kafka_perf.add_metric(...)` function failed or did not finish in time."""
    CAPACITY_NOT_FOUND = "capacity_not_found"
    """A capacity search did not find any rate that meets its thresholds."""
    LOWER_BOUND = "lower_bound"
    """Only a lower bound of a metric is known, which is not enough to judge the threshold."""
    VALUE_MISSING = "value_missing"
    """A metric with a threshold has no value in a round that could change the verdict."""
    IDENTITIES = "identities"
    """Several input records have the same identity."""
    COMMIT_INTERVAL = "commit_interval"
    """A threshold on a consumer group's time metric is below the group's commit interval."""
    COLD_BROKER = "cold_broker"
    """A broker or an application was still compiling its code in a round that determines the verdict."""
    CLOCK_UNCERTAIN = "clock_uncertain"
    """A threshold on end-to-end latency is below the machines' clock uncertainty."""


MACHINE_MADE = frozenset({ProblemKind.GENERATOR_TOO_SLOW, ProblemKind.WORKER_LOST})
"""Problems caused by this machine rather than by Kafka. A trial with such a problem is repeated."""
MADE_BY_SLOW_BROKERS = frozenset(
    {
        ProblemKind.GENERATOR_TOO_SLOW,
        ProblemKind.LOAD_NOT_REACHED,
        ProblemKind.NOTHING_ACKNOWLEDGED,
        ProblemKind.RECORDS_UNREAD,
        ProblemKind.NOT_CAUGHT_UP,
        ProblemKind.COLD_BROKER,
    }
)
"""Problems whose cause may be slow brokers, such as cold ones or those with only the JVM's quick compiler."""


_TOO_SLOW_ADVICE = "use more producers, larger records or a lower rate, or give the machine more cores"
_NOT_IN_LOG = "records lost: {lost:.0f} acknowledged records are missing from the log"
_UNMATCHED = "no input record has the same identity ({identify}) as what arrived in {output_topic!r}"
_CHECK_IDENTIFY = "check that the application keeps the identity, and that identify specifies where to find it"
SKEWED = "records carry timestamps up to {skew} after their receipt, so the clocks differ by at least that much"
"""Explanation for unknown end-to-end latency."""
_COLD = (
    "{names} still compiled code in {cold} of {rounds}, using up to {most:.0%} of a core, and may be faster when warm"
)


class Cause(Enum):
    """Table of all problems, each with its kind, its text (with placeholders for values) and advice.

    The texts exist only here, and no code parses them.
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
        "{reason} (at the lowest rate, {rate}, so the capacity is unknown)",
    )
    PAYLOAD_TOO_SLOW = (
        ProblemKind.GENERATOR_TOO_SLOW,
        (
            "generator too slow: {late} of {due} records were sent late, because the payload function {function} makes "
            "only about {most:.0f} records/s on this machine"
        ),
        (
            "make it faster, use more producers or a lower rate, or generate a pool in advance: "
            "payload={'function': ..., 'pool': 10_000}"
        ),
    )
    IDENTITIES_REPEATED = (
        ProblemKind.IDENTITIES,
        (
            "{repeats} of {records} input records have the same identity ({identify}) as another one, so the output "
            "cannot be matched with them"
        ),
        (
            "make identities unique, for example with a payload function that puts its whole index into the record, or "
            "with key='sequential' and identify='key' if the application keeps the key"
        ),
    )
    TOO_MANY_IDENTITIES = (
        ProblemKind.IDENTITIES,
        "{records:,} records are too many to be identified without a tag; at most {most:,} are allowed in a round",
        "shorten the round, lower the rate, or set identify='header'",
    )
    LOAD_NOT_REACHED = (
        ProblemKind.LOAD_NOT_REACHED,
        "load not reached: only {sent} of {records} records were sent within {timeout_s} s",
        "use fewer records, or set a duration instead",
    )
    NOTHING_ACKNOWLEDGED = (
        ProblemKind.NOTHING_ACKNOWLEDGED,
        "no record in the window was acknowledged{failures}",
    )
    RECORDS_LOST = (ProblemKind.RECORDS_LOST, _NOT_IN_LOG)
    RECORDS_LOST_BEFORE = (
        ProblemKind.RECORDS_LOST,
        (
            f"{_NOT_IN_LOG} after a load that ran before the first round (the broker warm-up, or the load that "
            "determines the number of workers)"
        ),
    )
    OUTPUT_LOST = (
        ProblemKind.RECORDS_LOST,
        "records lost: {lost:.0f} acknowledged records did not reach the output topic",
    )
    LOSSES_UNKNOWN = (ProblemKind.LOSSES_UNKNOWN, "losses are unknown: {reason}")
    EMPTY_TOPIC = (ProblemKind.RECORDS_UNREAD, "nothing was read from topic {topic!r}, because it is empty")
    RECORDS_UNREAD = (
        ProblemKind.RECORDS_UNREAD,
        (
            "records unread: the consumers did not receive {unread} records from the log in time, so end-to-end values "
            "would leave out the slowest records"
        ),
    )
    REJOINED = (ProblemKind.RECORDS_UNREAD, "records unread: {reason}")
    HEADERS_MISSING = (
        ProblemKind.NO_OUTPUT,
        (
            "no record came out with the header {header!r}, but {others} arrived in {output_topic!r}: make the "
            "application copy the headers of its input, or set identify to what it keeps: 'key', 'json:FIELD' or a "
            "function"
        ),
    )
    NOTHING_MATCHED = (
        ProblemKind.NO_OUTPUT,
        f"{_UNMATCHED} ({{others}}): {_CHECK_IDENTIFY}",
    )
    NO_IDENTITY_MATCHED = (
        ProblemKind.NO_OUTPUT,
        f"{_UNMATCHED} ({{others}}, the first of which has {{first}}): {_CHECK_IDENTIFY}",
    )
    NO_OUTPUT = (
        ProblemKind.NO_OUTPUT,
        (
            "no record arrived in {output_topic!r}: start the application before you call kafka_perf(), and check its "
            "log; make sure that it reads {topic!r}, accepts the records of this test (payload=), and writes to "
            "{output_topic!r}"
        ),
    )
    APPLICATION_ENDED = (ProblemKind.APPLICATION_ENDED, "{reason}")
    NO_COMMIT = (
        ProblemKind.NO_COMMIT,
        (
            "group {group!r} has committed nothing on topic {topic!r} since the load started: check that the "
            "application is running, reads this topic and commits its offsets"
        ),
    )
    NOT_CAUGHT_UP = (
        ProblemKind.NOT_CAUGHT_UP,
        "{who} had not caught up when the load ended, so {metric} is at least {waited}",
        "use a longer duration (at least the outage and the threshold together) or a lower rate",
    )
    CLUSTER_ERROR = (ProblemKind.CLUSTER_ERROR, "{reason}")
    OFFSETS_UNREAD = (
        ProblemKind.CLUSTER_ERROR,
        (
            "could not read the offsets of group {group!r} during the last {unread} of the load: its coordinator or a "
            "partition leader of topic {topic!r} did not answer"
        ),
    )
    WORKER_FAILED = (ProblemKind.WORKER_FAILED, "{reason}")
    WORKER_CRASHED = (ProblemKind.WORKER_FAILED, "worker {worker} failed: {error}")
    WORKER_LOST = (ProblemKind.WORKER_LOST, "{reason}")
    WORKER_KILLED = (ProblemKind.WORKER_LOST, "worker {worker} did not report within {timeout_s} s and was killed")
    ACTION_FAILED = (ProblemKind.ACTION_FAILED, "{action}: {reason}")
    SEARCH_ENDED_BY_LOSS = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "the search ended at {rate} because {lost:.0f} acknowledged records were lost, so the capacity is unknown",
        "to allow losses, pass kafka_perf.capacity() a threshold on `lost`",
    )
    SEARCH_UNENDED = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "the search did not end within {steps} steps: rates that met the thresholds once did not meet them again",
        "hold each rate for longer",
    )
    NO_RATE_HELD = (
        ProblemKind.CAPACITY_NOT_FOUND,
        "no rate met the thresholds: at the lowest rate, {rate}, {reason}",
        "pass a lower low= to kafka_perf.capacity(), or loosen the thresholds",
    )
    LOWER_BOUND = (
        ProblemKind.LOWER_BOUND,
        "{expression}: only a lower bound of {metric} is known, so the true value may {may} the threshold",
        "the warnings explain why",
    )
    VALUE_MISSING = (ProblemKind.VALUE_MISSING, "threshold {expression!r} cannot be judged: {reason}")
    COMMIT_INTERVAL = (
        ProblemKind.COMMIT_INTERVAL,
        "threshold {expression!r} cannot be judged, because the group commits only every {interval}",
        "raise the threshold, or have the application commit more often (offsets are read every 100 ms)",
    )
    CLOCK_UNCERTAIN = (
        ProblemKind.CLOCK_UNCERTAIN,
        (
            "threshold {expression!r} cannot be judged, because the clock offset between the sending and receiving "
            "machines is known only to ±{uncertainty}"
        ),
        (
            "raise the threshold, move the machines and the Dask scheduler into one network, or send and receive on "
            "the same machine"
        ),
    )
    CLOCKS_DIFFER = (
        ProblemKind.CLOCK_UNCERTAIN,
        f"threshold {{expression!r}}: the latency is unknown, because {SKEWED}",
        "synchronize the clocks, for example with NTP, or remove the threshold",
    )
    COLD_BROKER = (ProblemKind.COLD_BROKER, _COLD)
    WARM_UP_OFF = (ProblemKind.COLD_BROKER, f"{_COLD} (kafka_broker_warmup is 0 s)")
    WARM_UP_TOO_SHORT = (
        ProblemKind.COLD_BROKER,
        _COLD,
        "the warm-up used all of kafka_broker_warmup: raise it, or use a machine with more cores",
    )
    UNEVEN_TRIALS = (
        ProblemKind.COLD_BROKER,
        "in {uneven} of {trials}, the brokers on one side were less warm than on the other",
        "run the test on a machine with fewer other programs, or raise kafka_broker_warmup",
    )

    def __init__(self, kind: ProblemKind, text: str, advice: str = "") -> None:
        self.kind = kind
        self.text = text
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Place:
    """Place where a problem occurred; empty if it concerns the whole test or the first trial."""

    trial: int | None = None
    """Trial number; None for the first trial or for the whole test."""
    other_side: bool = False
    """True for the live baseline or the stored baseline's brokers."""
    round: int | None = None
    further_rounds: int = 0
    """Number of further rounds with the same problem."""

    def __str__(self) -> str:
        """Format the place: `trial 2: the baseline, round 1`."""
        trial = "" if self.trial is None else f"trial {self.trial}"
        further = f" (and {counted(self.further_rounds, 'more round')})" if self.further_rounds else ""
        number = "" if self.round is None else f"round {self.round}{further}"
        side = ", ".join(filter(None, ("the baseline" if self.other_side else "", number)))
        return ": ".join(filter(None, (trial, side)))


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why a round, a trial or a test is INVALID."""

    cause: Cause
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Values for the placeholders in the cause's text, and any of these: `log`, the end of the log of the program that
    failed, `program`, its name, and `traceback`."""
    metric: str | None = None
    """Metric for which only a lower bound is known because of this problem. The problem does not count if the lower
    bound already exceeds a threshold."""
    place: Place = Place()
    excuse: str = ""
    """Possible explanation: `other programs used 1.5 of 2 cores`."""

    @classmethod
    def of(cls, error: ClusterError) -> Problem:
        """Convert a cluster or application error to a problem."""
        ended = isinstance(error, ApplicationError)
        cause = Cause.APPLICATION_ENDED if ended else Cause.CLUSTER_ERROR
        return cls(cause, {"reason": error.reason, **error.facts})

    @property
    def kind(self) -> ProblemKind:
        """Machine-readable kind."""
        return self.cause.kind

    @property
    def fact(self) -> str:
        """Place and problem, without advice or a possible explanation."""
        return "\n".join(filter(None, (with_log(self._message, self._log), self._traceback)))

    @property
    def sentence(self) -> str:
        """The first line of the fact, without the end of a log."""
        return self._message.partition("\n")[0]

    @property
    def details(self) -> tuple[str, ...]:
        """The other lines of the fact, such as the end of a log or a traceback."""
        log = f"{END_OF_LOG}\n{self._log}" if self._log else ""
        others = filter(None, (self._message.partition("\n")[2], log, self._traceback))
        return tuple(line for text in others for line in text.split("\n"))

    @property
    def _message(self) -> str:
        return self._placed(self.cause.text.format_map(self.values))

    @property
    def _log(self) -> str | None:
        return None if "log" not in self.values else str(self.values["log"])

    @property
    def _traceback(self) -> str:
        return str(self.values.get("traceback", ""))

    @property
    def advice(self) -> str:
        """Advice on fixing the problem; empty if there is none."""
        return self.cause.advice

    @property
    def text(self) -> str:
        """Place, problem, possible explanation and advice."""
        excuse = f"possibly because {self.excuse}" if self.excuse else ""
        return "; ".join(filter(None, (self.fact, excuse, self.advice)))

    def _placed(self, text: str) -> str:
        return ": ".join(filter(None, (str(self.place), text)))

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def of_trial(self, number: int) -> Problem:
        """Return the same problem with its trial number: `trial 2: round 1: ...`."""
        return replace(self, place=replace(self.place, trial=number))

    def of_round(self, number: int, *, other_side: bool = False) -> Problem:
        """Return the same problem with its round number: `round 2: ...`, or `the baseline, round 2: ...`."""
        return replace(self, place=Place(other_side=other_side, round=number))

    def perhaps_because(self, excuse: str) -> Problem:
        """Return the same problem with a possible explanation."""
        return replace(self, excuse=excuse)


def only_late(problems: Iterable[Problem]) -> bool:
    """Return True if all problems, of which there may be none, are that the generator was too slow."""
    return all(problem.kind is ProblemKind.GENERATOR_TOO_SLOW for problem in problems)


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Merge problems that differ only in their round into one problem with the number of further rounds."""
    groups: dict[Problem, list[Problem]] = {}
    for problem in problems:
        everywhere = replace(problem, place=replace(problem.place, round=None))
        groups.setdefault(everywhere, []).append(problem)
    return [
        replace(first, place=replace(first.place, further_rounds=len(others))) for first, *others in groups.values()
    ]

"""Warnings, notes and events: machine-readable kinds and values, and the table of user-facing texts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import NamedTuple

from pytest_kafkaperf.core.problems import SKEWED, Place, Problem


class NoticeKind(StrEnum):
    """Kinds of notices. Notices on the same topic share a kind."""

    EVENT = "event"
    """A broker, a partition or an application changed at some point, whether planned or not."""
    CLIENT = "client"
    """The client library logged a warning."""
    CONSUMERS_LIMIT = "consumers_limit"
    GENERATOR_LIMITS = "generator_limits"
    OUTPUT_MISSING = "output_missing"
    LAG_GROWS = "lag_grows"
    OUTPUT_REPEATED = "output_repeated"
    NOT_SENT = "not_sent"
    RECORDS_FAILED = "records_failed"
    RARE_COMMITS = "rare_commits"
    NOT_COMMITTED = "not_committed"
    PAUSE_UNKNOWN = "pause_unknown"
    UNREAD = "unread"
    """Brokers or partitions could not be read."""
    BUSY_MACHINE = "busy_machine"
    RECOVERY = "recovery"
    LEFT_BEHIND = "left_behind"
    CAPACITY_BOUND = "capacity_bound"
    CLOCKS = "clocks"
    COMMIT_INTERVAL = "commit_interval"
    REPEATED = "repeated"
    """A trial or a test was measured again."""
    COLD = "cold"
    DOUBT = "doubt"
    """A problem that did not cause the test to fail, or the reason for an undecided threshold."""
    BOTH_SLOWER = "both_slower"
    DRIFT = "drift"
    RETEST = "retest"
    ROUNDS = "rounds"
    """The test ran fewer rounds than it declares."""
    TIME = "time"
    """Time ran out, or time was spent on a comparison."""
    SHORT_WARM_UP = "short_warm_up"
    NOISE = "noise"
    CALIBRATION = "calibration"
    BOTTLENECK = "bottleneck"
    OTHER_SIDE = "other_side"
    """Remarks on the live baseline's code."""
    BASELINE = "baseline"
    """Remarks on the stored baseline or on its update."""
    SMOKE_TEST = "smoke_test"


OTHER_PROGRAMS = "other programs used {used:.1f} of {cores} cores"
"""Explanation for a busy machine."""
_OUTPUT_MISSING = (
    "{records} did not arrive in {output_topic!r} in time (counted as lost); end-to-end latency covers only the others"
)
_UNDER_REPLICATED = "{affected} of {known} partitions under-replicated from {at}"
_UNREAD = "could not read {program} ({probe})"
_CAPACITY = "the capacity is at least {capacity}: "
_DRIFT = (
    "from the first round to the last, more than noise explains: the cluster may still have been warming up, or its "
    "load may have changed"
)
_RUN_AGAIN = "run the test again before you rely on its values"
_RETEST = (
    "re-tested side by side with freshly started baseline brokers (Kafka {version}); the column `baseline` shows "
    "their results in this re-test, on shared cores{shortened}"
)
_FRESH = "re-tested in fresh trials"
_MAKE_NEW = "measure new ones with --kafka-update-baselines"
_MORE_TIME = "increase --kafka-time-budget"
_SHIFT = "{metric} is {change} compared with the stored baseline, {where}"
_NOT_KAFKA = "Kafka is not the cause"


class Remark(Enum):
    """Table of all remarks, each with its kind, its text (with placeholders for values) and advice.

    The texts exist only here, and no code parses them. Notices from the same row differ only in their numbers, unless
    a value listed in `apart` differs.
    """

    ACTION = NoticeKind.EVENT, "at {at}: {event}", "", ("what", "application")
    LEADER_MOVED = NoticeKind.EVENT, "at {at}: {partitions} ({ids}): leader moved from broker {sources} to {targets}"
    UNDER_REPLICATED = NoticeKind.EVENT, f"{_UNDER_REPLICATED} to {{until}}"
    STILL_UNDER_REPLICATED = NoticeKind.EVENT, f"{_UNDER_REPLICATED} onward"
    MORE_EVENTS = NoticeKind.EVENT, "and {omitted} more such events until {until}"
    CLIENT_WARNING = NoticeKind.CLIENT, "{library}: {message}", "", ("template",)
    CONSUMERS_LIMIT = (
        NoticeKind.CONSUMERS_LIMIT,
        "the consumers may be the limit: one of their workers had no idle time",
        "use more consumers",
    )
    GENERATOR_LIMITS = (
        NoticeKind.GENERATOR_LIMITS,
        (
            "the generator may be the limit: a worker had no idle time in {limited} of {rounds}, so Kafka may be able "
            "to handle more than this throughput"
        ),
        "declare a rate, or use more producers, larger records or a separate machine for the load",
    )
    OUTPUT_MISSING = NoticeKind.OUTPUT_MISSING, _OUTPUT_MISSING
    OUTPUT_ENDED = (
        NoticeKind.OUTPUT_MISSING,
        f"{_OUTPUT_MISSING} and is a lower bound, because nothing arrived in the last {{silence}} of the load",
    )
    LAG_GROWS = (
        NoticeKind.LAG_GROWS,
        (
            "the application did not keep up: at the end of a round, records waited {wait}, and this time was still "
            "growing, so latency would be higher in longer rounds; use a longer duration, or add a threshold on "
            "{metric}"
        ),
    )
    OUTPUT_REPEATED = NoticeKind.OUTPUT_REPEATED, "{records} arrived in {output_topic!r} more than once"
    NEVER_SENT = (
        NoticeKind.NOT_SENT,
        (
            "{missing} records due in the window were never sent, because the cluster accepted the load too slowly; "
            "their waiting time counts as latency"
        ),
    )
    RECORDS_FAILED = NoticeKind.RECORDS_FAILED, "{failed} records failed{failures}", "", ("errors",)
    RARE_COMMITS = (
        NoticeKind.RARE_COMMITS,
        "group {group!r} commits only every {interval}, so app.lag.slope is unknown for such a short window",
        "use a longer duration",
        ("group",),
    )
    NOT_COMMITTED = (
        NoticeKind.NOT_COMMITTED,
        (
            "group {group!r} had not committed {late} of {records} records {waited} after the load; their waiting time "
            "until then counts as delay"
        ),
        "",
        ("group",),
    )
    SHORT_PAUSE = (
        NoticeKind.PAUSE_UNKNOWN,
        (
            "group {group!r} was rebalanced, but no pause was longer than its commit interval of {interval}, so "
            "app.rebalance.pause is only known to be at most {most}"
        ),
        "commit more often to measure shorter pauses",
        ("group",),
    )
    NO_PAUSE = (
        NoticeKind.PAUSE_UNKNOWN,
        "members of share group {group!r} do not wait for rebalances, so there is no app.rebalance.pause",
        "",
        ("group",),
    )
    NEVER_READ = NoticeKind.UNREAD, f"{_UNREAD}: {{reason}}", "", ("probe",)
    SOMETIMES_UNREAD = NoticeKind.UNREAD, f"{_UNREAD}, {{failures}} of {{readings}} times: {{reason}}", "", ("probe",)
    PARTITIONS_UNREAD = (
        NoticeKind.UNREAD,
        "could not read the partitions of topic {topic}, so leader and replica changes are unknown: {reason}",
    )
    METRICS_LEFT_OUT = (
        NoticeKind.UNREAD,
        "{metrics} cannot be reported, because not every broker could be read throughout the window: {parts}",
        "",
        ("metrics",),
    )
    BUSY_MACHINE = (
        NoticeKind.BUSY_MACHINE,
        f"this machine was busy: {OTHER_PROGRAMS} during a round, which may have affected the results",
    )
    RECOVERY = (
        NoticeKind.RECOVERY,
        (
            "latency was higher than usual for {took_s:.1f} s, starting at {begin_s:.1f} s, and throughput fell to "
            "{rate} at {lowest_s:.0f} s"
        ),
    )
    RECOVERY_UNENDED = (
        NoticeKind.RECOVERY,
        (
            "recovery is at least {took_s:.1f} s, because latency was still higher than usual in the last {calm_s} s "
            "of the window"
        ),
        "use a longer duration, or run the actions earlier",
    )
    TRANSACTIONS_LEFT = (
        NoticeKind.LEFT_BEHIND,
        (
            "transactions on topic {topic} may stay open for {timeout_s:g} s and delay read_committed consumers "
            "(transactional ids {ids}): {reason}"
        ),
    )
    TOPIC_LEFT = NoticeKind.LEFT_BEHIND, "could not delete topic {topic}: {reason}"
    GROUPS_LEFT = NoticeKind.LEFT_BEHIND, "could not delete the consumer groups of {run}: {reason}"
    HIGHEST_RATE_HELD = (
        NoticeKind.CAPACITY_BOUND,
        f"{_CAPACITY}even the highest rate met the thresholds",
        "pass a higher high= to kafka_perf.capacity()",
    )
    GENERATOR_ENDED_SEARCH = (
        NoticeKind.CAPACITY_BOUND,
        f"{_CAPACITY}the generator was too slow for higher rates",
        "use more producers, or give the machine more cores",
    )
    LATENCY_UNKNOWN = NoticeKind.CLOCKS, f"end-to-end latency is unknown, because {SKEWED}"
    CLOCKS_UNCERTAIN = (
        NoticeKind.CLOCKS,
        "end-to-end latency was measured between machines whose clock offset is known only to ±{uncertainty}",
    )
    COMMIT_INTERVAL = (
        NoticeKind.COMMIT_INTERVAL,
        "application times include the group's commit interval of {interval}",
    )
    TRIAL_REPEATED = NoticeKind.REPEATED, "trial {trial} does not count: {problem}", "", ("cause",)
    UNEVEN_TRIAL_REPEATED = NoticeKind.REPEATED, "trial {trial} does not count: one side was less warm than the other"
    ROUND_REPEATED = NoticeKind.REPEATED, "a round was repeated: {problem}", "", ("cause",)
    COLD = NoticeKind.COLD, "{problem}", "", ("cause", "other_side")
    DOUBT = NoticeKind.DOUBT, "{problem}", "", ("cause", "other_side")
    UNDECIDED = NoticeKind.DOUBT, "{reason}", "", ("expression",)
    BOTH_SLOWER = NoticeKind.BOTH_SLOWER, _SHIFT, "", ("metric",)
    MACHINE_SLOWER = NoticeKind.BOTH_SLOWER, f"the machine is slower: {_SHIFT}; {_NOT_KAFKA}", "", ("metric",)
    MACHINE_CHANGED = (
        NoticeKind.BOTH_SLOWER,
        f"the machine is slower, and has changed ({{changes}}): {_SHIFT}; {_NOT_KAFKA}",
        "",
        ("metric",),
    )
    RISE = NoticeKind.DRIFT, f"{{metric}} rose by {{change}} {_DRIFT}", _RUN_AGAIN
    FALL = NoticeKind.DRIFT, f"{{metric}} fell by {{change}} {_DRIFT}", _RUN_AGAIN
    RETESTED_SIDE_BY_SIDE = NoticeKind.RETEST, _RETEST
    RETESTED_AFTER_SHIFT = NoticeKind.RETEST, f"{_RETEST} ({{shift}})"
    RETESTED_IN_FRESH_TRIALS = (
        NoticeKind.RETEST,
        f"{_FRESH}, not side by side with the baseline's brokers: {{reasons}}",
    )
    RETESTED_ON_UNCHANGED_BROKERS = (
        NoticeKind.RETEST,
        f"{_FRESH}: neither Kafka ({{version}}) nor its settings have changed, so only something else can be the cause",
    )
    NOT_RETESTED = NoticeKind.RETEST, "{reason}"
    FIRST_TRIAL_REPEATED = NoticeKind.REPEATED, "the first trial was repeated: {reasons}"
    WARM_TRIAL = NoticeKind.REPEATED, "repeated on warm brokers: {reasons}"
    ALL_COMPILERS = (
        NoticeKind.REPEATED,
        "repeated on brokers with all of the JVM's compilers, because with the quick compiler alone, {reasons}",
    )
    TEST_REPEATED = NoticeKind.REPEATED, "this test was repeated; its earlier verdict was {verdict}"
    REPEAT_UNDECIDED = (
        NoticeKind.REPEATED,
        "this test was repeated, but the repetition was INCONCLUSIVE, so the previous result counts",
    )
    SHORTENED = NoticeKind.ROUNDS, "side by side: {lengths}"
    ROUNDS_CUT = NoticeKind.ROUNDS, "the time budget allowed only {ran} of {rounds}"
    ROUNDS_ENOUGH = (
        NoticeKind.ROUNDS,
        "stopped after {ran} of {declared} rounds, because the remaining rounds could not change the result",
    )
    COMPARISON_TOOK = NoticeKind.TIME, "compared with the live baseline in {trials}, which took {took}"
    TRIAL_BROKEN_OFF = (
        NoticeKind.TIME,
        "the time budget ran out during a fresh trial, so that trial does not count",
        _MORE_TIME,
    )
    NO_TIME_FOR_TRIAL = (
        NoticeKind.TIME,
        "another fresh trial takes {needed}, but only {left} of the time budget is left for it",
        _MORE_TIME,
    )
    NOT_RUN = (
        NoticeKind.TIME,
        "not run: {rounds} take {needed}, but only {left} of the time budget is left",
        f"{_MORE_TIME}, or run fewer tests",
    )
    SHORT_WARM_UP = (
        NoticeKind.SHORT_WARM_UP,
        "measured after a short warm-up: warm brokers are faster and would meet these limits as well",
    )
    NOISY_TRIALS = (
        NoticeKind.NOISE,
        "the noise between trials was up to {noise}",
        (
            "--kafka-quick-compiler reduces it and saves time; do not use it if the two versions may differ in how "
            "well the JVM's optimizing compiler speeds them up"
        ),
    )
    PARTLY_CALIBRATED = (
        NoticeKind.CALIBRATION,
        "{expression}: the calibration covers only the part relative to the baseline",
    )
    NOT_CALIBRATED = NoticeKind.CALIBRATION, "not calibrated: {reason}"
    BOTTLENECK = NoticeKind.BOTTLENECK, "{deduced}"
    NEW_TEST = (
        NoticeKind.OTHER_SIDE,
        "the test is new: it does not exist in the baseline, --kafka-compare={revision}",
    )
    NOT_COMPARED = NoticeKind.OTHER_SIDE, "{reason}"
    NOT_STARTED = NoticeKind.OTHER_SIDE, "--kafka-compare={revision} was not started"
    IS_BASE = NoticeKind.OTHER_SIDE, "this is the base: {revision} is the checked-out commit"
    NOTHING_DIFFERS = (
        NoticeKind.OTHER_SIDE,
        "nothing differs: both sides have the same commit and packages",
    )
    CLIENT_SHARED = (
        NoticeKind.OTHER_SIDE,
        (
            "{package} {here} from this virtual environment generates the load on both sides; the live baseline's "
            "version, {there}, is compared only if its application uses it"
        ),
    )
    STALE = (
        NoticeKind.BASELINE,
        (
            "the baseline is stale: every metric improved by more than its tolerance, so a regression to the old level "
            "would pass"
        ),
        "accept the improvement with --kafka-update-baselines",
    )
    NOT_WRITTEN = NoticeKind.BASELINE, "not written into the baseline: {reason}"
    STARTS_AGAIN = NoticeKind.BASELINE, "the baseline starts over, because the scenario changed ({changes})"
    WEAK = (
        NoticeKind.BASELINE,
        "weak baselines (fewer than {fewest} days; measure on another day with --kafka-update-baselines=add)",
    )
    ONE_ROUND = (
        NoticeKind.BASELINE,
        "baselines with one round per trial, whose noise is assumed, not measured",
        "use at least three rounds",
    )
    OLD = (
        NoticeKind.BASELINE,
        "baselines older than {most} days, from {day}",
        "machines drift, so measure again with --kafka-update-baselines=add",
    )
    LATER = NoticeKind.BASELINE, "baselines from the future, {day}: a clock was wrong", _MAKE_NEW
    OTHER_MACHINE = NoticeKind.BASELINE, "baselines measured with another CPU, kernel or JDK ({changes})", _MAKE_NEW
    SMOKE_TEST = (
        NoticeKind.SMOKE_TEST,
        "smoke test (--benchmark-disable): the test ran one round, and no threshold was judged",
    )

    def __init__(self, kind: NoticeKind, text: str, advice: str = "", apart: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.text = text
        self.advice = advice
        self.apart = apart


@dataclass(frozen=True, slots=True)
class Notice:
    """Warning or note. It does not make a round, a trial or a test INVALID."""

    remark: Remark
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Values for the placeholders in the remark's text and for `Remark.apart`."""
    other_side: bool = False
    """True if the notice concerns the live baseline or the stored baseline's brokers."""

    @classmethod
    def of(cls, problem: Problem, remark: Remark = Remark.DOUBT) -> Notice:
        """Convert a problem to a notice."""
        other_side = problem.place.other_side
        return cls(remark, {"problem": problem, "cause": problem.cause, "other_side": other_side})

    @property
    def kind(self) -> NoticeKind:
        """Machine-readable kind."""
        return self.remark.kind

    @property
    def fact(self) -> str:
        """Remark without advice, prefixed with the side if it concerns the other side."""
        fact = self.remark.text.format_map(self.values)
        return f"{Place(other_side=True)}: {fact}" if self.other_side else fact

    @property
    def text(self) -> str:
        """Fact and advice."""
        return "; ".join(filter(None, (self.fact, self.remark.advice)))

    @property
    def alike(self) -> Hashable:
        """Grouping key shared by notices that differ only in their numbers."""
        return self.remark, self.other_side, *(self.values.get(name) for name in self.remark.apart)

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def of_other_side(self) -> Notice:
        """Return the notice for the live baseline. A busy machine affects both sides, so its notice is unchanged."""
        return self if self.kind is NoticeKind.BUSY_MACHINE else replace(self, other_side=True)


def each_once(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Drop notices whose text repeats an earlier notice's, which happens if rounding makes their values look equal."""
    first: dict[str, Notice] = {}
    for notice in notices:
        first.setdefault(notice.text, notice)
    return tuple(first.values())


class Instant(NamedTuple):
    """Time in seconds since the window opened; negative before that."""

    at_s: float

    def __str__(self) -> str:
        """Format the time: `1.5 s`."""
        return f"{self.at_s:.1f} s" if self.at_s >= 0 else f"{-self.at_s:.1f} s before the start"


class EventKind(StrEnum):
    """Kinds of events that a test triggers on brokers and applications."""

    STOPPED = "stopped"
    KILLED = "killed"
    STARTED = "started"
    READY = "ready"
    READY_AGAIN = "ready again"
    """A broker that the test stopped has started again and is ready."""
    PAUSED = "paused"
    RESUMED = "resumed"


class Event(NamedTuple):
    """Stop, start or pause of a broker or an application, triggered by the test."""

    at_ns: int
    """Time on the monotonic clock."""
    kind: EventKind
    subject: str
    """`broker 1`, or the name of an application or of one of its instances."""
    detail: str = ""
    """Exit status of a stopped process: `exited with status 0`."""
    settled_ns: int | None = None
    """End of the action on the monotonic clock if other instances of the application kept running; otherwise None."""

    def __str__(self) -> str:
        """Format the event: `broker 1 started`."""
        text = f"{self.subject} {self.kind}"
        return f"{text} ({self.detail})" if self.detail else text

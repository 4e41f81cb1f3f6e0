"""The texts of problems and events."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core.errors import ApplicationError, ClusterError
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.core.problems import Cause, Place, Problem, ProblemKind, merged
from pytest_kafkaperf.core.units import Count, Quantity, Unit

TOO_SLOW = "use more producers, larger records or a lower rate, or give the machine more cores"
COLD: dict[str, object] = {"names": "broker 1", "cold": 2, "rounds": Count(5, "round"), "most": 0.42}
STILL_COLD = "broker 1 still compiled code in 2 of 5 rounds, using up to 42% of a core, and may be faster when warm"
LIMIT: dict[str, object] = {"expression": "app.delay.p99 <= 1 ms", "limit": Quantity(0.001, Unit.SECONDS)}
UNJUDGED = "threshold 'app.delay.p99 <= 1 ms' cannot be judged, because the "
RATE = Quantity(1000, Unit.RECORD_RATE)

TEXTS: dict[Cause, tuple[dict[str, object], str]] = {
    Cause.SENT_LATE: (
        {"late": 310, "due": 5000},
        "generator too slow: 310 of 5000 records were sent late although the in-flight limit allowed sending them; "
        + TOO_SLOW,
    ),
    Cause.NOT_SENT_IN_TIME: (
        {"unsent": 310, "due": 5000, "cores": 1.234},
        "generator too slow: 310 of 5000 records were not sent in the window, and a worker would need 123% of a core "
        f"to send them in time; {TOO_SLOW}",
    ),
    Cause.LOWEST_RATE_UNREACHED: (
        {"reason": "generator too slow", "rate": RATE},
        "generator too slow (at the lowest rate, 1k records/s, so the capacity is unknown)",
    ),
    Cause.LOAD_NOT_REACHED: (
        {"sent": 4, "missing": 5, "records": 9, "timeout_s": 3600},
        "load not reached: only 4 of 9 records were sent within 3600 s; use fewer records, or set a duration instead",
    ),
    Cause.NOTHING_ACKNOWLEDGED: (
        {"failures": ": TimeoutError (9 records)"},
        "no record in the window was acknowledged: TimeoutError (9 records)",
    ),
    Cause.RECORDS_LOST: ({"lost": 5.0}, "records lost: 5 acknowledged records are missing from the log"),
    Cause.RECORDS_LOST_BEFORE: (
        {"lost": 5.0},
        "records lost: 5 acknowledged records are missing from the log after a load that ran before the first "
        "round (the broker warm-up, or the load that determines the number of workers)",
    ),
    Cause.OUTPUT_LOST: (
        {"lost": 5.0},
        "records lost: 5 acknowledged records did not reach the output topic",
    ),
    Cause.LOSSES_UNKNOWN: ({"reason": "no answer"}, "losses are unknown: no answer"),
    Cause.EMPTY_TOPIC: ({"topic": "orders"}, "nothing was read from topic 'orders', because it is empty"),
    Cause.RECORDS_UNREAD: (
        {"unread": 17},
        "records unread: the consumers did not receive 17 records from the log in time, so end-to-end values would "
        "leave out the slowest records",
    ),
    Cause.REJOINED: ({"reason": "they rejoined"}, "records unread: they rejoined"),
    Cause.PAYLOAD_TOO_SLOW: (
        {"late": 17, "due": 100, "function": "shop.order", "most": 1234.5},
        "generator too slow: 17 of 100 records were sent late, because the payload function shop.order makes only "
        "about 1234 records/s on this machine; make it faster, use more producers or a lower rate, or generate a pool "
        "in advance: payload={'function': ..., 'pool': 10_000}",
    ),
    Cause.IDENTITIES_REPEATED: (
        {"repeats": 2, "records": 100, "identify": "json:order.id"},
        "2 of 100 input records have the same identity (json:order.id) as another one, so the output cannot be "
        "matched with them; make identities unique, for example with a payload function that puts its whole index into "
        "the record, or with key='sequential' and identify='key' if the application keeps the key",
    ),
    Cause.TOO_MANY_IDENTITIES: (
        {"records": 11, "most": 10},
        "11 records are too many to be identified without a tag; at most 10 are allowed in a round; shorten the round, "
        "lower the rate, or set identify='header'",
    ),
    Cause.HEADERS_MISSING: (
        {"header": "kafkaperf", "others": Count(1, "other record"), "output_topic": "bills"},
        "no record came out with the header 'kafkaperf', but 1 other record arrived in 'bills': make the application "
        "copy the headers of its input, or set identify to what it keeps: 'key', 'json:FIELD' or a function",
    ),
    Cause.NOTHING_MATCHED: (
        {"identify": "json:order.id", "others": Count(2, "record"), "output_topic": "bills"},
        "no input record has the same identity (json:order.id) as what arrived in 'bills' (2 records): check that the "
        "application keeps the identity, and that identify specifies where to find it",
    ),
    Cause.NO_IDENTITY_MATCHED: (
        {"identify": "json:id", "others": Count(2, "record"), "output_topic": "bills", "first": "no key and no value"},
        "no input record has the same identity (json:id) as what arrived in 'bills' (2 records, the first of which has "
        "no key and no value): check that the application keeps the identity, and that identify specifies where "
        "to find it",
    ),
    Cause.NO_OUTPUT: (
        {"topic": "orders", "output_topic": "bills"},
        "no record arrived in 'bills': start the application before you call kafka_perf(), and check its log; make "
        "sure that it reads 'orders', accepts the records of this test (payload=), and writes to 'bills'",
    ),
    Cause.APPLICATION_ENDED: ({"reason": "it ended"}, "it ended"),
    Cause.NO_COMMIT: (
        {"group": "billing", "topic": "orders"},
        "group 'billing' has committed nothing on topic 'orders' since the load started: check that the application "
        "is running, reads this topic and commits its offsets",
    ),
    Cause.NOT_CAUGHT_UP: (
        {"who": "the consumers", "metric": "catchup", "waited": Quantity(12.5, Unit.SECONDS)},
        "the consumers had not caught up when the load ended, so catchup is at least 12.5 s; use a longer duration "
        "(at least the outage and the threshold together) or a lower rate",
    ),
    Cause.CLUSTER_ERROR: ({"reason": "broker 1 has ended"}, "broker 1 has ended"),
    Cause.OFFSETS_UNREAD: (
        {"group": "billing", "topic": "orders", "unread": Quantity(2, Unit.SECONDS)},
        "could not read the offsets of group 'billing' during the last 2 s of the load: its coordinator or a "
        "partition leader of topic 'orders' did not answer",
    ),
    Cause.WORKER_FAILED: ({"reason": "no connection"}, "no connection"),
    Cause.WORKER_CRASHED: (
        {"worker": 3, "error": "KeyError: {}", "traceback": "line 1"},
        "worker 3 failed: KeyError: {}\nline 1",
    ),
    Cause.WORKER_LOST: ({"reason": "it died"}, "it died"),
    Cause.WORKER_KILLED: ({"worker": 3, "timeout_s": 30}, "worker 3 did not report within 30 s and was killed"),
    Cause.ACTION_FAILED: (
        {"action": "kafka_perf.at('1 s')", "reason": "RuntimeError: no such broker"},
        "kafka_perf.at('1 s'): RuntimeError: no such broker",
    ),
    Cause.SEARCH_ENDED_BY_LOSS: (
        {"rate": RATE, "lost": 5.0},
        "the search ended at 1k records/s because 5 acknowledged records were lost, so the capacity is unknown; to "
        "allow losses, pass kafka_perf.capacity() a threshold on `lost`",
    ),
    Cause.SEARCH_UNENDED: (
        {"steps": 30},
        "the search did not end within 30 steps: rates that met the thresholds once did not meet them again; hold "
        "each rate for longer",
    ),
    Cause.NO_RATE_HELD: (
        {"rate": RATE, "reason": "errors 5 (threshold == 0)"},
        "no rate met the thresholds: at the lowest rate, 1k records/s, errors 5 (threshold == 0); pass a lower low= to "
        "kafka_perf.capacity(), or loosen the thresholds",
    ),
    Cause.LOWER_BOUND: (
        {"expression": "recovery <= 5 s", "metric": "recovery", "may": "exceed"},
        "recovery <= 5 s: only a lower bound of recovery is known, so the true value may exceed the threshold; the "
        "warnings explain why",
    ),
    Cause.VALUE_MISSING: (
        {"expression": "lag.max < 9", "reason": "lag.max was not measured"},
        "threshold 'lag.max < 9' cannot be judged: lag.max was not measured",
    ),
    Cause.COMMIT_INTERVAL: (
        {**LIMIT, "interval": Quantity(5, Unit.SECONDS)},
        f"{UNJUDGED}group commits only every 5 s; raise the threshold, or have the application commit more often "
        "(offsets are read every 100 ms)",
    ),
    Cause.CLOCK_UNCERTAIN: (
        {**LIMIT, "uncertainty": Quantity(0.00123, Unit.SECONDS, 2)},
        f"{UNJUDGED}clock offset between the sending and receiving machines is known only to ±1.2 ms; raise the "
        "threshold, move the machines and the Dask scheduler into one network, or send and receive on the same machine",
    ),
    Cause.CLOCKS_DIFFER: (
        {"expression": "e2e.latency.p99 <= 1 ms", "skew": Quantity(5, Unit.SECONDS)},
        "threshold 'e2e.latency.p99 <= 1 ms': the latency is unknown, because records carry timestamps up to 5 s "
        "after their receipt, so the clocks differ by at least that much; synchronize the clocks, for example with "
        "NTP, or remove the threshold",
    ),
    Cause.COLD_BROKER: (COLD, STILL_COLD),
    Cause.WARM_UP_OFF: (COLD, f"{STILL_COLD} (kafka_broker_warmup is 0 s)"),
    Cause.WARM_UP_TOO_SHORT: (
        COLD,
        f"{STILL_COLD}; the warm-up used all of kafka_broker_warmup: raise it, or use a machine with more cores",
    ),
    Cause.UNEVEN_TRIALS: (
        {"uneven": 3, "trials": Count(5, "trial")},
        "in 3 of 5 trials, the brokers on one side were less warm than on the other; run the test on a machine "
        "with fewer other programs, or raise kafka_broker_warmup",
    ),
}


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_one_text(cause: Cause) -> None:
    """Reports, errors and failed tests show it; nothing else has it."""
    values, text = TEXTS[cause]
    assert str(Problem(cause, values)) == text


def test_each_kind_has_a_cause() -> None:
    """No two rows are the same, which would make one of them an alias."""
    assert {cause.kind for cause in Cause} == {*ProblemKind}
    assert len({cause.value for cause in Cause}) == len(Cause.__members__)


def test_a_problem_has_a_place_an_excuse_and_advice() -> None:
    """Advice comes last, whatever stands before it."""
    slow = Problem(Cause.SENT_LATE, {"late": 3, "due": 9}).of_round(2).of_trial(3)
    fact = (
        "trial 3: round 2: generator too slow: 3 of 9 records were sent late although the in-flight limit allowed "
        "sending them"
    )
    assert slow.fact == fact
    assert slow.perhaps_because("others run").text == f"{fact}; possibly because others run; {TOO_SLOW}"
    assert slow.perhaps_because("others run").fact == fact


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place(), ""),
        (Place(round=2), "round 2"),
        (Place(other_side=True), "the baseline"),
        (Place(other_side=True, round=2), "the baseline, round 2"),
        (Place(trial=3), "trial 3"),
        (Place(trial=3, other_side=True, round=2), "trial 3: the baseline, round 2"),
    ],
)
def test_a_place_names_what_is_known_of_it(place: Place, text: str) -> None:
    """Trial, side and round."""
    assert str(place) == text


def test_an_error_of_an_application_is_not_one_of_the_cluster() -> None:
    """An owner of the cluster need not look at it."""
    assert Problem.of(ClusterError("x")) == Problem(Cause.CLUSTER_ERROR, {"reason": "x"})
    ended = Problem.of(ApplicationError("x", log="line 1", program="application shop"))
    values = {"reason": "x", "log": "line 1", "program": "application shop"}
    assert ended == Problem(Cause.APPLICATION_ENDED, values)


def test_an_event_tells_what_happened_to_whom() -> None:
    """The chart marks it, and the warnings have it."""
    assert str(Event(5, EventKind.STARTED, "broker 1")) == "broker 1 started"
    assert str(Event(5, EventKind.KILLED, "shop", "ended by SIGKILL")) == "shop killed (ended by SIGKILL)"


@pytest.mark.parametrize(
    ("log", "fact", "details"),
    [
        (None, "shop exited", ()),
        ("", "shop exited; its log is empty", ()),
        (
            "Error:\n\n  x",
            "shop exited; the end of its log:\nError:\n\n  x",
            ("the end of its log:", "Error:", "", "  x"),
        ),
    ],
)
def test_a_log_is_separate_from_the_sentence_about_it(log: str | None, fact: str, details: tuple[str, ...]) -> None:
    """A summary in one line must not end with the introduction of a log that is not there."""
    problem = Problem.of(ClusterError("shop exited", log=log))
    assert (problem.sentence, problem.fact, problem.details) == ("shop exited", fact, details)


def test_a_traceback_is_separate_from_the_sentence_about_it() -> None:
    """A summary shows only the error."""
    problem = Problem(Cause.WORKER_CRASHED, {"worker": 3, "error": "KeyError: 5", "traceback": "line 1\nline 2"})
    assert (problem.sentence, problem.details) == ("worker 3 failed: KeyError: 5", ("line 1", "line 2"))


def test_a_message_of_several_lines_starts_with_a_sentence() -> None:
    """Such as pytest's explanation of a test that another revision could not collect."""
    problem = Problem.of(ClusterError("no such test:\n\nx"))
    assert (problem.sentence, problem.details) == ("no such test:", ("", "x"))


def test_problems_that_differ_only_in_their_round_are_one() -> None:
    """Three rounds with the same reason, which may have a long log, are no news."""
    ended, slow = (Problem(Cause.APPLICATION_ENDED, {"reason": reason}) for reason in ("it ended", "it is slow"))
    problems = [ended.of_round(1), slow.of_round(2), *(ended.of_round(number) for number in (2, 3))]
    other_side = ended.of_round(1, other_side=True)
    assert [str(each) for each in merged([*problems, other_side])] == [
        "round 1 (and 2 more rounds): it ended",
        "round 2: it is slow",
        "the baseline, round 1: it ended",
    ]

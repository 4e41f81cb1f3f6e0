"""The texts of warnings and notes, and what makes two of them alike."""

from __future__ import annotations

import pickle

import pytest

from pytest_kafkaperf.core.notices import Event, EventKind, Instant, Notice, NoticeKind, Remark, each_once
from pytest_kafkaperf.core.problems import Cause, Place, Problem
from pytest_kafkaperf.core.units import Count, Quantity, RelativeChange, Unit

PROBLEM = Problem(Cause.CLUSTER_ERROR, {"reason": "broker 1 has ended"})
MISSING: dict[str, object] = {"records": Count(5, "record"), "output_topic": "bills"}
NOT_OUT = "5 records did not arrive in 'bills' in time (counted as lost); end-to-end latency covers only the others"
THIN: dict[str, object] = {"affected": 2, "known": 3, "at": Instant(-0.5), "until": Instant(3.0)}
UNREAD: dict[str, object] = {"program": "broker 1", "probe": "Process", "reason": "no answer"}
CAPACITY: dict[str, object] = {"capacity": Quantity(2000, Unit.RECORD_RATE)}
SHIFT: dict[str, object] = {
    "where": "on both sides",
    "metric": "produce.throughput",
    "change": RelativeChange(-0.3),
    "changes": "kernel: 6.1 -> 6.8",
}
SHIFTED = "produce.throughput is -30.0% compared with the stored baseline, on both sides"
DRIFT: dict[str, object] = {"metric": "produce.throughput", "change": Quantity(0.92, Unit.RATIO, 2)}
RETESTED = (
    "re-tested side by side with freshly started baseline brokers (Kafka 4.1.1); the column `baseline` shows "
    "their results in this re-test, on shared cores"
)
UNEXPLAINED = (
    "from the first round to the last, more than noise explains: the cluster may still have been warming up, or its "
    "load may have changed; run the test again before you rely on its values"
)

TEXTS: dict[Remark, tuple[dict[str, object], str]] = {
    Remark.ACTION: (
        {"at": Instant(1.5), "event": Event(5, EventKind.KILLED, "broker 1")},
        "at 1.5 s: broker 1 killed",
    ),
    Remark.LEADER_MOVED: (
        {"at": Instant(3.2), "partitions": Count(2, "partition"), "ids": "0, 3", "sources": "1", "targets": "2, 3"},
        "at 3.2 s: 2 partitions (0, 3): leader moved from broker 1 to 2, 3",
    ),
    Remark.UNDER_REPLICATED: (THIN, "2 of 3 partitions under-replicated from 0.5 s before the start to 3.0 s"),
    Remark.STILL_UNDER_REPLICATED: (THIN, "2 of 3 partitions under-replicated from 0.5 s before the start onward"),
    Remark.MORE_EVENTS: ({"omitted": 24, "until": Instant(19.0)}, "and 24 more such events until 19.0 s"),
    Remark.CLIENT_WARNING: (
        {"library": "aiokafka", "message": "no route to 10.0.0.1", "template": "no route to %s"},
        "aiokafka: no route to 10.0.0.1",
    ),
    Remark.CONSUMERS_LIMIT: (
        {},
        "the consumers may be the limit: one of their workers had no idle time; use more consumers",
    ),
    Remark.GENERATOR_LIMITS: (
        {"limited": 2, "rounds": Count(3, "round")},
        "the generator may be the limit: a worker had no idle time in 2 of 3 rounds, so Kafka may be able to handle "
        "more than this throughput; declare a rate, or use more producers, larger records or a separate machine for "
        "the load",
    ),
    Remark.OUTPUT_MISSING: (MISSING, NOT_OUT),
    Remark.OUTPUT_ENDED: (
        {**MISSING, "silence": Quantity(1.9, Unit.SECONDS)},
        f"{NOT_OUT} and is a lower bound, because nothing arrived in the last 1.9 s of the load",
    ),
    Remark.LAG_GROWS: (
        {"wait": Quantity(0.25, Unit.SECONDS), "metric": "consume.throughput"},
        "the application did not keep up: at the end of a round, records waited 250 ms, and this time was still "
        "growing, so latency would be higher in longer rounds; use a longer duration, or add a threshold on "
        "consume.throughput",
    ),
    Remark.OUTPUT_REPEATED: (MISSING, "5 records arrived in 'bills' more than once"),
    Remark.NEVER_SENT: (
        {"missing": 500},
        "500 records due in the window were never sent, because the cluster accepted the load too slowly; their "
        "waiting time counts as latency",
    ),
    Remark.RECORDS_FAILED: (
        {"failed": 7, "failures": ": no answer (7 records)", "errors": ("no answer",)},
        "7 records failed: no answer (7 records)",
    ),
    Remark.RARE_COMMITS: (
        {"group": "billing", "interval": Quantity(5, Unit.SECONDS)},
        "group 'billing' commits only every 5 s, so app.lag.slope is unknown for such a short window; use a longer "
        "duration",
    ),
    Remark.NOT_COMMITTED: (
        {"group": "billing", "late": 260, "records": 1000, "waited": Quantity(4.9, Unit.SECONDS)},
        "group 'billing' had not committed 260 of 1000 records 4.9 s after the load; their waiting time until then "
        "counts as delay",
    ),
    Remark.SHORT_PAUSE: (
        {"group": "billing", "interval": Quantity(5, Unit.SECONDS), "most": Quantity(5.1, Unit.SECONDS)},
        "group 'billing' was rebalanced, but no pause was longer than its commit interval of 5 s, so "
        "app.rebalance.pause is only known to be at most 5.1 s; commit more often to measure shorter pauses",
    ),
    Remark.NO_PAUSE: (
        {"group": "billing"},
        "members of share group 'billing' do not wait for rebalances, so there is no app.rebalance.pause",
    ),
    Remark.NEVER_READ: (UNREAD, "could not read broker 1 (Process): no answer"),
    Remark.SOMETIMES_UNREAD: (
        {**UNREAD, "failures": 2, "readings": 9},
        "could not read broker 1 (Process), 2 of 9 times: no answer",
    ),
    Remark.PARTITIONS_UNREAD: (
        {"topic": "orders", "reason": "no answer"},
        "could not read the partitions of topic orders, so leader and replica changes are unknown: no answer",
    ),
    Remark.METRICS_LEFT_OUT: (
        {"parts": "broker 2 (Process) in 0% of the window", "metrics": "broker.cpu, broker.memory"},
        "broker.cpu, broker.memory cannot be reported, because not every broker could be read throughout the window: "
        "broker 2 (Process) in 0% of the window",
    ),
    Remark.BUSY_MACHINE: (
        {"used": 1.5, "cores": 2},
        "this machine was busy: other programs used 1.5 of 2 cores during a round, which may have affected the results",
    ),
    Remark.RECOVERY: (
        {"took_s": 4.0, "begin_s": 5.04, "rate": Quantity(20, Unit.RECORD_RATE), "lowest_s": 6.0},
        "latency was higher than usual for 4.0 s, starting at 5.0 s, and throughput fell to 20 records/s at 6 s",
    ),
    Remark.RECOVERY_UNENDED: (
        {"took_s": 4.0, "calm_s": 3},
        "recovery is at least 4.0 s, because latency was still higher than usual in the last 3 s of the window; use a "
        "longer duration, or run the actions earlier",
    ),
    Remark.TRANSACTIONS_LEFT: (
        {"topic": "ledger", "timeout_s": 60.0, "ids": "a-0, a-1", "reason": "no answer"},
        "transactions on topic ledger may stay open for 60 s and delay read_committed consumers (transactional ids "
        "a-0, a-1): no answer",
    ),
    Remark.TOPIC_LEFT: (
        {"topic": "kafkaperf-1", "reason": "no answer"},
        "could not delete topic kafkaperf-1: no answer",
    ),
    Remark.GROUPS_LEFT: (
        {"run": "kafkaperf-1", "reason": "no answer"},
        "could not delete the consumer groups of kafkaperf-1: no answer",
    ),
    Remark.HIGHEST_RATE_HELD: (
        CAPACITY,
        "the capacity is at least 2k records/s: even the highest rate met the thresholds; pass a higher high= to "
        "kafka_perf.capacity()",
    ),
    Remark.GENERATOR_ENDED_SEARCH: (
        CAPACITY,
        "the capacity is at least 2k records/s: the generator was too slow for higher rates; use more producers, or "
        "give the machine more cores",
    ),
    Remark.LATENCY_UNKNOWN: (
        {"skew": Quantity(5, Unit.SECONDS)},
        "end-to-end latency is unknown, because records carry timestamps up to 5 s after their receipt, so the clocks "
        "differ by at least that much",
    ),
    Remark.CLOCKS_UNCERTAIN: (
        {"uncertainty": Quantity(0.000397, Unit.SECONDS, 2)},
        "end-to-end latency was measured between machines whose clock offset is known only to ±397 µs",
    ),
    Remark.COMMIT_INTERVAL: (
        {"interval": Quantity(0.25, Unit.SECONDS)},
        "application times include the group's commit interval of 250 ms",
    ),
    Remark.TRIAL_REPEATED: (
        {"trial": 2, "problem": PROBLEM, "cause": PROBLEM.cause},
        "trial 2 does not count: broker 1 has ended",
    ),
    Remark.ROUND_REPEATED: (
        {"problem": PROBLEM, "cause": PROBLEM.cause},
        "a round was repeated: broker 1 has ended",
    ),
    Remark.UNEVEN_TRIAL_REPEATED: ({"trial": 2}, "trial 2 does not count: one side was less warm than the other"),
    Remark.COLD: ({"problem": PROBLEM}, "broker 1 has ended"),
    Remark.DOUBT: ({"problem": PROBLEM}, "broker 1 has ended"),
    Remark.UNDECIDED: (
        {"reason": "no baseline for this test", "expression": "errors == 0"},
        "no baseline for this test",
    ),
    Remark.BOTH_SLOWER: (SHIFT, SHIFTED),
    Remark.MACHINE_SLOWER: (SHIFT, f"the machine is slower: {SHIFTED}; Kafka is not the cause"),
    Remark.MACHINE_CHANGED: (
        SHIFT,
        f"the machine is slower, and has changed (kernel: 6.1 -> 6.8): {SHIFTED}; Kafka is not the cause",
    ),
    Remark.RISE: (DRIFT, f"produce.throughput rose by 92% {UNEXPLAINED}"),
    Remark.FALL: (DRIFT, f"produce.throughput fell by 92% {UNEXPLAINED}"),
    Remark.RETESTED_SIDE_BY_SIDE: ({"version": "4.1.1", "shortened": ""}, RETESTED),
    Remark.RETESTED_AFTER_SHIFT: (
        {
            "version": "4.1.1",
            "shortened": "; in the re-test, rounds=6 instead of 5",
            "shift": "7 of 9 tests have suspected regressions",
        },
        f"{RETESTED}; in the re-test, rounds=6 instead of 5 (7 of 9 tests have suspected regressions)",
    ),
    Remark.SHORTENED: ({"lengths": "rounds=6 instead of 5"}, "side by side: rounds=6 instead of 5"),
    Remark.RETESTED_IN_FRESH_TRIALS: (
        {"reasons": "each round is a search for the capacity"},
        "re-tested in fresh trials, not side by side with the baseline's brokers: each round is a search for the "
        "capacity",
    ),
    Remark.RETESTED_ON_UNCHANGED_BROKERS: (
        {"version": "4.4.0"},
        "re-tested in fresh trials: neither Kafka (4.4.0) nor its settings have changed, so only something else can be "
        "the cause",
    ),
    Remark.NOT_RETESTED: ({"reason": "the machine is slower"}, "the machine is slower"),
    Remark.FIRST_TRIAL_REPEATED: (
        {"reasons": "round 1: no answer"},
        "the first trial was repeated: round 1: no answer",
    ),
    Remark.ALL_COMPILERS: (
        {"reasons": "e2e.latency.p99 was 1.2 s"},
        "repeated on brokers with all of the JVM's compilers, because with the quick compiler alone, "
        "e2e.latency.p99 was 1.2 s",
    ),
    Remark.WARM_TRIAL: ({"reasons": "the warm-up was short"}, "repeated on warm brokers: the warm-up was short"),
    Remark.TEST_REPEATED: ({"verdict": "PASSED"}, "this test was repeated; its earlier verdict was PASSED"),
    Remark.REPEAT_UNDECIDED: (
        {},
        "this test was repeated, but the repetition was INCONCLUSIVE, so the previous result counts",
    ),
    Remark.ROUNDS_CUT: ({"ran": 4, "rounds": Count(5, "round")}, "the time budget allowed only 4 of 5 rounds"),
    Remark.ROUNDS_ENOUGH: (
        {"ran": 3, "declared": 4},
        "stopped after 3 of 4 rounds, because the remaining rounds could not change the result",
    ),
    Remark.COMPARISON_TOOK: (
        {"trials": Count(5, "trial"), "took": Quantity(134, Unit.SECONDS)},
        "compared with the live baseline in 5 trials, which took 134 s",
    ),
    Remark.TRIAL_BROKEN_OFF: (
        {},
        "the time budget ran out during a fresh trial, so that trial does not count; increase --kafka-time-budget",
    ),
    Remark.NO_TIME_FOR_TRIAL: (
        {"needed": Quantity(35, Unit.SECONDS), "left": Quantity(16.1, Unit.SECONDS)},
        "another fresh trial takes 35 s, but only 16.1 s of the time budget is left for it; increase "
        "--kafka-time-budget",
    ),
    Remark.NOT_RUN: (
        {
            "rounds": Count(3, "round"),
            "needed": Quantity(29.9, Unit.SECONDS),
            "left": Quantity(20, Unit.SECONDS),
        },
        "not run: 3 rounds take 29.9 s, but only 20 s of the time budget is left; increase --kafka-time-budget, or run "
        "fewer tests",
    ),
    Remark.SHORT_WARM_UP: (
        {},
        "measured after a short warm-up: warm brokers are faster and would meet these limits as well",
    ),
    Remark.NOISY_TRIALS: (
        {"noise": Quantity(0.12, Unit.RATIO, 2)},
        "the noise between trials was up to 12%; --kafka-quick-compiler reduces it and saves time; do not use it if "
        "the two versions may differ in how well the JVM's optimizing compiler speeds them up",
    ),
    Remark.PARTLY_CALIBRATED: (
        {"expression": "recovery <= max(baseline, 5 s)"},
        "recovery <= max(baseline, 5 s): the calibration covers only the part relative to the baseline",
    ),
    Remark.NOT_CALIBRATED: ({"reason": "recovery is missing"}, "not calibrated: recovery is missing"),
    Remark.BOTTLENECK: (
        {"deduced": "output 38/s of 200/s: the application is the bottleneck"},
        "output 38/s of 200/s: the application is the bottleneck",
    ),
    Remark.NEW_TEST: (
        {"revision": "git:main"},
        "the test is new: it does not exist in the baseline, --kafka-compare=git:main",
    ),
    Remark.NOT_COMPARED: ({"reason": "it could not collect the test"}, "it could not collect the test"),
    Remark.NOT_STARTED: ({"revision": "git:main"}, "--kafka-compare=git:main was not started"),
    Remark.IS_BASE: (
        {"revision": "git:main"},
        "this is the base: git:main is the checked-out commit",
    ),
    Remark.NOTHING_DIFFERS: ({}, "nothing differs: both sides have the same commit and packages"),
    Remark.CLIENT_SHARED: (
        {"package": "aiokafka", "here": "0.14.0", "there": "0.13.0"},
        "aiokafka 0.14.0 from this virtual environment generates the load on both sides; the live baseline's version, "
        "0.13.0, is compared only if its application uses it",
    ),
    Remark.STALE: (
        {},
        "the baseline is stale: every metric improved by more than its tolerance, so a regression to the old level "
        "would pass; accept the improvement with --kafka-update-baselines",
    ),
    Remark.NOT_WRITTEN: (
        {"reason": "the test is INCONCLUSIVE"},
        "not written into the baseline: the test is INCONCLUSIVE",
    ),
    Remark.STARTS_AGAIN: (
        {"changes": "rounds: 3 -> 5"},
        "the baseline starts over, because the scenario changed (rounds: 3 -> 5)",
    ),
    Remark.WEAK: (
        {"fewest": 3},
        "weak baselines (fewer than 3 days; measure on another day with --kafka-update-baselines=add)",
    ),
    Remark.ONE_ROUND: (
        {},
        "baselines with one round per trial, whose noise is assumed, not measured; use at least three rounds",
    ),
    Remark.OLD: (
        {"most": 14, "day": "2026-01-16"},
        "baselines older than 14 days, from 2026-01-16; machines drift, so measure again with "
        "--kafka-update-baselines=add",
    ),
    Remark.LATER: (
        {"day": "2026-02-01"},
        "baselines from the future, 2026-02-01: a clock was wrong; measure new ones with --kafka-update-baselines",
    ),
    Remark.OTHER_MACHINE: (
        {"changes": "kernel: 6.1 -> 6.8"},
        "baselines measured with another CPU, kernel or JDK (kernel: 6.1 -> 6.8); measure new ones with "
        "--kafka-update-baselines",
    ),
    Remark.SMOKE_TEST: (
        {},
        "smoke test (--benchmark-disable): the test ran one round, and no threshold was judged",
    ),
}


@pytest.mark.parametrize("remark", Remark)
def test_each_remark_has_one_text(remark: Remark) -> None:
    """Reports and the terminal show it; nothing else has it."""
    values, text = TEXTS[remark]
    assert str(Notice(remark, values)) == text


def test_each_kind_has_a_remark() -> None:
    """No two rows are the same, which would make one of them an alias."""
    assert {remark.kind for remark in Remark} == {*NoticeKind}
    assert len({remark.value for remark in Remark}) == len(Remark.__members__)


@pytest.mark.parametrize("remark", [remark for remark in Remark if remark.apart])
def test_what_tells_notices_apart_are_values_of_their_texts(remark: Remark) -> None:
    """A misspelt name would make all notices of a row alike."""
    told = {*TEXTS[remark][0], "what", "application", "cause", "other_side"}
    assert {*remark.apart} <= told


def test_a_notice_has_a_fact_apart_from_its_advice_and_its_side_before_both() -> None:
    """Advice helps once; a side tells which cluster to look at."""
    notice = Notice(Remark.HIGHEST_RATE_HELD, CAPACITY).of_other_side()
    assert (
        notice.fact == "the baseline: the capacity is at least 2k records/s: even the highest rate met the thresholds"
    )
    assert notice.text == f"{notice.fact}; pass a higher high= to kafka_perf.capacity()"


def test_a_busy_machine_has_no_side() -> None:
    """Both sides share it, and the warning would stand there twice."""
    busy = Notice(Remark.BUSY_MACHINE, {"used": 1.5, "cores": 2})
    assert busy.of_other_side() == busy


@pytest.mark.parametrize("remark", Remark)
def test_a_notice_goes_from_one_process_to_another(remark: Remark) -> None:
    """Workers send the warnings of their client, here and on other machines."""
    notice = Notice(remark, TEXTS[remark][0], other_side=True)
    assert pickle.loads(pickle.dumps(notice)) == notice  # noqa: S301 - it is our own
    assert len({notice, Notice(remark, {**notice.values}, other_side=True)}) == 1


def test_notices_with_other_numbers_are_alike() -> None:
    """One line with a count shows them all."""
    first, second = (Notice(Remark.NEVER_SENT, {"missing": missing}) for missing in (5, 7))
    assert first != second
    assert first.alike == second.alike != first.of_other_side().alike


def test_notices_about_other_things_are_not_alike() -> None:
    """A count would hide the second group, or the second error."""
    late = {"late": 5, "records": 9, "waited": Quantity(1, Unit.SECONDS)}
    billing, shipping = (Notice(Remark.NOT_COMMITTED, {"group": group, **late}) for group in ("billing", "shipping"))
    assert billing.alike != shipping.alike


def test_a_problem_is_alike_one_with_the_same_cause_on_the_same_side() -> None:
    """Rounds and trials differ in their numbers alone."""
    first, second = (Notice.of(PROBLEM.of_round(number)) for number in (1, 2))
    other = Notice.of(PROBLEM.of_round(1, other_side=True))
    assert first.alike == second.alike != other.alike
    assert str(other) == f"{Place(other_side=True, round=1)}: {PROBLEM}"


def test_notices_that_read_alike_stand_there_once() -> None:
    """Values may differ by less than a text shows."""
    first, second = (Notice(Remark.RECOVERY_UNENDED, {"took_s": took_s, "calm_s": 3}) for took_s in (4.01, 4.04))
    assert each_once([first, second]) == (first,)

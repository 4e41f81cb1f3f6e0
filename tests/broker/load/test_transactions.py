"""Transactions and idempotence: what is committed counts, what is aborted is read or not, and the log agrees."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.generated import rarely_large
from tests.support.patience import PATIENCE_S
from tests.support.proxy import ProxiedBroker
from tests.support.rounds import Once, within, workers
from tests.support.strangers import drop_topic, make_topic, read_new_committed
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from tests.support.rounds import Load, Ran

SIZE = 100
ABORTED = 0.25
ATTEMPTS = 3
"""To meet the machine at a moment when it does not hold the generator up."""
DELAY_S = 0.15
"""Of what clients send, longer than what counts as late."""
CLOSED: dict[str, Any] = {"warmup": "100 ms"}
OPEN: dict[str, Any] = {"rate": 2000, "warmup": "200 ms"}
BATCH: dict[str, Any] = {}
KEYED: dict[str, Any] = {"key": "uniform:50"}
RECORD: dict[str, Any] = {"client": "record"}
ENDLESS: dict[str, Any] = {
    "topic": "ledger",
    "rate": 500,
    "duration": "60 s",
    "producers": 2,
    "transaction_size": 10**6,
}
"""The transactions are open until the end."""


def assert_exact(ran: Ran, log: Log, *, reads_aborted: bool) -> None:
    """The round's counts are those of the log."""
    committed, aborted = len(log.committed), len(log.aborted)
    acknowledged = sum(part.acknowledged for part in ran.produced)
    aborted_in_window = sum(part.aborted for part in ran.produced)
    assert ran.faults == []
    assert sum(ran.report.acknowledged().values()) == committed + aborted
    assert sum(part.total for part in ran.consumed) == committed + aborted * reads_aborted
    assert sum(part.received for part in ran.consumed) == acknowledged + aborted_in_window * reads_aborted
    assert sum(part.latency.total for part in ran.produced) == acknowledged
    assert [ran.metrics[name] for name in ("errors", "lost", "duplicated", "reordered")] == [0, 0, 0, 0]
    assert ran.seen.log.audit is None  # counts alone left no doubt


@pytest.mark.parametrize(
    ("fields", "isolation_level"),
    [
        pytest.param(CLOSED | BATCH, "read_committed", id="closed-batch-committed", marks=pytest.mark.story),
        pytest.param(CLOSED | BATCH, "read_uncommitted", id="closed-batch-uncommitted"),
        pytest.param(CLOSED | KEYED, "read_uncommitted", id="closed-keyed-uncommitted"),
        pytest.param(OPEN | KEYED, "read_committed", id="open-keyed-committed"),
        pytest.param(OPEN | RECORD, "read_uncommitted", id="open-record-uncommitted"),
    ],
)
def test_committed_records_count_and_aborted_ones_are_read_as_isolation_says(
    broker: Cluster, load: Load, log: Log, fields: dict[str, Any], isolation_level: Any
) -> None:
    """Exactly: a share of aborts that were taken for losses would make the round worthless."""
    fields = {"records": 2000, "producers": 2, "isolation_level": isolation_level} | fields
    ran = load(broker, consumers=1, transaction_size=SIZE, abort_ratio=ABORTED, **fields)

    assert_exact(ran, log, reads_aborted=isolation_level == "read_uncommitted")
    assert sum(part.acknowledged + part.aborted for part in ran.produced) == 2000
    holding = [batch for batch in log.batches if batch.committed is None]
    assert all(batch.transactional and batch.producer_id >= 0 for batch in holding)
    # Every transaction but a producer's last holds SIZE records, so each fate comes in hundreds.
    for producer in range(2):
        count = sum(record.producer == producer for record in log.records)
        number = -(-count // SIZE)
        aborted = sum(record.producer == producer for record in log.aborted)
        assert aborted in (SIZE * int(number * ABORTED), SIZE * (int(number * ABORTED) - 1) + (count % SIZE or SIZE))


def test_each_transaction_holds_its_size_of_records_that_follow_one_another(
    broker: Cluster, load: Load, log: Log
) -> None:
    """Of four, the last is aborted, and again."""
    ran = load(broker, records=1000, warmup=0, transaction_size=30, abort_ratio=ABORTED, consumers=1)

    fates = collections.defaultdict(set)
    for committed, records in ((True, log.committed), (False, log.aborted)):
        for record in records:
            fates[record.index // 30].add(committed)
    assert_exact(ran, log, reads_aborted=True)
    assert sorted(record.index for record in log.records) == list(range(1000))
    assert fates == {number: {number % 4 != 3} for number in range(34)}


def test_latency_of_a_record_includes_the_commit_of_its_transaction(broker: Cluster, load: Load) -> None:
    """Until then no reader of committed records has it: the first of 200 records waits for the last."""
    ran = load(broker, rate=1000, duration="1.4 s", transaction_size=200, isolation_level="read_committed", consumers=1)

    assert ran.faults == []
    assert ran.metrics["produce.latency.p50"] >= 0.08
    assert ran.metrics["produce.latency.max"] >= 0.19
    assert ran.metrics["e2e.latency.p50"] >= 0.08


def test_idempotence_numbers_the_records_of_each_partition(broker: Cluster, load: Load, log: Log) -> None:
    """By these numbers brokers refuse what is sent twice."""
    ran = load(broker, records=5000, producers=2, idempotence=True, warmup=0, consumers=1)

    following: dict[tuple[int, int], int] = {}
    for batch in log.batches:
        whose = (batch.partition, batch.producer_id)
        assert not batch.transactional
        assert batch.base_sequence == following.get(whose, 0)
        following[whose] = batch.base_sequence + len(batch.records)
    assert ran.round.problems == ()
    assert len({producer_id for _, producer_id in following} - {-1}) == 2
    assert sum(following.values()) == ran.growth == 5000


def test_an_idempotent_producer_goes_on_after_a_batch_that_is_refused(broker: Cluster, load: Load) -> None:
    """Its sequence number is never used, so the later ones of the partition are out of order, but for a new epoch."""
    fields: dict[str, Any] = {"topic_config": {"max.message.bytes": "1000"}, "compression": "lz4"}
    fields["batch_size"] = 800  # so that the broker takes each batch of small records, however many were due at once
    ran = load(broker, rate=200, records=200, warmup=0, idempotence=True, record_size={"100 B": 9, "5 kB": 1}, **fields)

    refused = ran.metrics["errors"]
    assert 0 < refused < 100
    assert ran.growth == sum(part.acknowledged for part in ran.produced) == 200 - refused
    assert (ran.metrics["lost"], ran.metrics["duplicated"]) == (0, 0)


def test_a_refused_batch_aborts_its_own_transaction_only(broker: Cluster, load: Load) -> None:
    """In the next one, the sequence numbers of its partition start again."""
    fields: dict[str, Any] = {"topic_config": {"max.message.bytes": "4000"}, "payload": rarely_large}
    ran = load(broker, rate=200, records=400, warmup=0, transaction_size=10, partitions=1, batch_size=3000, **fields)

    assert ran.metrics["errors"] == 40
    assert ran.growth == 360 + 40  # with the markers of 40 transactions
    assert (ran.metrics["lost"], ran.metrics["duplicated"]) == (0, 0)


@pytest.mark.speed
@pytest.mark.parametrize("kind", [BATCH, KEYED, RECORD], ids=["batch", "keyed", "record"])
def test_a_commit_that_takes_long_is_not_the_generators_fault(
    behind: ProxiedBroker, load: Load, kind: dict[str, Any]
) -> None:
    """Records that are due meanwhile cannot be sent: the cluster held them, and latency shows it."""
    late: list[int] = []
    while not late or (late[-1] and len(late) < ATTEMPTS):
        behind.proxy.delay(0)
        lengthen = Once(lambda: behind.proxy.delay(DELAY_S), after_s=0)
        ran = load(behind.proxied, rate=40, records=40, transaction_size=10, on_progress=lengthen, **kind)
        late.append(sum(max(part.late, part.behind) for part in ran.produced))

        assert lengthen.done_s is not None
        assert ran.faults == []
        assert sum(part.acknowledged for part in ran.produced) == 40
        assert ran.metrics["produce.latency.max"] >= 2 * DELAY_S  # a transaction takes two requests at least
    assert late[-1] == 0, late


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def kill_worker() -> None:
    os.kill(workers()[0].pid, signal.SIGKILL)


@pytest.fixture
def ledger(broker: Cluster) -> Iterator[str]:
    make_topic(broker, "ledger", partitions=2)
    yield "ledger"
    drop_topic(broker, "ledger")


@pytest.mark.parametrize("end", [interrupt, kill_worker])
def test_transactions_of_a_load_that_was_broken_off_are_aborted(
    broker: Cluster, load: Load, ledger: str, end: Callable[[], None]
) -> None:
    """The topic is a user's: its readers of committed records would wait for the timeout, here 15 minutes."""
    with contextlib.suppress(KeyboardInterrupt):
        load(broker, on_progress=Once(end), producer_config={"transaction_timeout_ms": 900_000}, **ENDLESS)
    with within(PATIENCE_S):
        read_new_committed(broker, ledger)


@pytest.mark.parametrize("interrupted", [False, True])
def test_transactions_that_could_not_be_aborted_are_named(
    own_broker: Cluster, load: Load, recwarn: pytest.WarningsRecorder, interrupted: Any
) -> None:
    """Whoever runs the cluster can then look for them, and knows how long they last."""
    make_topic(own_broker, "ledger", partitions=2)

    def lose() -> None:
        for pid in own_broker.pids:
            os.kill(pid, signal.SIGKILL)
        if interrupted:
            interrupt()

    told: list[str] = []
    with contextlib.suppress(KeyboardInterrupt):
        told += map(str, load(own_broker, on_progress=Once(lose), **ENDLESS).round.warnings)
    told += [str(warning.message) for warning in recwarn]
    (text,) = [text for text in told if "transactional ids" in text]
    assert re.fullmatch(
        r"transactions on topic ledger may stay open for 60 s and delay read_committed consumers \(transactional ids "
        r"(kafkaperf-\S+-1)-0, \1-1\): could not abort open transactions on 127\.0\.0\.1:\d+: .+",
        text,
    )


def test_a_commit_sends_the_records_that_linger(broker: Cluster, load: Load) -> None:
    """As that of an application, which commits as soon as it has sent all of them."""
    fields = RECORD | {"rate": 100, "duration": "2 s", "warmup": "200 ms", "linger": "5 s"}
    ran = load(broker, transaction_size=10, **fields)
    assert ran.faults == []
    assert ran.metrics["produce.latency.p50"] < 2.5  # the tenth record comes 90 ms after the first

"""Transactions of one producer, with a client that only notes what it is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from aiokafka.errors import KafkaError, ProducerFenced, RequestTimedOutError
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.engines.aiokafka.producers import Transactions
from pytest_kafkaperf.load.ledger import Batch, Ledger
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TRANSACTIONAL = Scenario.of({"transaction_size": 100})


@dataclass(slots=True)
class Client:
    """What a producer's client has for transactions. It refuses what Kafka refuses: two at once, or to end none."""

    told: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    """Ends a transaction only when it is open."""
    error: KafkaError | None = None
    _open: bool = False
    _sender: object = None

    async def begin_transaction(self) -> None:
        assert not self._open
        self._tell("begin")
        self._open = True

    async def commit_transaction(self) -> None:
        await self._end("commit")

    async def abort_transaction(self) -> None:
        await self._end("abort")

    async def _end(self, how: str) -> None:
        assert self._open
        self._tell(how)
        if self.gate is not None:
            await self.gate.wait()
        self._open = False

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if self.error is not None:
            raise self.error


def batch(records: int) -> Batch:
    return Batch(
        partition=0,
        indexes=np.arange(records),
        measured=records,
        measured_bytes=records,
        dues_ns=None,
        closing_ns=None,
        sent_ns=0,
    )


@dataclass(slots=True)
class Bench:
    """Transactions, and what they work with."""

    size: int = 10
    abort_ratio: float = 0.0
    client: Client = field(default_factory=Client)
    ledger: Ledger = field(default_factory=lambda: Ledger(TRANSACTIONAL, on_visible=lambda _: None))
    settled: Callable[[], Awaitable[None]] | None = None
    transactions: Transactions = field(init=False)

    def __post_init__(self) -> None:
        self.transactions = Transactions(
            self.client, self.ledger, self.settled or self._all_settled, self.size, self.abort_ratio
        )

    async def send(self, records: int, error: KafkaError | None = None) -> None:
        """As a producer does: never more than there is room for."""
        left = records
        while left:
            count = min(left, await self.transactions.remaining())
            assert count > 0
            one = batch(count)
            self.ledger.enter(one)
            self.transactions.take(count)
            if error is None:
                self.ledger.acknowledge(one, 1, (0, self.ledger.sent))
            else:
                self.ledger.fail(one, type(error).__name__, 0, refused=False)
            left -= count

    async def _all_settled(self) -> None:
        assert self.ledger.outstanding == 0


@given(size=st.integers(1, 10), sends=st.lists(st.integers(1, 25), max_size=8))
def test_each_transaction_has_its_size_and_the_last_has_the_rest(size: int, sends: list[int]) -> None:
    """However records come: a transaction of more or fewer costs another share of commits."""
    bench = Bench(size=size)

    async def run() -> None:
        for records in sends:
            await bench.send(records)
        await bench.transactions.end()

    asyncio.run(run())
    records = sum(sends)
    count = -(-records // size)
    assert bench.client.told == ["begin", "commit"] * count
    bench.ledger.close(0)
    assert (bench.ledger.report.acknowledged, bench.ledger.report.failed) == (records, 0)
    assert bench.ledger.report.markers_by_partition == ({0: count} if count else {})


def test_the_end_without_a_transaction_is_none() -> None:
    """Nothing was sent, or the last one is full and was ended already: Kafka refuses to end none."""
    bench = Bench(size=3)

    async def run() -> None:
        await bench.transactions.end()
        await bench.send(3)
        await bench.transactions.end()
        await bench.transactions.end()

    asyncio.run(run())
    assert bench.client.told == ["begin", "commit"]


@given(
    abort_ratio=st.fractions(0, Fraction(49, 50), max_denominator=50).map(float),
    count=st.integers(0, 60),
)
def test_aborts_are_spread_evenly(abort_ratio: float, count: int) -> None:
    """A short round has its share, too, and none has them all at its end."""
    bench = Bench(size=1, abort_ratio=abort_ratio)

    async def run() -> None:
        await bench.send(count)
        await bench.transactions.end()

    asyncio.run(run())
    ends = bench.client.told[1::2]
    assert len(ends) == count
    for number in range(1, count + 1):
        assert number * abort_ratio - 1 - 1e-9 < ends[:number].count("abort") <= number * abort_ratio + 1e-9
    bench.ledger.close(0)
    report = bench.ledger.report
    assert (report.acknowledged, report.aborted) == (ends.count("commit"), ends.count("abort"))


def test_a_failure_inside_leads_to_an_abort() -> None:
    """Kafka commits no transaction with a hole; the next one is another matter."""
    bench = Bench(size=10)

    async def run() -> None:
        await bench.send(4)
        await bench.send(6, error=RequestTimedOutError())
        await bench.send(10)
        await bench.transactions.end()

    asyncio.run(run())
    assert bench.client.told == ["begin", "abort", "begin", "commit"]
    bench.ledger.close(0)
    report = bench.ledger.report
    assert (report.aborted, report.failed, report.acknowledged) == (4, 6, 10)
    assert report.aborted_by_failure == 4  # they are errors, too
    assert (report.discarded, sum(map(len, report.discarded_indexes))) == (4, 4)
    assert report.failures == {"RequestTimedOutError": 6, "aborted because another batch failed": 4}


def test_a_failure_that_comes_while_the_end_waits_leads_to_an_abort_too() -> None:
    """The fate of the last records is known only then."""
    ledger = Ledger(TRANSACTIONAL, on_visible=lambda _: None)
    on_its_way = batch(3)

    async def settled() -> None:
        ledger.fail(on_its_way, "RequestTimedOutError", 0, refused=False)

    async def run() -> list[str]:
        bench = Bench(size=10, ledger=ledger, settled=settled)
        await bench.transactions.remaining()
        ledger.enter(on_its_way)
        bench.transactions.take(3)
        await bench.transactions.end()
        return bench.client.told

    assert asyncio.run(run()) == ["begin", "abort"]


def test_an_end_goes_on_when_whoever_waits_for_it_is_cancelled() -> None:
    """Half of an end would leave records in the log that nobody counted; the end of the round waits for the same."""
    bench = Bench(size=2)

    async def run() -> tuple[list[str], list[str]]:
        bench.client.gate = asyncio.Event()
        await bench.send(2)
        sending = asyncio.ensure_future(bench.transactions.remaining())
        while bench.client.told[-1] != "commit":
            await asyncio.sleep(0)
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        settling = asyncio.ensure_future(bench.transactions.end())
        await asyncio.sleep(0)
        during = list(bench.client.told)
        bench.client.gate.set()
        await settling
        await bench.transactions.end()
        return during, bench.client.told

    during, told = asyncio.run(run())
    assert during == told == ["begin", "commit"]
    assert bench.ledger.report.markers_by_partition == {0: 1}


def test_a_cancelled_wait_does_not_stand_in_for_the_next_end() -> None:
    """The transaction ends while nobody waits; the one after it has to be ended all the same."""
    bench = Bench(size=2)

    async def run() -> list[str]:
        bench.client.gate = asyncio.Event()
        await bench.send(2)
        waiting = asyncio.ensure_future(bench.transactions.end())
        while bench.client.told[-1] != "commit":
            await asyncio.sleep(0)
        waiting.cancel()
        bench.client.gate.set()
        await asyncio.wait([waiting])
        while bench.ledger.report.markers_by_partition != {0: 1}:
            await asyncio.sleep(0)
        await bench.send(5)
        await bench.transactions.end()
        return bench.client.told

    assert asyncio.run(run()) == ["begin", "commit"] * 4


def test_room_is_told_since_the_transaction_began() -> None:
    """What a commit takes is the cluster's time: the generator must not be called late for it."""
    bench = Bench(size=2)

    async def run() -> list[int]:
        begun_ns = [bench.transactions.begun_ns]
        for _ in range(4):
            await bench.send(1)
            begun_ns.append(bench.transactions.begun_ns)
        return begun_ns

    before, first, still_first, second, still_second = asyncio.run(run())
    assert before == 0 < first == still_first < second == still_second


@pytest.mark.parametrize(
    ("sent", "abort_ratio", "text"),
    [
        (0, 0.0, "a transaction could not begin: ProducerFenced("),
        (1, 0.0, "a transaction could not be committed: ProducerFenced("),
        (2, 0.5, "a transaction could not be aborted: ProducerFenced("),
    ],
)
def test_a_transaction_that_cannot_go_on_ends_the_load_with_the_reason(
    sent: int, abort_ratio: float, text: str
) -> None:
    """Another producer took its name, or the coordinator is gone: there is nothing to send any more."""
    bench = Bench(size=1, abort_ratio=abort_ratio)

    async def run() -> None:
        await bench.send(sent)
        bench.client.error = ProducerFenced()
        await bench.send(1)

    with pytest.raises(LoadError) as raised:
        asyncio.run(run())
    assert str(raised.value).startswith(text)


def test_a_client_that_has_failed_for_good_is_a_load_error() -> None:
    """aiokafka asserts that the transaction can still end."""

    class Failed(Client):
        async def abort_transaction(self) -> None:
            raise AssertionError("Invalid state transition")

    bench = Bench(client=Failed())

    async def run() -> None:
        await bench.send(4, error=RequestTimedOutError())
        await bench.transactions.end()

    with pytest.raises(LoadError, match="^a transaction could not be aborted: AssertionError"):
        asyncio.run(run())

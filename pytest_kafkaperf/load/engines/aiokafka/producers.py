"""Producer that takes records when they are due, sends them, and waits for the outcome of each.

Latency is measured from the due time, so it includes every delay. Subclasses determine how records are
batched: `batch_producer`, `keyed_producer`, `record_producer`.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.errors import KafkaError

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.clock import Timer, now_ns
from pytest_kafkaperf.load.engines.aiokafka.sender import Sender
from pytest_kafkaperf.load.engines.aiokafka.templates import Templates
from pytest_kafkaperf.load.ledger import Batch, Ledger
from pytest_kafkaperf.load.messages import Produced
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.schedule import Schedule
from pytest_kafkaperf.scenarios.scenario import Scenario

_REFUSALS = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.InvalidTopicError,
    kafka_errors.PolicyViolationError,
)
"""Errors after which the batch is certainly not in the log. After any other failure, the batch may be in the log.

Only errors after which a client does not retry are listed, because the last attempt's error does not reveal the outcome
of earlier attempts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One producer's measured window."""

    start_ns: int
    warm_from_ns: int
    end_ns: int | None
    """Instant before which records must be due to belong to the window; None if the window ends after `records`."""
    records: int | None
    """Number of records that this producer sends in the window; None if the window ends at `end_ns`."""

    def stop(self, schedule: Schedule) -> int:
        """Return the index of the first record after the window."""
        return self.records or 0 if self.end_ns is None else schedule.first_after(self.end_ns - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSetup:
    """Settings shared by all producers of a worker."""

    scenario: Scenario
    topic: str
    templates: Templates
    seed: int
    """Random seed for the keys."""
    on_visible: Callable[[int], None]
    """Function that takes the number of further records that consumers are expected to receive."""


class Producer(ABC):
    """Base class of producers. `client` is already started, and no other code uses it."""

    def __init__(self, client: Any, number: int, setup: ProducerSetup) -> None:
        scenario = setup.scenario
        self.ledger = Ledger(scenario, on_visible=setup.on_visible, producer=number)
        self._client = client
        self._scenario = scenario
        self._number = number
        self._topic = setup.topic
        self._templates = setup.templates
        self._payload = setup.templates.payload
        self._seed = setup.seed
        self._transactions: Transactions | None = None
        if (size := scenario.transaction_size) is not None:
            self._transactions = Transactions(client, self.ledger, self._all_settled, size, scenario.abort_ratio)
        self._changed: asyncio.Future[None] | None = None
        self._enough = asyncio.Event()
        self._abandoned = False
        self._next = 0
        """Index of the next record to take."""

    def give_up(self) -> None:
        """Stop sending, but wait for in-flight records."""
        self._enough.set()

    def abandon(self) -> None:
        """Stop sending, and stop waiting for in-flight records."""
        self._abandoned = True
        self._wake()

    async def run(self, window: Window, timer: Timer, series: Series, *, settle_s: float) -> Produced:
        """Warm up, send the window's records, and wait until the outcome of each is known.

        The wait takes at most `settle_s` seconds. Records still in flight after that count as failed with "no answer".

        Raises:
            LoadError: the client can no longer send.

        """
        self.ledger.series = series
        schedule = self._schedule(window)
        self.ledger.end_ns = schedule.due_ns(window.stop(schedule)) if schedule else window.end_ns
        await timer.until(window.warm_from_ns)
        sending = self._open_loop(window, timer, schedule) if schedule else self._closed_loop(window)
        await first_of(sending, self._enough.wait())
        if schedule:
            self._count_missing(schedule, window.stop(schedule))
        elif window.records is not None:
            self.ledger.report.missing = window.records - self.ledger.report.sent
        await self._settle(settle_s)
        return self.ledger.report

    @abstractmethod
    async def _closed_loop(self, window: Window) -> None:
        """Keep as many records in flight as the limit allows."""

    @abstractmethod
    async def _open_loop(self, window: Window, timer: Timer, schedule: Schedule) -> None:
        """Send each record when it is due, and never skip one. `_next` is the index of the next record to take."""

    def _schedule(self, window: Window) -> Schedule | None:
        if self._scenario.rate is None:
            return None
        return Schedule.of(
            self._scenario.rate, start_ns=window.start_ns, producer=self._number, producers=self._scenario.producers
        )

    async def _limit_to_transaction(self, count: int) -> int:
        """Return how many of `count` records fit into the open transaction; if it is full, start another one first."""
        return count if self._transactions is None else min(count, await self._transactions.remaining())

    @property
    def _begun_ns(self) -> int:
        """Start of the open transaction; 0 without transactions."""
        return 0 if self._transactions is None else self._transactions.begun_ns

    def _count_missing(self, schedule: Schedule, stop: int) -> None:
        """Count as missing all records up to `stop` that were never taken."""
        self.ledger.count_missing(schedule, max(self._next, 0), max(stop, self._next, 0), now_ns())

    def _enter(self, batch: Batch) -> None:
        """Count a batch as sent."""
        self.ledger.enter(batch)
        if self._transactions is not None:
            self._transactions.take(batch.records)

    def _ended(self, batch: Batch, location: tuple[int, int] | None, error: BaseException | None) -> None:
        """Count a batch's outcome: its partition and offset if known, or an error."""
        now = now_ns()
        if error is None:
            self.ledger.acknowledge(batch, now, location)
        else:
            self._fail(batch, error, now)
        self._give_back(batch, now)
        self._wake()

    def _fail(self, batch: Batch, error: BaseException, now: int) -> None:
        """Count a batch as permanently failed."""
        self.ledger.fail(batch, type(error).__name__, now, refused=isinstance(error, _REFUSALS))

    @abstractmethod
    def _give_back(self, batch: Batch, now: int) -> None:
        """Release the batch's share of the in-flight limit."""

    def _refused(self, error: KafkaError) -> LoadError:
        return LoadError(f"producer {self._number} can no longer send: {error!r}")

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _change(self) -> asyncio.Future[None]:
        """Return a future that is done once another batch has ended after this call, or the round is abandoned."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._changed)

    async def _all_settled(self) -> None:
        """Wait until the outcome of each record is known, then end the open transaction."""
        while self.ledger.outstanding and not self._abandoned:
            await self._change()

    async def _settle(self, settle_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settle_s):
                await self._all_settled()
                if self._transactions is not None and not self._abandoned:
                    await self._transactions.end()
        self.ledger.close(now_ns())


async def first_of(*awaitables: Awaitable[object]) -> None:
    """Wait until one of the tasks ends, cancel the others, and raise any error."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for error in results:
        if isinstance(error, Exception):
            raise error


@dataclass(slots=True)
class Transactions:
    """One producer's transactions, one at a time, as Kafka requires."""

    client: Any
    ledger: Ledger
    settled: Callable[[], Awaitable[None]]
    """Function that waits until the outcome of every sent record is known."""
    size: int
    abort_ratio: float
    begun_ns: int = 0
    """Start of the open transaction. No record could be sent before it."""
    _left: int | None = None
    """Number of records for which the open transaction has room; None if no transaction is open."""
    _number: int = 0
    _ending: asyncio.Task[None] | None = None

    async def remaining(self) -> int:
        """Return how many records still fit into the transaction, at least one. If it is full, start a new one.

        Raises:
            LoadError: the transaction could not be started or ended.

        """
        if self._left == 0:
            await self.end()
        if self._left is None:
            await _told(self.client.begin_transaction(), "begin")
            self._left = self.size
            self.begun_ns = now_ns()
        return self._left

    def take(self, count: int) -> None:
        """Add records to the open transaction."""
        self._left = (self._left or 0) - count

    async def end(self) -> None:
        """End the open transaction, if any, even if the caller is cancelled.

        Raises:
            LoadError: as for `remaining`.

        """
        if self._ending is None:
            if self._left is None:
                return
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await self.settled()
        self.ledger.ending = True
        failed = self.ledger.must_abort
        commit = not (failed or self._is_to_abort)
        ending = self.client.commit_transaction() if commit else self.client.abort_transaction()
        await _told(ending, "be committed" if commit else "be aborted")
        if failed and isinstance(self.client._sender, Sender) and self.client._txn_manager is not None:  # noqa: SLF001
            await _told(self.client._sender.renew_epoch(), "be followed by another one")  # noqa: SLF001
        self.ledger.end_transaction(now_ns(), committed=commit)
        self.ledger.ending = False
        self._left = self._ending = None
        self._number += 1

    @property
    def _is_to_abort(self) -> bool:
        """Return True if the transaction should abort. Of the first n transactions, `floor(n * abort_ratio)` abort."""
        return int((self._number + 1) * self.abort_ratio) > int(self._number * self.abort_ratio)


async def _told(asked: Awaitable[None], what: str) -> None:
    """Wait until a client has started or ended a transaction; raise a LoadError if that fails."""
    try:
        await asked
    except (AssertionError, KafkaError) as error:  # aiokafka asserts that no fatal error has occurred before
        raise LoadError(f"a transaction could not {what}: {error!r}") from None

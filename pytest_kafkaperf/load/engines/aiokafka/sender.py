"""Sender of encoded batches: aiokafka's queue and sender with less work per batch and per request.

aiokafka's own classes need two futures per batch and a task per request, and allow only one request per broker at a
time. Here, a batch reports its end by calling a function, and only failed requests become tasks. In these tasks,
aiokafka decides what to resend. `clients.adapt` replaces aiokafka's classes with the classes in this module.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
import types
from collections import Counter, deque
from collections.abc import Callable, Container
from typing import Any

from aiokafka import util
from aiokafka.client import ConnectionGroup
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    UnknownTopicOrPartitionError,
)
from aiokafka.producer import message_accumulator, sender
from aiokafka.producer.transaction_manager import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PidAndEpoch,
    TransactionState,
)
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.engines.aiokafka.encoder import EncodedBatch, Response

_MAX_EPOCH = 2**15 - 1
_CLOSE_S = 1.0
"""Maximum time to wait for in-flight requests at the end. They have normally finished by then."""
OnEnded = Callable[[int | None, BaseException | None], None]
"""Function that takes the offset of a batch's first record (None with acks=0), or the batch's error."""


class Sender(sender.Sender):  # type: ignore[misc]
    """Sender with several in-flight produce requests per broker, like Kafka's own producer; aiokafka allows only one.

    Without idempotence, a resent batch may follow later batches in its partition, as with Kafka's own producer. With
    idempotence, each partition has only one batch in flight, which keeps its sequence numbers in order.
    """

    def allow(self, in_flight: int) -> None:
        """Set the in-flight limit per broker. Call this method before starting the sender."""
        self._in_flight = _InFlight(in_flight)
        if self._txn_manager is None:
            self._muted_partitions = _InFlight(in_flight)
        self._open: set[asyncio.Future[Any]] = set()
        """In-flight requests, and tasks for failed requests."""

    async def _sender_routine(self) -> None:
        """Send batches like aiokafka's own method, which is still used for transactions and for acks=0."""
        if self._acks == 0 or (self._txn_manager is not None and self._txn_manager.transactional_id is not None):
            await super()._sender_routine()
            return
        accumulator, asked_s = self._message_accumulator, -math.inf
        try:
            while True:
                await self._maybe_wait_for_pid()
                nodes, unknown_leaders = accumulator.drain_by_nodes(self._in_flight, self._muted_partitions)
                for node, batches in nodes.items():
                    self._post(node, batches)
                if unknown_leaders:
                    if time.monotonic() >= asked_s + self._retry_backoff:  # a leader may be missing for a long time
                        asked_s = time.monotonic()
                        self.client.force_metadata_update()
                    await asyncio.wait([accumulator.waiter()], timeout=self._retry_backoff)
                else:
                    await accumulator.waiter()
        except asyncio.CancelledError:  # by `close`, which waits for in-flight requests
            if self._open:
                await asyncio.wait(self._open, timeout=_CLOSE_S)

    async def renew_epoch(self) -> None:
        """Begin the transactional producer's next epoch, in which sequence numbers start again (KIP-360).

        A refused batch leaves a gap in the sequence numbers of its partition, so that the broker would refuse all later
        batches in the same epoch.

        Raises:
            KafkaError: the coordinator refused.

        """
        manager = self._txn_manager
        manager.state = TransactionState.UNINITIALIZED
        manager._pid_and_epoch = PidAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)  # noqa: SLF001 - as at its start
        manager._pid_waiter = asyncio.get_running_loop().create_future()  # noqa: SLF001
        manager._sequence_numbers.clear()  # noqa: SLF001
        manager.notify_task_waiter()
        begun = asyncio.ensure_future(manager.wait_for_pid())
        await asyncio.wait([begun, self._sender_task], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():  # the coordinator refused, which ends the sender
            begun.cancel()
            raise KafkaError("the producer's next epoch was refused")

    def _post(self, node: int, batches: Batches) -> None:
        self._in_flight.add(node)
        for partition in batches:
            self._muted_partitions.add(partition)
        connection, answer = self.client._conns.get((node, ConnectionGroup.DEFAULT)), None  # noqa: SLF001
        if connection is not None and connection.connected():
            answer = connection.produce(batches, acks=self._acks, timeout_ms=self._request_timeout_ms)
        if answer is None:
            self._hand_over(node, batches, None)
        else:
            self._open.add(answer)
            answer.add_done_callback(functools.partial(self._answered, node, batches))

    def _answered(self, node: int, batches: Batches, answer: asyncio.Future[Response]) -> None:
        if not _is_success(answer):
            self._open.discard(answer)
            self._hand_over(node, batches, answer)
            return
        for topic, outcomes in answer.result().topics:
            for partition, _, offset, *_ in outcomes:
                batches[TopicPartition(topic, partition)].done(offset)
        self._forget(node, batches, answer)

    def _hand_over(self, node: int, batches: Batches, answer: asyncio.Future[Response] | None) -> None:
        """Have aiokafka send a request or handle a response, including errors, backoff and retries."""
        handler = RequestHandler(self, batches)
        if answer is not None:
            handler._client = types.SimpleNamespace(  # noqa: SLF001
                send=lambda *_: answer,
                force_metadata_update=self.client.force_metadata_update,
                _maybe_wait_metadata=self.client._maybe_wait_metadata,  # noqa: SLF001
            )
        task = util.create_task(handler.do(node))
        self._open.add(task)
        task.add_done_callback(functools.partial(self._forget, node, batches))

    def _forget(self, node: int, batches: Batches, ended: asyncio.Future[Any]) -> None:
        """Release a finished request's share of the limits."""
        self._open.discard(ended)
        self._in_flight.remove(node)
        for partition in batches:
            self._muted_partitions.remove(partition)
        self._message_accumulator.wake()


_NOT_WRITTEN = (LeaderNotAvailableError, NodeNotReadyError, NotEnoughReplicasError, UnknownTopicOrPartitionError)
"""Errors after which the batch is certainly not in the log, so resending it does not create a copy."""


class RequestHandler(sender.SendProduceReqHandler):  # type: ignore[misc]
    """Handler for failed requests that counts the batches whose resending may create copies."""

    def _can_retry(self, error: KafkaError, batch: Any) -> bool:
        again: bool = super()._can_retry(error, batch)
        drops_copies = self._sender._txn_manager is not None  # noqa: SLF001 - the broker of an idempotent producer
        if again and not drops_copies and not isinstance(error, _NOT_WRITTEN):
            self._sender.repeated = repeated_batches(self._sender) + 1
        return again


def repeated_batches(client_sender: Any) -> int:
    """Return how many batches this sender or aiokafka's own sender has resent and may have written twice."""
    return getattr(client_sender, "repeated", 0)


def _is_success(answer: asyncio.Future[Response]) -> bool:
    if answer.cancelled() or answer.exception() is not None:
        return False
    return not any(error for _, outcomes in answer.result().topics for _, error, *_ in outcomes)


class _InFlight:
    """Replacement for aiokafka's set of busy brokers or partitions. It contains those that have reached their limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts = Counter[object]()

    def add(self, one: object) -> None:
        self._counts[one] += 1

    def remove(self, one: object) -> None:
        self._counts[one] -= 1

    def __contains__(self, one: object) -> bool:
        return self._counts[one] >= self._limit


class QueuedBatch(message_accumulator.MessageBatch):  # type: ignore[misc]
    """Batch of encoded records that calls a function when it ends; aiokafka creates two futures per batch."""

    def __init__(self, tp: TopicPartition, builder: EncodedBatch, ttl: float, accumulator: Accumulator) -> None:
        self._tp = tp
        self._builder = builder
        self._ttl = ttl
        self._accumulator = accumulator
        self._ctime = time.monotonic()
        self._retry_count = 0
        self._result: tuple[int | None, BaseException | None] | None = None
        self._future: asyncio.Future[None] | None = None
        self.on_ended: OnEnded | None = None

    @property
    def future(self) -> asyncio.Future[None]:
        """Future that is done once the batch has ended. It has no result."""
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
            if self._result is not None:
                self._future.set_result(None)
        return self._future

    def done(self, base_offset: int, timestamp: object = None, log_start_offset: object = None) -> None:
        """Report the acknowledgement."""
        del timestamp, log_start_offset
        self._end(base_offset, None)

    def done_noack(self) -> None:
        """Report that the batch was sent (acks=0)."""
        self._end(None, None)

    def failure(self, exception: BaseException) -> None:
        """Report a permanent failure."""
        self._end(None, exception)

    def drain_ready(self) -> None:
        """Count an attempt to send the batch."""
        self._retry_count += 1

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set an idempotent producer's identity and first sequence number."""
        self._builder._set_producer_state(producer_id, producer_epoch, base_sequence)  # noqa: SLF001

    def _end(self, offset: int | None, error: BaseException | None) -> None:
        if self._result is not None:
            return
        self._result = offset, error
        self._accumulator.release(self, failed=error is not None)
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        if self.on_ended is not None:
            self.on_ended(offset, error)


class Accumulator(message_accumulator.MessageAccumulator):  # type: ignore[misc]
    """Queue of encoded batches. A drain takes one batch per partition, and wakes the sender if more are left."""

    _batches: dict[TopicPartition, deque[QueuedBatch]]
    _waiter_future: asyncio.Future[None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failures = Counter[TopicPartition]()
        """Number of failed batches by partition."""

    def _append_batch(self, builder: EncodedBatch, tp: TopicPartition) -> QueuedBatch:
        if self._txn_manager is not None:
            self._txn_manager.maybe_add_partition_to_txn(tp)
        batch = QueuedBatch(tp, builder, self._batch_ttl, self)
        self._batches[tp].append(batch)
        self.wake()
        return batch

    def release(self, batch: QueuedBatch, *, failed: bool) -> None:
        """Remove a batch that has ended."""
        self._pending_batches.discard(batch)
        if failed:
            self._failures[batch.tp] += 1

    def wake(self) -> None:
        """Wake the sender if there are batches."""
        if self._batches and not self._waiter_future.done():
            self._waiter_future.set_result(None)

    def fail_all(self, exception: BaseException) -> None:
        """Fail all batches like aiokafka's own method, and remove each of them from the pending batches."""
        for batch in list(self._pending_batches):
            batch.failure(exception)
        super().fail_all(exception)

    def _pop_batch(self, tp: TopicPartition) -> QueuedBatch:
        queue, transactions = self._batches[tp], self._txn_manager
        batch = queue.popleft()
        if not queue:
            del self._batches[tp]
        if transactions is not None and not batch.retry_count:  # a resent batch keeps its sequence number
            # The broker still expects the failed batch. Sequence numbers restart only in a later epoch (KIP-360).
            failures = self._failures[tp] if transactions.transactional_id is None else 0
            epoch = min(transactions.producer_epoch + failures, _MAX_EPOCH)
            sequence = transactions.sequence_number((tp, epoch))
            transactions.increment_sequence_number((tp, epoch), batch.record_count)
            batch.set_producer_state(transactions.producer_id, epoch, sequence)
        batch.drain_ready()
        self._pending_batches.add(batch)
        return batch

    def drain_by_nodes(
        self, ignore_nodes: Container[int], muted_partitions: Container[TopicPartition] = frozenset()
    ) -> tuple[dict[int, Batches], bool]:
        """Take one batch from each partition that may send; return them by leader, and True if a leader is unknown."""
        nodes: dict[int, Batches] = {}
        unknown_leaders = False
        for tp in list(self._batches):
            if tp in muted_partitions:
                continue
            leader = self._cluster.leader_for_partition(tp)
            if leader is None or leader == -1:
                unknown_leaders = True
                if self._batches[tp][0].expired():
                    self._pop_batch(tp).failure(
                        NotLeaderForPartitionError() if leader is None else LeaderNotAvailableError()
                    )
            elif leader not in ignore_nodes:
                nodes.setdefault(leader, {})[tp] = self._pop_batch(tp)
        if not self._waiter_future.done():
            self._waiter_future.set_result(None)
        self._waiter_future = self._loop.create_future()
        if nodes and self._batches:
            self._waiter_future.set_result(None)
        return nodes, unknown_leaders

    def reenqueue(self, batch: Any) -> None:
        """Requeue a failed batch like aiokafka's own method, but keep the order of batches that failed together."""
        self._pending_batches.discard(batch)
        queue = self._batches[batch.tp]
        later = (position for position, other in enumerate(queue) if other._ctime > batch._ctime)  # noqa: SLF001
        queue.insert(next(later, len(queue)), batch)


Batches = dict[TopicPartition, QueuedBatch]
"""Batches in a request."""

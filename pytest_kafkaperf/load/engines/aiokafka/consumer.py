"""Consumer: a group member that reads live or from a backlog, and measures how long ago each record was due."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from aiokafka.errors import KafkaError

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.clock import Stall, known_to_ns, now_ns
from pytest_kafkaperf.load.engines.aiokafka.group_member import GroupMember
from pytest_kafkaperf.load.identity import Nonce, ReceivedBatch, RecordFilter, names_of, origin
from pytest_kafkaperf.load.messages import Consumed
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.schedule import REQUEST_TIMEOUT_S, longest_s
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters
from pytest_kafkaperf.scenarios.scenario import Scenario

_POLL_MS = 100
"""Time limit for one poll, and therefore for detecting the end of production."""
_REBALANCE_S = 1
"""Time limit for one poll during a rebalance."""
_POSITION_TIMEOUT_S = 5
"""Time limit for setting positions. The worker retries until the round starts or stops."""
_OFFSETS_TIMEOUT_S = REQUEST_TIMEOUT_S + 10
"""Time limit for end offsets. The client may wait for a paused broker first."""
_SETTLED_S = 1
"""Time without further records after which an application's complete output counts as all of it."""
_CHECK_S = 0.2
"""Minimum time between two checks, because each of them sorts all records."""
_RANGE_QUIET_S = 3
"""The same if the number of output records is 0 or a range, so that it is unknown when the output is complete."""
_MOST_OUTPUT_S = 60
"""Minimum time for which consumers read an application's output that does not end, as other programs may write it."""
_QUIET_S = 10
"""Maximum time since an application's previous output record. If it is exceeded, the missing records count as lost."""


class Consumer:
    """Consumer in a group. Its client is already started, and no other code uses it.

    Without producers, the consumer reads other programs' records from the start of the drain, and times only records
    that were created after the window opened. With a backlog, it starts reading when the window opens.
    If other applications also write to the topic, the consumer reads their records and ignores them.
    An application's output has no known end, so the shared counters show how many records are still expected.
    """

    def __init__(
        self,
        member: GroupMember,
        scenario: Scenario,
        *,
        group: int,
        nonce: Nonce,
        counters: SharedCounters,
        on_received: Callable[[], None],
    ) -> None:
        self.report = Consumed(group=group)
        self._counters = counters
        self._existing = not scenario.producers
        self._filter = None if self._existing or scenario.topic is None else RecordFilter(scenario, nonce)
        self._catches_up = scenario.catches_up
        self._reads_application = scenario.output_topic is not None
        self._joins = scenario.joins_identities
        self._expected = scenario.expect
        self._most_output_s = max(_MOST_OUTPUT_S, 3 * longest_s(scenario))
        self._backlog = scenario.backlog
        self._reads_later = scenario.consume == "after"
        self._on_received = on_received
        self._member = member
        self._client = member.client
        self._last: dict[tuple[Any, int], int] = {}
        """Index of the last record by partition and producer."""

    async def settle_position(self) -> int:
        """Set the position in each assigned partition; return the number of partitions."""
        assigned = list(self._client.assignment())
        try:
            async with asyncio.timeout(_POSITION_TIMEOUT_S):
                for partition in assigned:
                    await self._client.position(partition)
        except (KafkaError, TimeoutError):  # a rebalance revoked the partition, or the broker does not respond
            return 0
        return len(assigned)

    async def run(self, start_ns: int, series: Series, *, drain_s: float) -> Consumed:
        """Read until production has ended and the entire log has been read.

        With `consume="after"`, the consumer reads only the warm-up during production, and the rest from the counters'
        `drain_ns` on. Records not read within `drain_s` seconds after the end of production count as unread, unless
        the consumer is still making progress.

        Raises:
            LoadError: the client can no longer read.

        """
        self._series = series
        generation = self._client._coordinator.generation  # noqa: SLF001 - a number that changes with each rebalance
        try:
            if self._existing or self._catches_up:
                await self._hold(start_ns if self._catches_up else None)
            while self._counters.drain_ns is None and not self._counters.stopped:
                if self._reads_later and now_ns() >= start_ns:
                    await self._hold()
                else:
                    await self._poll(start_ns, returns=self._reads_later)
            if self._joins:
                await self._await_outputs(start_ns)
            elif self._reads_application:
                await self._await_application(start_ns)
            elif not self._counters.stopped:
                await self._drain(start_ns, drain_s)
        except KafkaError as error:
            raise LoadError(f"a consumer cannot read any more: {error!r}") from None
        self.report.reassigned = self._client._coordinator.generation != generation  # noqa: SLF001 - as above
        self.report.pause_ns = self._member.longest_pause_ns(start_ns)
        return self.report

    async def _hold(self, until_ns: int | None = None) -> None:
        """Stay in the group without reading until the given instant, or until the drain starts if it is None."""
        while not self._counters.stopped:
            begin_ns = until_ns or self._counters.drain_ns
            if begin_ns is not None and (left_ns := begin_ns - now_ns()) <= _POLL_MS * 1_000_000:
                await asyncio.sleep(max(0, left_ns) / NS_PER_S)
                break
            self._client.pause(*self._client.assignment())  # again each time, because a rebalance resumes them
            self._return(await self._fetched() or {})  # the group removes members that do not poll
        for partition in self._client.assignment() if self._existing else ():
            self._client.seek(partition, await self._client.position(partition))  # drops records fetched so far
        self._client.resume(*self._client.assignment())

    async def _await_application(self, start_ns: int) -> None:
        """Receive until the application has returned all records, or until no group member receives any more.

        Unacknowledged records may also arrive, in place of others.
        """
        before, deadline = None, 0.0
        unsure = self._counters.total(Counter.SETTLED) > self._counters.total(Counter.VISIBLE)
        while ((missing := self._missing()) > 0 or unsure) and not self._counters.stopped:
            others = self._counters.total(Counter.OTHERS)  # the output for a backlog matches no record
            came = missing, min(others, self._backlog * self._counters.groups)
            if came != before:
                before, deadline = came, time.monotonic() + _QUIET_S
            if time.monotonic() > deadline:
                return
            await self._poll(start_ns)
        total = -1
        while total != (total := self.report.total) and not self._counters.stopped:
            await self._poll(start_ns)  # another member may have counted a duplicate instead of a missing record

    async def _await_outputs(self, start_ns: int) -> None:
        """Receive until as many different records have come out as are expected, or until no further ones come.

        Records are joined with the input later, so it is unknown which of them belong to the load.
        """
        total, checked, is_complete, last_s = -1, -1, False, time.monotonic()
        ends_s, checks_s = last_s + self._most_output_s, last_s
        while not self._counters.stopped and time.monotonic() < ends_s:
            if total != (total := self.report.total):
                last_s = time.monotonic()
            may_be_complete = not is_complete and self._expected.most > 0 and self._missing() <= 0
            if may_be_complete and checked != total and time.monotonic() >= checks_s:
                checked, checks_s = total, time.monotonic() + _CHECK_S
                is_complete = self._distinct() >= self._visible()
                ends_s = min(ends_s, checks_s + _QUIET_S) if is_complete else ends_s
            if time.monotonic() - last_s > self._patience_s(is_complete=is_complete):
                return
            await self._poll(start_ns)

    def _patience_s(self, *, is_complete: bool) -> float:
        """Return the time without further output after which no more is expected."""
        if is_complete:
            return _SETTLED_S
        return _QUIET_S if self._expected.is_exact and self._expected.most else _RANGE_QUIET_S

    def _distinct(self) -> int:
        """Return the number of different identities that this consumer has received as often as is expected.

        The members of a group share the records, so others are counted as received by them.
        """
        others = self._counters.received()[self.report.group] - self.report.total
        hashes = np.concatenate([np.empty(0, dtype=np.int64), *(rows[:, 0] for rows in self.report.arrivals)])
        _, counts = np.unique(hashes, return_counts=True)
        return int((counts >= self._expected.most).sum()) + max(0, others) // max(1, self._expected.most)

    def _visible(self) -> int:
        return self._counters.total(Counter.VISIBLE)

    def _missing(self) -> int:
        """Return the number of records, including a backlog, that the group has not received."""
        written = self._visible() * self._expected.most + (self._backlog if self._catches_up else 0)
        return written - self._counters.received()[self.report.group]

    async def _drain(self, start_ns: int, drain_s: float) -> None:
        # End offsets exclude records that are not yet replicated or that follow any application's open transaction.
        wait = Stall(_QUIET_S)
        while (missing := self._missing()) > 0 and not wait.is_over(missing) and not self._counters.stopped:
            await self._poll(start_ns)
        ends = {} if self._counters.stopped else await self._end_offsets()
        fewest = left = sum(ends.values())  # an upper bound until positions are known
        deadline = time.monotonic() + drain_s
        with contextlib.suppress(TimeoutError):
            while left and time.monotonic() < deadline and not self._counters.stopped:
                async with asyncio.timeout(drain_s):
                    left = await self._unread(ends)
                    if left < fewest:
                        fewest, deadline = left, time.monotonic() + drain_s
                    if left:
                        await self._poll(start_ns)
        # If other programs write to the topic, the unread records may be theirs.
        self.report.unread = left if self._filter is None else 0

    async def _poll(self, start_ns: int, *, returns: bool = False) -> None:
        """Receive records; with `returns`, leave them for the drain if the poll ends in the window."""
        fetched = await self._fetched()
        if fetched is None:
            return
        received_ns = now_ns()
        if self._joins:
            self._collect(fetched)
            return
        if returns and received_ns >= start_ns:
            self._return(fetched)
            return
        if self._filter is not None:
            self.report.unmatched += _count(fetched)
            fetched = _filtered(self._filter, fetched, received_ns + known_to_ns(), start_ns)
            self.report.unmatched -= _count(fetched)
            if not fetched:
                self._on_received()
        if fetched:
            self._receive(fetched, received_ns, start_ns)

    async def _fetched(self) -> Mapping[Any, Sequence[ReceivedBatch]] | None:
        """Return the next records by partition; None if the group was rebalancing all the time."""
        try:
            async with asyncio.timeout(_REBALANCE_S):
                fetched: Mapping[Any, Sequence[ReceivedBatch]] = await self._client.getmany(timeout_ms=_POLL_MS)
        except TimeoutError:
            return None
        return fetched

    def _return(self, fetched: Mapping[Any, Sequence[ReceivedBatch]]) -> None:
        """Leave records for a later poll."""
        for partition, batches in fetched.items():
            self._client.seek(partition, batches[0].offset)

    def _collect(self, fetched: Mapping[Any, Sequence[ReceivedBatch]]) -> None:
        """Keep identities and arrival times, which are joined with the input after the load."""
        report = self.report
        for batch in (batch for of_partition in fetched.values() for batch in of_partition):
            report.arrivals.append(batch.tags)
            if not report.first_output and batch.source is not None:
                report.first_output = batch.source.describe_first()
            report.bytes += batch.size_bytes
            report.total += len(batch.tags)
            report.unmatched += batch.count - len(batch.tags)
            if len(batch.tags):
                self._series.count(batch.tags[:1, 1], np.array([len(batch.tags)]))
        if fetched:
            self._on_received()

    def _receive(self, fetched: Mapping[Any, Sequence[ReceivedBatch]], received_ns: int, start_ns: int) -> None:
        batches = self._new(fetched, start_ns)
        if not batches:
            return
        report = self.report
        count = sum(batch.count for batch in batches)
        report.total += count
        self._on_received()
        self._series.count(np.array([received_ns]), np.array([count]))
        existing = self._existing  # existing records have no due time, so the receive time is used
        dues = np.full(count, received_ns) if existing else np.concatenate([batch.tags[:, 0] for batch in batches])
        measured = dues[dues >= start_ns]
        if measured.size:
            report.received += int(measured.size)
            report.bytes += round(sum(batch.size_bytes for batch in batches) * measured.size / count)
            report.last_ns = received_ns
        if existing:
            self._record_ages(batches, received_ns, start_ns)
        if not self._reads_later:  # a backlog's age is not a latency
            report.latency.record(latencies_since(measured, received_ns))
            shown = measured if self._catches_up else dues
            self._series.record(shown, latencies_since(shown, received_ns))

    def _new(self, fetched: Mapping[Any, Sequence[ReceivedBatch]], start_ns: int) -> list[ReceivedBatch]:
        """Return the batches without records that were received before, or check the order of a producer's records."""
        if self._reads_application:
            batches = [batch for of_partition in fetched.values() for batch in of_partition]
            return [part for batch in batches if (part := self._first_time(batch, start_ns)) is not None]
        found = [(partition, batch) for partition, of_partition in fetched.items() for batch in of_partition]
        if not self._existing:
            for partition, batch in found:
                self._check_order(partition, batch, start_ns)
        return [batch for _, batch in found]

    def _record_ages(self, batches: Sequence[ReceivedBatch], received_ns: int, start_ns: int) -> None:
        """Record the ages of existing records as their latency, by the timestamps that their producers gave them."""
        ahead_ns = time.time_ns() - now_ns()  # lead of the clock used for the producers' timestamps
        since_ms = (start_ns + ahead_ns) / 1_000_000
        created_ms = [ms for one in batches if one.source for ms in one.source.created_ms(one.offset, since_ms)]
        ages_ns = received_ns + ahead_ns - np.array(created_ms, dtype=np.int64) * 1_000_000
        self.report.latency.record(np.maximum(ages_ns, 0))
        self.report.ahead_ns = max(self.report.ahead_ns, -int(ages_ns.min(initial=0)))

    def _first_time(self, batch: ReceivedBatch, start_ns: int) -> ReceivedBatch | None:
        """Return the records in a batch that are received for the first time; the others count as duplicates."""
        producers, indexes = origin(batch.tags[:, 1])
        names = names_of(producers, indexes)
        measured = batch.tags[:, 0] >= start_ns
        add = self.report.came_out.add
        new = np.array([add(name, measured=one) for name, one in zip(names.tolist(), measured.tolist(), strict=True)])
        self.report.repeated += int((measured & ~new).sum())
        return batch.only(new)

    def _check_order(self, partition: Any, batch: ReceivedBatch, start_ns: int) -> None:
        """Check that a batch (from one producer) continues the previous batch from the same partition and producer."""
        if not batch.tags.size or (self._catches_up and batch.tags.item(0) < start_ns):
            return  # records in a backlog have the same indexes
        producer, first = origin(batch.tags.item(1))
        _, last = origin(batch.tags.item(-1))
        before = self._last.get((partition, producer), first - 1)
        if first <= before:
            self.report.disordered += batch.count
        self._last[partition, producer] = max(last, before)

    async def _end_offsets(self) -> dict[Any, int]:
        try:
            async with asyncio.timeout(_OFFSETS_TIMEOUT_S):
                return dict(await self._client.end_offsets(list(self._client.assignment())))
        except TimeoutError:
            if self._missing() <= 0 and not self._existing:
                return {}
            raise LoadError(f"a consumer got no end offsets within {_OFFSETS_TIMEOUT_S} s") from None

    async def _unread(self, ends: dict[Any, int]) -> int:
        unread = 0
        for partition, end in ends.items():
            with contextlib.suppress(KafkaError):  # the partition is no longer assigned
                unread += max(0, end - await self._client.position(partition))
        return unread


def latencies_since(dues_ns: npt.NDArray[np.int64], received_ns: int) -> npt.NDArray[np.int64]:
    """Return the time since each record was due; 0 if it is negative by no more than the clock uncertainty."""
    waited: npt.NDArray[np.int64] = received_ns - dues_ns
    tolerated_ns = known_to_ns()
    return np.where((waited < 0) & (waited >= -tolerated_ns), 0, waited) if tolerated_ns else waited


def _count(fetched: Mapping[Any, Sequence[ReceivedBatch]]) -> int:
    return sum(batch.count for batches in fetched.values() for batch in batches)


def _filtered(
    record_filter: RecordFilter, fetched: Mapping[Any, Sequence[ReceivedBatch]], received_ns: int, start_ns: int
) -> dict[Any, list[ReceivedBatch]]:
    """Return the fetched records that belong to the round."""
    kept: dict[Any, list[ReceivedBatch]] = {}
    for partition, batches in fetched.items():
        for batch in batches:
            if (part := record_filter.part(batch, start_ns=start_ns, now_ns=received_ns)) is not None:
                kept.setdefault(partition, []).append(part)
    return kept

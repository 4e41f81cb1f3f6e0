"""One consumer: reads as a member of its group, live or a backlog, and times each record from when it was due."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from aiokafka.errors import KafkaError

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.batch_decoder import ReceivedBatch
from pytest_kafkaperf.load.clock import known_to_ns, now_ns
from pytest_kafkaperf.load.messages import Consumed
from pytest_kafkaperf.load.payload import RecordFilter, names_of, origin
from pytest_kafkaperf.load.timeseries import Series

_POLL_MS = 100
"""Bound of one wait for records: how soon a consumer notices that production is over."""
_REBALANCE_S = 1
"""Bound of one wait for the group, when it gives partitions out anew."""
_POSITION_TIMEOUT_S = 5
"""Bound of finding where reading begins; tried again until the round begins or is given up."""
_OFFSETS_TIMEOUT_S = 10
_QUIET_S = 10
"""What an application does not put out within this time after it put out another record is taken for lost."""


class Consumer:
    """The reading of one group member; `client` is started, and used by nobody else.

    With `own` others write to the topic, too: what they have written is read and left out of everything. What an
    application writes has no end: `missing` tells how many of the records that went in the group has not received.
    """

    def __init__(
        self,
        client: Any,
        *,
        group: int,
        on_received: Callable[[], None],
        missing: Callable[[], int],
        own: RecordFilter | None = None,
    ) -> None:
        self.report = Consumed(group=group)
        self._missing = missing
        self._came_out: set[int] = set()
        """Names of what an application made of our records."""
        self._own = own
        self._on_received = on_received
        self._client = client
        self._series: Series | None = None
        self._timed = True
        self._last: dict[tuple[Any, int], int] = {}
        """Index of the last record, by partition and producer."""

    @property
    def _reads_application(self) -> bool:
        return self._own is not None and self._own.is_application

    async def settle_position(self) -> int:
        """Find where reading begins on each assigned partition; returns how many there are."""
        assigned = list(self._client.assignment())
        try:
            async with asyncio.timeout(_POSITION_TIMEOUT_S):
                for partition in assigned:
                    await self._client.position(partition)
        except (KafkaError, TimeoutError):  # the group took the partition back meanwhile, or the broker is silent
            return 0
        return len(assigned)

    async def run(
        self,
        start_ns: int,
        series: Series,
        *,
        backlog: bool,
        drain_ns: Callable[[], int | None],
        stopped: Callable[[], bool],
        drain_s: float,
    ) -> Consumed:
        """Read until production is over and everything in the log has been read.

        With a backlog only the warm-up is read while records are produced, and the rest from `drain_ns` on, which is
        known once production is over. What has not been read `drain_s` seconds after the end of production is counted
        as unread, unless reading still gets on.

        Raises:
            LoadError: the client cannot read any more.

        """
        self._series = series
        self._timed = not backlog  # of a backlog the age tells nothing
        try:
            while drain_ns() is None and not stopped():
                if backlog and now_ns() >= start_ns:
                    await self._hold(drain_ns, stopped)
                else:
                    await self._poll(start_ns, backlog=backlog)
            if self._reads_application:
                await self._await_application(start_ns, stopped)
            elif not stopped():
                await self._drain(start_ns, stopped, drain_s)
        except KafkaError as error:
            raise LoadError(f"a consumer cannot read any more: {error!r}") from None
        return self.report

    async def _hold(self, drain_ns: Callable[[], int | None], stopped: Callable[[], bool]) -> None:
        """Stay in the group and read nothing until the drain begins."""
        partitions = self._client.assignment()
        self._client.pause(*partitions)
        while (begin_ns := drain_ns()) is None and not stopped():
            await self._client.getmany(timeout_ms=_POLL_MS)  # a member that does not poll is taken for dead
        if begin_ns is not None:
            await asyncio.sleep(max(0, begin_ns - now_ns()) / NS_PER_S)
        self._client.resume(*partitions)

    async def _await_application(self, start_ns: int, stopped: Callable[[], bool]) -> None:
        """Receive until everything has come out, or nothing more comes to any member of the group."""
        before, deadline = 0, 0.0
        while (missing := self._missing()) > 0 and not stopped():
            if missing != before:
                before, deadline = missing, time.monotonic() + _QUIET_S
            if time.monotonic() > deadline:
                return
            await self._poll(start_ns)
        await self._poll(start_ns)  # what came again to another member was counted for one that is on its way

    async def _drain(self, start_ns: int, stopped: Callable[[], bool], drain_s: float) -> None:
        ends = await self._end_offsets()
        fewest = left = sum(ends.values())  # until its positions are known, all of it
        deadline = time.monotonic() + drain_s
        with contextlib.suppress(TimeoutError):
            while left and time.monotonic() < deadline and not stopped():
                self._leave_unread(left)
                async with asyncio.timeout(drain_s):
                    left = await self._unread(ends)
                    if left < fewest:
                        fewest, deadline = left, time.monotonic() + drain_s
                    if left:
                        await self._poll(start_ns)
        self._leave_unread(left)

    def _leave_unread(self, left: int) -> None:
        """Of a log that others write to, nobody knows how much of it is ours: what was not received tells."""
        self.report.unread = left if self._own is None else 0

    async def _poll(self, start_ns: int, *, backlog: bool = False) -> None:
        """Receive what comes; a wait that ends in the window puts back what is of a backlog, for the drain."""
        try:
            async with asyncio.timeout(_REBALANCE_S):
                fetched = await self._client.getmany(timeout_ms=_POLL_MS)
        except TimeoutError:
            return
        received_ns = now_ns()
        if backlog and received_ns >= start_ns:
            for partition, several in fetched.items():
                self._client.seek(partition, several[0].offset)
            return
        if self._own is not None:
            fetched = _held_by(self._own, fetched, received_ns + known_to_ns(), start_ns)
        if fetched:
            self._receive(fetched, received_ns, start_ns)

    def _receive(self, fetched: Mapping[Any, Sequence[ReceivedBatch]], received_ns: int, start_ns: int) -> None:
        batches = [batch for several in fetched.values() for batch in several]
        if self._reads_application:
            batches = [part for batch in batches if (part := self._first_time(batch, start_ns)) is not None]
            if not batches:
                return
        else:
            for partition, several in fetched.items():
                for batch in several:
                    self._follow(partition, batch)
        report = self.report
        count = sum(batch.count for batch in batches)
        report.total += count
        self._on_received()
        if self._series is not None:
            self._series.count(np.array([received_ns]), np.array([count]))
        dues = np.concatenate([batch.tags[:, 0] for batch in batches])
        measured = dues[dues >= start_ns]
        if measured.size:
            report.received += int(measured.size)
            report.bytes += round(sum(batch.size_bytes for batch in batches) * measured.size / count)
            report.last_ns = received_ns
        if self._timed:
            report.latency.record(latencies_since(measured, received_ns))
            if self._series is not None:
                self._series.record(dues, latencies_since(dues, received_ns))

    def _first_time(self, batch: ReceivedBatch, start_ns: int) -> ReceivedBatch | None:
        """What of a batch came out for the first time; the rest counts as duplicated."""
        producers, indexes = origin(batch.tags[:, 1])
        names = names_of(producers, indexes)
        new = np.zeros(names.size, dtype=bool)
        for place, name in enumerate(names.tolist()):
            if name not in self._came_out:
                self._came_out.add(name)
                new[place] = True
        measured = batch.tags[:, 0] >= start_ns
        self.report.repeated += int((measured & ~new).sum())
        self.report.names.append(names[measured & new])
        if not new.any():
            return None
        return replace(
            batch,
            count=int(new.sum()),
            tags=batch.tags[new],
            size_bytes=round(batch.size_bytes * int(new.sum()) / batch.count),
        )

    def _follow(self, partition: Any, batch: ReceivedBatch) -> None:
        """A batch is one producer's; within a partition each continues the one before, unless something went wrong."""
        if not batch.tags.size:
            return
        producer, first = origin(batch.tags.item(1))
        _, last = origin(batch.tags.item(-1))
        before = self._last.get((partition, producer), first - 1)
        if first <= before:
            self.report.disordered += batch.count
        self._last[partition, producer] = max(last, before)

    async def _end_offsets(self) -> dict[Any, int]:
        try:
            async with asyncio.timeout(_OFFSETS_TIMEOUT_S):
                ends: dict[Any, int] = await self._client.end_offsets(list(self._client.assignment()))
        except TimeoutError:
            raise LoadError(f"a consumer got no end offsets within {_OFFSETS_TIMEOUT_S} s") from None
        if self._own is None:
            return ends
        # An open transaction of somebody else holds back what committed readers get: what stands behind it is to come.
        held = self._client.assignment()
        known = {partition: self._client.highwater(partition) or 0 for partition in ends if partition in held}
        return {partition: max(end, known.get(partition, 0)) for partition, end in ends.items()}

    async def _unread(self, ends: dict[Any, int]) -> int:
        unread = 0
        for partition, end in ends.items():
            with contextlib.suppress(KafkaError):  # not its partition any more
                unread += max(0, end - await self._client.position(partition))
        return unread


def latencies_since(dues_ns: npt.NDArray[np.int64], received_ns: int) -> npt.NDArray[np.int64]:
    """How long ago each was due; 0 where it seems to come before that by no more than two clocks may differ."""
    waited: npt.NDArray[np.int64] = received_ns - dues_ns
    tolerated_ns = known_to_ns()
    return np.where((waited < 0) & (waited >= -tolerated_ns), 0, waited) if tolerated_ns else waited


def _held_by(
    own: RecordFilter, fetched: Mapping[Any, Sequence[ReceivedBatch]], received_ns: int, start_ns: int
) -> dict[Any, list[ReceivedBatch]]:
    """What is the run's own of what was fetched."""
    held = {
        partition: [
            part for batch in several if (part := own.part(batch, start_ns=start_ns, now_ns=received_ns)) is not None
        ]
        for partition, several in fetched.items()
    }
    return {partition: several for partition, several in held.items() if several}

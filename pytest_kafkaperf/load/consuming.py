"""One consumer: reads as a member of its group while records are produced, and times each from when it was due."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.errors import KafkaError

from pytest_kafkaperf.errors import LoadError
from pytest_kafkaperf.load.board import now_ns
from pytest_kafkaperf.measurement import Consumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kafkaperf.load.kafka import ReceivedBatch

_POLL_MS = 100
"""Bound of one wait for records: how soon a consumer notices that production is over."""
_REBALANCE_S = 1
"""Bound of one wait for the group, when it gives partitions out anew."""
_POSITION_TIMEOUT_S = 5
"""Bound of finding where reading begins; tried again until the round begins or is given up."""
_OFFSETS_TIMEOUT_S = 10


class Consumer:
    """The reading of one group member; `client` is started, and used by nobody else."""

    def __init__(self, client: Any, *, on_received: Callable[[], None]) -> None:
        self.report = Consumed()
        self._on_received = on_received
        self._client = client

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
        self, start_ns: int, *, over: Callable[[], bool], stopped: Callable[[], bool], drain_s: float
    ) -> Consumed:
        """Read until production is over and everything in the log has been read.

        What has not been read `drain_s` seconds after the end of production is counted as unread.

        Raises:
            LoadError: the client cannot read any more.

        """
        try:
            while not over() and not stopped():
                await self._poll(start_ns)
            if not stopped():
                await self._drain(start_ns, stopped, drain_s)
        except KafkaError as error:
            raise LoadError(f"a consumer cannot read any more: {error!r}") from None
        return self.report

    async def _drain(self, start_ns: int, stopped: Callable[[], bool], drain_s: float) -> None:
        ends = await self._end_offsets()
        self.report.unread = sum(ends.values())  # until its positions are known, all of it
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                self.report.unread = await self._unread(ends)
                while self.report.unread and not stopped():
                    await self._poll(start_ns)
                    self.report.unread = await self._unread(ends)

    async def _poll(self, start_ns: int) -> None:
        try:
            async with asyncio.timeout(_REBALANCE_S):
                fetched = await self._client.getmany(timeout_ms=_POLL_MS)
        except TimeoutError:
            return
        received_ns = now_ns()
        for batches in fetched.values():
            for batch in batches:
                self._receive(batch, received_ns, start_ns)
        self._on_received()

    def _receive(self, batch: ReceivedBatch, received_ns: int, start_ns: int) -> None:
        dues = batch.tags[:, 0]
        report = self.report
        report.total += dues.size
        measured = dues[dues >= start_ns]
        if measured.size:
            report.received += int(measured.size)
            report.bytes += round(batch.size_bytes * measured.size / dues.size)
            report.latency.record(np.asarray(received_ns - measured))
            report.last_ns = received_ns

    async def _end_offsets(self) -> dict[Any, int]:
        try:
            async with asyncio.timeout(_OFFSETS_TIMEOUT_S):
                ends: dict[Any, int] = await self._client.end_offsets(list(self._client.assignment()))
        except TimeoutError:
            raise LoadError(f"a consumer got no end offsets within {_OFFSETS_TIMEOUT_S} s") from None
        return ends

    async def _unread(self, ends: dict[Any, int]) -> int:
        unread = 0
        for partition, end in ends.items():
            with contextlib.suppress(KafkaError):  # not its partition any more
                unread += max(0, end - await self._client.position(partition))
        return unread

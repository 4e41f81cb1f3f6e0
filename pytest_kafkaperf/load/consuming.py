"""One consumer: reads as a member of its group while records are produced, and times each from when it was due."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.errors import KafkaError

from pytest_kafkaperf.load.board import now_ns
from pytest_kafkaperf.measurement import Consumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kafkaperf.load.kafka import ReceivedBatch

_POLL_MS = 100
"""Bound of one wait for records: how soon a consumer notices that production is over."""
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
            for partition in assigned:
                await self._client.position(partition)
        except KafkaError:  # the group took the partition back meanwhile
            return 0
        return len(assigned)

    async def run(
        self, start_ns: int, *, over: Callable[[], bool], stopped: Callable[[], bool], drain_s: float
    ) -> Consumed:
        """Read until production is over and everything in the log has been read.

        What has not been read `drain_s` seconds after the end of production is counted as unread.
        """
        while not over() and not stopped():
            await self._poll(start_ns)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                ends = await self._end_offsets()
                while not stopped() and await self._unread(ends):
                    await self._poll(start_ns)
        # The position is the client's own figure: no request, so nothing to wait for.
        self.report.unread = await self._unread(await self._end_offsets()) if not stopped() else 0
        return self.report

    async def _poll(self, start_ns: int) -> None:
        fetched = await self._client.getmany(timeout_ms=_POLL_MS)
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
        async with asyncio.timeout(_OFFSETS_TIMEOUT_S):
            ends: dict[Any, int] = await self._client.end_offsets(list(self._client.assignment()))
        return ends

    async def _unread(self, ends: dict[Any, int]) -> int:
        unread = 0
        for partition, end in ends.items():
            with contextlib.suppress(KafkaError):
                unread += max(0, end - await self._client.position(partition))
        return unread

"""Transactions of one producer: so many records each, then commit or abort (KIP-98)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from pytest_kafkaperf.errors import LoadError
from pytest_kafkaperf.load.board import now_ns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytest_kafkaperf.load.ledger import Ledger


class Transactions:
    """Begins and ends them; one at a time, as Kafka has it."""

    def __init__(
        self,
        client: Any,
        ledger: Ledger,
        *,
        size: int,
        abort_ratio: float,
        settled: Callable[[], Awaitable[None]],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._size = size
        self._abort_ratio = abort_ratio
        self._settled = settled
        """Waits until the fate of every record is known that was sent."""
        self._left: int | None = None
        """Records that the open transaction still takes; None when none is open."""
        self.begun_ns = 0
        """When the transaction before the open one had ended: until then nothing could be sent."""
        self._number = 0
        self._ending: asyncio.Task[None] | None = None

    async def room(self) -> int:
        """How many records the transaction still takes: at least one, for a full one is ended and another begun.

        Raises:
            LoadError: the transaction could not be begun or ended.

        """
        if self._left == 0:
            await self.end()
        if self._left is None:
            try:
                await self._client.begin_transaction()
            except KafkaError as error:
                raise LoadError(f"a transaction could not begin: {error!r}") from None
            self._left = self._size
            self.begun_ns = now_ns()
        return self._left

    def take(self, count: int) -> None:
        """Records go into the open transaction."""
        self._left = (self._left or 0) - count

    async def end(self) -> None:
        """End the open transaction; nothing without one. Goes on to its end when whoever waits is cancelled.

        Raises:
            LoadError: as `room`.

        """
        if self._ending is None:
            if self._left is None:
                return
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await self._settled()
        self._ledger.ending = True
        commit = not (self._ledger.must_abort or self._is_to_abort(self._number))
        try:
            await (self._client.commit_transaction() if commit else self._client.abort_transaction())
        except KafkaError as error:
            raise LoadError(f"a transaction could not be {'committed' if commit else 'aborted'}: {error!r}") from None
        self._ledger.end_transaction(now_ns(), committed=commit)
        self._ledger.ending = False
        self._left = self._ending = None
        self._number += 1

    def _is_to_abort(self, number: int) -> bool:
        """Aborts are spread evenly: after n transactions there were `n * abort_ratio` of them, rounded down."""
        return int((number + 1) * self._abort_ratio) > int(number * self._abort_ratio)

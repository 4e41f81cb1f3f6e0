"""A consumer's membership in its group: it commits before each rebalance, and measures how long it then waits.

Without a commit, the partitions' next owner would start at the end of the log and skip records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

from aiokafka import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from pytest_kafkaperf.load.clock import now_ns

_COMMIT_TIMEOUT_S = 2
"""Time limit for a commit, during which the group waits for this member."""


class GroupMember(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka ships no types
    """The membership of one consumer, which calls it when it gives up its partitions, and when it gets others."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._pauses_ns: list[tuple[int, int]] = []
        self._revoked_ns: int | None = None
        """Start of a pause that has not ended; None outside of rebalances."""

    def subscribe(self, topic: str) -> None:
        """Name the topic to read, before the client starts."""
        self.client.subscribe([topic], listener=self)

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Commit the position of each partition that the consumer gives up."""
        if not revoked:
            return
        if self._revoked_ns is None:
            self._revoked_ns = now_ns()
        with contextlib.suppress(KafkaError, TimeoutError):  # the group may have removed this member
            async with asyncio.timeout(_COMMIT_TIMEOUT_S):
                await self.client.commit()

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:  # noqa: ARG002 - aiokafka's signature
        """End the pause. A consumer without partitions does not wait for anything."""
        if self._revoked_ns is not None:
            self._pauses_ns.append((self._revoked_ns, now_ns()))
        self._revoked_ns = None

    def longest_pause_ns(self, since_ns: int) -> int:
        """Return the longest pause that began at `since_ns` or later; a pause that has not ended counts until now."""
        pauses = [*self._pauses_ns, *([] if self._revoked_ns is None else [(self._revoked_ns, now_ns())])]
        return max((end - begin for begin, end in pauses if begin >= since_ns), default=0)

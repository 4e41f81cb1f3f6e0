"""What becomes of a topic's partitions while load runs: leaders and replicas, looked at once a second."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from pytest_kafkaperf.errors import ClusterLostError
from pytest_kafkaperf.load.kafka import AIOKafkaClient, ask_for_topics, close
from pytest_kafkaperf.load.obstacles import gone

if TYPE_CHECKING:
    from pytest_kafkaperf.access import Access
    from pytest_kafkaperf.brokers.partitions import State

_INTERVAL_S = 1.0
_ANSWER_TIMEOUT_S = 2
"""Bound of one look; the next one may ask another broker."""
_EXIT_TIMEOUT_S = 5
_GONE_LOOKS = 3
"""In a row, at which brokers do not know a topic that was there: one that has just started may be late."""


class TopicWatch:
    """Looks at a topic, in a thread of its own, from entry to exit; where no broker answers, it looks again."""

    def __init__(self, bootstrap_servers: str, access: Access, topic: str) -> None:
        self.states: list[tuple[int, State]] = []
        """Each with its instant on the monotonic clock, in ns."""
        self._unknown = 0
        """Looks in a row at which a broker did not know the topic."""
        self._servers = bootstrap_servers
        self._access = access
        self._topic = topic
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkaperf-topic-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_EXIT_TIMEOUT_S)

    def check(self) -> None:
        """Raise ClusterLostError when the topic was there and is gone."""
        if self.states and self._unknown >= _GONE_LOOKS:
            raise ClusterLostError(gone(self._topic))

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._watch())

    async def _watch(self) -> None:
        client = AIOKafkaClient(
            **{**self._access.arguments(), "bootstrap_servers": self._servers, "request_timeout_ms": 1000}
        )
        connected = False
        try:
            while not self._closing.is_set():
                with contextlib.suppress(KafkaError, OSError, TimeoutError, ValueError):
                    async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                        if not connected:
                            await client.bootstrap()
                            connected = True
                        await self._look(client)
                await asyncio.to_thread(self._closing.wait, _INTERVAL_S)
        finally:
            await close(client)

    async def _look(self, client: Any) -> None:
        """Ask any broker that answers; the cluster's own view comes with the answer."""
        answer = await client.send(client.get_random_node(), ask_for_topics([self._topic]))
        at_ns = time.monotonic_ns()
        state: dict[int, tuple[int | None, tuple[int, ...], tuple[int, ...]]] = {}
        unknown = False
        for topic in answer.topics:
            unknown = topic[0] == UnknownTopicOrPartitionError.errno
            for _, partition, leader, replicas, in_sync, *_rest in topic[-1]:
                state[partition] = (leader if leader >= 0 else None, tuple(in_sync), tuple(replicas))
        self._unknown = self._unknown + 1 if unknown else 0
        if state:
            self.states.append((at_ns, state))

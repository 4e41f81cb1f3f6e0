"""Connections to a cluster: a bare client, a call within a bound, and what aiokafka logs meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol import metadata

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.access import Access

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 2
"""Bound of the end of a client: its broker may be gone, and nothing depends on it any more."""
_MAX_NOTES = 5


def call(work: Coroutine[Any, Any, T], *, timeout_s: float) -> T:
    """Run it on a loop and a thread of its own: the caller may have a running loop.

    Raises:
        TimeoutError: it took longer.

    """
    with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-call") as thread:
        return thread.submit(asyncio.run, _bounded(work, timeout_s)).result()


async def _bounded(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    async with asyncio.timeout(timeout_s):
        return await work


ask_for_topics = functools.partial(metadata.MetadataRequest, allow_auto_topic_creation=False)
"""A request for metadata; no topic is created by being asked about."""


@contextlib.asynccontextmanager
async def connected(bootstrap_servers: str, access: Access) -> AsyncIterator[Any]:
    """A bare client, for requests of one's own."""
    client = AIOKafkaClient(**{**access.arguments(), "bootstrap_servers": bootstrap_servers})
    try:
        await client.bootstrap()
        yield client
    finally:
        await close(client)


async def close(client: Any) -> None:
    """End any of aiokafka's clients; one that does not come to its end in time is left as it is."""
    with contextlib.suppress(KafkaError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await (client.close if hasattr(client, "close") else client.stop)()


class Notes(logging.Handler):
    """Collects what aiokafka warns of, and what ended its tasks, instead of the user's terminal."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._texts: dict[str, None] = {}
        self.causes: set[type] = set()
        """Types of the errors that aiokafka logged."""
        self._before = {logging.getLogger(name): True for name in ("aiokafka", "asyncio")}

    def __enter__(self) -> Self:
        for logger in self._before:
            self._before[logger] = logger.propagate
            logger.addHandler(self)
            logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        for logger, propagate in self._before.items():
            logger.removeHandler(self)
            logger.propagate = propagate

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line, and the error that ended a task."""
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.causes.update(type(value) for value in record.args or () if isinstance(value, Exception))
        if len(self._texts) < _MAX_NOTES:
            self._texts[record.getMessage().strip().partition("\n")[0] + error] = None

    def clear(self) -> None:
        """Forget what was said while clients connected and the group formed: that belongs to a start."""
        self._texts.clear()
        self.causes.clear()

    def texts(self) -> list[str]:
        """Each warning once."""
        return list(self._texts)

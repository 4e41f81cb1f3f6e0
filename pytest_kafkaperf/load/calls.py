"""A call to a cluster, for code that waits for its answer: within a bound, whatever the caller's thread is doing."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


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

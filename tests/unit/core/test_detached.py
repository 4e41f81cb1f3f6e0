"""Calls that nothing waits for in vain."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from pytest_kafkaperf.core.detached import detached
from tests.support.patience import PATIENCE_S

ENDLESS = """
import asyncio, threading
from pytest_kafkaperf.core.detached import detached

async def wait():
    async with asyncio.timeout(0.1):
        await asyncio.wrap_future(detached(threading.Event().wait))

try:
    asyncio.run(wait())
except TimeoutError:
    print("gave up")
"""


def test_results_and_errors_come_back() -> None:
    """Whatever the kind of error."""
    assert detached(lambda: 42).result(PATIENCE_S) == 42
    with pytest.raises(KeyError, match="absent"):
        detached(lambda: dict[str, int]()["absent"]).result(PATIENCE_S)

    async def wait() -> int:
        return await asyncio.wrap_future(detached(lambda: 43))

    assert asyncio.run(wait()) == 43


def test_neither_a_loop_nor_the_interpreter_waits_for_an_endless_call() -> None:
    """A thread of asyncio's own executor would be joined by both."""
    ran = subprocess.run(
        [sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert (ran.stdout, ran.stderr) == ("gave up\n", "")

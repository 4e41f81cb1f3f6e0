"""Clients of aiokafka are closed, whatever happens in their own tasks."""

from __future__ import annotations

import asyncio

import pytest

from pytest_kafkaperf.clusters.admin import connection
from pytest_kafkaperf.clusters.admin.connection import close


class Connections:
    """The part of a client that holds its connections."""

    closed = 0

    async def close(self) -> None:
        self.closed += 1


class Reader:
    """A client that cancels its own task when it is closed, and awaits it, as aiokafka's consumer does."""

    def __init__(self) -> None:
        self._client = self.connections = Connections()
        self._task = asyncio.ensure_future(asyncio.sleep(3600))

    async def stop(self) -> None:
        self._task.cancel()
        await self._task
        await self._client.close()


def test_a_client_whose_task_ends_as_canceled_is_closed_completely() -> None:
    """Otherwise, a test would end with CancelledError instead of a verdict."""

    async def run() -> int:
        reader = Reader()
        await close(reader)
        return reader.connections.closed

    assert asyncio.run(run()) == 1


def test_a_client_that_does_not_close_is_left_after_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer must not keep the run waiting."""
    monkeypatch.setattr(connection, "_CLOSE_TIMEOUT_S", 0)

    class Hanging(Connections):
        async def close(self) -> None:
            await asyncio.sleep(3600)

    asyncio.run(close(Hanging()))


def test_an_error_while_closing_is_not_hidden_unless_the_broker_caused_it() -> None:
    """An error of the program is a fault to be found."""

    class Failing(Connections):
        def __init__(self, error: Exception) -> None:
            self._error = error

        async def close(self) -> None:
            raise self._error

    asyncio.run(close(Failing(ConnectionResetError())))
    with pytest.raises(ValueError, match="why"):
        asyncio.run(close(Failing(ValueError("why"))))

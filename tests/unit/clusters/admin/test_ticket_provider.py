"""The steps of a login with a ticket, and what becomes of one that fails."""

from __future__ import annotations

import asyncio
import threading

import pytest
from aiokafka.errors import SaslAuthenticationFailed

from pytest_kafkaperf.clusters.admin.ticket_provider import Messages, TicketProvider
from pytest_kafkaperf.core.errors import ClusterError

threads: set[int] = set()


def echoes(host: str) -> Messages:
    """Two messages: the host, and the broker's answer to it."""
    threads.add(threading.get_ident())
    answer = yield host.encode()
    yield b"and " + (answer or b"")


def fails(host: str) -> Messages:
    """A login that the KDC refuses after its first message."""
    yield host.encode()
    raise ClusterError("Server kafka/a not found in Kerberos database")


def test_a_login_is_a_series_of_messages_and_answers() -> None:
    """In another thread, because they may wait for a KDC."""

    async def log_in() -> list[tuple[bytes, bool] | None]:
        login = TicketProvider(echoes).authenticator("a")
        return [await login.step(None), await login.step(b"hello"), await login.step(b"")]

    assert asyncio.run(log_in()) == [(b"a", True), (b"and hello", True), None]
    assert threading.get_ident() not in threads


def test_a_failed_login_is_reported_at_once() -> None:
    """Clients would retry until they give up, and hide the reason."""

    async def log_in() -> tuple[str, str]:
        provider = TicketProvider(fails)
        failing = asyncio.ensure_future(provider.failure())
        login = provider.authenticator("a")
        await login.step(None)
        with pytest.raises(SaslAuthenticationFailed) as raised:
            await login.step(b"hello")
        provider.rejected(SaslAuthenticationFailed("later"))
        return str(raised.value), await failing

    reason = "Server kafka/a not found in Kerberos database"
    error, failure = asyncio.run(log_in())
    assert error.endswith(reason)
    assert failure == reason


def test_a_rejected_ticket_is_reported_with_what_to_check() -> None:
    """The broker says only that the credentials are invalid."""

    async def reject() -> str:
        provider = TicketProvider(echoes)
        provider.rejected(Exception("invalid credentials"))
        return await provider.failure()

    assert asyncio.run(reject()) == (
        "a broker rejected the Kerberos ticket: invalid credentials; check the clocks of all machines, and that the "
        "broker's keytab contains its current keys"
    )

"""Client's side of the mechanism GSSAPI (Kerberos), with tickets that are renewed.

aiokafka's own authenticator uses the default ticket cache, and runs in a thread that a closing event loop waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar

from aiokafka.errors import SaslAuthenticationFailed

from pytest_kafkaperf.clusters.access.tickets import KDC_TIMEOUT_S, NO_ANSWER
from pytest_kafkaperf.clusters.admin.relogin import LoginProvider
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError

T = TypeVar("T")

Messages = Generator[bytes, bytes | None, None]
"""Messages of one login to a broker, a generator to which the answers are sent."""


class TicketProvider(LoginProvider):
    """Logins with Kerberos tickets for one client or several."""

    def __init__(self, messages: Callable[[str], Messages]) -> None:
        """Get the messages of each login from `messages`, whose argument is the broker's host."""
        super().__init__()
        self._messages = messages

    def authenticator(self, host: str) -> Authenticator:
        """Return the client's side of one login on this host."""
        return Authenticator(self, self._messages(host))

    def rejected(self, error: Exception) -> None:
        """Record that a broker rejected a ticket."""
        self.fail(
            f"a broker rejected the Kerberos ticket: {error}; check the clocks of all machines, and that the broker's "
            "keytab contains its current keys"
        )

    async def run(self, step: Callable[[], T]) -> T:
        """Run one step of a login, which may wait for a KDC, in another thread.

        Raises:
            SaslAuthenticationFailed: the step failed; the message contains the reason.

        """
        try:
            async with asyncio.timeout(KDC_TIMEOUT_S):
                return await asyncio.wrap_future(detached(step))
        except TimeoutError:
            reason = NO_ANSWER
        except ClusterError as error:
            reason = str(error)
        self.fail(reason)
        raise SaslAuthenticationFailed(reason)


class Authenticator:
    """Client's side of one login, in aiokafka's interface."""

    def __init__(self, provider: TicketProvider, messages: Messages) -> None:
        self._provider = provider
        self._messages = messages

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return the next message, and whether a response is expected; None at the end."""
        return await self._provider.run(lambda: self._next(payload))

    def _next(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        try:
            return self._messages.send(payload), True
        except StopIteration:
            return None

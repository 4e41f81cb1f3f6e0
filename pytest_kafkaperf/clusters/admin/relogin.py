"""Connections that log in again before their login expires (KIP-368), and the access tokens that they send.

A broker closes connections whose login has expired: after `connections.max.reauth.ms`, or when the access token
expires. aiokafka never logs in again (https://github.com/aio-libs/aiokafka/issues/1015), so each expiry would break its
connections and fail the requests in flight. It also takes a rejected token for an accepted one, because it ignores the
error in the broker's challenge (RFC 7628, section 3.2.2).

`use_relogin` replaces `aiokafka.conn.AIOKafkaConnection` in the main process if a login uses access tokens or Kerberos
tickets. Worker processes always replace it, with a subclass of `ReloginConnection`. Without an expiry, the replacement
behaves like aiokafka's own class.
"""

from __future__ import annotations

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import conn
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailed
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from pytest_kafkaperf.clusters.access.tokens import Token, describe
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError

_RELOGIN_RATIO = 0.8
"""Share of the login's lifetime after which a connection logs in again; Kafka's own client uses 85 to 95%."""
_MIN_INTERVAL_S = 1.1
"""Minimum time between two logins on a connection: brokers reject a second login within a second (KIP-368)."""
_REJECTED = b"\x01"
"""Client's response to a rejected token, upon which the broker sends its error (RFC 7628, section 3.2.3)."""


class LoginProvider(ABC):
    """Tokens or tickets for one client or several, and the first reason why a login with them failed."""

    def __init__(self) -> None:
        self._failure: str | None = None
        self._failed: asyncio.Event | None = None

    async def failure(self) -> str:
        """Wait until a login fails, and return the reason."""
        if self._failure is None:
            self._failed = self._failed or asyncio.Event()
            await self._failed.wait()
        return self._failure or ""

    def fail(self, reason: str) -> None:
        """Record that a login failed."""
        self._failure = self._failure or reason
        if self._failed is not None:
            self._failed.set()

    @abstractmethod
    def rejected(self, error: Exception) -> None:
        """Record that a broker rejected a login."""


class TokenProvider(LoginProvider, AbstractTokenProvider):  # type: ignore[misc]
    """Access tokens for one client or several."""

    def __init__(self, current: Callable[[], Token], extensions: Mapping[str, str]) -> None:
        """Get each token from `current`, which may block and is called in a thread."""
        super().__init__()
        self._current = current
        self._extensions = dict(extensions)
        self._last: Token | None = None

    async def token(self) -> str:
        """Return a valid token.

        Raises:
            SaslAuthenticationFailed: there is no token; the message contains the reason.

        """
        try:
            self._last = await asyncio.wrap_future(detached(self._current))
        except ClusterError as error:
            self.fail(str(error))
            raise SaslAuthenticationFailed(str(error)) from None
        return self._last.value.get_secret_value()

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return self._extensions

    def rejected(self, error: Exception) -> None:
        """Record that a broker rejected the last token."""
        described = "" if self._last is None else describe(self._last.value.get_secret_value())
        self.fail(f"a broker rejected the access token{f' ({described})' if described else ''}: {error}")


class _Authenticator(conn.OAuthAuthenticator):  # type: ignore[misc]
    """Client's side of the mechanism OAUTHBEARER that makes a rejected token an error."""

    async def step(self, payload: bytes | None) -> tuple[Any, bool] | None:
        """Return the next message, and whether a response is expected; None at the end."""
        if payload:
            return _REJECTED, True
        step: tuple[Any, bool] | None = await super().step(payload)
        return step


class _HeldWriter:
    """Writer that keeps requests back during a login. Afterwards, it writes them in their order or drops them."""

    def __init__(self, writer: Any, outstanding: int) -> None:
        self.writer = writer
        self._held: list[bytes] = []
        self._outstanding = outstanding
        self._answered = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_written = False
        if not outstanding:
            self._answered.set()

    @property
    def transport(self) -> Any:
        return self.writer.transport

    def write(self, data: bytes) -> None:
        self._held.append(data)

    async def drain(self) -> None:
        """Wait for the end of the login, because requests without a response would otherwise pile up.

        Raises:
            ConnectionResetError: the login failed, so the requests were dropped.

        """
        await self._ended.wait()
        if not self._is_written:
            raise ConnectionResetError("the connection was closed, because its login could not be renewed")
        await self.writer.drain()

    def close(self) -> None:
        self.drop()
        self.writer.close()

    def count_answer(self) -> None:
        """Count a response to a request that was sent before the login."""
        self._outstanding -= 1
        if self._outstanding <= 0:
            self._answered.set()

    async def all_answered(self) -> None:
        await self._answered.wait()

    def write_all(self) -> None:
        for data in self._held:
            self.writer.write(data)
        self._is_written = True
        self._ended.set()

    def drop(self) -> None:
        self._answered.set()
        self._ended.set()


class ReloginConnection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """Connection that logs in again after most of its login's lifetime has passed.

    Meanwhile, new requests are held back, and the login begins once all requests in flight have been answered.
    """

    _writer: Any
    _held: _HeldWriter | None = None
    """The writer during a login; None at other times."""
    _relogin_timer: asyncio.TimerHandle | None = None
    _relogin: asyncio.Task[None] | None = None
    relogins = 0
    """Number of logins after the first one."""

    def authenticator_oauth(self) -> _Authenticator:
        """Return the client's side of the mechanism OAUTHBEARER."""
        return _Authenticator(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

    def authenticator_gssapi(self) -> Any:
        """Return the client's side of the mechanism GSSAPI, which is in `ticket_provider`."""
        return self._sasl_oauth_token_provider.authenticator(self._sasl_kerberos_domain_name or self.host)

    def send(self, request: Any, expect_response: bool = True) -> Any:  # noqa: FBT001, FBT002 - aiokafka's signature
        """Send a request like aiokafka's own method; requests of a login precede those that are held back."""
        if not isinstance(request, SaslAuthenticateRequest | SaslHandShakeRequest):
            return super().send(request, expect_response)
        answer = super().send(request) if self._held is None else self._send_first(request, self._held.writer)
        return self._authenticated(answer) if isinstance(request, SaslAuthenticateRequest) else answer

    def _send_first(self, request: Any, writer: Any) -> Any:
        """Send a request on a connection whose earlier requests have all been answered."""
        if self._writer is None:
            raise KafkaConnectionError(f"Connection at {self._host}:{self._port} closed")
        held, self._writer = self._writer, writer
        try:
            answer = super().send(request)
            self._requests.rotate(1)  # its response comes before those to the requests that are held back
        finally:
            if self._writer is not None:  # otherwise, the write has failed, and the connection is closed
                self._writer = held
        return answer

    async def _authenticated(self, answer: Any) -> Any:
        """Return the response to a login message; if it contains a lifetime, schedule the next login."""
        response = await answer
        lifetime_ms = getattr(response, "session_lifetime_ms", 0)  # since Kafka 2.2
        if response.error_code == 0 and lifetime_ms > 0:
            delay_s = max(lifetime_ms / 1000 * _RELOGIN_RATIO, _MIN_INTERVAL_S)
            self._cancel_relogin()
            self._relogin_timer = self._loop.call_later(delay_s, _begin, weakref.ref(self))
        return response

    async def _do_sasl_handshake(self) -> None:
        """Log in like aiokafka's own method, and report a rejected token to its provider."""
        try:
            await super()._do_sasl_handshake()
        except SaslAuthenticationFailed as error:
            if isinstance(self._sasl_oauth_token_provider, LoginProvider):
                self._sasl_oauth_token_provider.rejected(error)
            raise

    async def log_in_again(self) -> None:
        """Log in on the open connection. If that fails, close the connection and fail its requests."""
        if self._writer is None or self._held is not None:
            return
        held = self._writer = self._held = _HeldWriter(self._writer, len(self._requests))
        try:
            async with asyncio.timeout(self._request_timeout):
                await held.all_answered()
                await self._do_sasl_handshake()
        except (KafkaError, OSError, TimeoutError, RuntimeError) as error:
            self.close(reason=conn.CloseReason.AUTH_FAILURE, exc=error)
        finally:
            self._held = None
            if self._writer is not held:
                held.drop()
        if self._writer is held:
            self._writer = held.writer
            self.relogins += 1
            try:
                held.write_all()
            except (OSError, RuntimeError) as error:  # the broker has closed the connection in the meantime
                held.drop()
                self.close(reason=conn.CloseReason.CONNECTION_BROKEN, exc=error)

    def _handle_frame(self, resp: bytes) -> None:
        """Handle a response like aiokafka's own method."""
        super()._handle_frame(resp)
        self._count_answer()

    def _count_answer(self) -> None:
        if self._held is not None:
            self._held.count_answer()

    def close(self, reason: Any = None, exc: Exception | None = None) -> Any:
        """Close the connection like aiokafka's own method."""
        self._cancel_relogin()
        return super().close(reason, exc)

    def _cancel_relogin(self) -> None:
        if self._relogin_timer is not None:
            self._relogin_timer.cancel()
            self._relogin_timer = None


def _begin(reference: weakref.ref[ReloginConnection]) -> None:
    connection = reference()
    if connection is not None and connection.connected():
        connection._relogin = asyncio.ensure_future(connection.log_in_again())  # noqa: SLF001


def use_relogin() -> None:
    """Make all of aiokafka's connections in this process log in again; existing ones are not affected."""
    if not issubclass(conn.AIOKafkaConnection, ReloginConnection):
        conn.AIOKafkaConnection = ReloginConnection

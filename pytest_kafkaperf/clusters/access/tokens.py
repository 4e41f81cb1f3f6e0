"""Access tokens of the mechanism OAUTHBEARER: where they come from, and a cache that renews them in time.

Only the main process fetches tokens. Worker processes, on this machine or others, read them from a file that the main
process keeps up to date (`PushedToken`), so they never hold a client secret or call a user's function.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import quote, quote_plus, urlsplit

from pydantic import SecretStr

from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, innermost, shortened
from pytest_kafkaperf.core.text import printable, repr_of

ENCODES = "sasl.oauthbearer.header.urlencode"
"""Kafka's setting for `ClientCredentials.encodes`."""
_ENDPOINT_TIMEOUT_S = 10
"""Time limit for connecting to the token endpoint, and for each part of its answer."""
_ENDPOINT_LIMIT_S = 30
"""Time limit for the token endpoint's whole answer, whose parts can arrive slowly."""
_FUNCTION_TIMEOUT_S = 70
"""Time limit for a user's function; a cloud provider's token has 60 s."""
_RENEWAL_RATIO = 0.6
"""Share of a token's life after which it is renewed. Connections log in again after 80% of the rest at the latest."""
_UNKNOWN_LIFE_S = 300
"""Time after which a token without a known expiry is renewed."""
_RETRY_S = 5
"""Pause after a failed renewal. The current token remains in use until it expires."""
_SKEW_S = 60
"""Difference between clocks that an error message mentions."""
_MAX_REASON = 500

_FUNCTION = "the function given as Cluster(token=...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """An access token."""

    value: SecretStr
    expires_s: float | None = None
    """Expiry on this machine's clock (Unix time); None if unknown."""


class TokenSource(Protocol):
    """A source of access tokens."""

    def fetch(self) -> Token:
        """Return a token; raise `ClusterError` if there is none, with the reason but without secrets."""

    def secrets(self) -> set[str]:
        """Return texts that must never be shown, except tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """A token endpoint (OAuth 2.0, client credentials grant: RFC 6749, section 4.4)."""

    endpoint: str
    client_id: str
    client_secret: SecretStr
    scope: str | None = None
    encodes: bool = False
    """True to URL-encode the client's ID and secret, as RFC 6749 (section 2.3.1) requires and Kafka's clients do not by
    default."""

    def fetch(self) -> Token:
        """Request a token, with Authlib."""
        answer = detached(self._request)
        if not wait([answer], _ENDPOINT_LIMIT_S).done:
            raise ClusterError(f"the token endpoint {self.endpoint} did not answer within {_ENDPOINT_LIMIT_S} s")
        return answer.result()

    def _request(self) -> Token:
        try:
            import requests  # noqa: PLC0415 - only for token endpoints
            from authlib.integrations.requests_client import OAuth2Session, OAuthError  # noqa: PLC0415 - an extra
        except ImportError:
            raise ClusterError(
                "logging in with client credentials (OAUTHBEARER) requires Authlib; run: pip install "
                "'pytest-kafkaperf[oauth]'"
            ) from None
        client_id, secret = self._sent(encodes=self.encodes)
        client = OAuth2Session(client_id, secret, scope=self.scope, default_timeout=_ENDPOINT_TIMEOUT_S)
        with client:
            try:
                # The answer to a redirect could go to another server, and the credentials with it.
                answer = client.fetch_token(self.endpoint, grant_type="client_credentials", allow_redirects=False)
            except OAuthError as error:
                reason = f"refused the client {self.client_id!r}: {str(error).rstrip(': ')}{self._advice()}"
            except requests.ConnectionError as error:
                reason = f"cannot be reached: {innermost(error)}"
            except (requests.RequestException, ValueError) as error:
                reason = f"did not return a token: {error}"
            else:
                return self._token(answer)
        raise ClusterError(f"the token endpoint {self.endpoint} {self._discreet(reason)}")

    def _token(self, answer: Any) -> Token:
        """Return the token of a successful response (RFC 6749, section 5.1)."""
        value, expires_s = answer.get("access_token"), answer.get("expires_at")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value:
            raise ClusterError(f"the token endpoint {self.endpoint} did not return a token: 'access_token' is missing")
        # Authlib computes `expires_at` on this machine's clock, from `expires_in`.
        return Token(value=SecretStr(value), expires_s=expires_s if isinstance(expires_s, int) else expiry_of(value))

    def _sent(self, *, encodes: bool) -> tuple[str, str]:
        """Return the client's ID and secret as they are sent."""
        given = (self.client_id, self.client_secret.get_secret_value())
        return (quote_plus(given[0]), quote_plus(given[1])) if encodes else given

    def _advice(self) -> str:
        """Return what to try if the endpoint refused the client; empty if encoding would not make a difference."""
        if self._sent(encodes=self.encodes) == self._sent(encodes=True):
            return ""
        return f"; if the endpoint expects URL-encoded credentials, set {ENCODES!r} to true"

    def _discreet(self, text: str) -> str:
        for secret in sorted(self.secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return printable(shortened(text, _MAX_REASON))

    def secrets(self) -> set[str]:
        """Return the client secret as it is written in settings, in requests and in URLs."""
        secret = self.client_secret.get_secret_value()
        basic = base64.b64encode(":".join(self._sent(encodes=self.encodes)).encode()).decode("ascii")
        return {secret, quote(secret, safe=""), quote_plus(secret), basic} if secret else set()

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process: client secrets stay in the main process."""
        raise TypeError("client credentials are not sent to other processes; send a token instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file with a token, which another program keeps up to date, as in Kafka's clients (KIP-768)."""

    path: Path

    def fetch(self) -> Token:
        """Read the token."""
        try:
            value = self.path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not an ASCII text file"
            raise ClusterError(f"the token file {self.path} cannot be read: {reason}") from None
        if not value or not value.isprintable():
            raise ClusterError(f"the token file {self.path} does not contain a token on a single line")
        return Token(value=SecretStr(value), expires_s=expiry_of(value))

    def secrets(self) -> set[str]:
        """Return nothing: the path is not secret."""
        return set()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFunction:
    """A user's function, from a fixture."""

    function: Callable[[], object] = field(repr=False)

    def fetch(self) -> Token:
        """Call the function, which returns a token, or a token and its expiry in ms since 1970."""
        answer = detached(self.function)  # it may wait forever for a server
        if not wait([answer], _FUNCTION_TIMEOUT_S).done:
            raise ClusterError(f"{_FUNCTION} did not return within {_FUNCTION_TIMEOUT_S} s; set a timeout in it")
        try:
            given = answer.result()
        except ClusterError:  # of a cloud provider's tokens
            raise
        except Exception as error:  # noqa: BLE001 - the user's own
            raise ClusterError(f"{_FUNCTION} failed: {innermost(error)}") from None
        value, expires_ms = given if isinstance(given, tuple) and len(given) == 2 else (given, None)  # noqa: PLR2004 - a pair
        if isinstance(value, SecretStr):
            value = value.get_secret_value()
        if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable():
            kind = type(value).__name__
            raise ClusterError(
                f"{_FUNCTION} must return a token as text, or a pair of the token and its expiry in milliseconds since "
                f"1970, but returned {'invalid text' if kind == 'str' else kind}"
            )
        if expires_ms is None:
            return Token(value=SecretStr(value), expires_s=expiry_of(value))
        if not isinstance(expires_ms, int | float) or isinstance(expires_ms, bool):
            raise ClusterError(
                f"{_FUNCTION} must return the expiry in milliseconds since 1970, but returned {repr_of(expires_ms)}"
            )
        return Token(value=SecretStr(value), expires_s=expires_ms / 1000)

    def secrets(self) -> set[str]:
        """Return nothing: only the tokens are secret."""
        return set()

    def __reduce__(self) -> NoReturn:
        """Refuse to be sent to another process."""
        raise TypeError("token functions are not sent to other processes; send a token instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedToken:
    """A token that outlives every run, for brokers that the plugin starts."""

    value: SecretStr

    def fetch(self) -> Token:
        """Return the token."""
        return Token(value=self.value, expires_s=expiry_of(self.value.get_secret_value()))

    def secrets(self) -> set[str]:
        """Return the token."""
        return {self.value.get_secret_value()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedToken:
    """A file in which a worker process finds the main process's current token."""

    path: str

    def write(self, token: Token | None, problem: str | None) -> None:
        """Replace the token, or report the reason why there is none."""
        value = None if token is None else token.value.get_secret_value()
        write_token_file(Path(self.path), json.dumps({"token": value, "problem": problem}))

    def fetch(self) -> Token:
        """Read the token; it has no expiry, because the clock of another machine may differ."""
        try:
            found = json.loads(Path(self.path).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise ClusterError(f"the controlling process has not sent an access token: {error}") from None
        if found["token"] is None:
            raise ClusterError(found["problem"])
        return Token(value=SecretStr(found["token"]))

    def secrets(self) -> set[str]:
        """Return the token."""
        try:
            return {self.fetch().value.get_secret_value()}
        except ClusterError:
            return set()


def write_token_file(path: Path, content: str) -> None:
    """Write a file that only its owner can read. Readers find the old or the new content; threads may write it.

    Raises:
        OSError: for example, the disk is full; the old content remains.

    """
    unfinished = path.with_name(f"{path.name}.{threading.get_native_id()}.new")
    try:
        file = os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii")
        with file:
            file.write(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


class Tokens:
    """The current token of a source, which is fetched once and renewed before it expires. Threads may share it."""

    def __init__(self, source: TokenSource, *, clock: Callable[[], float] = time.time) -> None:
        """Fetch tokens from `source`; `clock` returns the Unix time in seconds."""
        self.source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._due_s = 0.0
        """Time of the next renewal (Unix time)."""
        self._seen: set[str] = set()
        self.problem: str | None = None
        """Reason why the current token could not be renewed when it was due; None if it was."""

    def current(self) -> Token:
        """Return a valid token; fetch it if there is none or if it is due for renewal.

        While one thread renews the token, which may take long, the others get the current one as long as it is valid.

        Raises:
            ClusterError: there is no token, or the token has expired and could not be renewed.

        """
        token = self._token
        if token is not None and self._lock.locked() and not self._has_expired(token):
            return token
        with self._lock:
            now_s = self._clock()
            if self._token is not None and now_s < self._due_s:
                return self._token
            try:
                token = self.source.fetch()
                _check_life(token, now_s)
            except ClusterError as error:
                now_s = self._clock()  # the source may have taken long
                if self._token is None or self._has_expired(self._token):
                    self._token = None
                    raise
                self.problem = str(error)
                self._due_s = min(now_s + _RETRY_S, self._token.expires_s or now_s + _RETRY_S)
                return self._token
            life_s = _UNKNOWN_LIFE_S if token.expires_s is None else token.expires_s - now_s
            self._token, self._due_s, self.problem = token, now_s + life_s * _RENEWAL_RATIO, None
            self._seen.add(token.value.get_secret_value())
            return token

    def _has_expired(self, token: Token) -> bool:
        return token.expires_s is not None and self._clock() >= token.expires_s

    def due_in_s(self) -> float:
        """Return the time until the token must be renewed."""
        return max(0.0, self._due_s - self._clock())

    def secrets(self) -> set[str]:
        """Return texts that must never be shown, including all tokens so far."""
        return self.source.secrets() | self._seen


def _check_life(token: Token, now_s: float) -> None:
    """Raise ClusterError if a new token has already expired according to this machine's clock."""
    if token.expires_s is not None and token.expires_s <= now_s:
        raise ClusterError(
            f"the new access token expired {now_s - token.expires_s:.0f} s ago, according to this machine's clock; "
            "check the clocks of this machine and of the server that issues the tokens"
        )


def expiry_of(value: str) -> float | None:
    """Return the expiry of a JSON Web Token; None if it is not one, or has no expiry."""
    expires_s = claims_of(value).get("exp")
    return float(expires_s) if isinstance(expires_s, int | float) else None


def claims_of(value: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token (RFC 7519) for messages, without verifying them; empty if it is not one."""
    part = value.split(".")[1] if value.count(".") == 2 else ""  # noqa: PLR2004 - header, claims, signature
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def describe(value: str) -> str:
    """Describe a rejected token by the claims that brokers check; empty if it is not a JSON Web Token."""
    claims = claims_of(value)
    parts = [f"{name} {claims[name]!r}" for name in ("iss", "aud", "sub", "scope") if name in claims]
    if (expires_s := expiry_of(value)) is not None:
        left_s = expires_s - time.time()
        parts.append(f"expires in {left_s:.0f} s" if left_s > 0 else f"expired {-left_s:.0f} s ago")
    issued_s = claims.get("iat")
    if isinstance(issued_s, int | float) and issued_s - time.time() > _SKEW_S:
        parts.append(f"issued {issued_s - time.time():.0f} s in the future, so the clocks differ")
    return printable(shortened(", ".join(parts), _MAX_REASON))


def token_source(url: str) -> TokenFile | None:
    """Return the token file for a `file:` URL; None for other URLs."""
    parts = urlsplit(url)
    return TokenFile(path=Path(parts.path)) if parts.scheme == "file" else None

"""Kerberos tickets, from a keytab or a ticket cache, and the messages of a login with them (package `gssapi`).

Each process reads the keytab or the ticket cache, and gets its own tickets, with the system's Kerberos library, which
reads krb5.conf. All functions may block for as long as a key distribution center (KDC) does not answer.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, shortened
from pytest_kafkaperf.core.text import printable

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")

KDC_TIMEOUT_S = 45
"""Time limit for all of a login's requests to KDCs. Kerberos gives up on a single KDC that does not answer after about
30 s, with a more precise error."""
NO_ANSWER = f"no answer from the Kerberos KDC in {KDC_TIMEOUT_S} s; check the realm's KDCs in krb5.conf"

_RENEWAL_RATIO = 0.6
"""Share of a ticket's life after which a new one is requested."""
_RETRY_S = 5
"""Pause after a failed renewal. The current ticket remains in use until it expires."""
_MAX_REASON = 500

_OFFER_BYTES = 4
"""Length of the broker's offer: a bit for each security layer, and the maximum size of a message."""
_NO_LAYER = 1
"""Bit of the absence of a security layer; Kafka relies on TLS instead."""

_NO_REASON = "Success"
"""Kerberos' text for an error whose only reason is the GSSAPI's."""

_caches = itertools.count()
"""Numbers of caches in memory, one for each ticket from a keytab."""


class Tickets:
    """The current credentials from a keytab, which are renewed before they expire. Threads may share them."""

    def __init__(self, fetch: Callable[[], tuple[Any, float]], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Get new credentials and their remaining life in seconds from `fetch`, which may block."""
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._expires_s = 0.0
        self._due_s = 0.0
        """Time of the next renewal."""
        self._renewal: concurrent.futures.Future[None] | None = None

    def current(self) -> Any:
        """Return valid credentials. Renew them in another thread, so that a slow KDC does not delay a login.

        Raises:
            ClusterError: there are no valid credentials.

        """
        with self._lock:
            now_s = self._clock()
            if self._credentials is None or now_s >= self._expires_s:
                self._credentials = None
                self._renew()
            elif now_s >= self._due_s and (self._renewal is None or self._renewal.done()):
                self._due_s = now_s + _RETRY_S  # in case this renewal fails
                self._renewal = detached(self._renew)
            return self._credentials

    def _renew(self) -> None:
        credentials, life_s = self._fetch()
        now_s = self._clock()
        self._expires_s, self._due_s = now_s + life_s, now_s + life_s * _RENEWAL_RATIO
        self._credentials = credentials


def library() -> ModuleType:
    """Import and return the package `gssapi`.

    Raises:
        ClusterError: it is not installed, or the system's Kerberos library is missing or is not MIT's.

    """
    try:
        import gssapi  # noqa: PLC0415 - an extra
        import gssapi.raw.ext_cred_store  # noqa: PLC0415 - MIT's
    except ImportError as error:
        why = "" if error.name == "gssapi" else f" ({error})"
        raise ClusterError(
            f"logging in with Kerberos (GSSAPI) requires gssapi for MIT Kerberos{why}; run: pip install "
            "'pytest-kafkaperf[kerberos]' (on Debian and Ubuntu, install gcc, libkrb5-dev and python3-dev first)"
        ) from None
    module: ModuleType = gssapi
    return module


def bounded(work: Callable[[], T]) -> T:
    """Return the result of a function that may wait for a KDC.

    Raises:
        ClusterError: there was no result in time.

    """
    try:
        return detached(work).result(KDC_TIMEOUT_S)
    except TimeoutError:
        raise ClusterError(NO_ANSWER) from None


def from_keytab(client: str, keytab: str) -> tuple[Any, float]:
    """Get a ticket with the client's key; return the credentials and their remaining life in seconds.

    Raises:
        ClusterError: there is no ticket; the message contains Kerberos' reason.

    """
    gssapi = library()
    try:
        Path(keytab).open("rb").close()
    except OSError as error:
        raise ClusterError(
            f"cannot read the keytab {keytab} on {socket.gethostname()}: {error.strerror}; it must be readable on this "
            "machine and, for a load on a Dask cluster, on each of its hosts"
        ) from None
    try:
        wanted = {
            "name": gssapi.Name(client, gssapi.NameType.kerberos_principal),
            "mechs": [gssapi.MechType.kerberos],
        }
        # Without this check, Kerberos would not mention the keytab if it does not contain this principal's key.
        gssapi.Credentials(**wanted, usage="accept", store={"keytab": f"FILE:{keytab}"})
        store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:kafkaperf-{os.getpid()}-{next(_caches)}"}
        credentials = gssapi.Credentials(**wanted, usage="initiate", store=store)
        life_s = credentials.lifetime
    except gssapi.exceptions.ExpiredCredentialsError:
        raise ClusterError(
            f"the new Kerberos ticket for {client!r} has already expired, according to this machine's clock; check the "
            "clocks of this machine and of the KDC"
        ) from None
    except gssapi.exceptions.GSSError as error:
        raise ClusterError(f"no Kerberos ticket for {client!r} with the keytab {keytab}: {_reason(error)}") from None
    return credentials, life_s


def from_cache(client: str | None, ticket_cache: str | None) -> Any:
    """Return the credentials in a ticket cache, which another program keeps up to date; None for the default cache.

    Raises:
        ClusterError: there is no valid ticket; the message contains Kerberos' reason.

    """
    gssapi = library()
    store = {} if ticket_cache is None else {"store": {"ccache": ticket_cache}}
    try:
        name = None if client is None else gssapi.Name(client, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(name=name, mechs=[gssapi.MechType.kerberos], usage="initiate", **store)
        _ = credentials.lifetime  # raises an error if the ticket has expired
    except gssapi.exceptions.GSSError as error:
        cache = "the default ticket cache" if ticket_cache is None else f"the ticket cache {ticket_cache}"
        raise ClusterError(
            f"no valid Kerberos ticket{'' if client is None else f' for {client!r}'} in {cache} on "
            f"{socket.gethostname()}: {_reason(error)}; run kinit there, or use a keytab, from which the plugin renews "
            "its tickets"
        ) from None
    return credentials


def login_messages(credentials: Callable[[], Any], service: str, host: str) -> Generator[bytes, bytes | None, None]:
    """Yield the client's messages to a broker (RFC 4752); the broker's answers are sent to the generator.

    Raises:
        ClusterError: the login failed; the message contains Kerberos' reason.

    """
    gssapi, own = library(), credentials()
    try:
        broker = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=broker, creds=own, mech=gssapi.MechType.kerberos, usage="initiate")
        answer = None
        while not context.complete:
            answer = yield context.step(answer) or b""
        offered = context.unwrap(answer or b"").message
        if len(offered) != _OFFER_BYTES or not offered[0] & _NO_LAYER:
            raise ClusterError(f"the broker {host} requires a SASL security layer, which Kafka's clients do not use")
        yield context.wrap(bytes([_NO_LAYER, 0, 0, 0]), encrypt=False).message  # as the user of the ticket
    except gssapi.exceptions.GSSError as error:
        raise ClusterError(
            f"cannot log in to the service {service!r} on {host} with Kerberos: {_reason(error)}"
        ) from None


def _reason(error: Any) -> str:
    """Return Kerberos' own reason for an error; only the thread in which it occurred knows it."""
    texts = [text for text in error.get_all_statuses(error.min_code, False) if text != _NO_REASON]
    texts = texts or error.get_all_statuses(error.maj_code, True)
    return printable(shortened("; ".join(texts), _MAX_REASON))

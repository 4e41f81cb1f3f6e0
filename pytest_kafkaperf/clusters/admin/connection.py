"""Connections to a cluster: plain clients, calls with a timeout, and the wait until every broker is ready.

A cluster is ready when metadata requests return every broker, not when a certain line appears in a log.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from typing import Any, Self, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, innermost
from pytest_kafkaperf.core.notices import Notice, Remark

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 2
"""Timeout for closing a client, whose broker may be gone. Nothing depends on the client anymore."""
_SOON_S = 3
"""Time to wait for a server or broker if others may answer."""
_MAX_NOTES = 5


class BoundedLoop(asyncio.SelectorEventLoop):
    """Event loop that can be closed while a host name is being resolved.

    asyncio resolves names in threads and joins them when a loop closes, so a slow DNS server would prolong every
    timeout.
    """

    async def getaddrinfo(self, *arguments: Any, **named: Any) -> Any:
        """Resolve a name in a thread that is never joined."""
        found = detached(functools.partial(socket.getaddrinfo, *arguments, **named))
        try:
            return await asyncio.wrap_future(found, loop=self)
        except UnicodeError as error:  # part of the name is empty or too long
            raise OSError(str(error)) from None


def call(work: Coroutine[Any, Any, T], what: str, servers: str, *, timeout_s: float) -> T:
    """Run requests to a cluster in a separate thread and event loop, because the caller may be running a loop.

    Raises:
        ClusterError: the request failed or exceeded the timeout; the message is `could not {what} on ...`.

    """
    started_s = time.monotonic()
    try:
        with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-call") as thread:
            return thread.submit(run, asyncio.wait_for(work, timeout_s)).result()
    except TimeoutError:
        reason = f"no answer in {time.monotonic() - started_s:.0f} s"
    except NotImplementedError as error:
        reason = f"its brokers are too old, or too new, for a request ({error})"
    except (KafkaError, OSError) as error:
        reason = str(error) or type(error).__name__
    raise ClusterError(f"could not {what} on {servers}: {reason}")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a separate event loop, and in another thread if the caller has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # With a loop factory, the runner does not affect the calling thread's event loop, which a test may have set.
        with asyncio.Runner(loop_factory=BoundedLoop) as runner:
            return runner.run(work)
    with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-call") as thread:
        return thread.submit(lambda: run(work)).result()


def address_of(broker: Any) -> str:
    """Return the address that a broker in a client's metadata advertises, as `HOST:PORT`."""
    return f"[{broker.host}]:{broker.port}" if ":" in broker.host else f"{broker.host}:{broker.port}"


_bootstrap = AIOKafkaClient.bootstrap


async def bootstrap(client: Any) -> None:
    """Connect a client to one of its servers, and wait longer for each only if none of them answers soon.

    A server that is paused or switched off does not refuse the connection, and the others could answer meanwhile.
    """
    patient_ms = client._request_timeout_ms  # noqa: SLF001 - it is also aiokafka's only timeout for connecting
    try:
        if len(client.hosts) > 1:
            client._request_timeout_ms = min(patient_ms, _SOON_S * 1000)  # noqa: SLF001
            with contextlib.suppress(KafkaConnectionError):
                await _bootstrap(client)
                return
    finally:
        client._request_timeout_ms = patient_ms  # noqa: SLF001
    began_s = time.monotonic()
    await _bootstrap(client)
    client.connects_slowly = time.monotonic() - began_s > _SOON_S


def soon(client: Any) -> asyncio.Timeout:
    """Return a time limit for a broker's answer if another broker could answer instead.

    There is none if the client needed longer to connect in the first place, for example because of a slow login.
    """
    could_others = len(client.cluster.brokers()) > 1 and not getattr(client, "connects_slowly", False)
    return asyncio.timeout(_SOON_S if could_others else None)


@contextlib.asynccontextmanager
async def connected(bootstrap_servers: str, access: Access) -> AsyncIterator[Any]:
    """Connect a plain client for single requests."""
    await asyncio.wrap_future(detached(access.log_in))
    client = AIOKafkaClient(**{**access.arguments(), "bootstrap_servers": bootstrap_servers})
    try:
        await bootstrap(client)
        yield client
    finally:
        await close(client)


async def close(client: Any) -> None:
    """Close one of aiokafka's clients; give up after a timeout.

    A consumer cancels its tasks and awaits them, so closing it may itself end as if it had been canceled. This must not
    cancel the caller, and its connections must be closed as well.
    """
    for each in filter(None, (client, getattr(client, "_client", None))):
        closing = asyncio.ensure_future((each.close if hasattr(each, "close") else each.stop)())
        try:
            await asyncio.wait([closing], timeout=_CLOSE_TIMEOUT_S)
        finally:
            closing.cancel()
        if closing.done() and not closing.cancelled():
            with contextlib.suppress(KafkaError, OSError):
                closing.result()
            return


_LOGGERS = [logging.getLogger(name) for name in ("aiokafka", "asyncio")]
_propagated: dict[logging.Logger, bool] = {}
"""Each logger's `propagate` setting before the first of the open `Notes`."""
_switching = threading.Lock()


class Notes(logging.Handler):
    """Collector of aiokafka's warnings and its tasks' errors, which would otherwise appear in the user's terminal."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._texts: dict[str, str] = {}
        """Each text, with its template from the library's code and the error, if any, that ended a task."""
        self.causes: list[Exception] = []
        """Errors that aiokafka logged."""

    def __enter__(self) -> Self:
        with _switching:
            for logger in _LOGGERS:
                _propagated.setdefault(logger, logger.propagate)
                logger.addHandler(self)
                logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        with _switching:
            for logger in _LOGGERS:
                logger.removeHandler(self)
                if not any(isinstance(each, Notes) for each in logger.handlers):
                    logger.propagate = _propagated.pop(logger)

    def emit(self, record: logging.LogRecord) -> None:
        """Store the first line and, if a task ended with an error, that error."""
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        causes = [value for value in record.args or () if isinstance(value, Exception)]
        error += "".join(f" ({innermost(each)})" for each in causes if each.__cause__)  # such as a TLS alert
        self.causes += causes
        if len(self._texts) < _MAX_NOTES:
            template = str(record.msg).strip().partition("\n")[0]
            ended = type(record.exc_info[1]).__name__ if record.exc_info else ""
            self._texts[record.getMessage().strip().partition("\n")[0] + error] = f"{template} {ended}".rstrip()

    def clear(self) -> None:
        """Discard warnings about connecting to brokers and joining a group, which are normal during startup."""
        self._texts.clear()
        self.causes.clear()

    def texts(self) -> list[str]:
        """Return each warning once."""
        return list(self._texts)

    def notices(self, library: str) -> list[Notice]:
        """Return each warning once, as a warning from this library."""
        return [
            Notice(Remark.CLIENT_WARNING, {"library": library, "message": text, "template": template})
            for text, template in self._texts.items()
        ]


_ANSWER_TIMEOUT_S = 3
"""Minimum timeout for one connection or one request."""
_ANSWER_RATIO = 0.2
"""Timeout for one connection or request to an external cluster, as a share of the whole wait."""
_START_PAUSE_S = 0.05
"""Pause between attempts to connect to brokers that are starting on this machine."""
_EXTERNAL_PAUSE_S = 0.5
"""Pause between attempts to connect to external clusters."""
_MIN_ATTEMPT_S = 1
"""Minimum time for the last attempt; ensures that it fails with a reason rather than because of the timeout."""
_REFUSALS = (SaslAuthenticationFailed, UnsupportedSaslMechanismError, ssl.SSLCertVerificationError)
"""Errors from a cluster that is running but that this client cannot use with its access settings."""


class NotReadyError(ClusterError):
    """A cluster was not ready in time."""

    def __init__(self, text: str, causes: Collection[Exception]) -> None:
        """Store the text; `causes` are the errors from the last connection attempt."""
        super().__init__(text)
        self.login_refused = any(isinstance(cause, _REFUSALS[:2]) for cause in causes)
        self.certificate = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
        """Error for a rejected certificate, if any."""


def wait_ready(
    servers: str,
    *,
    brokers: int,
    timeout_s: float,
    check: Callable[[], None] = lambda: None,
    cluster_id: str | None = None,
    access: Access | None = None,
) -> int:
    """Wait until every broker of a starting cluster is registered and accepts connections; return their number.

    Args:
        servers: `HOST:PORT[,HOST:PORT...]`.
        brokers: minimum number of brokers.
        timeout_s: timeout for the entire wait.
        check: called before each attempt; raises if waiting is pointless.
        cluster_id: the expected cluster id; another cluster at this address counts as not ready.
        access: access settings; None for plaintext.

    Raises:
        NotReadyError: the cluster was not ready in time; the message contains the servers and the last reason.

    """
    attempts = _Attempts(servers, access or Access(), timeout_s=timeout_s, answer_s=_ANSWER_TIMEOUT_S)
    with Notes() as notes:
        while True:
            check()
            try:
                return attempts.once(brokers, cluster_id)
            except _NotReady as error:
                if attempts.left_s <= 0:
                    raise attempts.failed(_reason(error, notes), tuple(notes.causes)) from None
            notes.clear()
            time.sleep(_START_PAUSE_S)


def wait_reachable(servers: str, access: Access, *, brokers: int, timeout_s: float) -> int:
    """Wait until every broker of an external cluster accepts connections; return their number.

    The cluster may be far away. It is already running, so a refused connection is final.

    Raises:
        NotReadyError: the cluster was not ready in time, or refused the client; the message contains the servers and
            the last reason.

    """
    answer_s = max(_ANSWER_TIMEOUT_S, timeout_s * _ANSWER_RATIO)
    attempts = _Attempts(servers, access, timeout_s=timeout_s, answer_s=answer_s)
    with Notes() as notes:
        while True:
            try:
                return attempts.once(brokers, None)
            except _NotReady as error:
                reason = _reason(error, notes)
                causes = tuple(notes.causes)
                is_refused = any(isinstance(cause, _REFUSALS) for cause in causes)
                if isinstance(error, _NoConnection) and not is_refused:
                    other = run(_other_protocol(servers, access.protocol, min(answer_s, attempts.attempt_s)))
                    if other is not None:
                        is_refused = True
                        reason = other
                if is_refused or attempts.left_s <= 0:
                    raise attempts.failed(reason, causes, is_refused=is_refused) from None
            notes.clear()
            time.sleep(_EXTERNAL_PAUSE_S)


class _Attempts:
    """Attempts to connect to every broker until a timeout."""

    def __init__(self, servers: str, access: Access, *, timeout_s: float, answer_s: float) -> None:
        """Set `answer_s`, the timeout for one connection or one request."""
        self._servers = servers
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s
        self._client_config = access.arguments() | {
            "bootstrap_servers": servers,
            "request_timeout_ms": round(answer_s * 1000),
        }

    @property
    def left_s(self) -> float:
        """Time left until the timeout."""
        return self._deadline_s - time.monotonic()

    @property
    def attempt_s(self) -> float:
        """Time for one more attempt."""
        return max(self.left_s, _MIN_ATTEMPT_S)

    def once(self, brokers: int, cluster_id: str | None) -> int:
        """Return the number of brokers; raise `_NotReady` if not all accept connections."""
        return run(_attempt(brokers, cluster_id, self._client_config, self.attempt_s))

    def failed(self, reason: str, causes: Collection[Exception], *, is_refused: bool = False) -> NotReadyError:
        """Return the error for the entire wait."""
        when = "" if is_refused else f" after {self._timeout_s:g} s"
        return NotReadyError(f"{self._servers} is not ready{when}: {reason}", causes)


def _reason(error: Exception, notes: Notes) -> str:
    # aiokafka's text ends with a colon if the error does not have a message.
    warnings = [f"{text} no answer" if text.endswith(":") else text for text in notes.texts()]
    return "; ".join([str(error), *warnings])


class _NotReady(Exception):  # noqa: N818 - a result; becomes a ClusterError after the timeout
    """Reason why an attempt did not find a ready cluster."""


class _NoConnection(_NotReady):
    """No server in the list accepted the client."""


async def _attempt(brokers: int, cluster_id: str | None, config: Mapping[str, Any], timeout_s: float) -> int:
    client = AIOKafkaClient(**config)
    try:
        async with asyncio.timeout(timeout_s):
            await client.bootstrap()
            seen = await _connect_to_each(client.cluster.brokers(), config)
            node = client.get_random_node()
            seen_id = None if cluster_id is None else (await client.send(node, MetadataRequest([]))).cluster_id
    except TimeoutError:
        raise _NotReady("no answer") from None
    except KafkaConnectionError:
        raise _NoConnection("no connection") from None  # aiokafka's warnings contain the address and the reason
    except (KafkaError, OSError) as error:
        raise _NotReady(str(error) or type(error).__name__) from None
    finally:
        await close(client)
    if seen_id != cluster_id:
        raise _NotReady(f"this address belongs to another cluster ({seen_id})")
    if seen < brokers:
        raise _NotReady(f"only {seen} of the {brokers} brokers in kafka_cluster(brokers={brokers}) are up")
    return seen


async def _connect_to_each(brokers: Collection[Any], config: Mapping[str, Any]) -> int:
    """Connect to all brokers concurrently and return their number; ignore brokers that register in the meantime.

    The most common configuration error is an advertised address that clients cannot reach.
    """
    if not brokers:
        raise _NotReady("no broker is registered yet")
    reached = await asyncio.gather(*(_is_reachable(broker, config) for broker in brokers))
    if not all(reached):
        broker = next(each for each, found in zip(brokers, reached, strict=True) if not found)
        raise _NotReady(
            f"broker {broker.nodeId} advertises {broker.host}:{broker.port}, which cannot be reached "
            "from here; its advertised.listeners must contain an address that clients can reach"
        )
    return len(brokers)


async def _is_reachable(broker: Any, config: Mapping[str, Any]) -> bool:
    """Return True if the broker answers. Each broker gets a separate client, as a client connects to one at a time."""
    client = AIOKafkaClient(**{**config, "bootstrap_servers": address_of(broker)})
    try:
        await client.bootstrap()
    except KafkaConnectionError:
        return False
    finally:
        await close(client)
    return True


async def _other_protocol(servers: str, wanted: str, timeout_s: float) -> str | None:
    """Describe the first server whose listener uses a different protocol from the client's; None if there is none."""
    hosts = collect_hosts(servers, randomize=False)
    found = await asyncio.gather(*(_protocol(host, port, timeout_s) for host, port, _ in hosts))
    for (host, port, _), protocol in zip(hosts, found, strict=True):
        if protocol not in (None, wanted):
            return f"the listener at {host}:{port} uses {protocol}, but the client uses {wanted}"
    return None


async def _protocol(host: str, port: int, timeout_s: float) -> str | None:
    """Return a listener's protocol; None if the listener does not answer.

    The reply to a login with a nonexistent mechanism shows whether the listener expects a login.
    """
    context = ssl.create_default_context()
    context.check_hostname = False  # nothing secret is sent
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for transport, with_login in (("SSL", "SASL_SSL"), ("PLAINTEXT", "SASL_PLAINTEXT")):
                with contextlib.suppress(KafkaError, OSError):
                    connection = await create_conn(host, port, security_protocol=transport, ssl_context=context)
                    try:
                        answer = await connection.send(SaslHandShakeRequest("none"))
                    finally:
                        await connection.close()
                    return with_login if answer.error_code == UnsupportedSaslMechanismError.errno else transport
    return None

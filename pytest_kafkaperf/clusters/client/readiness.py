"""Waits until a cluster is ready, by metadata requests that see every broker, not by lines in a log."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NoError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf.clusters.client.connection import BoundedLoop, Notes, close
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.access import Access

_ANSWER_TIMEOUT_S = 3
"""Timeout of one connection and of one request."""
_MIN_ATTEMPT_S = 1
"""Minimum time for the last attempt, so that it ends with a reason instead of the timeout."""
_REFUSALS = frozenset({SaslAuthenticationFailed, UnsupportedSaslMechanismError, ssl.SSLCertVerificationError})
"""Errors of a cluster that is up and that this client cannot use with its access settings."""


class NotReadyError(ClusterError):
    """A cluster that was not ready in time."""

    def __init__(self, text: str, causes: Collection[type]) -> None:
        """Keep the text; `causes` are the types of the errors that the last attempt to connect met."""
        super().__init__(text)
        self.login_refused = SaslAuthenticationFailed in causes
        self.certificate_refused = ssl.SSLCertVerificationError in causes


def wait_ready(
    servers: str,
    *,
    brokers: int,
    timeout_s: float,
    pause_s: float,
    check: Callable[[], None] = lambda: None,
    cluster_id: str | None = None,
    access: Access | None = None,
    fail_fast: bool = False,
) -> int:
    """Wait until every broker is registered and accepts connections; returns their number.

    Args:
        servers: `HOST:PORT[,HOST:PORT...]`.
        brokers: minimum number of brokers.
        timeout_s: timeout of the whole wait.
        pause_s: pause between attempts.
        check: called before each attempt; raises if waiting is pointless.
        cluster_id: the expected cluster; another one at this address counts as not ready.
        access: access settings; None: plaintext.
        fail_fast: raise at once if the cluster refuses this client; brokers that are starting may do so for a while.

    Raises:
        NotReadyError: not ready in time, or refused; has the servers and the last reason.

    """
    deadline = time.monotonic() + timeout_s
    client_config = {} if access is None else access.arguments()
    # With a loop factory, the runner leaves the calling thread's own event loop alone, if a test has set one.
    with Notes() as notes, asyncio.Runner(loop_factory=BoundedLoop) as runner:
        while True:
            check()
            left_s = max(deadline - time.monotonic(), _MIN_ATTEMPT_S)
            try:
                return runner.run(_attempt(servers, brokers, cluster_id, client_config, left_s))
            except _NotReady as error:
                # aiokafka's text ends with a colon if the error after it has no text.
                warnings = [f"{text} no answer" if text.endswith(":") else text for text in notes.texts()]
                reason, causes = "; ".join([str(error), *warnings]), frozenset(notes.causes)
                refused = fail_fast and bool(causes & _REFUSALS)
                if fail_fast and not refused and isinstance(error, _NoConnection):
                    protocol = "PLAINTEXT" if access is None else access.protocol
                    other = runner.run(_other_protocol(servers, protocol))
                    refused, reason = other is not None, other or reason
                if refused or time.monotonic() >= deadline:
                    when = "" if refused else f" after {timeout_s:g} s"
                    raise NotReadyError(f"{servers} is not ready{when}: {reason}", causes) from None
            notes.clear()
            time.sleep(pause_s)


class _NotReady(Exception):  # noqa: N818 - a result; becomes a ClusterError after the timeout
    """The reason why an attempt did not find a ready cluster."""


class _NoConnection(_NotReady):
    """No server of the list accepted the client."""


async def _attempt(
    servers: str, brokers: int, cluster_id: str | None, client_config: Mapping[str, Any], timeout_s: float
) -> int:
    config = {**client_config, "bootstrap_servers": servers, "request_timeout_ms": _ANSWER_TIMEOUT_S * 1000}
    client = AIOKafkaClient(**config)
    try:
        async with asyncio.timeout(timeout_s):
            await client.bootstrap()
            seen = await _connect_to_each(client)
            node = next(iter(client.cluster.brokers())).nodeId
            seen_id = (await client.send(node, MetadataRequest([]))).cluster_id
    except TimeoutError:
        raise _NotReady("no answer") from None
    except KafkaConnectionError:
        raise _NoConnection("no connection") from None  # aiokafka's warnings have the address and the reason
    except (KafkaError, OSError) as error:
        raise _NotReady(str(error) or type(error).__name__) from None
    finally:
        await close(client)
    if cluster_id is not None and seen_id != cluster_id:
        raise _NotReady(f"another cluster ({seen_id}) has this address")
    if seen < brokers:
        raise _NotReady(f"{seen} of {brokers} brokers are up")
    return seen


async def _connect_to_each(client: Any) -> int:
    """Connect to each broker and return their number; brokers that register meanwhile are not tried.

    A broker that advertises an address which clients cannot reach is the most common configuration error.
    """
    if not client.cluster.brokers():
        raise _NotReady("no broker is registered yet")
    for broker in client.cluster.brokers():
        if not await client.ready(broker.nodeId):
            raise _NotReady(
                f"broker {broker.nodeId} advertises {broker.host}:{broker.port}, which cannot be reached "
                "from here; its advertised.listeners must name an address that clients can reach"
            )
    return len(client.cluster.brokers())


async def _other_protocol(servers: str, wanted: str) -> str | None:
    """Describe the first server whose listener has another protocol than the client; None if there is none."""
    for host, port, _ in collect_hosts(servers, randomize=False):
        found = await _protocol(host, port)
        if found not in (None, wanted):
            return f"the listener at {host}:{port} is a {found} one, and the client uses {wanted}"
    return None


async def _protocol(host: str, port: int) -> str | None:
    """Return the protocol of a listener; None if it does not answer.

    The answer to a login by a mechanism that does not exist shows whether the listener expects a login.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing secret is sent
    for transport, logged_in in (("SSL", "SASL_SSL"), ("PLAINTEXT", "SASL_PLAINTEXT")):
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                connection = await create_conn(host, port, security_protocol=transport, ssl_context=context)
                try:
                    answer = await connection.send(SaslHandShakeRequest("none"))
                finally:
                    connection.close()
        except (TimeoutError, KafkaError, OSError):
            continue
        expects_login = for_code(answer.error_code) in (NoError, UnsupportedSaslMechanismError)
        return logged_in if expects_login else transport
    return None

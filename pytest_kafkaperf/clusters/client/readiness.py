"""Waits until a cluster is ready, by metadata requests that see every broker, not by lines in a log."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.admin import SaslHandShakeRequest
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import Notes, call, close, connected, run
from pytest_kafkaperf.core.errors import ClusterError

_ANSWER_TIMEOUT_S = 3
"""Minimum timeout of one connection and of one request."""
_ANSWER_RATIO = 0.2
"""The same timeout for external clusters, as a share of the whole wait."""
_MIN_ATTEMPT_S = 1
"""Minimum time for the last attempt, so that it ends with a reason instead of the timeout."""
_REFUSALS = (SaslAuthenticationFailed, UnsupportedSaslMechanismError, ssl.SSLCertVerificationError)
"""Errors of a cluster that is up and that this client cannot use with its access settings."""


class NotReadyError(ClusterError):
    """A cluster that was not ready in time."""

    def __init__(self, text: str, causes: Collection[Exception]) -> None:
        """Keep the text; `causes` are the errors that the last attempt to connect met."""
        super().__init__(text)
        self.login_refused = any(isinstance(cause, _REFUSALS[:2]) for cause in causes)
        self.certificate = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
        """The error of a certificate that was refused, if any."""


def wait_ready(
    servers: str,
    *,
    brokers: int,
    timeout_s: float,
    pause_s: float,
    check: Callable[[], None] = lambda: None,
    cluster_id: str | None = None,
    access: Access | None = None,
    external: bool = False,
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
        external: others run the cluster: it may be far away, and it is not about to start, so that a refusal is final.

    Raises:
        NotReadyError: not ready in time, or refused; has the servers and the last reason.

    """
    deadline = time.monotonic() + timeout_s
    answer_s = max(_ANSWER_TIMEOUT_S, timeout_s * _ANSWER_RATIO) if external else _ANSWER_TIMEOUT_S
    access = access or Access()
    client_config = access.arguments() | {"bootstrap_servers": servers, "request_timeout_ms": round(answer_s * 1000)}
    with Notes() as notes:
        while True:
            check()
            left_s = max(deadline - time.monotonic(), _MIN_ATTEMPT_S)
            try:
                return run(_attempt(brokers, cluster_id, client_config, left_s))
            except _NotReady as error:
                # aiokafka's text ends with a colon if the error after it has no text.
                warnings = [f"{text} no answer" if text.endswith(":") else text for text in notes.texts()]
                reason, causes = "; ".join([str(error), *warnings]), tuple(notes.causes)
                refused = external and any(isinstance(cause, _REFUSALS) for cause in causes)
                if external and not refused and isinstance(error, _NoConnection):
                    left_s = max(deadline - time.monotonic(), _MIN_ATTEMPT_S)
                    other = run(_other_protocol(servers, access.protocol, min(answer_s, left_s)))
                    refused, reason = other is not None, other or reason
                if refused or time.monotonic() >= deadline:
                    when = "" if refused else f" after {timeout_s:g} s"
                    raise NotReadyError(f"{servers} is not ready{when}: {reason}", causes) from None
            notes.clear()
            time.sleep(pause_s)


def read_cluster_id(servers: str, access: Access, *, timeout_s: float) -> str | None:
    """Return the id that Kafka gave the cluster; None if it has none, as before Kafka 0.10.1.

    Raises:
        ClusterError: it did not answer in time.

    """

    async def ask() -> str | None:
        async with connected(servers, access) as client:
            answer = await client.send(client.get_random_node(), MetadataRequest([]))
        cluster_id: str | None = getattr(answer, "cluster_id", None)
        return cluster_id

    return call(ask(), "read the cluster id", servers, timeout_s=timeout_s)


class _NotReady(Exception):  # noqa: N818 - a result; becomes a ClusterError after the timeout
    """The reason why an attempt did not find a ready cluster."""


class _NoConnection(_NotReady):
    """No server of the list accepted the client."""


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
        raise _NoConnection("no connection") from None  # aiokafka's warnings have the address and the reason
    except (KafkaError, OSError) as error:
        raise _NotReady(str(error) or type(error).__name__) from None
    finally:
        await close(client)
    if seen_id != cluster_id:
        raise _NotReady(f"another cluster ({seen_id}) has this address")
    if seen < brokers:
        raise _NotReady(f"{seen} of the {brokers} brokers are up that kafka_cluster(brokers={brokers}) asks for")
    return seen


async def _connect_to_each(brokers: Collection[Any], config: Mapping[str, Any]) -> int:
    """Connect to all brokers concurrently and return their number; brokers that register meanwhile are not tried.

    A broker that advertises an address which clients cannot reach is the most common configuration error.
    """
    if not brokers:
        raise _NotReady("no broker is registered yet")
    reached = await asyncio.gather(*(_is_reachable(broker, config) for broker in brokers))
    if not all(reached):
        broker = next(each for each, found in zip(brokers, reached, strict=True) if not found)
        raise _NotReady(
            f"broker {broker.nodeId} advertises {broker.host}:{broker.port}, which cannot be reached "
            "from here; its advertised.listeners must name an address that clients can reach"
        )
    return len(brokers)


async def _is_reachable(broker: Any, config: Mapping[str, Any]) -> bool:
    """Return True if the broker answers; each has a client of its own, as one client connects to one at a time."""
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    client = AIOKafkaClient(**{**config, "bootstrap_servers": f"{host}:{broker.port}"})
    try:
        await client.bootstrap()
    except KafkaConnectionError:
        return False
    finally:
        await close(client)
    return True


async def _other_protocol(servers: str, wanted: str, timeout_s: float) -> str | None:
    """Describe the first server whose listener has another protocol than the client; None if there is none."""
    hosts = collect_hosts(servers, randomize=False)
    found = await asyncio.gather(*(_protocol(host, port, timeout_s) for host, port, _ in hosts))
    for (host, port, _), protocol in zip(hosts, found, strict=True):
        if protocol not in (None, wanted):
            return f"the listener at {host}:{port} is a {protocol} one, and the client uses {wanted}"
    return None


async def _protocol(host: str, port: int, timeout_s: float) -> str | None:
    """Return the protocol of a listener; None if it does not answer.

    The answer to a login by a mechanism that does not exist shows whether the listener expects a login.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing secret is sent
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

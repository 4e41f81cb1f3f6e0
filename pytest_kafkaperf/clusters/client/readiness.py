"""The wait for a cluster: bounded metadata requests that see every broker, never a line in a log."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailed
from aiokafka.protocol.metadata import MetadataRequest

from pytest_kafkaperf.clusters.client.connection import Notes, close
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.access import Access

_ANSWER_TIMEOUT_S = 3
"""Bound of one connection and of one request."""
_MIN_LOOK_S = 1
"""What the last look gets, so that it ends with a reason rather than with the time."""


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
    still_possible: Callable[[], None] = lambda: None,
    cluster_id: str | None = None,
    access: Access | None = None,
) -> int:
    """Wait until every broker is seen and takes connections; gives how many.

    Args:
        servers: `HOST:PORT[,HOST:PORT...]`.
        brokers: how many to see, at least.
        timeout_s: bound of the whole wait.
        pause_s: between looks.
        still_possible: called between looks; raises where waiting has become pointless.
        cluster_id: the cluster to see; another one that answers is not ready, it is the wrong one.
        access: how to get in; None: plaintext.

    Raises:
        NotReadyError: not ready in time; names the servers, what was seen last, and the bound.

    """
    deadline = time.monotonic() + timeout_s
    client_config = {} if access is None else access.arguments()
    # With a factory the runner leaves the calling thread's own event loop, if a test has set one, alone.
    with Notes() as notes, asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        while True:
            still_possible()
            left_s = max(deadline - time.monotonic(), _MIN_LOOK_S)
            try:
                return runner.run(_look(servers, brokers, cluster_id, client_config, left_s))
            except _NotReady as error:
                if time.monotonic() >= deadline:
                    # aiokafka ends a text with a colon where the error behind it has none.
                    said = [f"{text} no answer" if text.endswith(":") else text for text in notes.texts()]
                    reason = "; ".join([str(error), *said])
                    text = f"{servers} is not ready after {timeout_s:g} s: {reason}"
                    raise NotReadyError(text, notes.causes) from None
            notes.clear()
            time.sleep(pause_s)


class _NotReady(Exception):  # noqa: N818 - an answer, told again as a ClusterError when the time is up
    """Not ready at this look, and why."""


async def _look(
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
        raise _NotReady("no connection") from None  # aiokafka's warnings tell which and why
    except (KafkaError, OSError) as error:
        raise _NotReady(str(error) or type(error).__name__) from None
    finally:
        await close(client)
    if cluster_id is not None and seen_id != cluster_id:
        raise _NotReady(f"another cluster ({seen_id}) answers there")
    if seen < brokers:
        raise _NotReady(f"{seen} of {brokers} brokers are there")
    return seen


async def _connect_to_each(client: Any) -> int:
    """How many brokers take connections; those that a later answer names were not tried.

    Brokers that advertise an address which clients cannot reach are the most common mistake of all.
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

"""Whether a cluster is ready: a bounded metadata request that sees every broker, never a line in a log."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_kafkaperf.access import Access

_ANSWER_TIMEOUT_S = 3
"""Bound of one connection and of one request."""
_MIN_LOOK_S = 1
"""What the last look gets, so that it ends with a reason rather than with the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a cluster tells about itself."""

    cluster_id: str
    brokers: int
    features: Mapping[str, int]
    """Features that the broker supports, each with its highest level; empty where it does not tell."""


def wait_ready(
    servers: str,
    *,
    brokers: int,
    timeout_s: float,
    pause_s: float,
    still_possible: Callable[[], None] = lambda: None,
    cluster_id: str | None = None,
    access: Access | None = None,
) -> Sight:
    """Look until every broker is seen and takes connections.

    Args:
        servers: `HOST:PORT[,HOST:PORT...]`.
        brokers: how many to see, at least.
        timeout_s: bound of the whole wait.
        pause_s: between looks.
        still_possible: called between looks; raises where waiting has become pointless.
        cluster_id: the cluster to see; another one that answers is not ready, it is the wrong one.
        access: how to get in; None: plaintext.

    Raises:
        ClusterError: not ready in time; names the servers, what was seen last, and the bound.

    """
    deadline = time.monotonic() + timeout_s
    client_config = {} if access is None else access.arguments()
    # With a factory the runner leaves the calling thread's own event loop, if a test has set one, alone.
    with _complaints() as complaints, asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        while True:
            still_possible()
            left_s = max(deadline - time.monotonic(), _MIN_LOOK_S)
            try:
                return runner.run(_look(servers, brokers, cluster_id, client_config, left_s))
            except _NotReady as error:
                if time.monotonic() >= deadline:
                    reason = "; ".join([str(error), *complaints])
                    raise ClusterError(f"{servers} is not ready after {timeout_s:g} s: {reason}") from None
            complaints.clear()
            time.sleep(pause_s)


class _NotReady(Exception):  # noqa: N818 - an answer, told again as a ClusterError when the time is up
    """Not ready at this look, and why."""


async def _look(
    servers: str, brokers: int, cluster_id: str | None, client_config: Mapping[str, Any], timeout_s: float
) -> Sight:
    from aiokafka.errors import KafkaConnectionError, KafkaError  # noqa: PLC0415 - loads late: not every run needs it

    from pytest_kafkaperf.load.kafka import AIOKafkaClient, close  # noqa: PLC0415 - aiokafka again

    config = {**client_config, "bootstrap_servers": servers, "request_timeout_ms": _ANSWER_TIMEOUT_S * 1000}
    client = AIOKafkaClient(**config)
    try:
        async with asyncio.timeout(timeout_s):
            await client.bootstrap()
            sight = await _see(client, brokers=await _connect_to_each(client))
    except TimeoutError:
        raise _NotReady("no answer") from None
    except KafkaConnectionError:
        raise _NotReady("no connection") from None  # aiokafka's complaints tell which and why
    except (KafkaError, OSError) as error:
        raise _NotReady(str(error) or type(error).__name__) from None
    finally:
        await close(client)
    if cluster_id is not None and sight.cluster_id != cluster_id:
        raise _NotReady(f"another cluster ({sight.cluster_id}) answers there")
    if sight.brokers < brokers:
        raise _NotReady(f"{sight.brokers} of {brokers} brokers are there")
    return sight


async def _see(client: Any, *, brokers: int) -> Sight:
    from pytest_kafkaperf.load.features import supported  # noqa: PLC0415 - aiokafka again
    from pytest_kafkaperf.load.kafka import metadata  # noqa: PLC0415

    node = next(iter(client.cluster.brokers())).nodeId
    answer = await client.send(node, metadata.MetadataRequest([]))
    return Sight(
        cluster_id=answer.cluster_id,
        brokers=brokers,
        features=await supported(client, node),
    )


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


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect aiokafka's complaints about a cluster that is not up yet, out of the user's terminal."""
    log = logging.getLogger("aiokafka")
    messages: list[str] = []
    propagate, handler = log.propagate, _Collector(messages)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield messages
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage().strip()
        self._messages.append(f"{message} no answer" if message.endswith(":") else message)

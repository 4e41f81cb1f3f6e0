"""Connections to a cluster: a plain client, calls with a timeout, and aiokafka's warnings."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol import metadata

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.core.errors import ClusterError, innermost

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 2
"""Timeout for closing a client: its broker may be gone, and nothing depends on it any more."""
_MAX_NOTES = 5


class BoundedLoop(asyncio.SelectorEventLoop):
    """An event loop that closes while the look-up of a host name is under way.

    asyncio looks names up in threads that it joins at its end, so that a slow DNS server makes every timeout longer.
    """

    async def getaddrinfo(self, *arguments: Any, **named: Any) -> Any:
        """Look a name up in a thread that nothing joins."""
        found: concurrent.futures.Future[Any] = concurrent.futures.Future()
        found.set_running_or_notify_cancel()  # from here on it cannot be cancelled, and always takes its result

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(*arguments, **named))
            except OSError as error:
                found.set_exception(error)
            except UnicodeError as error:  # an empty or a too long part of the name
                found.set_exception(OSError(str(error)))

        threading.Thread(target=look_up, daemon=True).start()
        return await asyncio.wrap_future(found, loop=self)


def call(work: Coroutine[Any, Any, T], what: str, servers: str, *, timeout_s: float) -> T:
    """Run requests to a cluster in a thread and event loop of its own, as the caller may have a running loop.

    Raises:
        ClusterError: it took longer than the timeout, or failed; `what` says what could not be done.

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
    """Run a coroutine in an event loop of its own; in another thread if the caller has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # With a loop factory, the runner leaves the calling thread's own event loop alone, if a test has set one.
        with asyncio.Runner(loop_factory=BoundedLoop) as runner:
            return runner.run(work)
    with concurrent.futures.ThreadPoolExecutor(1, "kafkaperf-call") as thread:
        return thread.submit(lambda: run(work)).result()


ask_for_topics = functools.partial(metadata.MetadataRequest, allow_auto_topic_creation=False)
"""A metadata request that does not create the topics it asks for."""


@contextlib.asynccontextmanager
async def connected(bootstrap_servers: str, access: Access) -> AsyncIterator[Any]:
    """Connect a plain client, for single requests."""
    client = AIOKafkaClient(**{**access.arguments(), "bootstrap_servers": bootstrap_servers})
    try:
        await client.bootstrap()
        yield client
    finally:
        await close(client)


async def close(client: Any) -> None:
    """Close any of aiokafka's clients; give up after a timeout."""
    with contextlib.suppress(KafkaError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await (client.close if hasattr(client, "close") else client.stop)()


_LOGGERS = [logging.getLogger(name) for name in ("aiokafka", "asyncio")]
_propagated: dict[logging.Logger, bool] = {}
"""The setting of each logger from before the first of the `Notes` that are open."""
_switching = threading.Lock()


class Notes(logging.Handler):
    """Collects warnings of aiokafka and errors of its tasks, instead of showing them in the user's terminal."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._texts: dict[str, None] = {}
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
        """Keep the first line, and the error that ended a task if there is one."""
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        causes = [value for value in record.args or () if isinstance(value, Exception)]
        error += "".join(f" ({innermost(each)})" for each in causes if each.__cause__)  # such as an alert of TLS
        self.causes += causes
        if len(self._texts) < _MAX_NOTES:
            self._texts[record.getMessage().strip().partition("\n")[0] + error] = None

    def clear(self) -> None:
        """Forget warnings from connecting and from joining a group, which are normal at a start."""
        self._texts.clear()
        self.causes.clear()

    def texts(self) -> list[str]:
        """Return each warning once."""
        return list(self._texts)

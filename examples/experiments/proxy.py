"""A TCP proxy in front of each broker, which delays all data in the same way as a longer network path.

Brokers send the addresses of all brokers to their clients. To keep clients behind the proxies, each address in a
response is replaced with the address of its proxy. Both addresses are ports on this machine, encoded in four bytes, so
the length of a response does not change. The replacement works only without encryption.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import re
from collections.abc import Iterator

TIMEOUT_S = 10
CHUNK = 1 << 18
HOST = "127.0.0.1"


@contextlib.contextmanager
def far(bootstrap_servers: str, *, delay_s: float) -> Iterator[str]:
    """Start proxies for these brokers in a separate process, and yield their addresses."""
    ports = [int(server.rpartition(":")[2]) for server in bootstrap_servers.split(",")]
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(ports, delay_s, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(TIMEOUT_S):
            raise TimeoutError(f"the proxies did not start within {TIMEOUT_S} s")
        yield ",".join(f"{HOST}:{port}" for port in ours.recv())
    finally:
        process.kill()
        process.join(TIMEOUT_S)


def _serve(ports: list[int], delay_s: float, pipe) -> None:
    asyncio.run(_Proxies(ports, delay_s).run(pipe))


class _Proxies:
    """Proxies that forward requests in arbitrary pieces, but responses as a whole, so that no address is split."""

    def __init__(self, ports: list[int], delay_s: float) -> None:
        self._targets = ports
        self._delay_s = delay_s
        self._moved: dict[bytes, bytes] = {}
        """Addresses of brokers and their proxies, encoded as in responses: the host name, and four bytes of port."""

    async def run(self, pipe) -> None:
        servers = [await asyncio.start_server(self._relay(port), HOST) for port in self._targets]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        for target, port in zip(self._targets, ports, strict=True):
            self._moved[_address(target)] = _address(port)
        self._address = re.compile(b"|".join(map(re.escape, self._moved)))
        pipe.send(ports)
        await asyncio.Event().wait()

    def _relay(self, target: int):
        async def relay(reader, writer) -> None:
            broker_reader, broker_writer = await asyncio.open_connection(HOST, target, limit=CHUNK)
            ways = self._pass(_pieces(reader), broker_writer), self._pass(self._answers(broker_reader), writer)
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in (writer, broker_writer):
                each.close()
            for task in tasks:
                task.cancel()

        return relay

    async def _pass(self, pieces, writer) -> None:
        """Forward each piece after the delay."""
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue = asyncio.Queue()

        async def leave() -> None:
            while True:
                due_s, piece = await on_the_way.get()
                await asyncio.sleep(due_s - loop.time())
                writer.write(piece)
                await writer.drain()

        leaving = asyncio.ensure_future(leave())
        try:
            async for piece in pieces:
                on_the_way.put_nowait((loop.time() + self._delay_s, piece))
        finally:
            leaving.cancel()

    async def _answers(self, reader):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(4)
                answer = await reader.readexactly(int.from_bytes(head, "big"))
                yield head + self._address.sub(lambda found: self._moved[found[0]], answer)


async def _pieces(reader):
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(CHUNK):
            yield piece


def _address(port: int) -> bytes:
    return HOST.encode() + port.to_bytes(4, "big")

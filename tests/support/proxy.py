"""A broker behind a TCP proxy: what clients send is delayed, held or cut off, and the broker can be restarted.

    with proxied_broker() as broker:
        broker.proxy.delay(0.005)
        ...  # load on broker.proxied; broker.direct is the same broker without the proxy

Brokers tell their clients where to connect, so a proxy needs a listener of its own: the broker has a second one that
is advertised at the proxy's address. Whoever bootstraps through the proxy stays behind it.

The proxy is a process of its own, this file run as a script, so that no interpreter lock of a client delays it. It
takes commands as lines of JSON and does only what the tests need: one target, a delay one way.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import javaproperties

from pytest_kafkaperf.clusters.admin.connection import wait_ready
from pytest_kafkaperf.clusters.brokers import distribution, java, local_brokers
from pytest_kafkaperf.clusters.brokers.config import Security
from pytest_kafkaperf.clusters.brokers.local_brokers import Process
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES, run_folder
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.versions import VERSION

HOST = "127.0.0.1"

_ANSWER_TIMEOUT_S = 300
"""Bound of starting the proxy, of one command, and of its end."""
_READY_TIMEOUT_S = 300

_NS_PER_S = 1_000_000_000
_CHUNK_BYTES = 1 << 18
_HELD_BYTES = 8 << 20
"""Bound of what is held in one direction of a connection; past it the proxy reads no more."""
_SPIN_NS = 300_000
"""The proxy waits awake for the last of a delay: a machine that sleeps comes back up to this late."""
_SPIN_CHUNKS = 2
"""But only where no more than this is held: at high load it would take the core from those who are measured."""
_CONNECT_TIMEOUT_S = 1
_END = memoryview(b"")
_PRODUCE = 0
"""Kafka's API key (https://kafka.apache.org/protocol#protocol_api_keys)."""


class Proxy:
    """The test's end of the proxy."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port: int = self._answer()["port"]

    def delay(self, seconds: float) -> None:
        """Let each chunk from clients arrive this much later, in order; answers are not delayed.

        A delay and not a pause: what follows is not held up, so throughput is not limited by it.
        """
        self._tell(do="delay", seconds=seconds)

    def stall(self, seconds: float, *, after_s: float = 0.0) -> int:
        """Let nothing from clients pass for a while; it passes at once after that. Answers pass.

        Returns the instant at which it begins, in ns of the monotonic clock.
        """
        begin_ns = time.monotonic_ns() + round(after_s * _NS_PER_S)
        self._tell(do="stall", begin_ns=begin_ns, end_ns=begin_ns + round(seconds * _NS_PER_S))
        return begin_ns

    def cut(self) -> None:
        """Close all connections, with what is on its way in them."""
        self._tell(do="cut")

    def swallow(self, answers: int) -> None:
        """Close a connection in place of answering, as often as this, whenever a produce request has been handled.

        What the request brought stands in the log, and its client cannot know.
        """
        self._tell(do="swallow", answers=answers)

    @property
    def swallowed(self) -> int:
        """How many produce requests were handled and not answered so far."""
        count: int = self._tell(do="nothing")["swallowed"]
        return count

    @property
    def most_unanswered(self) -> int:
        """How many produce requests of one connection were unanswered at once, at most, since `recount`."""
        count: int = self._tell(do="nothing")["most_unanswered"]
        return count

    def recount(self) -> None:
        """Forget how many produce requests were unanswered at once."""
        self._tell(do="recount")

    def _tell(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """One line for each command: none is left in the buffer that `select` does not see."""
        stdout = self._process.stdout
        assert stdout is not None
        assert select.select([stdout], [], [], _ANSWER_TIMEOUT_S)[0], f"no answer within {_ANSWER_TIMEOUT_S} s"
        line = stdout.readline()
        assert line, "the proxy has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Run a proxy to a local port; it ends with the block, or with this process."""
    command = [sys.executable, "-P", __file__, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:  # out of the reach of Ctrl-C, which the test may send on purpose
        try:
            yield Proxy(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_ANSWER_TIMEOUT_S)
            finally:
                process.kill()


class ProxiedBroker:
    """A broker that can be stopped and started again, on the same ports and with the same data."""

    def __init__(self, proxy: Proxy, port: int, process: Process) -> None:
        self.proxy = proxy
        self.direct = _as_external(port)
        """The broker itself."""
        self.proxied = _as_external(proxy.port)
        """The same broker through the proxy."""
        self._process = process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.remove()

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self._process.start()
        wait_ready(
            self.direct.bootstrap_servers,
            brokers=1,
            timeout_s=_READY_TIMEOUT_S,
            check=self._process.check,
        )

    def restart(self, *, kill: bool) -> None:
        """Stop it, in order or at once, and start it."""
        self._process.stop(kill=kill)
        self.start()


@contextmanager
def proxied_broker(**config: str) -> Iterator[ProxiedBroker]:
    """Start a broker behind a proxy; nothing of them is left.

    The plugin's own way to start a broker, with one listener more: `ClusterSpec` refuses listeners, which are the
    provider's. The clusters are external ones, so that a broker which is gone for a while is not taken for lost.
    """
    cache = distribution.cache_folder()
    runtime = java.find()
    kafka = distribution.installed(VERSION, java=runtime, cache=cache)
    (behind,) = local_brokers.free_ports(1)
    with run_folder(cache / "runs") as folder, proxy_to(behind) as proxy:
        spec = ClusterSpec(config=config)
        plan = local_brokers.Layout(
            spec=spec, runtime=runtime, kafka=kafka, security=Security.make(None, []), agent=None, folder=folder
        ).plan()
        (process,) = plan.servers.values()
        assert isinstance(process, Process)
        _add_listener(folder / "broker-1" / PROPERTIES, port=behind, advertised=proxy.port)
        with ProxiedBroker(proxy, int(plan.bootstrap_servers.rpartition(":")[2]), process) as started:
            yield started


def _add_listener(properties: Path, *, port: int, advertised: int) -> None:
    values = javaproperties.loads(properties.read_text(encoding="latin-1"))
    values["listeners"] += f",PROXIED://{HOST}:{port}"
    values["advertised.listeners"] += f",PROXIED://{HOST}:{advertised}"
    values["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
    properties.write_text(javaproperties.dumps(values), encoding="latin-1")


def _as_external(port: int) -> Cluster:
    return Cluster(bootstrap_servers=f"{HOST}:{port}", brokers=1, provider="external", version=VERSION)


# What follows runs in the proxy's own process.


class _Frames:
    """Where the messages in a stream begin: each is its length in four bytes, and then as many bytes."""

    def __init__(self, head_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._head = b""
        self._skip_bytes = 0

    def starts(self, chunk: memoryview) -> Iterator[tuple[int, bytes]]:
        """The messages whose heads are complete with this chunk: where each begins in it, and its head."""
        at = 0
        while at < len(chunk):
            if self._skip_bytes:
                step = min(self._skip_bytes, len(chunk) - at)
                self._skip_bytes -= step
                at += step
                continue
            begin = at - len(self._head)
            self._head += chunk[at : begin + self._head_bytes]
            at = begin + len(self._head)
            if len(self._head) == self._head_bytes:
                head, self._head = self._head, b""
                self._skip_bytes = max(0, 4 + int.from_bytes(head[:4]) - self._head_bytes)
                yield max(0, begin), head


@dataclass(slots=True, eq=False)
class _Flow:
    """One direction of a connection."""

    source: socket.socket
    sink: socket.socket
    frames: _Frames
    held: collections.deque[tuple[int, memoryview]] = field(default_factory=collections.deque)
    """When each chunk may pass (ns), and its bytes; no bytes stand for the end."""
    held_bytes: int = 0
    blocked: bool = False
    """The sink takes no more for now."""
    ended: bool = False
    """The source gives no more."""

    @property
    def reads(self) -> bool:
        return not self.ended and self.held_bytes < _HELD_BYTES

    @property
    def waits(self) -> bool:
        return bool(self.held) and not self.blocked

    def receive(self) -> memoryview:
        """What the source has; nothing when it has ended."""
        try:
            return memoryview(self.source.recv(_CHUNK_BYTES))
        except OSError:
            return _END

    def hold(self, chunk: memoryview, due_ns: int) -> None:
        self.held.append((due_ns, chunk))
        self.held_bytes += len(chunk)
        self.ended = not chunk

    def send(self) -> None:
        """Send of the next chunk what the sink takes.

        Raises:
            OSError: it takes nothing any more, or this is the end.

        """
        due_ns, chunk = self.held.popleft()
        if not chunk:
            raise ConnectionAbortedError
        try:
            count = self.sink.send(chunk)
        except BlockingIOError:
            count = 0
        self.held_bytes -= count
        self.blocked = count < len(chunk)
        if self.blocked:
            self.held.appendleft((due_ns, chunk[count:]))


class _Connection:
    """A client's connection, and the proxy's own to the broker."""

    def __init__(self, client: socket.socket, target: socket.socket) -> None:
        for each in (client, target):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Of a request: length, API key, API version, correlation id. Of an answer: length, correlation id.
        self.requests = _Flow(client, target, _Frames(12))
        self.answers = _Flow(target, client, _Frames(8))
        self.unanswered_id: int | None = None
        """Correlation id of the request whose answer is not to pass."""
        self.unanswered: set[int] = set()
        """Correlation ids of the produce requests whose answers have not come."""

    def close(self) -> None:
        self.requests.source.close()
        self.requests.sink.close()


class _Relay:
    """The proxy: one thread that waits for bytes, commands and due times."""

    def __init__(self, listener: socket.socket, target_port: int) -> None:
        self._listener = listener
        self._target_port = target_port
        self._connections: list[_Connection] = []
        self._delay_ns = 0
        self._stall_ns = range(0)
        self._swallow = 0
        self._swallowed = 0
        self._most_unanswered = 0

    def run(self) -> None:
        """Relay until the commands end."""
        while True:
            requests = {connection.requests.source: connection for connection in self._connections}
            answers = {connection.answers.source: connection for connection in self._connections}
            reading = [flow.source for flow in self._flows() if flow.reads]
            writing = {flow.sink: flow for flow in self._flows() if flow.blocked}
            readable, writable, _ = select.select(
                [*reading, self._listener, sys.stdin], [*writing], [], self._pause_s()
            )
            for sink in writable:
                writing[sink].blocked = False
            for source in readable:
                if source in requests:
                    self._receive_requests(requests[source])
                elif source in answers:
                    self._receive_answers(answers[source])
                elif source is self._listener:
                    self._accept()
                elif not self._obey():
                    return
            self._forward()

    def _flows(self) -> Iterator[_Flow]:
        for connection in self._connections:
            yield connection.requests
            yield connection.answers

    def _pause_s(self) -> float | None:
        """Until something may pass; None when nothing is held."""
        now_ns = time.monotonic_ns()
        opening = [self._opens_ns(each.requests, now_ns) for each in self._connections if each.requests.waits]
        opening += [now_ns for each in self._connections if each.answers.waits]
        if not opening:
            return None
        left_ns = min(opening) - now_ns
        if sum(len(flow.held) for flow in self._flows()) <= _SPIN_CHUNKS:
            left_ns -= _SPIN_NS
        return max(0, left_ns) / _NS_PER_S

    def _opens_ns(self, requests: _Flow, now_ns: int) -> int:
        """When the next chunk may pass."""
        opens_ns = max(requests.held[0][0], now_ns)
        return self._stall_ns.stop if opens_ns in self._stall_ns else opens_ns

    def _receive_requests(self, connection: _Connection) -> None:
        due_ns = time.monotonic_ns() + self._delay_ns
        chunk = connection.requests.receive()
        for _, head in connection.requests.frames.starts(chunk):
            if int.from_bytes(head[4:6]) != _PRODUCE:
                continue
            connection.unanswered.add(int.from_bytes(head[8:12]))
            self._most_unanswered = max(self._most_unanswered, len(connection.unanswered))
            if self._swallow and connection.unanswered_id is None:
                self._swallow -= 1
                connection.unanswered_id = int.from_bytes(head[8:12])
        connection.requests.hold(chunk, due_ns)

    def _receive_answers(self, connection: _Connection) -> None:
        chunk = connection.answers.receive()
        for begin, head in connection.answers.frames.starts(chunk):
            connection.unanswered.discard(int.from_bytes(head[4:]))
            if int.from_bytes(head[4:]) == connection.unanswered_id:
                self._swallowed += 1
                connection.answers.hold(chunk[:begin], 0)
                chunk = _END
                break
        connection.answers.hold(chunk, 0)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            target = socket.create_connection((HOST, self._target_port), _CONNECT_TIMEOUT_S)
        except OSError:
            client.close()
            return
        self._connections.append(_Connection(client, target))

    def _obey(self) -> bool:
        """Do what the next line says; False when there is none any more."""
        line = sys.stdin.readline()
        if not line:
            return False
        match json.loads(line):
            case {"do": "delay", "seconds": seconds}:
                self._delay_ns = round(seconds * _NS_PER_S)
            case {"do": "stall", "begin_ns": begin_ns, "end_ns": end_ns}:
                self._stall_ns = range(begin_ns, end_ns)
            case {"do": "swallow", "answers": answers}:
                self._swallow = answers
            case {"do": "recount"}:
                self._most_unanswered = 0
            case {"do": "cut"}:
                while self._connections:
                    self._connections.pop().close()
        _say(swallowed=self._swallowed, most_unanswered=self._most_unanswered)
        return True

    def _forward(self) -> None:
        """Pass on what may pass now."""
        for connection in list(self._connections):
            try:
                self._send_requests(connection.requests)
                while connection.answers.waits:
                    connection.answers.send()
            except OSError:
                connection.close()
                self._connections.remove(connection)

    def _send_requests(self, requests: _Flow) -> None:
        while requests.waits:
            now_ns = time.monotonic_ns()
            if self._opens_ns(requests, now_ns) > now_ns:
                return
            requests.send()


def _serve(target_port: int) -> None:
    gc.disable()  # nothing here makes cycles, and a collection would be a delay
    with contextlib.suppress(AttributeError, OSError):  # where the system has it and lets us
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    with socket.create_server((HOST, 0)) as listener:
        _say(port=listener.getsockname()[1])
        _Relay(listener, target_port).run()


def _say(**answer: int) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))

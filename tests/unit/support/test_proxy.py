"""The proxy adds what it says and nothing else: what is measured through it is measured by it."""

from __future__ import annotations

import contextlib
import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.patience import PATIENCE_S
from tests.support.proxy import HOST, Proxy, proxy_to

PRODUCE = 0
FETCH = 1


def request(api_key: int, correlation_id: int, size_bytes: int = 100) -> bytes:
    """As a broker would read it, as far as the proxy does."""
    body = struct.pack(">hhi", api_key, 3, correlation_id).ljust(size_bytes, b".")
    return struct.pack(">i", len(body)) + body


def answer_to(request_body: bytes) -> bytes:
    """The same bytes again, behind the correlation id."""
    body = request_body[4:8] + request_body
    return struct.pack(">i", len(body)) + body


def receive(stream: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes and (chunk := stream.recv(size_bytes - len(received))):
        received += chunk
    return received


def message(stream: socket.socket) -> bytes:
    """The next message's body; none when the stream has ended."""
    head = receive(stream, 4)
    return receive(stream, int.from_bytes(head)) if head else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A client's connection to a server that answers each request, through the proxy."""

    proxy: Proxy
    client: socket.socket
    arrivals: list[tuple[int, int]]
    """When each request reached the server, and its correlation id."""

    def connect(self) -> socket.socket:
        return _connect(self.proxy.port)

    def ask(self, correlation_id: int, api_key: int = FETCH) -> int:
        """How long one answer takes (ns)."""
        began_ns = time.monotonic_ns()
        self.client.sendall(request(api_key, correlation_id))
        assert message(self.client)[:4] == correlation_id.to_bytes(4)
        return time.monotonic_ns() - began_ns

    def median_s(self, count: int = 10) -> float:
        return statistics.median(self.ask(number) for number in range(count)) / 1e9


def _connect(port: int) -> socket.socket:
    client = socket.create_connection((HOST, port), PATIENCE_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


@contextmanager
def _server(arrivals: list[tuple[int, int]]) -> Iterator[int]:
    def serve(stream: socket.socket) -> None:
        with stream, contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while body := message(stream):
                arrivals.append((time.monotonic_ns(), int.from_bytes(body[4:8])))
                stream.sendall(answer_to(body))

    def accept(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def arrivals() -> list[tuple[int, int]]:
    """Requests that have reached the server."""
    return []


@pytest.fixture(scope="module")
def proxy(arrivals: list[tuple[int, int]]) -> Iterator[Proxy]:
    """A proxy to the server."""
    with _server(arrivals) as port, proxy_to(port) as started:
        yield started


@pytest.fixture
def way(proxy: Proxy, arrivals: list[tuple[int, int]]) -> Iterator[Way]:
    """A new connection through a proxy without delay."""
    proxy.delay(0)
    arrivals.clear()
    with _connect(proxy.port) as client:
        yield Way(proxy=proxy, client=client, arrivals=arrivals)
    proxy.cut()


@pytest.mark.speed
@pytest.mark.parametrize("delay_s", [0.01, 0.03])
def test_a_delay_is_added_once(way: Way, delay_s: float) -> None:
    """By the median of pairs that alternate, as a busy machine is slow to both."""
    rises_s = []
    for _ in range(3):
        way.proxy.delay(0)
        without_s = way.median_s()
        way.proxy.delay(delay_s)
        rises_s.append(way.median_s() - without_s)

    assert statistics.median(rises_s) == pytest.approx(delay_s, abs=0.004)  # to 0.3 ms on an idle machine


def test_a_delay_keeps_order_and_does_not_limit_throughput(way: Way) -> None:
    """A pause between requests would: 50 requests do not take 50 times as long as one."""
    way.proxy.delay(0.2)
    began_ns = time.monotonic_ns()
    for number in range(50):
        way.client.sendall(request(FETCH, number))
        time.sleep(0.0002)
    answers = [message(way.client)[:4] for _ in range(50)]

    assert answers == [number.to_bytes(4) for number in range(50)]
    assert [number for _, number in way.arrivals] == list(range(50))
    assert way.arrivals[0][0] - began_ns >= 200_000_000
    assert time.monotonic_ns() - began_ns < 50 * 200_000_000


def test_answers_are_not_delayed(way: Way) -> None:
    """One way only: the rise is the delay, not twice of it."""
    way.proxy.delay(2)
    way.ask(1)
    answered_ns = time.monotonic_ns()

    (arrived_ns, _), *_ = way.arrivals
    assert answered_ns - arrived_ns < 2_000_000_000


def test_large_messages_pass_whole(way: Way) -> None:
    """In many chunks, past what sockets buffer, and past the bound of what is held."""
    way.proxy.delay(0.01)
    sent = request(PRODUCE, 7, size_bytes=16 << 20)
    sender = threading.Thread(target=way.client.sendall, args=(sent,))
    sender.start()
    body = message(way.client)
    sender.join(PATIENCE_S)

    assert body[4:] == sent[4:]


@pytest.mark.speed
def test_a_stall_holds_what_clients_send_until_its_end(way: Way) -> None:
    """At a known time, and all of it goes on then."""
    way.ask(0)
    begin_ns = way.proxy.stall(0.2, after_s=0.1)
    way.ask(1)
    time.sleep(max(0, begin_ns + 20_000_000 - time.monotonic_ns()) / 1e9)
    way.client.sendall(request(FETCH, 2))
    time.sleep(0.1)
    way.client.sendall(request(FETCH, 3))
    assert [message(way.client)[:4] for _ in range(2)] == [number.to_bytes(4) for number in (2, 3)]

    before_ns, second_ns, third_ns = (arrived_ns for arrived_ns, number in way.arrivals if number)
    assert before_ns < begin_ns
    assert begin_ns + 200_000_000 <= second_ns <= third_ns < begin_ns + 1_000_000_000
    assert way.ask(4) < 200_000_000


def test_a_cut_closes_every_connection_and_new_ones_pass(way: Way) -> None:
    """As a broker that goes away does."""
    way.ask(0)
    with way.connect() as other:
        other.sendall(request(FETCH, 1))
        assert message(other)
        way.proxy.cut()
        assert [message(way.client), message(other)] == [b"", b""]
    with way.connect() as again:
        again.sendall(request(FETCH, 2))
        assert message(again)


def test_a_swallowed_answer_is_to_a_produce_request_that_was_handled(way: Way) -> None:
    """What came before it is answered, the connection ends in its place, and the next one is as always."""
    swallowed = way.proxy.swallowed
    way.proxy.swallow(1)
    for number, api_key in enumerate([FETCH, FETCH, PRODUCE]):
        way.client.sendall(request(api_key, number))
    assert [message(way.client)[:4] for _ in range(3)] == [(0).to_bytes(4), (1).to_bytes(4), b""]
    assert way.proxy.swallowed == swallowed + 1
    with way.connect() as again:
        again.sendall(request(PRODUCE, 3))
        assert message(again)

    assert [number for _, number in way.arrivals] == [0, 1, 2, 3]
    assert way.proxy.swallowed == swallowed + 1


def test_unanswered_produce_requests_are_counted_by_connection(way: Way) -> None:
    """At their most, whatever else is asked meanwhile."""
    way.proxy.delay(0.01)
    way.proxy.recount()
    for numbers in ([0, 1, 2], [3, 4]):
        requests = [request(FETCH, 9), *(request(PRODUCE, number) for number in numbers)]
        way.client.sendall(b"".join(requests))
        assert [message(way.client)[:4] for _ in requests][1:] == [number.to_bytes(4) for number in numbers]
    with way.connect() as other:
        other.sendall(request(PRODUCE, 0))
        assert message(other)
    assert way.proxy.most_unanswered == 3
    way.proxy.recount()
    assert way.proxy.most_unanswered == 0


def test_a_message_in_small_pieces_is_recognised(way: Way) -> None:
    """TCP promises bytes, not messages."""
    way.proxy.swallow(1)
    for byte in request(FETCH, 1) + request(PRODUCE, 2):
        way.client.sendall(bytes([byte]))
        time.sleep(0.0005)

    assert [message(way.client)[:4] for _ in range(2)] == [(1).to_bytes(4), b""]
    assert [number for _, number in way.arrivals] == [1, 2]


def test_a_client_of_a_target_that_is_gone_sees_its_connection_end() -> None:
    """While a broker restarts."""
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        with proxy_to(nobody.getsockname()[1]) as proxy, _connect(proxy.port) as client:
            assert message(client) == b""

"""The machine's Docker daemon at another address, as if it ran on another machine."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator

SOCKET = "/var/run/docker.sock"
HOST = "127.0.0.2"
"""A loopback address that nothing treats as this machine, and at which ports are reached that are published there."""
_CHUNK_BYTES = 65_536
_JOIN_TIMEOUT_S = 10


class _Forward(socketserver.BaseRequestHandler):
    """Passes a connection on to the daemon's socket."""

    def handle(self) -> None:
        """Pass on until both sides have ended."""
        with socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(SOCKET)
            back = threading.Thread(target=_copy, args=(daemon, self.request), daemon=True)
            back.start()
            _copy(self.request, daemon)
            back.join(_JOIN_TIMEOUT_S)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextlib.contextmanager
def daemon_elsewhere() -> Iterator[str]:
    """Forward a port of the other address to the daemon, and give the value of DOCKER_HOST."""
    with _Server((HOST, 0), _Forward) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"tcp://{HOST}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(_JOIN_TIMEOUT_S)

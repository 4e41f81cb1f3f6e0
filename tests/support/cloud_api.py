"""A provider's API on loopback: it keeps what it was asked, and answers what a test wants."""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.patience import PATIENCE_S


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """With names in lower case."""
    form: dict[str, str]


@dataclass
class CloudApi:
    """What an API was asked."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextlib.contextmanager
def cloud_api(answer: Callable[[Asked], tuple[int, str] | None]) -> Iterator[CloudApi]:
    """Run an API on a free port; where `answer` gives None, it stays silent until the end."""
    api = CloudApi()
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(
                parts.path, dict(urllib.parse.parse_qsl(parts.query)), headers, dict(urllib.parse.parse_qsl(body))
            )
            api.asked.append(asked)
            given = answer(asked)
            if given is None:
                ended.wait(PATIENCE_S)
                return
            status, text = given
            self.send_response(status)
            self.send_header("Content-Type", "text/xml" if text.startswith("<") else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join(5)

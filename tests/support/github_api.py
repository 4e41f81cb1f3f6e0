"""A fake GitHub API on loopback, as far as the example workflows need it: pull requests, comments and labels."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_kafkaperf.clusters.brokers.certificates import certificates

REPOSITORY = "team/orders"
BOT = "github-actions[bot]"
_PREFIX = f"/api/v3/repos/{REPOSITORY}/"
_PAGE = 2
"""Comments on a page, so that a few of them make several."""


@dataclass(kw_only=True)
class GitHub:
    """The state of a repository."""

    pulls: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """Requests that changed something, such as `POST issues/7/comments`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables with which `gh` talks to it."""

    def add_pull(self, number: int, *, branch: str, sha: str = "", owner: str = "team") -> None:
        """Open a pull request."""
        self.pulls.append({"number": number, "head": {"label": f"{owner}:{branch}", "ref": branch, "sha": sha}})

    def add_comment(self, body: str, *, by: str = BOT) -> None:
        """Write a comment."""
        self.comments.append({"id": 1000 + len(self.comments), "body": body, "user": {"login": by}})

    def answer(self, method: str, path: str, query: Mapping[str, str], given: Any) -> Any:
        """Answer a request; the path is that within the repository."""
        if method != "GET":
            self.changes.append(f"{method} {path}")
        match method, path.split("/"):
            case "GET", ["pulls"]:
                return [each for each in self.pulls if each["head"]["label"] == query["head"]]
            case "POST", ["pulls"]:
                self.add_pull(len(self.pulls) + 1, branch=given["head"])
                return self.pulls[-1]
            case "DELETE", ["issues", _, "labels", name]:
                self.labels.remove(name)
                return []
            case "GET", ["issues", _, "comments"]:
                first = (int(query.get("page", 1)) - 1) * _PAGE
                return self.comments[first : first + _PAGE]
            case "POST", ["issues", _, "comments"]:
                self.add_comment(given["body"])
                return self.comments[-1]
            case "PATCH", ["issues", "comments", number]:
                (found,) = (each for each in self.comments if each["id"] == int(number))
                return found | {"body": found.update(given) or found["body"]}
        raise AssertionError(f"{method} {path}")


@contextlib.contextmanager
def github(folder: Path) -> Iterator[GitHub]:
    """Serve an empty repository; `folder` is for the certificate."""
    state = GitHub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(asked.query))
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = urllib.parse.unquote(asked.path).removeprefix(_PREFIX)
            try:
                answer = state.answer(self.command, path, query, json.loads(content) if content else None)
            except (AssertionError, KeyError, ValueError):
                self.send_error(422)
                return
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if path.endswith("/comments") and self.command == "GET" and len(answer) == _PAGE:
                page = int(query.get("page", 1)) + 1
                link = f"https://{state.environment['GH_HOST']}{asked.path}?page={page}"
                self.send_header("Link", f'<{link}>; rel="next"')
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            pass

    made = certificates(["localhost"])
    (folder / "authority.pem").write_text(made.authority, encoding="ascii")
    pair = folder / "server.pem"
    pair.write_text(f"{made.key.get_secret_value()}\n{made.certificate}", encoding="ascii")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        state.environment = {
            "GH_HOST": f"localhost:{server.server_port}",
            "GH_ENTERPRISE_TOKEN": "token",
            "GH_CONFIG_DIR": str(folder / "gh"),
            "SSL_CERT_FILE": str(folder / "authority.pem"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_REPOSITORY_OWNER": "team",
            "PATH": os.environ["PATH"],
        }
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join(timeout=10)

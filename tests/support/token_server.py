"""A token server on loopback (OAuth 2.0, client credentials), with Authlib's implementation of the server's side."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

CLIENT_ID = "perf"
CLIENT_SECRET = 'wind"mill of the\\north'  # noqa: S105 - of nobody
ISSUER = AUDIENCE = "pytest-kafkaperf"
"""As brokers that the plugin starts expect them."""


@dataclass(frozen=True)
class _Client(ClientMixin):  # type: ignore[misc]
    secret: str

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return (method, endpoint) == ("client_secret_basic", "token")

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"

    def get_allowed_scope(self, scope: str) -> str:
        return scope


class _Server(AuthorizationServer):  # type: ignore[misc]
    """Authlib's server, without a web framework."""

    def query_client(self, client_id: str) -> _Client | None:
        return _Client(CLIENT_SECRET) if client_id == CLIENT_ID else None

    def save_token(self, token: Any, request: Any) -> None: ...

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None: ...

    def create_oauth2_request(self, request: Any) -> OAuth2Request:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> tuple[int, Any]:
        del headers
        return status, body


@dataclass
class TokenServer:
    """What a token server knows, and what it was asked."""

    life_s: int = 3600
    audience: str = AUDIENCE
    skew_s: int = 0
    """By how much the server's clock is ahead."""
    is_down: bool = False
    """Whether it answers as a gateway does whose server is down."""
    issued: list[str] = field(default_factory=list)
    scopes: list[str | None] = field(default_factory=list)
    key: ECKey = field(
        default_factory=lambda: ECKey.generate_key("P-256", {"kid": ISSUER, "use": "sig", "alg": "ES256"})
    )
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def keys(self) -> str:
        """What brokers need to verify its tokens."""
        return json.dumps(KeySet([self.key]).as_dict(private=False))

    def token(self, life_s: int | None = None) -> str:
        """Sign a token."""
        now_s = int(time.time()) + self.skew_s
        life_s = self.life_s if life_s is None else life_s
        claims = {"iss": ISSUER, "aud": self.audience, "sub": CLIENT_ID, "iat": now_s, "exp": now_s + life_s}
        return jwt.encode({"alg": "ES256", "kid": ISSUER}, claims, self.key, algorithms=["ES256"])

    def issue(self, scope: str | None = None, **_: object) -> dict[str, Any]:
        token = self.token()
        self.issued.append(token)
        self.scopes.append(scope)
        return {"access_token": token, "token_type": "Bearer", "expires_in": self.life_s}


@contextlib.contextmanager
def token_server(**settings: Any) -> Iterator[TokenServer]:
    """Run a token server on a free port."""
    known = TokenServer(**settings)
    oauth = _Server()
    oauth.register_grant(ClientCredentialsGrant)
    oauth.register_token_generator("default", known.issue)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            request = OAuth2Request("POST", "https://127.0.0.1/token", headers=dict(self.headers))
            request.payload = BasicOAuth2Payload(form)
            if known.is_down:
                self._answer(503, "down for maintenance")
            else:
                status, body = oauth.create_token_response(request)
                self._answer(status, json.dumps(body))

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

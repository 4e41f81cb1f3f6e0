"""Access tokens: where they come from, when they are renewed, and what is said if there is none."""

from __future__ import annotations

import errno
import pickle
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access import tokens
from pytest_kafkaperf.clusters.access.tokens import (
    ClientCredentials,
    FixedToken,
    PushedToken,
    Token,
    TokenFile,
    TokenFunction,
    Tokens,
    claims_of,
    describe,
    expiry_of,
    write_token_file,
)
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.silent import silent_server
from tests.support.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, token_server


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with token_server() as running:
        yield running


@dataclass
class Clock:
    """A clock that a test sets."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


def credentials(server: TokenServer, **changes: Any) -> ClientCredentials:
    secret = SecretStr(changes.pop("secret", CLIENT_SECRET))
    given: dict[str, Any] = {"endpoint": server.url, "client_id": CLIENT_ID, "client_secret": secret}
    return ClientCredentials(**given | changes)


def test_client_credentials_give_a_token_until_its_expiry(server: TokenServer) -> None:
    """The endpoint's `expires_in` counts, not the claims, because it does not depend on the endpoint's clock."""
    server.skew_s = -1000
    token = credentials(server, scope="kafka orders").fetch()
    assert [token.value.get_secret_value()] == server.issued
    assert server.scopes == ["kafka orders"]
    assert token.expires_s == pytest.approx(time.time() + server.life_s, abs=5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"secret": "wrong-secret"}, "refused the client 'perf': invalid_client"),
        ({"client_id": "nobody"}, "refused the client 'nobody': invalid_client: The client does not exist"),
        ({}, "did not return a token: 503 Server Error"),
        (
            {"secret": "50% off"},
            "; if the endpoint expects URL-encoded credentials, set 'sasl.oauthbearer.header.urlencode' to true",
        ),
        ({"endpoint": "http://127.0.0.1:1/token"}, "cannot be reached: ConnectionRefusedError"),
    ],
)
def test_a_token_that_cannot_be_had_is_explained_by_the_endpoint(
    server: TokenServer, changes: dict[str, Any], reason: str
) -> None:
    """Only the endpoint knows why, and the text must not show what was tried."""
    server.is_down = not changes
    source = credentials(server, **changes)
    began_s = time.monotonic()
    with pytest.raises(ClusterError) as raised:
        source.fetch()
    assert reason in str(raised.value)
    assert source.endpoint in str(raised.value)
    assert not [secret for secret in source.secrets() if secret in str(raised.value)]
    assert time.monotonic() - began_s < 5


def test_a_missing_package_is_one_sentence(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Authlib is an extra, which few need."""
    monkeypatch.setitem(sys.modules, "authlib.integrations.requests_client", None)
    with pytest.raises(ClusterError) as raised:
        credentials(server).fetch()
    assert str(raised.value) == (
        "logging in with client credentials (OAUTHBEARER) requires Authlib; run: pip install 'pytest-kafkaperf[oauth]'"
    )


def test_secrets_and_functions_stay_in_their_process(server: TokenServer) -> None:
    """A worker on another machine needs a token, but nobody there needs the means to get more."""
    for source in (credentials(server), TokenFunction(function=server.token)):
        with pytest.raises(TypeError, match="not sent to other processes"):
            pickle.dumps(source)
    fixed = FixedToken(value=SecretStr("a"))
    assert pickle.loads(pickle.dumps(fixed)) == fixed  # noqa: S301 - our own


def test_a_token_is_fetched_once_and_renewed_before_it_expires(server: TokenServer) -> None:
    """Endpoints limit requests, and connections must log in again before the broker closes them."""
    clock = Clock()
    tokens = Tokens(credentials(server), clock=clock)
    first = tokens.current()
    assert tokens.current() is first
    assert tokens.due_in_s() == pytest.approx(0.6 * server.life_s, abs=5)
    clock.ahead_s += tokens.due_in_s()
    second = tokens.current()
    assert second != first
    assert len(server.issued) == 2
    assert {*server.issued, CLIENT_SECRET} <= tokens.secrets()


def test_a_token_stays_in_use_while_it_cannot_be_renewed(server: TokenServer) -> None:
    """A restart of the endpoint must not disturb a load, but nothing runs with an expired token."""
    clock = Clock()
    tokens = Tokens(credentials(server), clock=clock)
    first = tokens.current()
    server.is_down = True
    clock.ahead_s += tokens.due_in_s()
    assert tokens.current() is first
    assert tokens.due_in_s() == pytest.approx(5, abs=1)
    assert tokens.problem is not None
    assert "503" in tokens.problem
    clock.ahead_s = server.life_s
    with pytest.raises(ClusterError, match="503"):
        tokens.current()
    server.is_down = False
    clock.ahead_s = 0
    assert tokens.current() not in (first, None)


def test_a_token_that_is_expired_when_it_is_new_means_a_wrong_clock(server: TokenServer) -> None:
    """Everything that follows would fail with something less clear."""
    server.skew_s = -7200
    with pytest.raises(ClusterError, match=r"expired 360\d s ago, according to this machine's clock; check the clocks"):
        Tokens(TokenFunction(function=server.token)).current()


@pytest.mark.parametrize(
    ("given", "expires_s"),
    [("opaque", None), (("opaque", 4_000_000_000_000), 4_000_000_000.0), (SecretStr("opaque"), None)],
)
def test_a_function_gives_a_token_or_a_token_and_its_expiry(given: object, expires_s: float | None) -> None:
    """The pair is what aws-msk-iam-sasl-signer returns."""
    source = TokenFunction(function=lambda: given)
    assert source.fetch() == Token(value=SecretStr("opaque"), expires_s=expires_s)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "must return a token as text, or a pair of the token and its expiry.*but returned NoneType"),
        ("", "but returned invalid text"),
        ("two\nlines", "but returned invalid text"),
        (("token", "soon"), "must return the expiry in milliseconds since 1970, but returned 'soon'"),
    ],
)
def test_what_is_no_token_is_refused(given: object, reason: str) -> None:
    """A broker would only say that it is invalid."""
    with pytest.raises(ClusterError, match=reason):
        TokenFunction(function=lambda: given).fetch()


def test_the_error_of_a_function_is_shown() -> None:
    """It is the user's own code that knows what went wrong."""

    def fail() -> object:
        raise RuntimeError("no role")

    with pytest.raises(ClusterError) as raised:
        TokenFunction(function=fail).fetch()
    assert str(raised.value) == "the function given as Cluster(token=...) failed: RuntimeError: no role"


def test_a_function_that_hangs_does_not_hang_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many HTTP clients wait without a limit. The current token stays in use, also for threads that ask meanwhile."""
    monkeypatch.setattr("pytest_kafkaperf.clusters.access.tokens._FUNCTION_TIMEOUT_S", 0.2)
    clock, called, released = Clock(), threading.Event(), threading.Event()
    first_token: list[object] = [("first", (time.time() + 100) * 1000)]

    def function() -> object:
        if first_token:
            return first_token.pop()
        called.set()
        released.wait(30)
        return None

    tokens = Tokens(TokenFunction(function=function), clock=clock)
    first = tokens.current()
    clock.ahead_s += tokens.due_in_s()
    renewing = threading.Thread(target=tokens.current)
    renewing.start()
    try:
        assert called.wait(30)
        assert tokens.current() is first
        renewing.join(30)
        assert not renewing.is_alive()
        assert tokens.due_in_s() > 4
        assert (
            tokens.problem
            == "the function given as Cluster(token=...) did not return within 0.2 s; set a timeout in it"
        )
        clock.ahead_s += 100
        with pytest.raises(ClusterError, match="did not return within"):
            tokens.current()
    finally:
        released.set()


def test_an_endpoint_that_never_finishes_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout for each part of an answer starts again with each part."""
    monkeypatch.setattr(tokens, "_ENDPOINT_LIMIT_S", 0.2)
    with silent_server() as address:
        url = f"http://{address}/token"
        source = ClientCredentials(endpoint=url, client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET))
        with pytest.raises(ClusterError) as raised:
            source.fetch()
    assert str(raised.value) == f"the token endpoint {url} did not answer within 0.2 s"


def test_a_file_that_cannot_be_written_keeps_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a full disk, nothing unfinished remains."""
    write_token_file(tmp_path / "token", "first")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_token_file(tmp_path / "token", "second")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]


def test_a_token_file_is_read_again_for_each_token(server: TokenServer, tmp_path: Path) -> None:
    """Another program renews it, as Kubernetes does with service accounts."""
    path = tmp_path / "token"
    source = TokenFile(path=path)
    with pytest.raises(ClusterError, match="cannot be read: No such file or directory"):
        source.fetch()
    for token in (server.token(60), server.token(120)):
        path.write_text(f"{token}\n")
        assert source.fetch() == Token(value=SecretStr(token), expires_s=expiry_of(token))
    path.write_text("two\nlines")
    with pytest.raises(ClusterError, match="does not contain a token on a single line"):
        source.fetch()


def test_a_pushed_token_is_only_for_its_owner(tmp_path: Path) -> None:
    """Whoever reads it can log in."""
    pushed = PushedToken(path=str(tmp_path / "token"))
    with pytest.raises(ClusterError, match="has not sent an access token"):
        pushed.fetch()
    assert pushed.secrets() == set()
    pushed.write(Token(value=SecretStr("abc"), expires_s=1.0), None)
    assert pushed.fetch() == Token(value=SecretStr("abc"))
    assert pushed.secrets() == {"abc"}
    assert Path(pushed.path).stat().st_mode & 0o777 == 0o600
    pushed.write(None, "the endpoint is down")
    with pytest.raises(ClusterError, match="the endpoint is down"):
        pushed.fetch()
    assert [*tmp_path.iterdir()] == [tmp_path / "token"]


@pytest.mark.parametrize("text", ["", "a.b.c", "a.b", "....", "a.W10.c", "é.é.é", f"a.{'W' * 4000}.c"])
def test_what_is_no_json_web_token_has_no_claims(text: str) -> None:
    """Tokens may be opaque (RFC 6749, section 1.4)."""
    assert claims_of(text) == {}
    assert expiry_of(text) is None
    assert describe(text) == ""


def test_a_rejected_token_is_described_by_what_brokers_check(server: TokenServer) -> None:
    """The broker says only that it is invalid; its claims are no secret."""
    server.audience = "payroll"
    text = describe(server.token(100))
    assert text.startswith("iss 'pytest-kafkaperf', aud 'payroll', sub 'perf', expires in ")
    server.skew_s = 5000
    assert "so the clocks differ" in describe(server.token())
    assert re.search(r"expired 5\d s ago", describe(server.token(-5050)))

"""Tokens for the workers: they find the current one in a file, and no client secret."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.pushed_tokens import Pusher, checking, localized, read_pushed, token_path
from tests.support.orphans import becomes
from tests.support.token_function import TokensOfASecond, access_of


def token_of(access: Access) -> str:
    assert isinstance(access.login, OAuth)
    return access.login.token().value.get_secret_value()


def test_workers_always_find_the_current_token(tmp_path: Path) -> None:
    """They live longer than a token, and cannot get one themselves."""
    source, path = TokensOfASecond(), token_path(str(tmp_path / "round-1"))
    pusher = Pusher(access_of(source), path)
    with pusher.open():
        worker: Access = pickle.loads(pickle.dumps(pusher.access))  # noqa: S301 - as processes do
        assert token_of(worker) == "token-1"
        assert worker.secrets() == ("token-1",)
        assert becomes(lambda: token_of(worker) == "token-3")
        pusher.check()
        assert read_pushed(str(tmp_path / "round-1")) is not None
    assert [*tmp_path.iterdir()] == []
    assert read_pushed(str(tmp_path / "round-1")) is None


def test_workers_on_another_machine_read_their_own_file(tmp_path: Path) -> None:
    """The paths of this machine mean nothing there."""
    pusher = Pusher(access_of(TokensOfASecond()), token_path(str(tmp_path / "here")))
    with pusher.open():
        there = localized(pusher.access, str(tmp_path / "there"))
        with pytest.raises(ClusterError):
            token_of(there)
        Path(token_path(str(tmp_path / "there"))).write_text(read_pushed(str(tmp_path / "here")) or "")
        assert token_of(there) == "token-1"


def test_an_expired_token_ends_the_load_with_the_reason(tmp_path: Path) -> None:
    """Controller and workers give the same reason, which is reported once."""
    source = TokensOfASecond()
    pusher = Pusher(access_of(source), token_path(str(tmp_path / "round-1")))
    reason = (
        "the access token has expired and could not be renewed: the function given as Cluster(token=...) failed: "
        "RuntimeError: no role"
    )
    with pusher.open():
        source.is_down = True

        def is_over() -> bool:
            try:
                checking(pusher, lambda: None)()
            except LoadError as error:
                assert str(error) == reason
                return True
            return False

        assert becomes(is_over)
        with pytest.raises(ClusterError) as raised:
            token_of(pusher.access)
        assert str(raised.value) == reason


def test_a_full_disk_ends_the_load_with_the_reason(tmp_path: Path) -> None:
    """Otherwise, brokers would reject the old token after a while, and nobody would know why."""
    folder = tmp_path / "run"
    folder.mkdir()
    pusher = Pusher(access_of(TokensOfASecond()), token_path(str(folder / "round-1")))
    with pusher.open():
        folder.rename(tmp_path / "elsewhere")  # the next token cannot be written, just like on a full disk

        def is_over() -> bool:
            try:
                pusher.check()
            except LoadError as error:
                return "the renewed access token cannot be passed to the workers" in str(error)
            return False

        assert becomes(is_over)


def test_a_load_does_not_start_without_a_token(tmp_path: Path) -> None:
    """The reason is known at once."""
    source = TokensOfASecond()
    source.is_down = True
    with pytest.raises(ClusterError, match="no role"), Pusher(access_of(source), str(tmp_path / "token")).open():
        pass


def test_other_logins_need_no_file(tmp_path: Path) -> None:
    """Passwords go with the assignment."""
    pusher = Pusher(Access(), str(tmp_path / "token"))
    with pusher.open():
        assert pusher.access == localized(pusher.access, str(tmp_path)) == Access()
        pusher.check()
        assert [*tmp_path.iterdir()] == []

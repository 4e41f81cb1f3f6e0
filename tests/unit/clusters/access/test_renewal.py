"""Tokens in files that applications read: they are renewed for as long as an application may run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.renewal import files_kept_up_to_date
from pytest_kafkaperf.clusters.access.tokens import ClientCredentials, FixedToken, TokenFile
from tests.support.orphans import becomes
from tests.support.token_function import TokensOfASecond, access_of


def test_an_application_always_finds_a_valid_token(tmp_path: Path) -> None:
    """It may log in at any time, also while the file is replaced, and it lives longer than a token."""
    access = access_of(TokensOfASecond())
    file, seen = tmp_path / "token.jwt", set[str]()

    def reads_a_third() -> bool:
        seen.add(file.read_text())
        return len(seen) == 3

    with files_kept_up_to_date(access, tmp_path):
        access.write_files(tmp_path)  # as each start of an instance does
        assert becomes(reads_a_third)
        assert seen <= {*access.secrets()}  # whatever the application prints, the report does not show it
    assert file.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [file]


def test_a_failed_renewal_is_tried_again(tmp_path: Path) -> None:
    """An outage of the token server between two tests must not leave the application without a login."""
    source = TokensOfASecond()
    access = access_of(source)
    file = tmp_path / "token.jwt"
    with files_kept_up_to_date(access, tmp_path):
        assert becomes(file.exists)
        source.is_down = True
        assert becomes(lambda: source.failures > 0)
        source.is_down = False
        last = file.read_text()
        assert becomes(lambda: file.read_text() != last)


def test_a_file_that_cannot_be_written_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a full disk, the application finds a valid token again."""
    monkeypatch.setattr("pytest_kafkaperf.clusters.access.renewal._RETRY_S", 0.05)
    folder = tmp_path / "app"
    folder.mkdir()
    access = access_of(TokensOfASecond())
    with files_kept_up_to_date(access, folder):
        assert becomes((folder / "token.jwt").exists)
        folder.rename(tmp_path / "elsewhere")
        known = len(access.secrets())
        assert becomes(lambda: len(access.secrets()) > known + 1)  # at least one of them could not be written
        folder.mkdir()
        assert becomes((folder / "token.jwt").exists)


@pytest.mark.parametrize(
    "source",
    [
        FixedToken(value=SecretStr("abc")),
        TokenFile(path=Path("/run/secrets/token")),
        ClientCredentials(endpoint="http://127.0.0.1:1/token", client_id="perf", client_secret=SecretStr("abc")),
    ],
    ids=lambda source: type(source).__name__,
)
def test_other_tokens_need_no_renewal(tmp_path: Path, source: FixedToken | TokenFile | ClientCredentials) -> None:
    """They live long enough, or the application or somebody else renews them."""
    with files_kept_up_to_date(Access(protocol="SASL_SSL", login=OAuth(source=source)), tmp_path):
        pass
    with files_kept_up_to_date(Access(), tmp_path):
        pass
    assert [*tmp_path.iterdir()] == []

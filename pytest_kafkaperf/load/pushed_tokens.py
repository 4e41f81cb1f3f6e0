"""Access tokens for worker processes: the main process renews the current token, and workers read it from a file.

Workers get an `Access` without a client secret, whose login reads the file. On other machines, `backends.dask_sync`
keeps a copy of the file up to date.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.renewal import renewed
from pytest_kafkaperf.clusters.access.tokens import PushedToken, Token
from pytest_kafkaperf.core.errors import ClusterError, LoadError

_EXIT_TIMEOUT_S = 1.0
"""Time to wait for a renewal in progress when the workers no longer need tokens."""


class Pusher:
    """Renewal of a login's token, and its file."""

    def __init__(self, access: Access, path: str) -> None:
        """Push the tokens of `access`, if it uses any, to a file."""
        self._login = access.login if isinstance(access.login, OAuth) else None
        self._file = PushedToken(path=path)
        self.access = access
        """Access settings for the workers."""
        if self._login is not None:
            login = OAuth(source=self._file, extensions=self._login.extensions)
            self.access = dataclasses.replace(access, login=login)
        self._closing = threading.Event()
        self._problem: str | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Keep the file up to date until the block ends, and then remove it.

        Raises:
            ClusterError: there is no token.

        """
        if self._login is None:
            yield
            return
        tokens = renewed(self._login, self._closing)
        self._file.write(next(tokens), None)
        thread = threading.Thread(target=self._follow, args=(tokens,), name="kafkaperf-tokens", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            thread.join(_EXIT_TIMEOUT_S)
            Path(self._file.path).unlink(missing_ok=True)

    def check(self) -> None:
        """Raise LoadError if the token could not be renewed or passed to the workers."""
        if self._problem is not None:
            raise LoadError(self._problem)

    def _follow(self, tokens: Iterator[Token]) -> None:
        try:
            for token in tokens:
                self._file.write(token, None)
        except ClusterError as error:
            problem = f"the access token has expired and could not be renewed: {error}"
            with contextlib.suppress(OSError):
                self._file.write(None, problem)
            self._problem = problem
        except OSError as error:
            self._problem = f"the renewed access token cannot be passed to the workers: {error}"


def token_path(counters: str) -> str:
    """Return the path of the token's file for workers with these shared counters."""
    return f"{counters}.token"


def localized(access: Access, counters: str) -> Access:
    """Return the workers' access settings with the path of the token's file on this machine."""
    if not isinstance(access.login, OAuth):
        return access
    login = dataclasses.replace(access.login, source=PushedToken(path=token_path(counters)))
    return dataclasses.replace(access, login=login)


def read_pushed(counters: str) -> str | None:
    """Return the content of the token's file; None if the workers do not need tokens."""
    try:
        return Path(token_path(counters)).read_text(encoding="ascii")
    except FileNotFoundError:
        return None


def checking(pusher: Pusher, check: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `check`, and raises LoadError if there is no valid token any more."""

    def checked() -> None:
        check()
        pusher.check()

    return checked

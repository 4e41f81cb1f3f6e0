"""Renewal of access tokens in time, for worker processes and applications, which read them from a file."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import Token, TokenFunction
from pytest_kafkaperf.core.errors import ClusterError

_MAX_PAUSE_S = 5.0
"""Maximum time between two looks at the token. The main process's other requests may renew it earlier than planned."""
_RETRY_S = 5.0
"""Pause after the token of applications has expired."""
_EXIT_TIMEOUT_S = 1.0
"""Time to wait for a renewal in progress when applications no longer need tokens."""


def renewed(login: OAuth, closing: threading.Event) -> Iterator[Token]:
    """Yield the current token and each token that replaces it, until `closing` is set.

    Raises:
        ClusterError: the token has expired and could not be renewed.

    """
    current: Token | None = None
    while True:
        token = login.token()
        if token != current:
            current = token
            yield token
        if closing.wait(min(login.tokens.due_in_s(), _MAX_PAUSE_S)):
            return


@contextlib.contextmanager
def files_kept_up_to_date(access: Access, folder: Path) -> Iterator[None]:
    """Renew the token in the files of `access.write_files(folder)` until the block ends.

    Only tokens from functions must be renewed. Tokens of brokers that the plugin starts outlive every run, and an
    application with client credentials gets its own.
    """
    login = access.login
    if not (isinstance(login, OAuth) and isinstance(login.source, TokenFunction)):
        yield
        return
    closing = threading.Event()
    thread = threading.Thread(
        target=_keep, args=(access, login, folder, closing), name="kafkaperf-app-tokens", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(_EXIT_TIMEOUT_S)


def _keep(access: Access, login: OAuth, folder: Path, closing: threading.Event) -> None:
    while not closing.is_set():
        # A load that is running ends with the reason, and so does the next start of the application.
        with contextlib.suppress(ClusterError, OSError):  # OSError: the disk is full
            for _ in renewed(login, closing):
                access.write_files(folder)
        closing.wait(_RETRY_S)

"""Files from Maven repositories, downloaded within a time limit and compared with the published checksums."""

from __future__ import annotations

import hashlib
import re
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests
from jgo.maven import PythonResolver
from urllib3.exceptions import HTTPError

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import discreet
from pytest_kafkaperf.core.units import Unit, format_quantity

_SILENCE_S = 10
"""Maximum time without receiving a byte from the server."""
_CHUNK_BYTES = 1 << 16
_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_RETRY_AFTER_S = 60
"""Pause after `429 Too Many Requests` if the server does not specify a number of seconds."""
_SHA1 = re.compile(rb"\s*([0-9a-fA-F]{40})\b")
"""Pattern of a `.sha1` file's content, because some proxies respond with a web page instead."""


class Registry(PythonResolver):
    """jgo's resolver with a different download method.

    jgo only logs mismatched checksums, and keeps waiting as long as the server sends a byte from time to time.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s
        """Time limit for all downloads together."""
        self._deadline = time.monotonic() + timeout_s
        self.refusals: list[str] = []
        """Addresses and answers of repositories that refused access, such as `... answered 401 Unauthorized`."""

    def download(self, artifact: Any) -> Path:
        """Download one file from the first repository that has it, and return its path in jgo's cache.

        Raises:
            ClusterError: the file does not match the published checksum, or the time limit is exceeded.
            RuntimeError: no repository has the file.
            requests.RequestException: the server did not answer.

        """
        for repository in artifact.context.remote_repos.values():
            url = f"{repository}/{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
            content = self._content(url)
            if content is None:
                continue
            self._compare(url, content)
            path = Path(artifact.cached_path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return path
        raise RuntimeError(f"Artifact {artifact} not found")

    def _compare(self, url: str, content: bytes) -> None:
        published = _SHA1.match(self._content(f"{url}.sha1") or b"")
        if published is None:  # a repository without checksums
            return
        expected, found = published[1].decode("ascii").lower(), hashlib.sha1(content).hexdigest()  # noqa: S324 - Maven's
        if found != expected:
            raise ClusterError(
                f"{discreet(url)} does not match its published checksum and is not used: its SHA-1 is {found}, "
                f"expected {expected}. Try again; if the error persists, find out what that repository serves"
            )

    def _content(self, url: str) -> bytes | None:
        """Return the content; None if the repository does not have it."""
        parts = []
        with self._response(url) as response:
            if response.status_code != HTTPStatus.OK:
                if response.status_code not in _ABSENT:
                    self.refusals.append(f"{discreet(url)} answered {response.status_code} {response.reason}")
                return None
            try:
                while part := response.raw.read1(_CHUNK_BYTES):  # fails if the connection closes too early
                    parts.append(part)
                    self._check(url)
            except HTTPError as error:
                raise requests.ConnectionError(str(error)) from error
        return b"".join(parts)

    def _response(self, url: str) -> requests.Response:
        while True:
            self._check(url)
            plain = {"Accept-Encoding": "identity"}  # the bytes as published
            response = requests.get(url, stream=True, timeout=_SILENCE_S, headers=plain)
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                response.raise_for_status()
            if response.status_code != HTTPStatus.TOO_MANY_REQUESTS:
                return response
            response.close()
            pause = response.headers.get("Retry-After", "")
            pause_s = int(pause) if pause.isdigit() else _RETRY_AFTER_S
            self._check(url, pause_s)
            time.sleep(pause_s)

    def _check(self, url: str, pause_s: float = 0.0) -> None:
        if time.monotonic() + pause_s > self._deadline:
            within = format_quantity(self._timeout_s, Unit.SECONDS)
            raise ClusterError(f"the download was not complete within {within}: {discreet(url)} is too slow; try again")

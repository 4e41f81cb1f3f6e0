"""Another revision of the code under test: the value of `--kafka-compare=git:REF` or `path:DIR`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Revision:
    """The code that a test is compared with."""

    text: str
    """The value of the option."""
    ref: str | None = None
    """Commit, branch or tag; `merge-base` is where this branch began."""
    folder: Path | None = None
    """Root folder of another checkout, instead of `ref`."""
    tests: str | None = None
    """`ref` for the tests as they are there, `head` for this side's files of perf tests; None: the latter, but for new
    files."""
    python: str | None = None
    """Python interpreter of the other checkout; None: this one."""

    def __str__(self) -> str:
        """Return the value of the option."""
        return self.text


def parse_revision(text: str, *, start: Path) -> Revision | None:
    """Return the revision that a value of `--kafka-compare` names; None if it names a cluster.

    Raises:
        UsageError: it is incomplete, or has an unknown option.

    """
    kind, _, rest = text.strip().partition(":")
    if kind not in ("git", "path"):
        return None
    named, *options = rest.split(",")
    given = dict(option.partition("=")[::2] for option in options)
    valid = {"git": "git:REF[,tests=ref|head], for example git:origin/main", "path": "path:DIR[,python=PATH]"}[kind]
    allowed = given.get("tests") in ("ref", "head") if kind == "git" else bool(given.get("python"))
    if not named or (given and (len(given) > 1 or not allowed)):
        raise UsageError(f"--kafka-compare={text}: {valid} is needed")
    if kind == "git":
        return Revision(text, ref=named, tests=given.get("tests"))
    python = given.get("python")
    return Revision(text, folder=start / named, python=str(start / python) if python and os.sep in python else python)

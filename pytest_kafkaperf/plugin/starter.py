"""The `kafkaperf init` command: copies a first test and its settings from templates; existing files never change."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Literal

from pytest_kafkaperf.core.errors import UsageError

Audience = Literal["service", "cluster"]

NEXT_STEPS: Mapping[Audience, tuple[str, ...]] = {
    "service": (
        "change the lines of tests/perf/test_service_sla.py that end in a comment",
        "replace the lines of tests/perf/orders.jsonl with lines of your real input",
        "delete tests/perf/example_service.py, which stands in for your service",
        "run: pytest tests/perf",
    ),
    "cluster": (
        "change the lines of tests/perf/test_cluster_change.py that end in a comment",
        "run: pytest tests/perf",
    ),
}
"""Steps for using the written files, which the command prints."""

WORKFLOW_STEPS: Mapping[Audience, tuple[str, ...]] = {
    "service": (
        "set BUILD in .github/workflows/kafka-performance.yml to the command that builds your service",
        "remove the # before the threshold with `baseline` in tests/perf/test_service_sla.py",
        "add reports/ to .gitignore",
    ),
    "cluster": (),
}
"""Further steps after `--workflow`."""

_TEMPLATES = importlib.resources.files(__package__).joinpath("templates")
_SUFFIX = ".template"
_HERE = PurePosixPath()
_INI = PurePosixPath("pytest.ini")
_INI_FILES = {
    "pytest.toml": ("[pytest]",),
    ".pytest.toml": ("[pytest]",),
    "pytest.ini": ("[pytest]",),
    ".pytest.ini": ("[pytest]",),
    "pyproject.toml": ("[tool.pytest]", "[tool.pytest.ini_options]"),
    "tox.ini": ("[pytest]",),
    "setup.cfg": ("[tool:pytest]",),
}
"""Files in which pytest looks for its settings, in pytest's order, each with the sections that it reads."""
_OWN_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that pytest uses even without a section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSettings:
    """Settings that the user must add to an existing file."""

    file: str
    section: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The outcome of `kafkaperf init`."""

    written: tuple[PurePosixPath, ...]
    kept: tuple[PurePosixPath, ...]
    """Files that already existed and were not changed."""
    missing: MissingSettings | None
    """Settings to add to an existing file; None if there is nothing to add."""


def start(root: Path, audience: Audience, *, workflow: bool) -> Started:
    """Write an audience's files to `root`, and a GitHub Actions workflow if requested.

    Raises:
        UsageError: a file cannot be written or read.

    """
    texts = dict(_templates(_TEMPLATES.joinpath(audience)))
    if workflow:
        texts |= dict(_templates(_TEMPLATES.joinpath(f"{audience}-workflow")))
    found = _ini_file(root)
    missing = None
    if found is not None:
        missing = _missing(root / found[0], found[1], texts.pop(_INI))
    written = tuple(path for path, text in texts.items() if _write(root / path, text))
    kept = tuple(path for path in texts if path not in written)
    return Started(written=written, kept=kept, missing=missing)


def _templates(folder: Traversable, below: PurePosixPath = _HERE) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the path and text of each file in a folder."""
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _templates(each, below / each.name)
        else:
            yield below / each.name.removesuffix(_SUFFIX), each.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> bool:
    """Write a new file; return False if the path already exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.parent.is_dir():
            return False
        raise UsageError(f"cannot write {path}: {path.parent} is not a folder; move or rename it") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    return True


def _ini_file(root: Path) -> tuple[str, str] | None:
    """Return the name and section of the file with a folder's pytest settings, or None if there is no such file."""
    for name, sections in _INI_FILES.items():
        if (root / name).is_file():
            text = _read(root / name)
            section = next((each for each in sections if each in text), None)
            if section is not None or name in _OWN_FILES:
                return name, section or sections[0]
    return None


def _missing(path: Path, section: str, ini: str) -> MissingSettings | None:
    """Return the template's settings that an existing file lacks, in the syntax of that file."""
    known = _read(path)
    settings = [line.split(" = ") for line in ini.splitlines() if " = " in line]
    quote = '"' if path.suffix == ".toml" else ""
    missing = [each for each in settings if not re.search(rf"(?m)^\s*{each[0]}\s*[=:]", known)]
    lines = tuple(f"{name} = {quote}{value}{quote}" for name, value in missing)
    return MissingSettings(file=path.name, section=section, lines=lines) if lines else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None

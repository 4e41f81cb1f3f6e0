"""The baseline folder, which contains one file per test: `DIR/<environment>/<test file>/<test name>.json`."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pytest_kafkaperf.core.environment import environment_key, is_safe_name
from pytest_kafkaperf.core.errors import BaselineError
from pytest_kafkaperf.core.files import replace_file
from pytest_kafkaperf.core.text import file_of, parse_document
from pytest_kafkaperf.verdict.baseline_file import (
    HOW_TO_REPAIR,
    BaselineRecord,
    BaselineRounds,
    comparable_rounds,
    format_baseline,
    parse_baseline,
)
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind

_MAX_NAME_BYTES = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]=+,@-]")
_DIGEST_LENGTH = 10
_HASHED = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")


class BaselineStore:
    """The folder that contains all baselines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, environment: str, nodeid: str) -> Path:
        """Return the path to a test's baseline, which is always inside the folder and unique to the test.

        Raises:
            UsageError: the environment name is invalid.

        """
        file = file_of(nodeid)
        name = nodeid.removeprefix(file).removeprefix("::")
        folders = [_safe_name(part, suffix="") for part in file.split("/")]
        return self.folder.joinpath(environment_key(environment), *folders, _safe_name(name, suffix=".json"))

    def load(self, environment: str, nodeid: str) -> BaselineRecord | None:
        """Return a test's baseline; None if there is none.

        Raises:
            BaselineError: the file cannot be read, is damaged, was written by a newer version, or belongs to another
                test. The file is not changed.

        """
        path = self.path(environment, nodeid)
        try:
            record = read_baseline(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        for name, expected in (("nodeid", nodeid), ("environment", environment)):
            if (given := getattr(record, name)) != expected:
                raise BaselineError(
                    f"baseline {path} is damaged: its {name} is {given!r}, expected {expected!r}; if it was renamed "
                    f"on purpose, correct {name!r} in the file, otherwise {HOW_TO_REPAIR}"
                )
        return record

    def save(self, record: BaselineRecord) -> Path:
        """Write a baseline atomically and return its path.

        Raises:
            BaselineError: the file cannot be written, the existing file is damaged or has a newer format, or a link
                points outside the folder.

        """
        path = self.path(record.environment, record.nodeid)
        self._refuse_outside(path, "not written", "remove the link")
        self.load(record.environment, record.nodeid)  # never overwrite a file that the plugin cannot read
        try:
            replace_file(path, format_baseline(record))
        except OSError as error:
            raise BaselineError(
                f"cannot write baseline {path}: {error.strerror or error}; use --kafka-baselines for another folder"
            ) from None
        return path

    def environments(self, nodeid: str) -> tuple[str, ...]:
        """Return the environments that have a baseline for this test, in alphabetical order."""
        with contextlib.suppress(BaselineError):  # `load` reports the problem
            return tuple(name for name in _folders(self.folder) if self.path(name, nodeid).is_file())
        return ()

    def stored(self) -> dict[Path, str]:
        """Return the baseline files of all environments and their tests' node IDs, sorted by environment and path.

        Skips files that cannot be read, contain no node ID, or are stored at a path that does not match their test;
        `load` reports such files. Does not follow links.

        Raises:
            BaselineError: the folder cannot be read.

        """
        found = {}
        for environment in _folders(self.folder):
            for path in sorted((self.folder / environment).rglob("*.json")):
                nodeid = None if path.is_symlink() else _nodeid_of(path)
                if nodeid is not None and path == self.path(environment, nodeid):
                    found[path] = nodeid
        return found

    def prune(self, paths: Collection[Path]) -> None:
        """Delete baselines, and subfolders that become empty as a result. Missing files are ignored.

        Raises:
            BaselineError: a file is outside the folder, in which case nothing is deleted, or a file cannot be deleted.

        """
        for path in paths:
            self._refuse_outside(path, "not deleted", "delete it yourself")
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                continue
            except OSError as error:
                raise BaselineError(
                    f"cannot delete baseline {path}: {error.strerror or error}; delete it yourself, or make its folder "
                    "writable"
                ) from None
            folder = path.parent
            while folder != self.folder and _remove_if_empty(folder):
                folder = folder.parent

    def _refuse_outside(self, path: Path, what: str, advice: str) -> None:
        """Raise a BaselineError if the path, with its links resolved, is outside the folder."""
        inside = path.is_relative_to(self.folder) and ".." not in path.relative_to(self.folder).parts
        real, whole = (Path(os.path.realpath(each)) for each in (path.parent, self.folder))
        if not inside or path == self.folder or not real.is_relative_to(whole):
            raise BaselineError(f"{path} was {what}, because it is outside the baseline folder {self.folder}; {advice}")

    def comparable(
        self, environment: str, nodeid: str, scenario: Mapping[str, Any], fingerprint: Mapping[str, str] | None = None
    ) -> BaselineRounds:
        """Return the baseline for comparison with a run of this scenario.

        If a fingerprint is passed, results from an external cluster are compared only with results from the same
        cluster. If this environment does not have a baseline, another environment's baseline is returned, for
        information only.

        Raises:
            BaselineError: this environment's file is damaged or was written by a newer version.

        """
        record = self.load(environment, nodeid)
        if record is not None:
            return comparable_rounds(record, scenario, fingerprint)
        others = [name for name in self.environments(nodeid) if name != environment]
        others.sort(key=lambda name: not _other_provider(name, environment))
        if not others:
            return BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE), stored=False)
        with contextlib.suppress(BaselineError):  # a damaged file from another environment must not stop this run
            record = self.load(others[0], nodeid)
        found = comparable_rounds(record, scenario) if record is not None else BaselineRounds()
        known = ", ".join(f"{name!r}{_other_provider(name, environment)}" for name in others)
        obstacle = Obstacle(ObstacleKind.OTHER_ENVIRONMENT, {"environment": environment, "known": known})
        return dataclasses.replace(found, fingerprint={}, commit=None, obstacle=obstacle, stored=False)


def _other_provider(name: str, environment: str) -> str:
    """Describe an environment on this machine with another broker provider; empty for any other environment."""
    machine, _, provider = name.rpartition("-")
    is_here = provider in ("local", "docker") and environment.rpartition("-")[0] == machine
    return f" (this machine with --kafka-cluster={provider})" if is_here else ""


def read_baseline(path: Path) -> BaselineRecord:
    """Read a baseline file at any path.

    Raises:
        BaselineError: the file cannot be read, is damaged or was written by a newer version.
        FileNotFoundError, NotADirectoryError: the file does not exist.

    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise BaselineError(f"cannot read baseline {path}: {error.strerror or error}") from None
    return parse_baseline(content, path)


def _remove_if_empty(folder: Path) -> bool:
    """Remove a folder if it is empty; return True if it was."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _folders(folder: Path) -> list[str]:
    """Return the names of a folder's environments, excluding links."""
    try:
        entries = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BaselineError(f"cannot read the baseline folder {folder}: {error.strerror or error}") from None
    return sorted(name for name in entries if is_safe_name(name))


def _nodeid_of(path: Path) -> str | None:
    try:
        content = parse_document(path.read_bytes())
    except (OSError, ValueError):
        return None
    nodeid = content.get("nodeid") if isinstance(content, dict) else None
    return nodeid if isinstance(nodeid, str) else None


def _safe_name(text: str, *, suffix: str) -> str:
    """Return a unique file name for a text; it is valid on every supported system and, if possible, readable.

    A hash is appended if the text is not a safe name, is too long, or contains uppercase letters, because some systems
    ignore case. A hash is also appended to a text that already looks like a name with a hash, which ensures that no two
    texts share a name.
    """
    max_length = _MAX_NAME_BYTES - len(suffix)
    kept = _UNSAFE.sub("_", text.replace("::", "."))
    plain = kept == text == text.lower() and text.rstrip(".") == text != "" and len(text) <= max_length
    if plain and not _HASHED.search(text):
        return text + suffix
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    stem = kept[: max_length - _DIGEST_LENGTH - 2].rstrip(".") or "_"
    return f"{stem}-{digest}{suffix}"

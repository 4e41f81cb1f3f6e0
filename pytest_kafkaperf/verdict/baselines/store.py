"""The folder of baselines: one file a test, `DIR/<environment>/<test file>/<test name>.json`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_kafkaperf.core.environment import environment_key, is_reserved, is_safe_name
from pytest_kafkaperf.core.errors import BaselineError
from pytest_kafkaperf.core.files import alone_in, replace_file
from pytest_kafkaperf.core.text import file_of, parse_document
from pytest_kafkaperf.verdict.baselines.record import (
    HOW_TO_MAKE,
    HOW_TO_REPAIR,
    BaselineRecord,
    BaselineRounds,
    comparable_rounds,
    format_baseline,
    parse_baseline,
)

_MAX_NAME_BYTES = 150
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]=+,@-]")
_DIGEST_LENGTH = 10
_HASHED = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A baseline file, and which test's it is."""

    path: Path
    environment: str
    nodeid: str


def orphans(stored: Iterable[Stored], *, collected: Collection[str], files: Collection[str]) -> list[Stored]:
    """The baselines whose tests are gone, in their order.

    `collected` are the nodeids of this run; `files` are the test files that it collected whole, and those that no
    longer exist: of any other nothing is known.
    """
    return [each for each in stored if file_of(each.nodeid) in files and each.nodeid not in collected]


class BaselineStore:
    """The folder of all baselines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, environment: str, nodeid: str) -> Path:
        """The file of a test: always inside the folder, and never that of another test.

        Raises:
            UsageError: the environment is not a safe folder name.

        """
        file = file_of(nodeid)
        name = nodeid.removeprefix(file).removeprefix("::")
        folders = [_safe_name(part, suffix="") for part in file.split("/")]
        return self.folder.joinpath(environment_key(environment), *folders, _safe_name(name, suffix=".json"))

    def load(self, environment: str, nodeid: str) -> BaselineRecord | None:
        """The baseline of a test, or None when there is none.

        Raises:
            BaselineError: the file cannot be read, is damaged, is from a newer version or belongs to another test;
                it is left as it is.

        """
        path = self.path(environment, nodeid)
        try:
            record = read_baseline(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        for name, given, expected in (
            ("nodeid", record.nodeid, nodeid),
            ("environment", record.environment, environment),
        ):
            if given != expected:
                raise BaselineError(
                    f"baseline {path} is damaged: its {name} is {given!r}, expected {expected!r}; if it was renamed "
                    f"on purpose, correct {name!r} in the file, otherwise {HOW_TO_REPAIR}"
                )
        return record

    def save(self, record: BaselineRecord) -> Path:
        """Write a baseline; the file is replaced as a whole or not at all.

        Raises:
            BaselineError: it cannot be written, what is there is damaged or newer, or links lead out of the folder.

        """
        path = self.path(record.environment, record.nodeid)
        self._refuse_outside(path, "not written", "remove the link")
        self.load(record.environment, record.nodeid)  # what cannot be read is not overwritten
        try:
            replace_file(path, format_baseline(record))
        except OSError as error:
            raise BaselineError(
                f"cannot write baseline {path}: {error.strerror or error}; --kafka-baselines names another folder"
            ) from None
        return path

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runs from writing baselines here meanwhile: what they add to one that was read would be lost.

        Raises:
            BaselineError: another run holds the folder for too long.

        """
        with contextlib.ExitStack() as stack:
            if not self.folder.exists():
                stack.callback(_remove_if_empty, self.folder)  # nothing may be written after all
            try:
                stack.enter_context(alone_in(self.folder))
            except TimeoutError as error:
                raise BaselineError(f"cannot write a baseline: {error}; run it again") from None
            except OSError:
                pass  # why nothing can be written there is told by `save`
            yield

    def environments(self, nodeid: str) -> tuple[str, ...]:
        """The environments that hold a baseline of this test, in alphabetical order."""
        try:
            names = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        except OSError:
            return ()  # no folder, no baselines; one that cannot be read is told where a file is loaded from it
        return tuple(name for name in names if is_safe_name(name) and self.path(name, nodeid).is_file())

    def stored(self) -> list[Stored]:
        """The baselines of all environments, in the order of environments, folders and files.

        A file that cannot be read, that names no test, or that does not lie where its test's would, is left out: it is
        told where a test loads it. Links are not followed.

        Raises:
            BaselineError: the folder itself cannot be read.

        """
        found = []
        for environment in _folders(self.folder):
            for folder, subfolders, names in os.walk(self.folder / environment):
                subfolders.sort()
                for name in sorted(names):
                    path = Path(folder, name)
                    nodeid = None if path.is_symlink() else _nodeid_of(path)
                    if nodeid is not None and path == self.path(environment, nodeid):
                        found.append(Stored(path=path, environment=environment, nodeid=nodeid))
        return found

    def prune(self, stored: Iterable[Stored]) -> None:
        """Delete these baselines, and the folders that hold nothing then, except this store's own.

        One that is gone already is no error.

        Raises:
            BaselineError: one does not lie in this store's folder, and nothing was deleted; or one cannot be deleted.

        """
        paths = [each.path for each in stored]
        for path in paths:
            self._refuse_outside(path, "not deleted", "delete it by hand")
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                continue
            except OSError as error:
                raise BaselineError(
                    f"cannot delete baseline {path}: {error.strerror or error}; delete it by hand, or make its folder "
                    "writable"
                ) from None
            self._remove_empty(path.parent)

    def _refuse_outside(self, path: Path, what: str, advice: str) -> None:
        """Whatever a caller gives, and wherever links lead."""
        inside = path.is_relative_to(self.folder) and ".." not in path.relative_to(self.folder).parts
        real, whole = (Path(os.path.realpath(each)) for each in (path.parent, self.folder))
        if not inside or path == self.folder or not real.is_relative_to(whole):
            raise BaselineError(
                f"{path} is {what}: it does not lie in the folder of baselines, {self.folder}; {advice}"
            )

    def _remove_empty(self, folder: Path) -> None:
        while folder != self.folder and _remove_if_empty(folder):
            folder = folder.parent

    def comparable(self, environment: str, nodeid: str, scenario: Mapping[str, Any]) -> BaselineRounds:
        """What a run of this scenario is compared with: this environment's baseline, or another's for information.

        Raises:
            BaselineError: this environment's file is damaged or newer.

        """
        record = self.load(environment, nodeid)
        if record is not None:
            return comparable_rounds(record, scenario)
        others = [name for name in self.environments(nodeid) if name != environment]
        if not others:
            return BaselineRounds(obstacle=f"no baseline for this test; {HOW_TO_MAKE}")
        return self._elsewhere(environment, nodeid, scenario, others)

    def _elsewhere(
        self, environment: str, nodeid: str, scenario: Mapping[str, Any], others: Sequence[str]
    ) -> BaselineRounds:
        known = ", ".join(map(repr, others))
        missing = f"no baseline for environment {environment!r}"
        try:
            record = self.load(others[0], nodeid)
        except BaselineError:
            record = None  # not this run's file: it must not stop it
        found = comparable_rounds(record, scenario) if record is not None else BaselineRounds(obstacle="unreadable")
        shown = "not comparable" if found.obstacle else f"the change against {others[0]!r} is shown, it never counts"
        return BaselineRounds(
            sessions=found.sessions,
            obstacle=f"{missing} (there is one for {known}: {shown}); {HOW_TO_MAKE}",
            imported=found.imported,
        )


def read_baseline(path: Path) -> BaselineRecord:
    """Read a baseline file, wherever it lies.

    Raises:
        BaselineError: it cannot be read, is damaged or is from a newer version; it is left as it is.
        FileNotFoundError, NotADirectoryError: there is none.

    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise BaselineError(f"cannot read baseline {path}: {error.strerror or error}") from None
    return parse_baseline(content, path)


def _remove_if_empty(folder: Path) -> bool:
    """Whether it is gone now; one that is in use does no harm."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _folders(folder: Path) -> list[str]:
    """The environments in a folder, without those that are links."""
    try:
        entries = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BaselineError(f"cannot read the folder of baselines {folder}: {error.strerror or error}") from None
    return sorted(name for name in entries if is_safe_name(name))


def _nodeid_of(path: Path) -> str | None:
    try:
        content = parse_document(path.read_bytes())
    except (OSError, ValueError):
        return None
    nodeid = content.get("nodeid") if isinstance(content, dict) else None
    return nodeid if isinstance(nodeid, str) else None


def _safe_name(text: str, *, suffix: str) -> str:
    """A file name of its own for each text, on every system, readable where that can be.

    A text that is no safe name, too long, or different from another by case only gets a hash of itself; so does one
    that looks as if it had one, and thus no two texts share a name.
    """
    room = _MAX_NAME_BYTES - len(suffix)
    kept = _UNSAFE.sub("_", text.replace("::", "."))
    plain = kept == text == text.lower() and text.rstrip(".") == text != "" and len(text) <= room
    if plain and not is_reserved(text) and not _HASHED.search(text):
        return text + suffix
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    stem = kept[: room - _DIGEST_LENGTH - 2].rstrip(".") or "_"
    return f"{'_' if is_reserved(stem) else ''}{stem}-{digest}{suffix}"

"""Baselines: what a test gave when its figures were accepted, one file a test, so that a review sees the change.

Layout: `DIR/<environment>/<test file>/<test name>.json`. Figures are written with all their digits: a rounded baseline
would lie beside equal figures, always to the same side, and ranks would take that for a difference.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from pytest_kafkaperf.environment import environment_key, is_reserved, is_safe_name
from pytest_kafkaperf.errors import BaselineError, shortened
from pytest_kafkaperf.fields import explain
from pytest_kafkaperf.files import alone_in, replace_file
from pytest_kafkaperf.scenario import Scenario
from pytest_kafkaperf.values import format_field

SCHEMA = 1
"""Version of the file format; a file of a later one is refused and left as it is."""

MAX_SESSIONS = 10
"""Sessions that `append` keeps."""
_MAX_NAME_BYTES = 150
_MAX_PROBLEM = 300
"""Characters of what is wrong with a file; a file may be wrong in every line."""
_HOW_TO_MAKE = "make one with --kafka-update-baselines"
_HOW_TO_REPAIR = "restore it from version control, or delete it and make a new one with --kafka-update-baselines"


def _iso_time(text: str) -> str:
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("a time needs its offset, such as +00:00")
    return text


def _at_least_one(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("at least one is needed")
    return items


Figure = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class Imported(BaseModel):
    """Where the figures of another tool came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    """`kafka-producer-perf-test`; several are joined by `and`."""
    files: tuple[str, ...]
    """Their names, without folders: those are one machine's."""


class BaselineSession(BaseModel):
    """What one session measured on one fresh cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    created: Annotated[str, AfterValidator(_iso_time)]
    """ISO 8601."""
    commit: str | None = None
    """Of the code under test, where it is known."""
    fingerprint: dict[str, str]
    """What figures may depend on: versions, broker properties, machine."""
    rounds: Annotated[tuple[dict[str, Figure], ...], AfterValidator(_at_least_one)]
    """Metrics by name, in base units."""
    imported: Imported | None = None
    """None: this plugin measured it."""

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files of what was measured stay as they were before anything could be imported."""
        content: dict[str, Any] = handler(self)
        if self.imported is None:
            del content["imported"]
        return content


def _of_one_kind(sessions: tuple[BaselineSession, ...]) -> tuple[BaselineSession, ...]:
    if len({session.imported is None for session in sessions}) > 1:
        raise ValueError("sessions that were measured and imported ones are no neighbours")
    return sessions


class BaselineRecord(BaseModel):
    """The content of one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = Field(alias="schema")
    """Of the file format."""
    nodeid: str
    """The test, as pytest names it."""
    environment: str
    """Where it counts: the name of the folder that the file is in."""
    scenario: dict[str, Any]
    """As `Scenario.model_dump(mode="json")` gives it; empty where it is not known, as of imported figures."""
    sessions: Annotated[tuple[BaselineSession, ...], AfterValidator(_at_least_one), AfterValidator(_of_one_kind)]
    """The oldest first; `--kafka-update-baselines=append` keeps the newest 10."""

    @property
    def imported(self) -> Imported | None:
        """Where the newest session came from; None where this plugin measured all of them."""
        return self.sessions[-1].imported

    @classmethod
    def of_session(
        cls,
        *,
        nodeid: str,
        environment: str,
        scenario: Mapping[str, Any],
        fingerprint: Mapping[str, str],
        created: str,
        rounds: Sequence[Mapping[str, float]],
        commit: str | None = None,
        imported: Imported | None = None,
    ) -> Self:
        """The record of one session.

        Raises:
            BaselineError: there are no rounds, or a figure is not a finite number of at least 0.

        """
        session = {
            "created": created,
            "commit": commit,
            "fingerprint": dict(fingerprint),
            "rounds": [{name: float(value) for name, value in one.items()} for one in rounds],
            "imported": imported,
        }
        record = {
            "schema": SCHEMA,
            "nodeid": nodeid,
            "environment": environment,
            "scenario": dict(scenario),
            "sessions": [session],
        }
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            problem = shortened(explain(error), _MAX_PROBLEM)
            raise BaselineError(f"the figures of {nodeid} cannot become a baseline: {problem}; run it again") from None


def grown(old: BaselineRecord | None, new: BaselineRecord) -> BaselineRecord:
    """The record of one session beside those before it, the newest `MAX_SESSIONS` of them.

    Sessions of another workload, or of another tool, are no neighbours: then the new one stands alone.
    """
    if old is None or old.imported or new.imported or scenario_changes(old.scenario, new.scenario):
        return new
    sessions = sorted((*old.sessions, *new.sessions), key=lambda one: datetime.datetime.fromisoformat(one.created))
    return new.model_copy(update={"sessions": tuple(sessions[-MAX_SESSIONS:])})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRounds:
    """What a run is compared with."""

    sessions: tuple[tuple[Mapping[str, float], ...], ...] = ()
    """Metrics by name in base units; one mapping a round, one tuple a session."""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    """Where the newest of them ran; empty where that is not known."""
    obstacle: str | None = None
    """Why the comparison does not count; None when it does."""
    imported: str | None = None
    """The tool that measured them, whose noise is not known; None: this plugin did."""


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
    return [each for each in stored if each.nodeid.partition("::")[0] in files and each.nodeid not in collected]


class BaselineStore:
    """The folder of all baselines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, environment: str, nodeid: str) -> Path:
        """The file of a test: always inside the folder, and never that of another test.

        Raises:
            UsageError: the environment is not a safe folder name.

        """
        file, _, name = nodeid.partition("::")
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
                    f"on purpose, correct {name!r} in the file, otherwise {_HOW_TO_REPAIR}"
                )
        return record

    def save(self, record: BaselineRecord) -> Path:
        """Write a baseline; the file is replaced as a whole or not at all.

        Raises:
            BaselineError: it cannot be written, or what is there is damaged or newer.

        """
        path = self.path(record.environment, record.nodeid)
        self.load(record.environment, record.nodeid)  # what cannot be read is not overwritten
        try:
            replace_file(path, _written(record))
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
            self._refuse_outside(path)
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

    def _refuse_outside(self, path: Path) -> None:
        """Whatever a caller gives, and wherever links lead."""
        inside = path.is_relative_to(self.folder) and ".." not in path.relative_to(self.folder).parts
        if not inside or path == self.folder or not path.parent.resolve().is_relative_to(self.folder.resolve()):
            raise BaselineError(
                f"{path} is not deleted: it does not lie in the folder of baselines, {self.folder}; delete it by hand"
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
            return _rounds_of(record, scenario)
        others = [name for name in self.environments(nodeid) if name != environment]
        if not others:
            return BaselineRounds(obstacle=f"no baseline for this test; {_HOW_TO_MAKE}")
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
        found = _rounds_of(record, scenario) if record is not None else BaselineRounds(obstacle="unreadable")
        shown = "not comparable" if found.obstacle else f"the change against {others[0]!r} is shown, it never counts"
        return BaselineRounds(
            sessions=found.sessions,
            obstacle=f"{missing} (there is one for {known}: {shown}); {_HOW_TO_MAKE}",
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
    return _read(content, path)


def scenario_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that make two workloads different: `partitions: 6 -> 12`.

    A field that one side does not name has its default there: it is from before the field existed. A side that names
    none is not known, and nothing can be compared. `rounds` does not count: it says how often to measure, not what.
    """
    if not before or not now:
        return ()
    defaults = Scenario().model_dump(mode="json")
    first, second = ({**defaults, **fields} for fields in (before, now))
    return tuple(
        f"{name}: {_change(name, first.get(name), second.get(name))}"
        for name in sorted({*first, *second} - {"rounds"})
        if first.get(name) != second.get(name)
    )


def _change(name: str, before: Any, now: Any) -> str:
    told, told_now = ("none" if value is None else format_field(name, value) for value in (before, now))
    return f"{told} -> {told_now}" if told != told_now else f"{before!r} -> {now!r}"


def _rounds_of(record: BaselineRecord, scenario: Mapping[str, Any]) -> BaselineRounds:
    changes = scenario_changes(record.scenario, scenario)
    if changes:
        return BaselineRounds(obstacle=f"the scenario is not the baseline's ({'; '.join(changes)}); {_HOW_TO_MAKE}")
    sessions = tuple(session.rounds for session in record.sessions)
    return BaselineRounds(
        sessions=sessions,
        fingerprint=record.sessions[-1].fingerprint,
        imported=record.imported.tool if record.imported else None,
    )


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
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    nodeid = content.get("nodeid") if isinstance(content, dict) else None
    return nodeid if isinstance(nodeid, str) else None


def _read(content: bytes, path: Path) -> BaselineRecord:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _damaged(path, f"a JSON object was expected, not {type(data).__name__}")
    version = data.get("schema")
    if isinstance(version, int) and version > SCHEMA:
        raise BaselineError(
            f"baseline {path} is of schema {version}, and this version of pytest-kafkaperf reads up to {SCHEMA}; "
            "upgrade pytest-kafkaperf, or delete the file and make a new one with --kafka-update-baselines"
        )
    try:
        return BaselineRecord.model_validate(data)
    except ValidationError as error:
        raise _damaged(path, explain(error)) from None


def _damaged(path: Path, problem: str) -> BaselineError:
    return BaselineError(f"baseline {path} is damaged: {shortened(problem, _MAX_PROBLEM)}; {_HOW_TO_REPAIR}")


def _written(record: BaselineRecord) -> bytes:
    content = json.dumps(record.model_dump(mode="json", by_alias=True), indent=2, allow_nan=False)
    return f"{content}\n".encode()


_UNSAFE = re.compile(r"[^A-Za-z0-9_.\[\]=+,@-]")
_DIGEST_LENGTH = 10
_HASHED = re.compile(rf"-[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")


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

"""A baseline: what a test gave when its figures were accepted, as its file holds it, so that a review sees the change.

Figures are written with all their digits: a rounded baseline would lie beside equal figures, always to the same side,
and ranks would take that for a difference.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from pytest_kafkaperf.core.errors import BaselineError, shortened
from pytest_kafkaperf.core.text import MAX_PROBLEM, MAX_SCHEMA, parse_document
from pytest_kafkaperf.scenario.fields import explain, format_field
from pytest_kafkaperf.scenario.scenario import Scenario

_SCHEMA = 1
"""Version of the file format; a file of a later one is refused and left as it is."""
MAX_SESSIONS = 10
"""Sessions that `append` keeps."""
HOW_TO_MAKE = "make one with --kafka-update-baselines"
HOW_TO_REPAIR = "restore it from version control, or delete it and make a new one with --kafka-update-baselines"


def _iso_time(text: str) -> str:
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("a time needs its offset, such as +00:00")
    return text


def _at_least_one(items: tuple[Any, ...]) -> tuple[Any, ...]:
    if not items:
        raise ValueError("at least one is needed")
    return items


MOST = 1e30
"""No figure is larger: sums and ratios of such figures are numbers, too."""
_Figure = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False, strict=True)]


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
    rounds: Annotated[tuple[dict[str, _Figure], ...], AfterValidator(_at_least_one)]
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

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = Field(alias="schema")
    """Of the file format."""
    nodeid: str
    """The test, as pytest names it."""
    environment: str
    """Where it counts: the name of the folder that the file is in."""
    scenario: dict[str, JsonValue]
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
            "schema": _SCHEMA,
            "nodeid": nodeid,
            "environment": environment,
            "scenario": dict(scenario),
            "sessions": [session],
        }
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            problem = shortened(explain(error), MAX_PROBLEM)
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


def comparable_rounds(record: BaselineRecord, scenario: Mapping[str, Any]) -> BaselineRounds:
    """What a run of this scenario is compared with, where this is its baseline."""
    changes = scenario_changes(record.scenario, scenario)
    if changes:
        return BaselineRounds(obstacle=f"the scenario is not the baseline's ({'; '.join(changes)}); {HOW_TO_MAKE}")
    sessions = tuple(session.rounds for session in record.sessions)
    return BaselineRounds(
        sessions=sessions,
        fingerprint=record.sessions[-1].fingerprint,
        imported=record.imported.tool if record.imported else None,
    )


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


def parse_baseline(content: bytes, path: Path) -> BaselineRecord:
    """Read the content of a file; `path` is for the error.

    Raises:
        BaselineError: it is damaged or is from a newer version.

    """
    try:
        data = parse_document(content)
    except ValueError as error:
        raise _damaged(path, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _damaged(path, f"a JSON object was expected, not {type(data).__name__}")
    version = data.get("schema")
    if isinstance(version, int) and version > _SCHEMA:
        shown = shortened(str(version), MAX_SCHEMA)
        raise BaselineError(
            f"baseline {path} is of schema {shown}, and this version of pytest-kafkaperf reads up to {_SCHEMA}; "
            "upgrade pytest-kafkaperf, or delete the file and make a new one with --kafka-update-baselines"
        )
    try:
        return BaselineRecord.model_validate(data)
    except ValidationError as error:
        raise _damaged(path, explain(error)) from None


def format_baseline(record: BaselineRecord) -> bytes:
    """The content of its file."""
    content = json.dumps(record.model_dump(by_alias=True), indent=2, allow_nan=False)
    return f"{content}\n".encode()


def _damaged(path: Path, problem: str) -> BaselineError:
    return BaselineError(f"baseline {path} is damaged: {shortened(problem, MAX_PROBLEM)}; {HOW_TO_REPAIR}")


def _change(name: str, before: Any, now: Any) -> str:
    told, told_now = ("none" if value is None else format_field(name, value) for value in (before, now))
    return f"{told} -> {told_now}" if told != told_now else f"{before!r} -> {now!r}"

"""The JSON report, read again: of what it holds, what a comparison takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.text import MAX_PROBLEM, MAX_SCHEMA, parse_document
from pytest_kafkaperf.reports.json import SCHEMA
from pytest_kafkaperf.scenario.fields import explain
from pytest_kafkaperf.verdict.baselines.record import MOST

_NEEDED = "a report that --kafka-json has written is needed"


class _Part(BaseModel):
    """Fields that a comparison does not take are passed over: later versions have more."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ReportedRound(_Part):
    """One round."""

    metrics: dict[str, Annotated[float, Field(ge=-MOST, le=MOST, strict=True)]]
    """By name, in base units."""


class ReportedSession(_Part):
    """A further session of a test."""

    rounds: tuple[ReportedRound, ...]
    problems: tuple[str, ...] = ()
    """Why it cannot be trusted."""


class ReportedCheck(_Part):
    """One limit."""

    expression: str


class ReportedTest(_Part):
    """One test."""

    nodeid: str
    scenario: dict[str, JsonValue]
    rounds: tuple[ReportedRound, ...]
    """Of the first session."""
    further_sessions: tuple[ReportedSession, ...] = ()
    checks: tuple[ReportedCheck, ...] = ()
    problems: tuple[str, ...] = ()
    """Why its verdict is INVALID."""


class Report(_Part):
    """What one run of pytest reported."""

    version: Literal[1] = Field(alias="schema")
    created: str
    environment: dict[str, str]
    """Its key, as `key`, and what figures may depend on."""
    tests: tuple[ReportedTest, ...]

    @property
    def key(self) -> str:
        """Which baselines count there."""
        return self.environment.get("key", "")

    @property
    def fingerprint(self) -> dict[str, str]:
        """What figures may depend on."""
        return {name: text for name, text in self.environment.items() if name != "key"}


def read_report(path: Path) -> Report:
    """Read a report.

    Raises:
        UsageError: it cannot be read, is no report, or one of a later schema.

    """
    try:
        data = parse_document(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read report {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}; {_NEEDED}") from None
    if not isinstance(data, dict) or "tests" not in data:
        raise UsageError(f"{path} is JSON, and no report: it has no 'tests'; {_NEEDED}")
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        shown = shortened(str(schema), MAX_SCHEMA)
        raise UsageError(
            f"{path} is of schema {shown}, and this version of pytest-kafkaperf reads up to {SCHEMA}; upgrade "
            "pytest-kafkaperf"
        )
    try:
        return Report.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"report {path} is damaged: {shortened(explain(error), MAX_PROBLEM)}; {_NEEDED}") from None

"""A reader of the JSON report, limited to the fields that a comparison needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.metrics import Better
from pytest_kafkaperf.reports.json import SCHEMA
from pytest_kafkaperf.scenarios.fields import NewerSchemaError, parse_model
from pytest_kafkaperf.verdict.baselines.record import MOST


class _Part(BaseModel):
    """A part of the report; unknown fields are ignored, because later versions may have more."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ReportedRound(_Part):
    """One round."""

    metrics: dict[str, Annotated[float, Field(ge=-MOST, le=MOST, strict=True)]]
    """Metrics by name, in base units."""


class ReportedSession(_Part):
    """A further session of a test."""

    rounds: tuple[ReportedRound, ...]
    reference_rounds: tuple[JsonValue, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why the session is not valid."""


class ReportedCheck(_Part):
    """One threshold."""

    expression: str


class ReportedMetric(_Part):
    """The unit of a metric, and its better direction."""

    unit: str
    better: Better


class ReportedSearch(_Part):
    """The search for a capacity."""

    limits: tuple[str, ...]


class ReportedTest(_Part):
    """One test."""

    nodeid: str
    scenario: dict[str, JsonValue]
    search: ReportedSearch | None = None
    reference: JsonValue = None
    metrics: dict[str, ReportedMetric] = {}
    rounds: tuple[ReportedRound, ...]
    """Rounds of the first session."""
    further_sessions: tuple[ReportedSession, ...] = ()
    checks: tuple[ReportedCheck, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why the verdict is INVALID."""


class Report(_Part):
    """The report of one run of pytest."""

    version: Literal[1] = Field(alias="schema")
    created: str
    environment: dict[str, str]
    """Key of the environment (`key`), and facts that measurements may depend on."""
    tests: tuple[ReportedTest, ...]

    @property
    def key(self) -> str:
        """The key of the environment."""
        return self.environment.get("key", "")

    @property
    def fingerprint(self) -> dict[str, str]:
        """The facts that measurements may depend on."""
        return {name: text for name, text in self.environment.items() if name != "key"}


def read_report(path: Path) -> Report:
    """Read a report.

    Raises:
        UsageError: The file cannot be read, is not a report, or has a later schema.

    """
    try:
        return parse_model(path.read_bytes(), Report, schema=SCHEMA)
    except OSError as error:
        raise UsageError(f"cannot read report {path}: {error.strerror or error}") from None
    except NewerSchemaError as error:
        raise UsageError(f"report {path} {error}") from None
    except ValueError as error:
        raise UsageError(f"report {path} is invalid: {error}; give a report written with --kafka-report=json") from None

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
from pytest_kafkaperf.verdict.outcome import Verdict

FAILED = ("failed", "error")
"""Outcomes in pytest that fail the run."""


class _Part(BaseModel):
    """A part of the report; unknown fields are ignored, because later versions may have more."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ReportedRound(_Part):
    """One round."""

    metrics: dict[str, Annotated[float, Field(ge=-MOST, le=MOST, strict=True)]]
    """Metrics by name, in base units."""


class ReportedTrial(_Part):
    """A further trial of a test."""

    rounds: tuple[ReportedRound, ...]
    other_side_rounds: tuple[JsonValue, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why the trial is not valid."""


class ReportedCheck(_Part):
    """One threshold."""

    expression: str
    outcome: Verdict | None = None
    """Outcome in that run."""
    reason: str = ""


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
    verdict: Verdict
    """Verdict in that run."""
    outcome: str | None = "passed"
    """Outcome in pytest; None if the test did not end."""
    failed_by_verdict: bool = False
    """True if it failed because of its verdict, not by its own code or a fixture."""
    scenario: dict[str, JsonValue]
    search: ReportedSearch | None = None
    live_baseline: JsonValue = None
    metrics: dict[str, ReportedMetric] = {}
    rounds: tuple[ReportedRound, ...]
    """Rounds of the first trial."""
    further_trials: tuple[ReportedTrial, ...] = ()
    checks: tuple[ReportedCheck, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why the verdict is INVALID."""
    spans_s: dict[str, Annotated[float, Field(ge=0, le=MOST)]] = {}
    """Seconds by span: they show where the time of the test went."""
    notes: tuple[str, ...] = ()


class ReportedEnding(_Part):
    """A test that measured nothing."""

    nodeid: str
    outcome: str
    """Outcome in pytest."""
    reason: str | None = None

    @property
    def fails(self) -> bool:
        """True if it failed the run."""
        return self.outcome in FAILED

    def __str__(self) -> str:
        """Return the outcome and its reason: `skipped: needs root`."""
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome


class Report(_Part):
    """The report of one run of pytest."""

    version: Literal[1] = Field(alias="schema")
    created: str
    environment: dict[str, str]
    """Key of the environment (`key`), and facts that measurements may depend on."""
    tests: tuple[ReportedTest, ...]
    unmeasured: tuple[ReportedEnding, ...] = ()

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

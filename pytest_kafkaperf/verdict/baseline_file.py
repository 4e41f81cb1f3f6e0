"""The content of a baseline file: a test's accepted results, in a text format that is readable in code reviews.

Values are written with all digits, because a rounded baseline would differ from equal results.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict, Unpack

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from pytest_kafkaperf.core.environment import Change, cluster_changes, differences
from pytest_kafkaperf.core.errors import BaselineError, shortened
from pytest_kafkaperf.core.text import MAX_PROBLEM
from pytest_kafkaperf.scenarios.fields import OtherSchemaError, explain, format_field, parse_model
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.outcome import Ungated
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind

_SCHEMA_VERSION = 1
"""Version of the file format. Reading a file with a later version raises an error, and the file is never changed."""
MAX_TRIALS = 10
"""Maximum number of trials in a baseline with `--kafka-update-baselines=add`."""
HOW_TO_REPAIR = "restore it from version control, or delete it and make a new one with --kafka-update-baselines"


def _iso_time(text: str) -> str:
    instant = datetime.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("must have a UTC offset, such as +00:00")
    if not 1 < instant.year < datetime.MAXYEAR:
        raise ValueError("must be a valid date in every time zone")
    return text


def _not_empty(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Reject an empty list. `min_length` would count invalid items as missing and add misleading errors."""
    if not items:
        raise ValueError("must not be empty")
    return items


MOST = 1e30
"""Maximum value of a metric; ensures that sums and ratios of values remain finite."""
_Value = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False, strict=True)]


class Imported(BaseModel):
    """Origin of results measured by another tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    """Name of the tool, such as `kafka-producer-perf-test`; multiple names are joined with `and`."""
    files: tuple[str, ...]
    """File names without folders, because folders differ between machines."""


class BaselineTrial(BaseModel):
    """Results from one trial on a freshly started cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    created: Annotated[str, AfterValidator(_iso_time)]
    """Time of the measurement, in ISO 8601 with a UTC offset."""
    commit: str | None = None
    """Commit of the code under test; omitted if unknown."""
    fingerprint: dict[str, str]
    """Facts that can influence the results, such as versions, broker properties and the machine."""
    rounds: Annotated[tuple[dict[str, _Value], ...], AfterValidator(_not_empty)]
    """Metrics for each round, by name, in base units."""
    imported: Imported | None = None
    """Origin of imported results; omitted if this plugin measured them."""

    @property
    def day(self) -> str:
        """Calendar day of the measurement (UTC); trials from the same day share the machine's state."""
        return datetime.datetime.fromisoformat(self.created).astimezone(datetime.UTC).date().isoformat()


class TrialFields(TypedDict):
    """Fields of a `BaselineTrial`, before validation."""

    created: str
    fingerprint: Mapping[str, str]
    rounds: Sequence[Mapping[str, float]]
    commit: NotRequired[str | None]
    imported: NotRequired[Imported | None]


def _of_one_kind(trials: tuple[BaselineTrial, ...]) -> tuple[BaselineTrial, ...]:
    if len({trial.imported is None for trial in trials}) > 1:
        raise ValueError("must not mix measured and imported trials")
    return trials


class BaselineRecord(BaseModel):
    """The content of a baseline file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[1]
    """Version of the file format."""
    nodeid: str
    """Node ID of the test, as in pytest."""
    environment: str
    """Environment to which the baseline belongs; also the name of the folder that contains the file."""
    scenario: dict[str, JsonValue]
    """Output of `Scenario.model_dump(mode="json")`; empty if unknown, for example for imported results."""
    trials: Annotated[tuple[BaselineTrial, ...], AfterValidator(_not_empty), AfterValidator(_of_one_kind)]
    """Trials, oldest first; `--kafka-update-baselines=add` keeps up to 10, from as many days as possible."""

    @property
    def imported(self) -> Imported | None:
        """Origin of imported results; None if this plugin measured them."""
        return self.trials[-1].imported

    @classmethod
    def of_trial(
        cls,
        *,
        nodeid: str,
        environment: str,
        scenario: Mapping[str, Any],
        **trial: Unpack[TrialFields],
    ) -> Self:
        """Create a record from one trial.

        Raises:
            BaselineError: there are no rounds, or a value is negative or not finite.

        """
        content = {
            **trial,
            "fingerprint": dict(trial["fingerprint"]),
            "rounds": [{name: float(value) for name, value in one.items()} for one in trial["rounds"]],
        }
        record = {
            "schema_version": _SCHEMA_VERSION,
            "nodeid": nodeid,
            "environment": environment,
            "scenario": dict(scenario),
            "trials": [content],
        }
        try:
            return cls.model_validate(record)
        except ValidationError as error:
            problem = shortened(explain(error), MAX_PROBLEM)
            raise BaselineError(
                f"cannot create a baseline from the results of {nodeid}: {problem}; run the test again"
            ) from None


def grown(old: BaselineRecord | None, new: BaselineRecord) -> BaselineRecord:
    """Add a new record's trials to an old record; keep up to `MAX_TRIALS`, preferring more days over newer trials.

    Returns only the new record if the workloads or external clusters differ, or if either record was imported.
    """
    if old is None or old.imported or new.imported or scenario_changes(old.scenario, new.scenario):
        return new
    if cluster_changes(old.trials[-1].fingerprint, new.trials[-1].fingerprint):
        return new
    trials = sorted((*old.trials, *new.trials), key=lambda one: datetime.datetime.fromisoformat(one.created))
    while len(trials) > MAX_TRIALS:
        on_day = Counter(trial.day for trial in trials)
        trials.remove(max(trials, key=lambda one: on_day[one.day]))  # the oldest trial on the busiest day
    return new.model_copy(update={"trials": tuple(trials)})


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRounds:
    """Baseline rounds to compare a run with, or the reason why there are none."""

    trials: tuple[tuple[Mapping[str, float], ...], ...] = ()
    """One tuple per trial, with one mapping per round: metrics by name, in base units."""
    days: tuple[str, ...] = ()
    """Day of each trial, in ISO 8601; empty if all trials ran on the same day."""
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    """Fingerprint of the newest trial; empty if unknown."""
    mixed: tuple[Change, ...] = ()
    """Differences between the newest trial's fingerprint and those of earlier trials."""
    commit: str | None = None
    """Commit of the newest trial; None if unknown."""
    obstacle: Obstacle | None = None
    """Reason why the comparison does not count; None if it counts."""
    ungated: Ungated | None = None
    """Reason why thresholds relative to this baseline are MEASURED; None if they are judged."""
    stored: bool = True
    """False if this environment does not have a baseline for the test."""
    imported: str | None = None
    """The tool that measured imported rounds, whose noise is unknown; None if this plugin measured them."""

    @property
    def by_day(self) -> list[list[tuple[Mapping[str, float], ...]]]:
        """The trials, grouped by day."""
        groups: dict[str, list[tuple[Mapping[str, float], ...]]] = {}
        for day, trial in zip(self.days or [""] * len(self.trials), self.trials, strict=True):
            groups.setdefault(day, []).append(trial)
        return [*groups.values()]


def comparable_rounds(
    record: BaselineRecord, scenario: Mapping[str, Any], fingerprint: Mapping[str, str] | None = None
) -> BaselineRounds:
    """Return a record's rounds for comparison with a run of this scenario.

    If the run's `fingerprint` is passed, results from an external cluster are compared only with results from the same
    cluster, because clusters differ in speed.
    """
    changes = scenario_changes(record.scenario, scenario)
    if changes:
        return BaselineRounds(obstacle=Obstacle(ObstacleKind.OTHER_SCENARIO, {"changes": "; ".join(changes)}))
    trials, newest = tuple(trial.rounds for trial in record.trials), record.trials[-1].fingerprint
    moved = () if fingerprint is None or record.imported else cluster_changes(newest, fingerprint)
    if moved:
        others = "; ".join(map(str, moved))
        return BaselineRounds(obstacle=Obstacle(ObstacleKind.OTHER_CLUSTER, {"changes": others}))
    return BaselineRounds(
        trials=trials,
        days=tuple(trial.day for trial in record.trials),
        fingerprint=newest,
        mixed=tuple(dict.fromkeys(one for each in record.trials for one in differences(each.fingerprint, newest))),
        commit=record.trials[-1].commit,
        imported=record.imported.tool if record.imported else None,
    )


def scenario_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the differences between two workloads, such as `partitions: 6 -> 12`.

    If a field is missing on one side, its default value is used, because the field may be newer than the baseline. An
    empty side represents an unknown workload, for which no differences are returned. `rounds` is not part of the
    workload.
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
    """Parse the content of a baseline file; `path` is used only in error messages.

    Raises:
        BaselineError: the content is damaged or uses another version of the format.

    """
    try:
        return parse_model(content, BaselineRecord, schema_version=_SCHEMA_VERSION)
    except OtherSchemaError as error:
        advice = "or delete the file and make a new one with --kafka-update-baselines"
        raise BaselineError(f"baseline {path} {error}, {advice}") from None
    except ValueError as error:
        raise BaselineError(f"baseline {path} is damaged: {error}; {HOW_TO_REPAIR}") from None


def format_baseline(record: BaselineRecord) -> bytes:
    """Convert a record to a baseline file's content."""
    content = json.dumps(record.model_dump(exclude_defaults=True), indent=2, allow_nan=False)
    return f"{content}\n".encode()


def _change(name: str, before: Any, now: Any) -> str:
    old, new = (format_field(name, value) for value in (before, now))
    return f"{old} -> {new}" if old != new else f"{before!r} -> {now!r}"

"""Reasons for a threshold's outcome, and obstacles to a comparison with a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

_MEASURE_ONE = "measure one with --kafka-update-baselines"
_MEASURE_NEW = "measure a new baseline with --kafka-update-baselines"


class ObstacleKind(Enum):
    """Obstacles to a comparison with a baseline, each with a text that contains placeholders, and advice.

    The last three occur in comparisons of two reports.
    """

    NO_BASELINE = ("no baseline for this test", _MEASURE_ONE)
    OTHER_ENVIRONMENT = ("no baseline for environment {environment!r} (there is one for {known})", _MEASURE_ONE)
    OTHER_SCENARIO = ("the scenario differs from the baseline's ({changes})", _MEASURE_NEW)
    OTHER_CLUSTER = (
        "the baseline was measured on another cluster ({changes})",
        f"run the test on that cluster, use --kafka-environment for separate baselines, or {_MEASURE_NEW}",
    )
    INVALID_REPORT = ("the base run is INVALID: {problem}",)
    OTHER_SCENARIO_REPORTED = ("the scenario differs from the base report ({changes})",)
    OTHER_ENVIRONMENT_REPORTED = (
        "the base report is from environment {base!r}, not {head!r}; the change is shown but not judged",
    )

    def __init__(self, text: str, advice: str = "") -> None:
        self.text = text
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Reason why a baseline does not count."""

    kind: ObstacleKind
    values: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Values for the placeholders in the kind's text."""

    @property
    def fact(self) -> str:
        """The reason, without advice."""
        return self.kind.text.format_map(self.values)

    @property
    def advice(self) -> str:
        """Advice for the user; empty if there is none."""
        return self.kind.advice

    def __str__(self) -> str:
        """Return the fact and the advice."""
        return "; ".join(filter(None, (self.fact, self.advice)))


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for a threshold's outcome."""

    fact: str
    """The finding, without advice about the obstacle."""
    obstacle: Obstacle | None = None
    """The obstacle that the reason describes; None if the baseline counts or the threshold does not refer to a
    baseline."""

    @classmethod
    def of(cls, obstacle: Obstacle) -> Reason:
        """Return a reason that describes the given obstacle."""
        return cls(obstacle.fact, obstacle)

    def __str__(self) -> str:
        """Return the fact and the advice about the obstacle."""
        advice = "" if self.obstacle is None else self.obstacle.advice
        return "; ".join(filter(None, (self.fact, advice)))

    @property
    def before_command(self) -> str:
        """Text to show before a command that creates a baseline; omits the advice to create one."""
        replaced = self.obstacle is not None and self.obstacle.advice in (_MEASURE_ONE, _MEASURE_NEW)
        return self.fact if replaced else str(self)

    def of_part(self, part: str) -> Reason:
        """Return this reason for one part of the threshold, as in `25 ms: median of 5 rounds, each 30 ms`."""
        return replace(self, fact=f"{part}: {self.fact}")


def joined(reasons: Iterable[Reason]) -> str:
    """Return reasons as one text."""
    return "; ".join(filter(None, map(str, reasons)))

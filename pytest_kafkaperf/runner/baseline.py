"""A test's baseline: earlier trials, another side, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_kafkaperf.core.environment import Change
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """The rounds of earlier trials; empty if there is no baseline or a revision is used instead."""

    rounds: BaselineRounds = field(default_factory=BaselineRounds)
    revision: Revision | None = None
    """The requested revision that the test could not be compared with; None if no revision was requested."""
    note: Notice | None = None
    """Reason why the test was not compared with that revision; None if no revision was requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBaseline:
    """The other side; rounds alternate between it and the test's own side."""

    side: Side
    revision: Revision | None = None
    """The other side's code, with its commit; None if both sides have the same code."""
    changes: tuple[Change, ...] = ()
    """Code and package differences between the two sides."""
    note: Notice | None = None
    """Remarks about these packages."""


Baseline = StoredBaseline | LiveBaseline

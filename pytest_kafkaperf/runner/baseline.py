"""The other side of a comparison: earlier trials, another cluster, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_kafkaperf.core.environment import Change
from pytest_kafkaperf.core.notices import Notice
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """The rounds of earlier trials; there are none without a baseline, or if a revision replaces it."""

    rounds: BaselineRounds = field(default_factory=BaselineRounds)
    revision: Revision | None = None
    """The revision of the code that the test could not be compared with; None if there is no such revision."""
    note: Notice | None = None
    """The reason why the test was not compared with that revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBaseline:
    """Another side, on which the test runs in turns with its own."""

    side: Side
    revision: Revision | None = None
    """The code of the other side, with its commit; None if it is this side's."""
    changes: tuple[Change, ...] = ()
    """Differences between the code and the packages of the two sides."""
    note: Notice | None = None
    """Remark on these packages."""


Baseline = StoredBaseline | LiveBaseline

"""The other side of a comparison: earlier trials, another cluster, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.runner.peer import PeerTest
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """The rounds of earlier trials; there are none if the test has no baseline or is new."""

    rounds: BaselineRounds = field(default_factory=BaselineRounds)
    lacking: str | None = None
    """The revision of the code that lacks this test; None if it was not compared with one."""
    note: str | None = None
    """The reason why the test was not compared with that revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBaseline:
    """Another cluster, on which the test runs side by side."""

    cluster: Cluster
    twin: PeerTest | None = None
    """The same test of another revision of the code; None if it is this revision's."""


Baseline = StoredBaseline | LiveBaseline

"""What a perf test gets back, and what the reports are made of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.metrics import CATALOGUE

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.measurement import Round
    from pytest_kafkaperf.scenario import Scenario
    from pytest_kafkaperf.verdict import Check, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One perf test that has run: what was measured and what was found."""

    nodeid: str
    scenario: Scenario
    sources: Mapping[str, str]
    """Where each field of the scenario that is not the default was set: `marker`, `command line`..."""
    cluster: Cluster
    rounds: tuple[Round, ...]
    verdict: Verdict
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    """Each once, over all rounds."""
    problems: tuple[str, ...]
    """Why the verdict is INVALID; empty otherwise."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Each metric over the rounds, in base units: the median, or the sum of counts such as `errors`."""
        return {name: summary(name, values) for name, values in self.values().items()}

    def values(self) -> dict[str, list[float]]:
        """Each metric's value in every round that has it, in the catalogue's order."""
        return {
            name: values
            for name in CATALOGUE
            if (values := [one.metrics[name] for one in self.rounds if name in one.metrics])
        }


def summary(name: str, values: list[float]) -> float:
    """One figure for all rounds of a metric: the sum of counts, else the median."""
    return sum(values) if CATALOGUE[name].summed else statistics.median(values)

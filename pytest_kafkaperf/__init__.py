"""Performance regression tests for Kafka deployments, written as ordinary pytest tests.

The public names below are imported at their first use, because pytest imports this package in every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster
    from pytest_kafkaperf.core.errors import KafkaPerfError
    from pytest_kafkaperf.runner.result import Result
    from pytest_kafkaperf.runner.round import Round
    from pytest_kafkaperf.scenarios.scenario import Scenario
    from pytest_kafkaperf.verdict.outcome import Check, Verdict

__all__ = ["Check", "Cluster", "KafkaPerfError", "Result", "Round", "Scenario", "Verdict"]

_MODULES = {
    "Check": "verdict.outcome",
    "Cluster": "clusters.spec",
    "KafkaPerfError": "core.errors",
    "Result": "runner.result",
    "Round": "runner.round",
    "Scenario": "scenarios.scenario",
    "Verdict": "verdict.outcome",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

"""Performance regression tests for Kafka deployments, written as ordinary pytest tests.

Public names; loaded when they are first used, since the plugin is imported in every pytest run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster
    from pytest_kafkaperf.errors import KafkaPerfError
    from pytest_kafkaperf.finding import Verdict
    from pytest_kafkaperf.measurement import Round
    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.scenario import Scenario
    from pytest_kafkaperf.verdict import Check

__all__ = ["Check", "Cluster", "KafkaPerfError", "Result", "Round", "Scenario", "Verdict"]

_HOMES = {
    "Check": "verdict",
    "Cluster": "clusters.spec",
    "KafkaPerfError": "errors",
    "Result": "result",
    "Round": "measurement",
    "Scenario": "scenario",
    "Verdict": "finding",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)

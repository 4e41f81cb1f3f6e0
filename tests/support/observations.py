"""Observations of a load, from the facts that a test is about."""

from __future__ import annotations

import dataclasses
from typing import Any

from pytest_kafkaperf.load.messages import LoadReport
from pytest_kafkaperf.runner.rounds.observations import LogComparison, Observations


def observed(**facts: Any) -> Observations:
    """Return observations with these facts of the load, of the log and of the observers, each by its own name."""
    load = LoadReport(**{"workers": (), "start_ns": None} | _taken(facts, LoadReport))
    log = LogComparison(**_taken(facts, LogComparison))
    return Observations(load=load, log=log, **facts)


def _taken(facts: dict[str, Any], kind: type) -> dict[str, Any]:
    """Take the facts out that are fields of this class."""
    return {field.name: facts.pop(field.name) for field in dataclasses.fields(kind) if field.name in facts}

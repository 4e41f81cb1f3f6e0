"""Baseline files, changed as if another machine had measured them."""

from __future__ import annotations

import json

from tests.support.project import Project

FACTOR = 20
"""By which a baseline is faster: far more than this machine's speed changes while other tests run."""


def faster(project: Project, factor: float) -> None:
    """Make each baseline that of a faster machine."""
    for file in (project.folder / "kafka-baselines").rglob("*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        for trial in record["trials"]:
            for one in trial["rounds"]:
                one["produce.throughput"] *= factor
        file.write_text(json.dumps(record), encoding="utf-8")

"""GitHub workflows: their steps, run by bash as GitHub runs them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_TIMEOUT_S = 60


def read_workflow(path: Path) -> dict[str, Any]:
    """Read a workflow."""
    found: dict[str, Any] = YAML(typ="safe").load(path)
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the steps of all its jobs."""
    for job in read_workflow(path)["jobs"].values():
        yield from job["steps"]


def run_step(path: Path, name: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the step of this name in a folder; the variables must include those that its `env` names."""
    (step,) = (each for each in steps(path) if each.get("name") == name)
    missing = {*step.get("env", ())} - {*variables}
    assert not missing
    script = folder.parent / f"{folder.name}.sh"
    script.write_text(step["run"], encoding="utf-8")
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", str(script)],
        cwd=folder,
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )

"""GitHub workflows: their expressions, evaluated as GitHub does, and their steps, run by bash."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.patience import PATIENCE_S


def read_workflow(path: Path) -> dict[str, Any]:
    """Read a workflow."""
    found: dict[str, Any] = YAML(typ="safe").load(path)
    return found


def steps(path: Path, *, job: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the steps of this job, or of all its jobs."""
    for name, found in read_workflow(path)["jobs"].items():
        if job in (None, name):
            yield from found.get("steps", ())


def is_true(condition: str, github: Mapping[str, Any]) -> bool:
    """Evaluate the `if` of a job for this context."""
    return bool(_value(condition, github))


def expand(text: str, github: Mapping[str, Any]) -> str:
    """Replace the expressions in a text by their values for this context."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(_value(found[1], github) or ""), text)


def _value(expression: str, github: Mapping[str, Any]) -> Any:
    """Evaluate comparisons, `&&` and `||` of strings and of the context; both languages return an operand."""
    translated = expression.replace("&&", " and ").replace("||", " or ")
    known = re.sub(r"github(?:\.\w+)+", lambda found: repr(_lookup(found[0], github)), translated)
    return eval(known.strip(), {"__builtins__": {}})  # noqa: S307 - a line of this repository


def _lookup(path: str, github: Mapping[str, Any]) -> Any:
    """Return a value of the context; None, GitHub's null, where there is none."""
    value: Any = github
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def run_step(
    path: Path, name: str, folder: Path, variables: Mapping[str, str], *, job: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the step of this name in a folder; the variables must include those that its `env` names."""
    (step,) = (each for each in steps(path, job=job) if each.get("name") == name)
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
        timeout=PATIENCE_S,
        check=False,
    )

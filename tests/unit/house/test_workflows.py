"""The project's own GitHub workflows: valid, and pinned."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))


def test_workflows_are_valid() -> None:
    """GitHub ignores a misspelt key, or does not start the workflow. The check names the file."""
    assert WORKFLOWS
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema=vendor.github-workflows",
        *map(str, WORKFLOWS),
    ]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@each
def test_a_workflow_pins_its_actions(path: Path) -> None:
    """A floating tag such as v6 changes what a job runs without a commit here."""
    used = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    assert used
    assert [name for name in used if not re.fullmatch(r"\S+@v\d+\.\d+\.\d+|\./\S+", name)] == []


def test_pre_commit_pins_its_hooks() -> None:
    """Everyone who commits runs the same checks; local hooks use the tools of the group `dev`."""
    config = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")
    revisions = [repo["rev"] for repo in config["repos"] if repo["repo"] != "local"]
    assert revisions
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", revision) for revision in revisions)

"""The project's own GitHub workflows: valid, and pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support.schemas import check

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.name))


@each
def test_a_workflow_is_valid(path: Path) -> None:
    """GitHub ignores a misspelt key, or does not start the workflow."""
    done = check(path, "--builtin-schema=vendor.github-workflows")
    assert done.exit_code == 0, done.output


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

"""The examples for CI: what their systems would refuse, and what the plugin would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.schemas import check
from tests.unit.docs.pages import OPTION_NAMES

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples"
_GITHUB = ["--builtin-schema=vendor.github-workflows"]
SCHEMAS = {
    "ci/github-nightly.yml": _GITHUB,
    "ci/github-pull-request.yml": _GITHUB,
    "ci/gitlab-ci.yml": ["--builtin-schema=vendor.gitlab-ci", "--data-transform=gitlab-ci"],
    "orders-service/.github/workflows/ci.yml": _GITHUB,
    "orders-sink/.github/workflows/ci.yml": _GITHUB,
}
"""The schema of each file and how it is read, for `check-jsonschema`, which brings both schemas along."""


def test_every_example_has_its_schema() -> None:
    """A file that nothing checks is wrong some day."""
    files = [*FOLDER.glob("ci/*"), *FOLDER.glob("*/.github/workflows/*")]
    assert {str(path.relative_to(FOLDER)) for path in files} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_is_what_its_system_reads(name: str) -> None:
    """A key that is misspelt is ignored there, or the pipeline does not start."""
    done = check(FOLDER / name, *SCHEMAS[name])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_uses_options_that_there_are(name: str) -> None:
    """An option that was renamed would fail the reader's first job."""
    used = re.findall(r"--kafka-([a-z-]+)", (FOLDER / name).read_text(encoding="utf-8"))
    assert used
    assert set(used) <= set(OPTION_NAMES)


def test_a_wrong_key_would_be_found(tmp_path: Path) -> None:
    """The check itself works."""
    text = (FOLDER / "ci/github-pull-request.yml").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert check(wrong, *SCHEMAS["ci/github-pull-request.yml"]).exit_code == 1

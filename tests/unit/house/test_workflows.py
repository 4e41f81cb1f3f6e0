"""GitHub workflows of this project, of the examples and of the guide: valid, pinned, and without known holes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support.schemas import check
from tests.unit.docs.pages import PAGES, blocks

ROOT = Path(__file__).parents[3]
GITHUB = ROOT / ".github"
OWN = sorted((GITHUB / "workflows").glob("*.yml"))
EXAMPLES = sorted([*ROOT.glob("examples/ci/github-*.yml"), *ROOT.glob("examples/*/.github/workflows/*.yml")])
TEMPLATES = sorted(ROOT.glob("pytest_kafkaperf/plugin/templates/*/.github/workflows/*.yml.template"))
each = pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.name))
_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def workflows(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All workflows; those of the guide are copied to files."""
    folder = tmp_path_factory.mktemp("guide")
    copied = []
    for number, block in enumerate(blocks("yaml")):
        if "jobs" in YAML(typ="safe").load(block.text):
            copied.append(folder / f"{block.page.stem}-{number}.yml")
            copied[-1].write_text(block.text, encoding="utf-8")
    for template in TEMPLATES:
        copied.append(folder / template.stem)
        copied[-1].write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    assert all((OWN, EXAMPLES, TEMPLATES, copied))
    return [*OWN, *EXAMPLES, *copied]


@each
def test_a_workflow_is_valid(path: Path) -> None:
    """GitHub ignores a misspelt key, or does not start the workflow."""
    done = check(path, "--builtin-schema=vendor.github-workflows")
    assert done.exit_code == 0, done.output


def _uses() -> Iterator[tuple[str, str]]:
    """Yield each action and the rest of its line."""
    for path in (*OWN, *EXAMPLES, *PAGES):
        yield from re.findall(r"^[ -]*uses: ([^\s@]+)(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_actions_are_pinned_by_commit() -> None:
    """Whoever can move a tag such as v6 changes what a job runs, next to the tokens of that job."""
    found = [(name, rest) for name, rest in _uses() if not name.startswith("./")]
    assert found
    assert [name for name, rest in found if not re.fullmatch(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+", rest)] == []


def test_an_action_has_one_pin_everywhere() -> None:
    """An update must not forget the examples and the guide, which Dependabot cannot read."""
    pins: dict[str, set[str]] = {}
    for name, rest in _uses():
        repository = "/".join(name.split("/")[:2])
        pins.setdefault(repository, set()).add(rest)
    assert {name: rests for name, rests in pins.items() if len(rests) > 1} == {}


def test_dependabot_watches_every_folder_of_workflows() -> None:
    """A pin that nobody updates keeps an action's known holes."""
    done = check(GITHUB / "dependabot.yml", "--builtin-schema=vendor.dependabot")
    assert done.exit_code == 0, done.output
    updates = YAML(typ="safe").load(GITHUB / "dependabot.yml")["updates"]
    (actions,) = (update for update in updates if update["package-ecosystem"] == "github-actions")
    folders = {f"/{path.parent.relative_to(ROOT)}" for path in EXAMPLES}
    assert set(actions["directories"]) == {"/", *folders}  # "/" means .github/workflows


def test_zizmor_finds_nothing(workflows: list[Path]) -> None:
    """It knows how workflows give away tokens and run the code of strangers."""
    done = _zizmor(*workflows, GITHUB / "dependabot.yml")
    assert done.returncode == 0, done.stdout


def test_zizmor_would_find_an_injection(tmp_path: Path) -> None:
    """The check itself works."""
    text = (GITHUB / "workflows" / "fast.yml").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("bash .ci/run fast", "echo ${{ github.head_ref }}"), encoding="utf-8")
    assert "template-injection" in _zizmor(wrong).stdout


def _zizmor(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run zizmor, which belongs to the group `dev`."""
    program = Path(sys.executable).with_name("zizmor")
    options = ["--offline", "--no-progress", "--format=plain", "--no-config"]
    return subprocess.run([program, *options, *paths], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint: .ci/run installs it")
def test_actionlint_finds_nothing(workflows: list[Path]) -> None:
    """It checks expressions, contexts and shell commands, which the schema of workflows does not describe."""
    done = subprocess.run(
        ["actionlint", "-no-color", *workflows], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_pre_commit_pins_its_hooks() -> None:
    """Everyone who commits runs the same checks; local hooks use the tools of the group `dev`."""
    config = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")
    revisions = [repo["rev"] for repo in config["repos"] if repo["repo"] != "local"]
    assert revisions
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", revision) for revision in revisions)

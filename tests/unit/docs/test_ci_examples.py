"""The examples for CI: what their systems would refuse, and what the plugin would."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.patience import PATIENCE_S
from tests.support.schemas import check
from tests.support.workflows import read_workflow, steps
from tests.unit.docs.pages import OPTION_NAMES

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples"
_GITHUB = ["--builtin-schema=vendor.github-workflows"]
SCHEMAS = {
    "ci/github-baseline.yml": _GITHUB,
    "ci/github-nightly.yml": _GITHUB,
    "ci/github-pull-request-comment.yml": _GITHUB,
    "ci/github-pull-request.yml": _GITHUB,
    "ci/gitlab-ci.yml": ["--builtin-schema=vendor.gitlab-ci", "--data-transform=gitlab-ci"],
    "orders-service/.github/workflows/ci.yml": _GITHUB,
    "orders-sink/.github/workflows/ci.yml": _GITHUB,
}
"""The schema of each file and how it is read, for `check-jsonschema`, which brings both schemas along."""
JENKINS = "ci/Jenkinsfile"
"""A program of Jenkins's own; no schema describes it."""
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
WORKFLOWS = [name for name, schema in SCHEMAS.items() if schema is _GITHUB]
GATE, COMMENT = (FOLDER / "ci" / f"github-pull-request{name}.yml" for name in ("", "-comment"))


def test_every_example_has_its_schema() -> None:
    """A file that nothing checks is wrong some day."""
    files = [*FOLDER.glob("ci/*"), *FOLDER.glob("*/.github/workflows/*")]
    assert {str(path.relative_to(FOLDER)) for path in files} == {*SCHEMAS, JENKINS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_example_is_what_its_system_reads(name: str) -> None:
    """A key that is misspelt is ignored there, or the pipeline does not start."""
    done = check(FOLDER / name, *SCHEMAS[name])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", [*SCHEMAS, JENKINS])
def test_an_example_uses_options_that_there_are(name: str) -> None:
    """An option that was renamed would fail the reader's first job."""
    used = re.findall(r"--kafka-([a-z-]+)", (FOLDER / name).read_text(encoding="utf-8"))
    assert used or "comment" in name
    assert set(used) <= set(OPTION_NAMES)


def test_a_wrong_key_would_be_found(tmp_path: Path) -> None:
    """The check itself works."""
    text = (FOLDER / "ci/github-pull-request.yml").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert check(wrong, *SCHEMAS["ci/github-pull-request.yml"]).exit_code == 1


@pytest.mark.parametrize("name", [*SCHEMAS, JENKINS])
def test_bash_can_read_every_command(name: str) -> None:
    """A quote too many fails the reader's first job."""
    for script in _scripts(name):
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert (done.returncode, done.stderr) == (0, ""), script


def _scripts(name: str) -> list[str]:
    path = FOLDER / name
    if name == JENKINS:
        found = re.findall(r"sh '''(.*?)'''", path.read_text(encoding="utf-8"), re.DOTALL)
    elif name in WORKFLOWS:
        found = [step["run"] for step in steps(path) if "run" in step]
    else:
        parts = ("before_script", "script", "after_script")
        jobs = YAML(typ="safe").load(path).values()
        found = [line for job in jobs for part in parts for line in job.get(part, ())]
    assert found
    return found


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_command_contains_a_value_of_the_event(name: str) -> None:
    """GitHub would paste the name of a branch into the script, and the shell would run it."""
    assert [script for script in _scripts(name) if "${{" in script] == []


@pytest.mark.parametrize("name", [*SCHEMAS, JENKINS])
def test_jars_are_cached_by_the_version_of_kafka(name: str) -> None:
    """The tests change with each pull request, the jars do not."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    keys = [key for key in re.findall(r" key: (.*)", text) if "history" not in key]
    versions = re.findall(r"""KAFKA_VERSION(?:: | = )["'](.*)["']""", text)
    assert set(versions) <= {DEFAULT_VERSION}
    valid = {"kafka-${{ env.KAFKA_VERSION }}", "kafka-$KAFKA_VERSION"} if versions else {f"kafka-{DEFAULT_VERSION}"}
    assert set(keys) <= valid


def test_the_code_of_a_fork_has_a_token_that_can_only_read() -> None:
    """What may write runs no code of the pull request, and takes nothing but the report from it."""
    gate, comment = read_workflow(GATE), read_workflow(COMMENT)
    assert set(gate["permissions"].values()) == {"read"}
    assert "secrets." not in GATE.read_text(encoding="utf-8")
    assert set(gate["on"]) == {"pull_request"}
    assert comment["permissions"] == {}
    assert comment["jobs"]["comment"]["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert [step["uses"].partition("@")[0] for step in steps(COMMENT) if "uses" in step] == [
        "actions/download-artifact"
    ]
    assert comment["on"]["workflow_run"]["workflows"] == [gate["name"]]
    (wanted,) = (step["with"]["name"] for step in steps(COMMENT) if "uses" in step)
    assert wanted in {step["with"].get("name") for step in steps(GATE) if "with" in step}


def test_the_token_that_writes_baselines_is_in_no_job_that_runs_tests() -> None:
    """A test, or a package that it installs, could push with it."""
    jobs = read_workflow(FOLDER / "ci" / "github-baseline.yml")["jobs"]
    assert {name: ("secrets." in str(job), "pytest" in str(job)) for name, job in jobs.items()} == {
        "measure": (False, True),
        "commit": (True, False),
    }
    assert jobs["commit"]["environment"] == "kafka-baseline"  # where reviewers guard the secret


def test_gitlabs_token_that_writes_is_in_no_job_that_runs_tests() -> None:
    """Only that job is in the environment that has the token, and only on the default branch."""
    jobs = read_workflow(FOLDER / "ci" / "gitlab-ci.yml")
    found = {name for name, job in jobs.items() if "TOKEN" in str(job) or "environment" in job}
    assert found == {"kafka-baseline-commit"}
    assert "pytest" not in str(jobs["kafka-baseline-commit"]["script"])
    assert "extends" not in jobs["kafka-baseline-commit"]
    assert "merge_request" not in str(jobs["kafka-baseline-commit"]["rules"])


def test_baselines_are_measured_and_committed_at_one_commit() -> None:
    """The head of the branch may have moved on between the two jobs, to code that nobody has measured."""
    name = FOLDER / "ci" / "github-baseline.yml"
    refs = [step["with"]["ref"] for step in steps(name) if step.get("uses", "").startswith("actions/checkout@")]
    assert refs == ["${{ github.event.pull_request.head.sha || github.sha }}"] * 2


@pytest.mark.parametrize("name", [*SCHEMAS, JENKINS])
def test_this_plugin_is_installed_in_one_version(name: str) -> None:
    """Otherwise a release, or whoever takes the project over, changes what a job runs."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    package = FOLDER / name.partition("/")[0] / "pyproject.toml"
    if package.exists():
        text += package.read_text(encoding="utf-8")
    found = re.findall(r"pytest-kafkaperf\[[a-z,]+\]([^'\"]*)", text)
    assert set(found) == ({f"=={VERSION}"} if "pip install" in text else set())


def test_the_jobs_of_jenkins_share_no_home() -> None:
    """A pull request could leave code in a cache, or a history, that the main branch uses."""
    text = (FOLDER / JENKINS).read_text(encoding="utf-8")
    assert 'HOME = "${env.WORKSPACE}/' in text
    assert [line for script in _scripts(JENKINS) for line in script.splitlines() if "HOME/" in line] == []

"""The workflow that publishes this package: its steps, run by bash, and what builds the package."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.repository import git
from tests.support.workflows import read_workflow, run_step, steps

ROOT = Path(__file__).parents[3]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
REQUIREMENTS = ROOT / ".github" / "release-requirements.txt"
SAME_PACKAGES = "Fail unless these are the packages that were built"


def status_of(step: str, folder: Path, variables: Mapping[str, str], *, job: str = "build") -> int:
    """Run a step of a job; return its exit status."""
    return run_step(RELEASE, step, folder, {"PATH": os.environ["PATH"], **variables}, job=job).returncode


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository with the branch main and another one, which is ahead of it."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=First")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Second")
    git(origin, "checkout", "--quiet", "-b", "side")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Not reviewed")
    git(origin, "clone", "--quiet", str(origin), str(tmp_path / "clone"))
    return tmp_path / "clone"


@pytest.mark.parametrize(
    ("commit", "accepted"), [("origin/main", True), ("origin/main^", True), ("origin/side", False)]
)
def test_a_tag_is_released_only_on_main(clone: Path, commit: str, *, accepted: bool) -> None:
    """Whoever may push a tag could otherwise publish a commit that nobody has reviewed."""
    git(clone, "checkout", "--quiet", "--detach", commit)
    step = "Fail unless the tag is on main"
    assert (status_of(step, clone, {"GITHUB_REF_NAME": "v1.2.3"}) == 0) is accepted


def test_a_tag_names_the_version_of_the_package(tmp_path: Path) -> None:
    """PyPI takes a version once and never again."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    step = "Fail unless the tag names the version in pyproject.toml"
    assert [status_of(step, folder, {"GITHUB_REF_NAME": tag}) == 0 for tag in ("v1.2.3", "v1.2.4")] == [True, False]


@pytest.mark.parametrize("job", ["publish", "release"])
def test_only_packages_with_the_digests_of_the_build_are_published(tmp_path: Path, job: str) -> None:
    """Any job of the run can upload an artifact, also one in which a test or a package of others runs."""
    folder = tmp_path / "work"
    packages = folder / "dist"
    packages.mkdir(parents=True)
    (packages / "a.whl").write_text("a")
    (packages / "a.tar.gz").write_text("b")
    output = tmp_path / "output"
    assert status_of("Note the digests", folder, {"GITHUB_OUTPUT": str(output)}) == 0
    name, _, digests = output.read_text().removesuffix("\nEND\n").partition("<<END\n")
    assert name == "digests"
    assert digests.count("\n") == 1

    def published() -> bool:
        return status_of(SAME_PACKAGES, folder, {"DIGESTS": digests}, job=job) == 0

    assert published()
    (packages / "b.whl").write_text("a")
    assert not published()
    (packages / "b.whl").unlink()
    (packages / "a.whl").write_text("changed")
    assert not published()


def test_packages_are_compared_before_anything_uses_them() -> None:
    """An attestation of other files would be worse than none."""
    for job in ("publish", "release"):
        names = [step.get("name", step.get("uses", "")) for step in read_workflow(RELEASE)["jobs"][job]["steps"]]
        downloaded = next(place for place, name in enumerate(names) if name.startswith("actions/download-artifact@"))
        assert names[downloaded + 1] == SAME_PACKAGES


def test_the_build_backend_is_pinned() -> None:
    """It runs with the code, and can put anything into the package."""
    (command,) = (step["run"] for step in steps(RELEASE, job="build") if step.get("name") == "Build")
    assert "--require-hashes" in command
    assert "--no-isolation" in command
    required = re.sub(r"^#.*\n", "", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    each = required.replace("\\\n", "").splitlines()
    assert [line for line in each if not re.match(r"[a-z-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)] == []
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert backend.partition(">=")[0] in {line.partition("==")[0] for line in each}

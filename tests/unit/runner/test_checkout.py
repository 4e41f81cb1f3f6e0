"""Checkouts of other revisions: which commit, where its files are, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import sys
import venv
from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.core.environment import current_commit
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.runner import checkout
from pytest_kafkaperf.runner.checkout import Checkout, check_revision, checked_out, is_base, is_of_others
from pytest_kafkaperf.runner.settings import Revision, parse_revision
from tests.support.repository import git

TEST = "perf/test_orders.py"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of tests in a repository: two commits on main, one on the branch that is checked out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CHANGE_TARGET"):
        monkeypatch.delenv(name, raising=False)
    top = tmp_path / "repository"
    folder = top / "service"
    (folder / "perf").mkdir(parents=True)
    git(top, "init", "--quiet", "--initial-branch=main")
    for text in ("first", "second"):
        commit(folder, text)
    git(top, "checkout", "--quiet", "-b", "topic")
    commit(folder, "third")
    return folder


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments of setups that do not use pip, whose installation takes seconds, lack it."""
    create = venv.create

    def create_without(folder: Path, *, with_pip: bool, symlinks: bool) -> None:
        assert with_pip
        create(folder, symlinks=symlinks)

    monkeypatch.setattr(venv, "create", create_without)


def commit(folder: Path, text: str) -> None:
    """Commit this text as the application and its test."""
    for name in ("orders.py", TEST):
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", f"--message=Write {text}")


def revision(text: str, root: Path) -> Revision:
    """Parse a value of the option."""
    found = parse_revision(text, start=root)
    assert found is not None
    return found


def texts(checkout: Checkout) -> list[str]:
    """Return the application and the test of a checkout."""
    return [(checkout.root / name).read_text(encoding="utf-8") for name in ("orders.py", TEST)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git:main", ["second", "third"]),
        ("git:merge-base", ["second", "third"]),
        ("git:main~1", ["first", "third"]),
        ("git:main~1,tests=ref", ["first", "first"]),
    ],
)
def test_the_code_is_of_the_commit_and_the_tests_are_of_this_side(text: str, expected: list[str], root: Path) -> None:
    """So thresholds and scenario are the same on both sides, unless the option says otherwise."""
    with checked_out(revision(text, root), root, files=[TEST], setup=None) as checkout:
        assert texts(checkout) == expected
        assert checkout.python == sys.executable
        assert checkout.subjects[0].startswith("commit ")
        assert checkout.subjects[0].endswith(" Write third")
        folder = checkout.root
    assert not folder.exists()
    assert git(root, "worktree", "list").count("\n") == 0
    assert not git(root, "status", "--porcelain")


def test_the_base_of_a_pull_request_is_that_of_ci(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which names it in a variable; a branch with the same name here may be old."""
    git(root, "update-ref", "refs/remotes/origin/stable", "main~1")
    monkeypatch.setenv("GITHUB_BASE_REF", "stable")
    with checked_out(revision("git:merge-base", root), root, files=[], setup=None) as checkout:
        assert checkout.commit == git(root, "rev-parse", "main~1")
        assert len(checkout.subjects) == 2


def test_a_test_that_is_new_is_given_to_the_commit_only_on_demand(root: Path) -> None:
    """Its fixtures may not be there; the other side reports that it lacks the test."""
    (root / "perf/test_new.py").write_text("", encoding="utf-8")
    for text, is_given in (("git:main", False), ("git:main,tests=head", True)):
        with checked_out(revision(text, root), root, files=["perf/test_new.py"], setup=None) as checkout:
            assert (checkout.root / "perf/test_new.py").exists() == is_given


def test_the_payload_of_a_test_goes_with_it(root: Path) -> None:
    """The load is the same on both sides, also if the commit is older than its data."""
    (root / TEST).write_text(
        "kafka_scenario(payload='file:data/a.jsonl')\npayload={'file': 'b.jsonl'}\npayload='template:c.json'",
        encoding="utf-8",
    )
    folder = (root / TEST).parent
    (folder / "data").mkdir()
    names = ("data/a.jsonl", "b.jsonl", "c.json")
    for name in names:
        (folder / name).write_text("{}\n", encoding="utf-8")
    with checked_out(revision("git:main", root), root, files=[TEST], setup=None) as checkout:
        there = (checkout.root / TEST).parent
        assert [(there / name).read_text(encoding="utf-8") for name in names] == ["{}\n"] * 3


def test_a_setup_runs_once_in_an_environment_of_its_own(root: Path) -> None:
    """It is kept for the next run of the same commit; what it does not install is this environment's."""
    setup = "echo x >> ran.txt && python -c 'import sys, pytest; print(sys.prefix)' > prefix.txt"
    (root / ".gitignore").write_text("*.txt\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Ignore texts")
    for _ in range(2):
        with checked_out(revision("git:HEAD", root), root, files=[TEST], setup=setup) as checkout:
            assert (checkout.root / "ran.txt").read_text(encoding="utf-8") == "x\n"
            prefix = Path((checkout.root / "prefix.txt").read_text(encoding="utf-8").strip())
            assert Path(checkout.python).is_relative_to(prefix)
            assert prefix != Path(sys.prefix)
            assert Path(checkout.python).with_name("pip").exists()


@pytest.mark.usefixtures("without_pip")
def test_another_package_here_makes_another_environment_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip installs only what this environment lacks, so an old one would lend the live baseline the new package."""
    found = []
    for version in ("1", "2", "1"):
        monkeypatch.setattr(checkout, "packages", lambda version=version: {"orders-client": version})
        with checked_out(revision("git:main", root), root, files=[TEST], setup="true") as there:
            found.append(there.python)
    assert found[0] == found[2] != found[1]


@pytest.mark.usefixtures("without_pip")
def test_a_kept_checkout_without_its_repository_is_made_again(root: Path) -> None:
    """Git would check the commit out in a folder above it, over the user's files."""
    with checked_out(revision("git:main", root), root, files=[TEST], setup="true") as there:
        shutil.rmtree(there.root.parent / ".git")
    with checked_out(revision("git:main", root), root, files=[TEST], setup="true") as there:
        assert texts(there) == ["second", "third"]


def test_a_shallow_clone_of_a_commit_names_the_remedy(root: Path, tmp_path: Path) -> None:
    """Git cannot clone from it, although it has the commit."""
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=topic", f"file://{root.parent}", str(shallow))
    git(shallow, "fetch", "--quiet", "--depth=1", "origin", "main")
    with (
        pytest.raises(UsageError, match=r"cannot be checked out; this clone is shallow; fetch the whole history"),
        checked_out(revision("git:FETCH_HEAD", shallow / "service"), shallow / "service", files=[TEST], setup=None),
    ):
        pass


def test_a_root_folder_that_is_new_is_empty_there(root: Path) -> None:
    """A new service of a repository with several: its tests are new, too."""
    new = root.parent / "billing"
    new.mkdir()
    (new / "test_new.py").write_text("", encoding="utf-8")
    with checked_out(revision("git:main", new), new, files=["test_new.py"], setup=None) as there:
        assert [*there.root.iterdir()] == []


def test_paths_of_modules_lead_to_the_other_checkout(root: Path, tmp_path: Path) -> None:
    """Also packages next to pytest's root folder, and those through a symbolic link."""
    top, link = root.parent, tmp_path / "link"
    link.symlink_to(top)
    environment = {"PYTHONPATH": os.pathsep.join([str(top / "libs"), str(link / "service"), "/opt/lib"]), "HOME": "/x"}
    moved = checkout.without_origin(environment, top, Path("/there"))
    assert moved == {"PYTHONPATH": os.pathsep.join(["/there/libs", "/there/service", "/opt/lib"]), "HOME": "/x"}


def test_all_worktrees_are_of_this_side(root: Path, tmp_path: Path) -> None:
    """A package may be installed from another one of the same repository."""
    git(root, "worktree", "add", "--quiet", str(tmp_path / "other"), "main")
    assert checkout.worktrees(root) == [root.parent, tmp_path / "other"]
    assert checkout.worktrees(tmp_path) == [tmp_path]


@pytest.mark.usefixtures("without_pip")
def test_a_setup_that_fails_says_why(root: Path) -> None:
    """With the end of its output, and it is tried again in the next run."""
    for _ in range(2):
        with (
            pytest.raises(UsageError, match=r"exited with status 3 in .*:\nno such package"),
            checked_out(revision("git:main", root), root, files=[], setup="echo no such package; exit 3"),
        ):
            pass


@pytest.mark.usefixtures("without_pip")
def test_a_setup_that_takes_too_long_ends_with_its_children(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `pip install` that goes on would write into the environment that the next run makes."""
    monkeypatch.setattr(checkout, "_SETUP_TIMEOUT_S", 3)
    child = tmp_path / "child"
    setup = f"sleep 600 & echo $! > {child}; wait"
    with (
        pytest.raises(UsageError, match=r"did not finish within 3 s in"),
        checked_out(revision("git:main", root), root, files=[], setup=setup),
    ):
        pass
    pid = int(child.read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.usefixtures("without_pip")
def test_a_setup_that_fails_shows_no_login(root: Path) -> None:
    """The error is in reports and in the comment on a pull request."""
    setup = "echo https://user:hidden@host/simple; exit 3"
    with (
        pytest.raises(UsageError) as caught,
        checked_out(revision("git:main", root), root, files=[], setup=setup),
    ):
        pass
    assert "hidden" not in str(caught.value)
    assert str(caught.value).endswith("\nhttps://LOGIN@host/simple")


@pytest.mark.usefixtures("without_pip")
@pytest.mark.parametrize("command", ["printf p4ss | true; exit 3", "printf p4ss | sleep 60"])
def test_a_setup_that_fails_is_not_shown(root: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """No pattern finds all passwords in shell commands."""
    monkeypatch.setattr(checkout, "_SETUP_TIMEOUT_S", 1)
    with (
        pytest.raises(UsageError) as caught,
        checked_out(revision("git:main", root), root, files=[], setup=command),
    ):
        pass
    assert "p4ss" not in str(caught.value)


def test_a_commit_that_is_not_there_is_named_with_the_remedy(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of CI often lacks the history."""
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    with pytest.raises(UsageError, match="no commit nowhere; give a commit, branch or tag .* `git fetch` first$"):
        open_and_close("git:nowhere", root)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{root.parent}", "shallow")
    for text in ("git:main~1", "git:merge-base"):
        with pytest.raises(UsageError, match="this clone is shallow.*`fetch-depth: 0`"):
            open_and_close(text, tmp_path / "shallow" / "service")


def test_submodules_are_refused(root: Path) -> None:
    """A checkout by this plugin would lack them."""
    (root.parent / ".gitmodules").write_text("", encoding="utf-8")
    git(root.parent, "add", "--all")
    git(root, "commit", "--quiet", "--message=Add a submodule")
    with pytest.raises(UsageError, match="has submodules.*use --kafka-compare=path:DIR"):
        open_and_close("git:HEAD", root)


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    """There is no other revision."""
    with pytest.raises(UsageError, match="is not in a git checkout"):
        open_and_close("git:main", tmp_path)


def open_and_close(text: str, root: Path) -> None:
    """Make a checkout."""
    with checked_out(revision(text, root), root, files=[], setup=None):
        pass


def test_another_checkout_is_used_as_it_is(root: Path) -> None:
    """With its own interpreter, if one is named."""
    found = revision(f"path:{root.name},python={sys.executable}", root.parent)
    with checked_out(found, Path("/elsewhere"), files=[], setup=None) as checkout:
        assert (checkout.root, checkout.python) == (root.resolve(), sys.executable)
        assert checkout.commit == git(root, "rev-parse", "HEAD")


def test_an_interpreter_may_be_a_name_in_the_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of its environment come first there, so its folder must be known."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    found = revision(f"path:{root.name},python={Path(sys.executable).name}", root.parent)
    with checked_out(found, Path("/elsewhere"), files=[], setup=None) as checkout:
        assert checkout.python == sys.executable


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("git:", r"must be git:REF\[,tests=ref\|head\], for example git:origin/main"),
        ("git:main,tests=old", r"must be git:REF\[,tests=ref\|head\], for example git:origin/main"),
        ("git:main,python=python3", r"must be git:REF\[,tests=ref\|head\], for example git:origin/main"),
        ("path:", r"must be path:DIR\[,python=PATH\]"),
    ],
)
def test_a_value_that_is_no_revision_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    """It says what is valid."""
    with pytest.raises(UsageError, match=problem):
        parse_revision(text, start=tmp_path)


def test_a_branch_without_commits_is_its_own_base(root: Path) -> None:
    """So is main; a local change, or another name of the same commit, is compared."""

    def found(text: str) -> bool:
        return is_base(revision(text, root), root, current_commit(root))

    assert not found("git:merge-base")
    git(root, "checkout", "--quiet", "main")
    assert found("git:merge-base")
    assert not found("git:HEAD")  # for example, with another library in its environment
    (root / "orders.py").write_text("changed", encoding="utf-8")
    assert not found("git:merge-base")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("git:nowhere", "there is no commit nowhere"),
        ("path:nowhere", "there is no folder"),
        ("path:service", "this folder is the tests' own root folder; give another checkout"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_starts(text: str, problem: str, root: Path) -> None:
    """Nobody has to wait for brokers first."""
    with pytest.raises(UsageError, match=problem):
        check_revision(revision(text, root.parent), root, setup=None)


@pytest.mark.usefixtures("root")
def test_a_folder_outside_of_git_is_an_error_of_the_option(tmp_path: Path) -> None:
    """Git's own words show neither the option nor the folder."""
    problem = f"{re.escape(str(tmp_path))} is not in a git checkout: fatal: not a git repository"
    with pytest.raises(UsageError, match=f"^--kafka-compare=git:merge-base: this branch has no commit .*; {problem}"):
        is_base(revision("git:merge-base", tmp_path), tmp_path, None)
    with pytest.raises(UsageError, match=f"^--kafka-compare=git:main: {problem}"):
        check_revision(revision("git:main", tmp_path), tmp_path, setup=None)
    with pytest.raises(UsageError, match=f"^kafkaperf bisect main..: there is no commit main; {problem}"):
        checkout.commit_of("main", tmp_path, "kafkaperf bisect main..")


def test_a_package_from_this_folder_is_refused_before_anything_starts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides would import it; with an environment of its own, only the other side can tell."""
    installed(tmp_path, monkeypatch, root.parent)
    with pytest.raises(UsageError, match=r"git:main: it uses orders from .*--kafka-compare-setup='pip install -e \.'"):
        check_revision(revision("git:main", root), root, setup=None)
    check_revision(revision("git:main", root), root, setup="pip install -e .")
    other = tmp_path / "other"
    git(root, "worktree", "add", "--quiet", str(other), "main")
    found = revision(f"path:../../other/service,python={sys.executable}", root)
    check_revision(found, root, setup=None)
    with pytest.raises(UsageError, match="it uses orders from"):
        check_revision(revision("path:../../other/service", root), root, setup=None)


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    """Install a package as `pip install -e` records it."""
    facts = folder / "site" / "orders-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: orders\nVersion: 1.0\n", encoding="utf-8")
    (facts / "direct_url.json").write_text(f'{{"url": "file://{source}", "dir_info": {{"editable": true}}}}')
    monkeypatch.syspath_prepend(str(facts.parent))


def test_the_innermost_folder_holds_a_file() -> None:
    """A worktree may be inside of another one."""
    top, inside = Path("/work"), Path("/work/trees/base")
    assert is_of_others(top / "orders.py", [top, inside], inside)
    assert not is_of_others(inside / "orders.py", [top, inside], inside)
    assert is_of_others(inside / "orders.py", [top, inside], top)
    assert not is_of_others(Path("/usr/lib/orders.py"), [top, inside], None)


@pytest.mark.parametrize("text", ["path:nowhere", "path:service,python=nowhere", "path:service,python=./nowhere"])
def test_a_checkout_that_is_not_there_is_an_error(text: str, root: Path) -> None:
    """The folder or the interpreter."""
    with pytest.raises(UsageError, match=r"there is no (folder|program) .*nowhere"):
        open_and_close(text, root.parent)


def test_a_cluster_is_no_revision(tmp_path: Path) -> None:
    """The other values of the option are clusters."""
    assert parse_revision("local:4.0.0", start=tmp_path) is None

"""Another revision of the code under test: its files, and the virtual environment for its tests."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs
from filelock import FileLock, Timeout

import pytest_kafkaperf
from pytest_kafkaperf.clusters.child_process import ChildProcess, path_from
from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.environment import current_commit, git
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import discreet
from pytest_kafkaperf.runner.peer_messages import packages
from pytest_kafkaperf.runner.settings import Revision

_OPTION, _SETUP = "--kafka-compare", "--kafka-compare-setup"
_SETUP_TIMEOUT_S = 1200
_MOST_SUBJECTS = 5
"""Maximum number of commits between the two sides to list in reports; older commits are only counted."""
_KEPT = 5
"""Number of most recently used virtual environments to keep in the cache."""
_TARGETS = ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CHANGE_TARGET")
"""Environment variables in which GitHub, GitLab and Jenkins pass the name of a pull request's base branch."""
_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_PATHS = "kafkaperf_revision.pth"
_PAYLOAD = re.compile(r"""["'](?:template:|file(?::|["']\s*:\s*["']))([^"'\n]+)["']""")
"""Matches `"file:NAME"`, `"template:NAME"`, or a mapping with `file`."""
_OWN_NAME = "pytest-kafkaperf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A revision's files, and the interpreter that runs its tests."""

    root: Path
    """The revision's counterpart of this side's pytest root folder."""
    python: str
    commit: str | None
    subjects: tuple[str, ...] = ()
    """This side's commits since that revision, newest first, such as `commit cf541ca Enrich orders`."""


@contextlib.contextmanager
def checked_out(revision: Revision, root: Path, *, files: Iterable[str], setup: str | None) -> Iterator[Checkout]:
    """Provide a revision's files; a commit is checked out into a separate folder, which is removed afterwards.

    Args:
        revision: the revision to provide.
        root: this side's pytest root folder.
        files: the perf test files, relative to `root`; these files and their payload files overwrite the commit's
            versions.
        setup: a shell command that installs the commit's packages into a separate virtual environment, which is cached
            for later runs; None if the live baseline uses the current virtual environment.

    Raises:
        UsageError: the commit does not exist, or the command failed.

    """
    if revision.folder is not None:
        yield _existing(revision, revision.folder, root)
        return
    top, commit = _found(revision, root)
    with _folder(commit, top, setup) as folder:
        tree = folder / "tree"
        problem = f"{_OPTION}={revision}: commit {commit} cannot be checked out; {_hint(root)}"
        _check_out(commit, top, tree, problem=problem)
        inside = tree / root.resolve().relative_to(top)
        inside.mkdir(parents=True, exist_ok=True)  # the commit may not contain it
        python = sys.executable if setup is None else _environment(folder / "venv", inside, setup)
        _copy_tests(files, root, inside, tests=revision.tests)
        yield Checkout(root=inside, python=python, commit=commit, subjects=_subjects(top, commit))


def is_base(revision: Revision, root: Path, own_commit: str | None) -> bool:
    """Return True if `own_commit` is where this branch starts and is checked out here without local changes.

    Raises:
        UsageError: there is no repository, or no base branch from which this branch could have started.

    """
    return revision.ref == "merge-base" and _commit(revision, root) == own_commit


def check_revision(revision: Revision, root: Path, *, setup: str | None) -> None:
    """Reject a revision that cannot be compared, to the extent that this can be checked before anything starts.

    Takes the same arguments as `checked_out`.

    Raises:
        UsageError: the commit or folder does not exist, or its tests would import this side's code.

    """
    own = None
    if revision.folder is None:
        _found(revision, root)
    else:
        own = top_folder(_existing(revision, revision.folder, root).root)
    if setup is None and revision.python is None:  # the other side uses this virtual environment's packages
        refusal = refusal_of_shared(installed_from_others(worktrees(root), own))
        if refusal is not None:
            raise UsageError(f"the baseline, {_OPTION}={revision}: {refusal}")


def refusal_of_shared(found: Mapping[str, Path]) -> str | None:
    """Return an error if the other side would import any of these files or folders from this side; otherwise None."""
    if not found:
        return None
    name = min(found)
    return (
        f"it uses {name} from {found[name]}, so the code would be compared with itself; give the live baseline a "
        f"separate virtual environment with {_SETUP}='pip install -e .' or path:DIR,python=PATH (to install a package "
        "there that this environment has as well, use pip's --ignore-installed)"
    )


def _found(revision: Revision, root: Path) -> tuple[Path, str]:
    """Return the repository's top-level folder and the commit's hash."""
    top = Path(
        git(root, "rev-parse", "--show-toplevel", problem=f"{_OPTION}={revision}: {root} is not in a git checkout")
    )
    commit = _commit(revision, root)
    if git(top, "ls-tree", "-r", "--name-only", commit, "--", ".gitmodules"):
        raise UsageError(
            f"{_OPTION}={revision}: this commit has submodules, which the plugin does not check out; check it out "
            f"yourself, with its submodules, and use {_OPTION}=path:DIR"
        )
    return top, commit


def _existing(revision: Revision, folder: Path, root: Path) -> Checkout:
    """Return a checkout that the user created."""
    if not folder.is_dir():
        raise UsageError(f"{_OPTION}={revision}: there is no folder {folder}; give the root folder of another checkout")
    if folder.resolve() == root.resolve():
        raise UsageError(f"{_OPTION}={revision}: this folder is the tests' own root folder; give another checkout")
    python = shutil.which(revision.python or sys.executable)
    if python is None:
        raise UsageError(
            f"{_OPTION}={revision}: there is no program {revision.python}; give the path of a Python interpreter"
        )
    return Checkout(root=folder.resolve(), python=python, commit=current_commit(folder))


def _check_out(commit: str, top: Path, tree: Path, *, problem: str) -> None:
    """Check out a commit into `tree`, which may contain a clone from an earlier run.

    Raises:
        UsageError: a git command failed; if the checkout itself failed, the message starts with `problem`.

    """
    try:
        if not (tree / ".git").exists():  # otherwise git would use a repository above this folder
            shutil.rmtree(tree, ignore_errors=True)
            git(tree.parent, "clone", "--quiet", "--shared", "--no-checkout", str(top), str(tree))
        git(tree, "checkout", "--quiet", "--force", "--detach", commit, problem=problem)
        git(tree, "clean", "--quiet", "--force", "-d")
    except UsageError:
        shutil.rmtree(tree, ignore_errors=True)  # the next run will clone again
        raise


def _copy_tests(files: Iterable[str], root: Path, inside: Path, *, tests: str | None) -> None:
    """Copy the perf test files and payload files of this side that the revision's `tests` option selects."""
    if tests == "ref":
        return
    for file in files:
        if tests != "head" and not (inside / file).is_file():
            continue
        for name in (file, *_payloads(file, root)):
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, inside / name)


def _subjects(top: Path, commit: str) -> tuple[str, ...]:
    """Return the newest commits since `commit`, and the number of older ones."""
    since = git(top, "log", "--format=commit %h %s", f"{commit}..HEAD").splitlines()
    omitted = len(since) - _MOST_SUBJECTS
    more = [f"{omitted} more commits"] if omitted > 0 else []
    return (*since[:_MOST_SUBJECTS], *more)


def _payloads(file: str, root: Path) -> list[str]:
    """Return the sample and template files that a test file refers to; both sides must receive the same load."""
    found = _PAYLOAD.findall((root / file).read_text(encoding="utf-8", errors="replace"))
    names = [os.path.normpath(Path(file).parent / name) for name in found]
    return [name for name in names if not name.startswith(("/", "..")) and (root / name).is_file()]


def installed_from(folder: Path) -> dict[str, Path]:
    """Return the packages that were installed from a folder or its subfolders, each with its source folder."""
    found: dict[str, Path] = {}
    for each in importlib.metadata.distributions():
        url = json.loads(each.read_text("direct_url.json") or "{}").get("url", "")
        path = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
        found.setdefault(each.name, path or Path())  # if a name occurs twice, the first one is imported
    return {name: path for name, path in found.items() if path.is_relative_to(folder) and name != _OWN_NAME}


def installed_from_others(origins: Sequence[Path], own: Path | None) -> dict[str, Path]:
    """Return the packages installed from these folders, but not from `own`, which may be inside one of them."""
    found: dict[str, Path] = {}
    for origin in origins:
        found |= installed_from(origin)
    return {name: path for name, path in found.items() if is_of_others(path, origins, own)}


def is_of_others(path: Path, origins: Sequence[Path], own: Path | None) -> bool:
    """Return True if the path's innermost enclosing folder is one of the origins and not `own`."""
    folders = origins if own is None else (own, *origins)
    holders = [folder for folder in folders if path.is_relative_to(folder)]
    return bool(holders) and max(holders, key=lambda folder: len(folder.parts)) != own


def top_folder(root: Path) -> Path:
    """Return the top level of the checkout that contains pytest's root folder; without git, the root folder itself."""
    with contextlib.suppress(UsageError):
        return Path(git(root, "rev-parse", "--show-toplevel"))
    return root.resolve()


def worktrees(root: Path) -> list[Path]:
    """Return the folders of all worktrees in the repository that contains `root`; without git, return `root` itself."""
    with contextlib.suppress(UsageError):
        lines = git(root, "worktree", "list", "--porcelain").splitlines()
        return [Path(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]
    return [root.resolve()]


def commit_of(ref: str, root: Path, asked: str) -> str:
    """Return the hash of a commit, branch or tag; error messages start with `asked`, the option that contains it.

    Raises:
        UsageError: the commit does not exist.

    """
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    except UsageError:
        raise UsageError(f"{asked}: there is no commit {ref}; {_hint(root)}") from None


def _commit(revision: Revision, root: Path) -> str:
    asked = f"{_OPTION}={revision}"
    if revision.ref != "merge-base":
        return commit_of(revision.ref or "", root, asked)
    bases = [f"origin/{os.environ[name]}" for name in _TARGETS if os.environ.get(name)] or _BRANCHES
    for base in bases:
        with contextlib.suppress(UsageError):
            return git(root, "merge-base", "HEAD", base)
    raise UsageError(f"{asked}: this branch has no commit in common with {' or '.join(bases)}; {_hint(root)}")


def _hint(root: Path) -> str:
    try:
        is_shallow = git(root, "rev-parse", "--is-shallow-repository", problem=f"{root} is not in a git checkout")
    except UsageError as error:
        return str(error)
    if is_shallow == "true":
        return "this clone is shallow; fetch the whole history (in GitHub's checkout action, set `fetch-depth: 0`)"
    return "give a commit, branch or tag of this repository, and run `git fetch` first"


@contextlib.contextmanager
def _folder(commit: str, top: Path, setup: str | None) -> Iterator[Path]:
    """Provide a folder: one that is cached for this commit if there is a setup command, otherwise a temporary one."""
    lock = None
    if setup is not None:
        cache = platformdirs.user_cache_path("pytest-kafkaperf") / "revisions"
        # The setup installs only packages missing from this environment, so the cache key includes its packages.
        made_of = f"{commit}\n{top}\n{setup}\n{sys.executable}\n{sys.version}\n{sorted(packages().items())}"
        key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        lock = FileLock(cache / f"{key}.lock", timeout=0)
        # Fails if another run uses the folder, or if the cache is read-only or does not support locks.
        with contextlib.suppress(Timeout, OSError, NotImplementedError):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.acquire()
    if lock is None or not lock.is_locked:
        folder = Path(tempfile.mkdtemp(prefix="kafkaperf-revision-"))
        supervisor.remove_later(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    try:
        folder = cache / key
        folder.mkdir(exist_ok=True)
        os.utime(folder)
        with contextlib.suppress(OSError):  # another run may be removing old folders at the same time
            for old in sorted(filter(Path.is_dir, cache.iterdir()), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
                with contextlib.suppress(Timeout), FileLock(old.with_suffix(".lock"), timeout=0):
                    shutil.rmtree(old, ignore_errors=True)
        yield folder
    finally:
        lock.release()


def _environment(folder: Path, root: Path, setup: str) -> str:
    """Return the interpreter of a virtual environment in which the setup command succeeded, now or in an earlier run.

    The environment also provides this process's packages, except those that the command installs.

    Raises:
        UsageError: the command failed; the message contains the end of its output.

    """
    python = folder / "bin" / Path(sys.executable).name
    done = folder / "setup-succeeded"
    if done.exists():
        return str(python)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{_SETUP}: cannot create a virtual environment with {sys.executable}: {error}") from None
    places = {"base": str(folder), "platbase": str(folder)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", vars=places))
    own = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(Path(pytest_kafkaperf.__path__[0]).parent)}
    (site_packages / _PATHS).write_text("".join(f"{path}\n" for path in sorted(own)), encoding="utf-8")
    process = ChildProcess(_SETUP, folder / "setup.log", stop_timeout_s=5)
    try:
        environment = {**os.environ, "PATH": path_from(str(python)), "VIRTUAL_ENV": str(folder)}
        process.launch(["/bin/sh", "-c", setup], folder=root, env=environment)
        process.wait(_SETUP_TIMEOUT_S)
        ending = process.ending
    finally:
        process.stop()
    if ending is None:
        raise UsageError(f"{_SETUP}: the command did not finish within {_SETUP_TIMEOUT_S} s in {root}")
    if process.status != 0:
        end = discreet(process.log_tail().strip(), login="LOGIN@")
        raise UsageError(f"{_SETUP}: the command {ending} in {root}:\n{end}")
    done.touch()
    return str(python)


def without_origin(environment: Mapping[str, str], origin: Path, other: Path) -> dict[str, str]:
    """Return the environment variables, with PYTHONPATH entries inside the checkout `origin` redirected to `other`."""
    paths = [Path(path).resolve() for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    moved = [other / path.relative_to(origin) if path.is_relative_to(origin) else path for path in paths]
    return {**environment, **({"PYTHONPATH": os.pathsep.join(map(str, moved))} if moved else {})}

"""Finds perf tests that exist only in the other revision and whose thresholds are therefore no longer judged.

Neither side runs these tests, so the source is searched for functions with a `kafka_perf` argument. Tests that use
`kafka_perf` through another fixture are not found, nor are removed parameters.
"""

from __future__ import annotations

import ast
from pathlib import Path

from pytest_kafkaperf.core.environment import git
from pytest_kafkaperf.core.errors import UsageError

_FIXTURE = "kafka_perf"


def removed_tests(root: Path, other: Path, commit: str | None) -> tuple[str, ...]:
    """Return the nodeids, without parameters, of perf tests that exist on the other side but not in `root`.

    Args:
        root: this side's pytest root folder.
        other: a folder in a git repository that contains the other side's tests.
        commit: the commit of `other` to read; None to read the current files.

    Raises:
        OSError: a file cannot be read.
        UsageError: git failed after it found the files.

    """
    removed = []
    for file, text in _files_with_fixture(other, commit).items():
        here = root / file
        kept = perf_tests(here.read_text(encoding="utf-8", errors="replace")) if here.is_file() else set()
        removed += [f"{file}::{name}" for name in sorted(perf_tests(text) - kept)]
    return tuple(removed)


def perf_tests(text: str) -> set[str]:
    """Return the perf tests in the source of a Python file, such as `test_ingest` or `TestOrders::test_ingest`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return _tests_in(tree.body, "")


def _tests_in(body: list[ast.stmt], prefix: str) -> set[str]:
    found: set[str] = set()
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= _tests_in(node.body, f"{prefix}{node.name}::")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            if _FIXTURE in [each.arg for each in arguments]:
                found.add(f"{prefix}{node.name}")
    return found


def _files_with_fixture(folder: Path, commit: str | None) -> dict[str, str]:
    """Return the Python files that mention the fixture, by relative path; empty without a repository."""
    revision = [] if commit is None else [commit]
    try:
        found = git(folder, "grep", "-z", "--files-with-matches", "--word-regexp", _FIXTURE, *revision, "--", "*.py")
    except UsageError:  # git fails if there are no such files
        return {}
    names = [name.removeprefix(f"{commit}:") for name in found.split("\0") if name]
    if commit is None:
        return {name: (folder / name).read_text(encoding="utf-8", errors="replace") for name in names}
    return {name: git(folder, "show", f"{commit}:./{name}") for name in names}

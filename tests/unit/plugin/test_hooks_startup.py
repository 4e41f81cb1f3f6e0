"""pytest imports the plugin in every run of its users: runs without perf tests must stay fast."""

from __future__ import annotations

import pytest

from tests.support.login_libraries import login_libraries
from tests.support.project import Project, modules

OURS_AT_STARTUP = {
    "pytest_kafkaperf",
    "pytest_kafkaperf.plugin",
    "pytest_kafkaperf.plugin.entry_point",
    "pytest_kafkaperf.plugin.hooks",
    "pytest_kafkaperf.plugin.items",
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
"""Libraries that only running perf tests need."""
PYDANTIC = {"asyncio", "ssl"}
"""Modules that pydantic's lowest supported version imports."""


def libraries(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith("pytest_kafkaperf")}


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Modules of a run without the plugin."""
    project = Project(tmp_path_factory.mktemp("without"))
    return modules(project.test("def test_other(): ..."), "-p", "no:kafkaperf")


def test_a_run_without_perf_tests_imports_only_these_modules(project: Project, without: set[str]) -> None:
    """These modules, and no library, even if an ini file has the plugin's settings."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = auto\nkafka_rounds = 3\n")
    project.test("def test_other(): ...")
    added = modules(project) - without
    assert ours(added) == OURS_AT_STARTUP
    assert libraries(added) & {*ENGINE, "dask", "fractions", "javaproperties", "jgo", "pydantic", "uvloop"} == set()
    assert login_libraries(added) == set()


def test_hooks_use_the_bytecode_of_the_installation(project: Project) -> None:
    """pytest's importer has its own, which a new environment does not have."""
    project.write(
        "conftest.py",
        "import pathlib, sys\n"
        "from pytest_kafkaperf.plugin import hooks, items, options\n"
        "def pytest_unconfigure():\n"
        "    loaders = [type(module.__loader__).__name__ for module in (hooks, items, options)]\n"
        "    pathlib.Path('loaders.txt').write_text(' '.join(loaders))\n",
    )
    project.test("def test_other(): ...")
    project.run(reports=False)
    assert set((project.folder / "loaders.txt").read_text(encoding="utf-8").split()) == {"SourceFileLoader"}


def test_collecting_perf_tests_does_not_import_the_load_engine(project: Project, without: set[str]) -> None:
    """Editors collect tests again and again, and `auto` must not look for Docker there."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = auto\n")
    project.test(
        "@pytest.mark.kafka_scenario(rate='5k records/s')\n"
        "@pytest.mark.kafka_threshold('produce.latency.p99 <= 5 ms')\n"
        "def test_orders(kafka_perf): ..."
    )
    added = modules(project, "--collect-only") - without
    assert "pytest_kafkaperf.runner.perftest" in added
    assert {"pytest_kafkaperf.runner.perf_run", "pytest_kafkaperf.load.controller"} & added == set()
    assert libraries(added) & ENGINE <= PYDANTIC
    assert login_libraries(added) == set()


def test_collecting_tests_for_a_cluster_with_logins_does_not_import_their_libraries(
    project: Project, without: set[str]
) -> None:
    """Nobody logs in before a test runs."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = 127.0.0.1:1\nkafka_client_config = client.properties\n")
    project.write(
        "client.properties",
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:1/token\n"
        "sasl.oauthbearer.client.credentials.client.id=perf\n"
        "sasl.oauthbearer.client.credentials.client.secret=secret\n",
    )
    project.test("from pytest_kafkaperf import AwsToken, AzureToken, GoogleToken\n\ndef test_orders(kafka_perf): ...")
    added = modules(project, "--collect-only") - without
    assert "pytest_kafkaperf.clusters.access.cloud_tokens" in added
    assert login_libraries(added) == set()


def test_deselected_perf_tests_do_not_import_the_load_engine(project: Project, without: set[str]) -> None:
    """Unit tests of a project with perf tests deselect these."""
    project.test("def test_other(): ...\n\ndef test_orders(kafka_perf): ...")
    added = modules(project, "-k", "other") - without
    assert libraries(added) & ENGINE <= PYDANTIC

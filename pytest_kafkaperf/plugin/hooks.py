"""The hooks and fixtures that pytest loads in every run.

Every run imports this module, `items` and `options` (see `entry_point`), and without a bytecode cache, also compiles
them. To keep runs without perf tests fast, these modules contain only what such runs execute; the hooks import
everything else on use.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.plugin.items import (
    ARGUMENTS,
    COLLECTION,
    Collection,
    asks_for_benchmark,
    collection_of,
    has_thresholds,
    is_declared,
    takes_perf,
)
from pytest_kafkaperf.plugin.options import MARKERS, declare, from_command_line, ini_value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kafkaperf.clusters.application import Application
    from pytest_kafkaperf.clusters.cluster import Cluster
    from pytest_kafkaperf.plugin.kafka_perf import KafkaPerf
    from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys."""
    declare(parser)


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Check how options are written before pytest reads paths from the command line."""
    early_config.stash[ARGUMENTS] = args
    if any(str(argument).startswith("--kafka-") for argument in args):
        from pytest_kafkaperf.plugin.misuse import check_arguments  # noqa: PLC0415 - only for this plugin's options

        check_arguments(early_config, parser, args)


def pytest_configure(config: pytest.Config) -> None:
    """Register markers, and parse the command-line options now so that errors are reported first."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.pluginmanager.register(Collection(), COLLECTION)
    if any(key.startswith("kafka_") for key in config._get_unknown_ini_keys()):  # noqa: SLF001 - no public way
        from pytest_kafkaperf.plugin.misuse import refuse_misspelt_keys  # noqa: PLC0415 - only for errors

        refuse_misspelt_keys(config)
    if hasattr(config.option, "benchmark_storage") and not asks_for_benchmark(config):
        config.option.benchmark_storage = "."  # pytest-benchmark creates this folder in every run
    if from_command_line(config):
        from pytest_kafkaperf.plugin.misuse import refuse_lasting_acceptance  # noqa: PLC0415 - only for perf tests
        from pytest_kafkaperf.plugin.preparation import settings_of  # noqa: PLC0415 - only for perf tests

        refuse_lasting_acceptance(config)
        settings_of(config)


@pytest.hookimpl(wrapper=True)
def pytest_report_header(config: pytest.Config) -> Generator[None, list[str | list[str]], list[str | list[str]]]:
    """Omit pytest-benchmark's line unless a pytest-benchmark option was given."""
    lines = yield
    if asks_for_benchmark(config):
        return lines
    return [line for line in lines if not str(line).startswith("benchmark: ")]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove an earlier run's reports so they are not mistaken for this run's, even if this run is aborted."""
    config = session.config
    if not _only_shows(config) and (config.getoption("kafka_report") or ini_value(config, "report")):
        from pytest_kafkaperf.plugin.preparation import remove_old_reports  # noqa: PLC0415 - imports the load engine

        remove_old_reports(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Read all perf tests' markers; drop files with invalid markers, and report all errors at once."""
    collection_of(config).nodeids.update(item.nodeid for item in items)
    if not any(takes_perf(item) or is_declared(item) for item in items):
        yield
        return
    from pytest_kafkaperf.plugin.preparation import reading_perftests  # noqa: PLC0415 - imports pydantic

    with reading_perftests(config, items):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Register the plugin that runs perf tests if there are any or if baselines must be pruned."""
    config = session.config
    if _only_shows(config):
        return
    runs = any(takes_perf(item) or has_thresholds(item) for item in session.items)
    if runs or config.getoption("kafka_prune_baselines"):
        from pytest_kafkaperf.plugin.preparation import prepare  # noqa: PLC0415 - imports the load engine

        prepare(config, runs=runs)


def _only_shows(config: pytest.Config) -> bool:
    """Return True if pytest shows tests, fixtures or its cache instead of running tests."""
    names = ("collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow")
    return any(config.getoption(name, None) for name in names)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafkaperf: PerfPlugin) -> Cluster:
    """The cluster that the `kafka_cluster` marker describes; override this fixture to use your own cluster."""
    return _kafkaperf.cluster(request.node)


@pytest.fixture(scope="session")
def kafka_cluster_factory(_kafkaperf: PerfPlugin) -> Callable[..., Cluster]:
    """Return a cluster with the given fields of the `kafka_cluster` marker, for fixtures of any scope."""
    return _kafkaperf.lasting_cluster


@pytest.fixture
def kafka_app(
    request: pytest.FixtureRequest, _kafkaperf: PerfPlugin, kafka_cluster: object
) -> Iterator[Callable[..., Application]]:
    """Start an application under test on the test's cluster, and stop it after the test."""
    with _kafkaperf.launching(kafka_cluster, request.node) as launch:
        yield launch


@pytest.fixture(scope="session")
def kafka_app_factory(_kafkaperf: PerfPlugin) -> Iterator[Callable[..., Application]]:
    """Start an application under test on the cluster that you pass as `cluster=`, for fixtures of any scope."""
    with _kafkaperf.launching(None, None) as launch:
        yield launch


@pytest.fixture
def kafka_perf(request: pytest.FixtureRequest, _kafkaperf: PerfPlugin, kafka_cluster: object) -> Iterator[KafkaPerf]:
    """Run the scenario that the markers declare; arguments override its fields. Violated thresholds fail the test."""
    yield from _kafkaperf.measuring(request, kafka_cluster)


@pytest.fixture(scope="session")
def _kafkaperf(request: pytest.FixtureRequest) -> PerfPlugin:
    from pytest_kafkaperf.plugin.preparation import perf_plugin  # noqa: PLC0415 - imports the load engine

    return perf_plugin(request)

"""pytest's side: options, markers, fixtures, and the command line. It may import every other package.

Loaded in every pytest run of its users: until a perf test is collected, it imports nothing but pytest and the
standard library that pytest has loaded already.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.plugin.collection import CollectionPlugin, has_thresholds, takes_perf
from pytest_kafkaperf.plugin.options import MARKERS, UPDATE_OPTION, declare, given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kafkaperf.clusters.spec import Cluster
    from pytest_kafkaperf.plugin.fixtures import KafkaPerf
    from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin
    from pytest_kafkaperf.runner.settings import Settings

_COLLECTION = "kafkaperf-collection"
_PERF = "kafkaperf-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option, each also as an ini key."""
    declare(parser)


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Let the update option stand before a path, which argparse would take for its value."""
    for position, argument in enumerate(args):
        if argument == UPDATE_OPTION:
            args[position] = f"{UPDATE_OPTION}=all"


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; refuse options that no test could run with."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    collection = CollectionPlugin(_read_settings(config))
    config.pluginmanager.register(collection, _COLLECTION)
    if collection.settings.prune:
        _perf_plugin(config)  # even where no perf test is left


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say where load would go and what it would be compared with."""
    from pytest_kafkaperf.core.text import discreet  # noqa: PLC0415 - only where it is shown

    settings = _collection(config).settings
    cluster, environment = settings.described_cluster(look=False)
    line = f"kafkaperf: cluster {cluster}, baselines {settings.shown(settings.baselines)}"
    lines = [line if environment is None else f"{line}, environment {environment}"]
    if settings.reference is not None:
        changes = ", ".join(discreet(f"{name}={value}") for name, value in settings.reference_config.items())
        lines.append(f"kafkaperf: reference {settings.reference}{f' with {changes}' if changes else ''}")
    if config.get_verbosity() > 0 and settings.describe_sources():
        lines.append(f"kafkaperf: {settings.describe_sources()}")
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse files whose perf tests are invalid: all problems of all tests at once, before anything starts."""
    if any(takes_perf(item) or has_thresholds(item) for item in items):
        with _without_collecting_garbage():
            items[:] = _perf_plugin(config).read_cases(items)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafkaperf: PerfPlugin) -> Cluster:
    """The cluster of the `kafka_cluster` marker; override this fixture to bring your own."""
    return _kafkaperf.cluster(request.node)


@pytest.fixture
def kafka_perf(request: pytest.FixtureRequest, _kafkaperf: PerfPlugin, kafka_cluster: object) -> Iterator[KafkaPerf]:
    """Run the scenario of the markers; arguments override its fields. Fails the test on a broken limit."""
    yield from _kafkaperf.measuring(request, kafka_cluster)


@pytest.fixture
def _kafkaperf(request: pytest.FixtureRequest) -> PerfPlugin:
    if hasattr(request.config, "workerinput"):
        pytest.fail(
            "perf tests cannot share the machine with other tests: pytest-xdist runs several at once. "
            "Run them with -n0, for example: pytest -n0 -m kafka_scenario",
            pytrace=False,
        )
    plugin = _perf_plugin(request.config)
    plugin.session_or_fail()
    return plugin


def _collection(config: pytest.Config) -> CollectionPlugin:
    plugin: CollectionPlugin = config.pluginmanager.get_plugin(_COLLECTION)  # type: ignore[assignment]
    return plugin


def _perf_plugin(config: pytest.Config) -> PerfPlugin:
    """The plugin of perf tests, registered when first asked for."""
    plugin: PerfPlugin | None = config.pluginmanager.get_plugin(_PERF)
    if plugin is None:
        from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin  # noqa: PLC0415 - loads all that perf tests need

        plugin = PerfPlugin(config, _collection(config))
        config.pluginmanager.register(plugin, _PERF)
    return plugin


@contextlib.contextmanager
def _without_collecting_garbage() -> Iterator[None]:
    """What is loaded and read for hundreds of tests stays: looking through all of it for garbage takes longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_settings(config: pytest.Config) -> Settings:
    """The options of this run.

    Raises pytest.UsageError for a value that no test could run with.
    """
    from pytest_kafkaperf.core.errors import UsageError  # noqa: PLC0415 - starts no slower than it must
    from pytest_kafkaperf.plugin.option_values import read_settings  # noqa: PLC0415 - the same

    try:
        settings = read_settings(
            *given(config),
            config.getini("kafka_thresholds"),
            invocation_folder=config.invocation_params.dir,
            root=config.rootpath,
        )
        if "html" in settings.reports:
            from pytest_kafkaperf.reports.html import check_installed  # noqa: PLC0415 - only with --kafka-html

            check_installed()
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return settings

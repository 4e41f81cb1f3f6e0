"""The entry point: the hooks and fixtures that pytest loads in every run.

Until a perf test is collected, the module imports only `items`, `options` and pytest.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.plugin.items import (
    ARGUMENTS,
    PEER,
    Collection,
    asks_for_benchmark,
    has_thresholds,
    is_declared,
    takes_perf,
)
from pytest_kafkaperf.plugin.options import (
    ACCEPT_OPTION,
    MARKERS,
    OPTIONS,
    UPDATE_MODES,
    UPDATE_OPTION,
    declare,
    from_command_line,
    from_ini,
    ini_value,
    key_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from pytest_kafkaperf.clusters.application import Application
    from pytest_kafkaperf.clusters.cluster import Cluster
    from pytest_kafkaperf.plugin.kafka_perf import KafkaPerf
    from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin
    from pytest_kafkaperf.runner.settings import Settings


_COLLECTION = "kafkaperf-collection"
_PERF = "kafkaperf-run"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys."""
    declare(parser)


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Allow a path after the update option, which argparse would otherwise read as the option's value."""
    early_config.stash[ARGUMENTS] = args
    _refuse_misplaced(args, early_config.invocation_params.dir)
    for position, argument in enumerate(args):
        if argument == UPDATE_OPTION:
            args[position] = f"{UPDATE_OPTION}=replace"
            # pytest parsed them earlier, and next loads the conftest.py of each such path.
            early_config.known_args_namespace.file_or_dir = parser.parse_known_args(args).file_or_dir


def pytest_configure(config: pytest.Config) -> None:
    """Register markers, and parse the command-line options now so that errors are reported first."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    _refuse_misspelt_keys(config)
    _refuse_lasting_acceptance(config)
    config.pluginmanager.register(Collection(), _COLLECTION)
    if hasattr(config.option, "benchmark_storage") and not asks_for_benchmark(config):
        config.option.benchmark_storage = "."  # pytest-benchmark creates this folder in every run
    if from_command_line(config):
        _settings(config)


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
    if not config.option.collectonly and (config.getoption("kafka_report") or ini_value(config, "report")):
        _remove_reports(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Read all perf tests' markers; drop files with invalid markers, and report all errors at once."""
    collection = _collection(config)
    collection.nodeids.update(item.nodeid for item in items)
    if not any(takes_perf(item) or is_declared(item) for item in items):
        yield
        return
    from pytest_kafkaperf.plugin.collection import marks_of, read_perftests, warn_of_latency  # noqa: PLC0415 - imports pydantic

    items[:], collection.tests = read_perftests(items, _settings(config))
    read = {item: marks_of(item) for item in items if item.nodeid in collection.tests}
    yield
    # Meanwhile, the same hook in a conftest.py may have added markers.
    changed = [item for item in items if item in read and marks_of(item) != read[item]]
    kept, tests = read_perftests(changed, _settings(config))
    items[:] = [item for item in items if item not in changed or item in kept]
    collection.tests |= tests
    items[:] = warn_of_latency(items, collection.tests)
    collection.marks = {item.nodeid: marks_of(item) for item in items if item.nodeid in collection.tests}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Register the plugin that runs perf tests if there are any or if baselines must be pruned."""
    config = session.config
    if config.option.collectonly:
        return
    prunes = config.getoption("kafka_prune_baselines")
    runs = any(takes_perf(item) or has_thresholds(item) for item in session.items)
    if runs or prunes:
        plugin = _perf_plugin(config)
        if runs:
            plugin.check_revision()
    if runs and config.getoption("benchmark_skip", default=False) and _settings(config).strict:
        raise pytest.UsageError(
            "--kafka-strict with --benchmark-skip: no perf test would run, and no threshold would be judged; omit one "
            "of the two options (they may be in addopts)"
        )


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
    if hasattr(request.config, "workerinput"):
        pytest.fail(
            "perf tests cannot run in parallel with other tests, which pytest-xdist does; run them separately with "
            "-n0, for example: pytest -n0 -m kafka_perf",
            pytrace=False,
        )
    plugin = _perf_plugin(request.config)
    plugin.perf_run_or_fail()
    return plugin


def _collection(config: pytest.Config) -> Collection:
    plugin: Collection = config.pluginmanager.get_plugin(_COLLECTION)  # type: ignore[assignment]
    return plugin


def _settings(config: pytest.Config) -> Settings:
    """Return this run's parsed options.

    Raises:
        pytest.UsageError: an option or an ini value is invalid.

    """
    collection = _collection(config)
    if collection.settings is None:
        from pytest_kafkaperf.core.errors import UsageError  # noqa: PLC0415 - only for perf tests
        from pytest_kafkaperf.plugin.option_values import read_settings  # noqa: PLC0415 - imports pydantic

        given, written = from_command_line(config), from_ini(config)
        if (peer := config.pluginmanager.get_plugin(PEER)) is not None:
            given, written = peer.relevant(given), peer.relevant(written)
        try:
            collection.settings = read_settings(
                given,
                written,
                invocation_folder=config.invocation_params.dir,
                root=config.rootpath,
                is_other_side=peer is not None,
            )
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    return collection.settings


def _refuse_misplaced(args: list[str], folder: Path) -> None:
    """Reject ini keys given as options, and a mode without `=`, which pytest would mistake for a path.

    Raises:
        pytest.UsageError: there is such an option; the message suggests what to write.

    """
    for argument, following in itertools.pairwise([*args, ""]):
        option, _, value = str(argument).partition("=")
        name = option.removeprefix("--kafka-")
        if name != option and name in OPTIONS and OPTIONS[name].place == "ini":
            example = value or ("true" if OPTIONS[name].kind == "bool" else "...")
            raise pytest.UsageError(
                f"{option} is not an option: set {key_of(name)} in the ini file, or pass "
                f"-o '{key_of(name)}={example}' for a single run"
            )
        if argument == UPDATE_OPTION and following in UPDATE_MODES and not (folder / following).exists():
            raise pytest.UsageError(f"{option} {following}: the mode needs an equals sign: {option}={following}")


def _refuse_misspelt_keys(config: pytest.Config) -> None:
    """Reject unknown `kafka_` keys in the ini file; pytest would only warn and would ignore their thresholds.

    Raises:
        pytest.UsageError: there is an unknown key; the message suggests the most similar key.

    """
    names = {key_of(name): name for name in OPTIONS}
    for key in config._get_unknown_ini_keys():  # noqa: SLF001 - no public way
        if key in names:
            raise pytest.UsageError(
                f"{key} is not an ini key: use --kafka-{names[key]} on the command line of a single run"
            )
        if key.startswith("kafka_"):
            from pytest_kafkaperf.core.errors import nearest  # noqa: PLC0415 - only for errors

            known = [key_of(name) for name, option in OPTIONS.items() if option.place != "command line"]
            raise pytest.UsageError(f"{key} in the ini file: {nearest(key, known)}")


def _refuse_lasting_acceptance(config: pytest.Config) -> None:
    """Reject options that accept results without judging them if they would apply to every later run.

    Raises:
        pytest.UsageError: `addopts` or `PYTEST_ADDOPTS` has such an option.

    """
    given = [str(argument).partition("=")[0] for argument in config.invocation_params.args]
    for option in (ACCEPT_OPTION, UPDATE_OPTION, "--kafka-calibrate"):
        if config.getoption(key_of(option.removeprefix("--kafka-"))) is not None and option not in given:
            raise pytest.UsageError(
                f"{option} in addopts or PYTEST_ADDOPTS would accept every later slowdown as well; pass it on the "
                "command line of the run that may be slower"
            )


def _remove_reports(config: pytest.Config) -> None:
    from pytest_kafkaperf.core.errors import UsageError  # noqa: PLC0415 - only for perf tests
    from pytest_kafkaperf.reports.writing import remove_reports  # noqa: PLC0415 - imports the load engine

    try:
        remove_reports(_settings(config))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def _perf_plugin(config: pytest.Config) -> PerfPlugin:
    """Return the plugin that runs perf tests, after registering it if necessary."""
    plugin: PerfPlugin | None = config.pluginmanager.get_plugin(_PERF)
    if plugin is None:
        from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin  # noqa: PLC0415 - imports the load engine

        plugin = PerfPlugin(config, _collection(config), _settings(config))
        config.pluginmanager.register(plugin, _PERF)
    return plugin

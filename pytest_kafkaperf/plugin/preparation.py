"""Preparation of runs with perf tests or with this plugin's options, before the first test starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.plugin.collection import marks_of, read_perftests, warn_of_latency
from pytest_kafkaperf.plugin.items import PEER, collection_of, takes_perf
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.plugin.options import from_command_line, from_ini

if TYPE_CHECKING:
    from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin
    from pytest_kafkaperf.runner.settings import Settings

_PERF = "kafkaperf-run"


def settings_of(config: pytest.Config) -> Settings:
    """Return this run's parsed options.

    Raises:
        pytest.UsageError: an option or an ini value is invalid.

    """
    collection = collection_of(config)
    if collection.settings is None:
        given, written = from_command_line(config), from_ini(config)
        if (peer := config.pluginmanager.get_plugin(PEER)) is not None:
            given, written = peer.relevant(given), peer.relevant(written)
        try:
            collection.settings = read_settings(
                given,
                written,
                invocation_folder=config.invocation_params.dir,
                root=config.rootpath,
                addopts=config.getini("addopts"),
                is_other_side=peer is not None,
            )
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
    return collection.settings


def remove_old_reports(config: pytest.Config) -> None:
    """Remove an earlier run's reports; raises pytest.UsageError if this is impossible."""
    from pytest_kafkaperf.reports.writing import remove_reports  # noqa: PLC0415 - imports the load engine

    try:
        remove_reports(settings_of(config))
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@contextmanager
def reading_perftests(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Read the perf tests' markers before and after the other implementations of `pytest_collection_modifyitems`."""
    collection = collection_of(config)
    items[:], tests = read_perftests(items, settings_of(config))
    before = {item.nodeid: item for item in items}
    read = {nodeid: (item, marks_of(item)) for nodeid, item in before.items() if nodeid in tests}
    yield
    # Meanwhile, the same hook in a conftest.py may have added markers, or renamed, added or removed tests.
    collection.nodeids -= {nodeid for nodeid, item in before.items() if item.nodeid != nodeid}
    collection.nodeids |= {item.nodeid for item in before.values()}
    changed = [item for item in items if takes_perf(item) and read.get(item.nodeid) != (item, marks_of(item))]
    kept, changed_tests = read_perftests(changed, settings_of(config))
    items[:] = [item for item in items if item not in changed or item in kept]
    tests |= changed_tests
    collection.tests = {item.nodeid: tests[item.nodeid] for item in items if item.nodeid in tests}
    items[:] = warn_of_latency(items, collection.tests)
    collection.marks = {item.nodeid: marks_of(item) for item in items if item.nodeid in collection.tests}


def prepare(config: pytest.Config, *, runs: bool) -> None:
    """Register the plugin that runs perf tests; `runs` is True if there are any.

    Raises:
        pytest.UsageError: the tests cannot run with these options.

    """
    plugin = _registered(config)
    if runs:
        plugin.check_revision()
    if runs and config.getoption("benchmark_skip", default=False) and settings_of(config).strict:
        raise pytest.UsageError(
            "--kafka-strict with --benchmark-skip: no perf test would run, and no threshold would be judged; omit one "
            "of the two options (they may be in addopts)"
        )


def perf_plugin(request: pytest.FixtureRequest) -> PerfPlugin:
    """Return the plugin that runs perf tests for a fixture; fails the test if it cannot run here."""
    if hasattr(request.config, "workerinput"):
        pytest.fail(
            "perf tests cannot run in parallel with other tests, which pytest-xdist does; run them separately with "
            "-n0, for example: pytest -n0 -m kafka_perf",
            pytrace=False,
        )
    plugin = _registered(request.config)
    plugin.perf_run_or_fail()
    return plugin


def _registered(config: pytest.Config) -> PerfPlugin:
    """Return the plugin that runs perf tests, after registering it if necessary."""
    plugin: PerfPlugin | None = config.pluginmanager.get_plugin(_PERF)
    if plugin is None:
        from pytest_kafkaperf.plugin.perf_plugin import PerfPlugin  # noqa: PLC0415 - imports the load engine

        plugin = PerfPlugin(config, collection_of(config), settings_of(config))
        config.pluginmanager.register(plugin, _PERF)
    return plugin

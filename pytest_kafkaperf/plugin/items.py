"""Detection of perf tests, and the state of a run until its tests are collected.

PYTEST_DONT_REWRITE: pytest would otherwise look for assertions here in every run without cached bytecode.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_kafkaperf.runner.perftest import PerfTest
    from pytest_kafkaperf.runner.settings import Settings

ARGUMENTS: pytest.StashKey[Iterable[str]] = pytest.StashKey()
"""The command line, including `addopts` and `PYTEST_ADDOPTS`."""
COLLECTION = "kafkaperf-collection"
"""Name of the plugin that holds the run's `Collection`."""
PEER = "kafkaperf-peer"
"""Name of the plugin that serves another pytest process; `plugin.peer_side` registers it only in the server."""


def arguments_of(config: pytest.Config) -> list[str]:
    """Return the command line, including `addopts` and `PYTEST_ADDOPTS`."""
    # If a conftest.py loads this plugin, the hook that sets `ARGUMENTS` is not called.
    return [str(argument) for argument in config.stash.get(ARGUMENTS, config.invocation_params.args)]


def asks_for_benchmark(config: pytest.Config) -> bool:
    """Return True if any pytest-benchmark option was given; otherwise, that plugin should go unnoticed."""
    return any(argument.startswith("--benchmark-") for argument in arguments_of(config))


def takes_perf(item: pytest.Item) -> bool:
    """Return True for a perf test, which is a test that uses the `kafka_perf` fixture."""
    return "kafka_perf" in getattr(item, "fixturenames", ())


def is_declared(item: pytest.Item) -> bool:
    """Return True if the test's own markers declare a perf test, even if it does not use the `kafka_perf` fixture."""
    return any(mark.name in ("kafka_scenario", "kafka_perf") for mark in item.own_markers)


def has_thresholds(item: pytest.Item) -> bool:
    """Return True if the test itself, not its class or module, has a `kafka_threshold` marker."""
    return any(mark.name == "kafka_threshold" for mark in item.own_markers)


class Collection:
    """A run's state until its tests are collected; after that, `PerfPlugin` uses this state if perf tests will run."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.settings: Settings | None = None
        """The settings; None if not parsed yet."""
        self.nodeids: set[str] = set()
        """All collected tests, including those deselected later."""
        self.incomplete: set[str] = set()
        """Nodeids of deselected tests, and of files and classes that could not be collected."""
        self.broken: set[str] = set()
        """Nodeids of files and classes that could not be collected."""
        self.tests: dict[str, PerfTest] = {}
        """The perf tests, by nodeid."""
        self.marks: dict[str, list[pytest.Mark]] = {}
        """The markers of each perf test, by nodeid."""

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Record deselected tests."""
        self.incomplete.update(item.nodeid for item in items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record files and classes that could not be collected."""
        if report.failed:
            self.incomplete.add(report.nodeid)
            self.broken.add(report.nodeid)


def collection_of(config: pytest.Config) -> Collection:
    """Return the run's state."""
    plugin: Collection = config.pluginmanager.get_plugin(COLLECTION)  # type: ignore[assignment]
    return plugin

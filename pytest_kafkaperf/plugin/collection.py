"""What the plugin remembers of every pytest run: its options, its tests, and the files that it collected in part."""

from __future__ import annotations

import time
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.core.text import file_of

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.settings import Settings


class CollectionPlugin:
    """Registered in every run, perf tests or not."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.began_s = time.monotonic()
        self._seen: set[str] = set()
        """Every test that was collected, by nodeid, whatever became of it later."""
        self._left_out: set[str] = set()
        """Files of which a test is missing, or may be."""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember tests that plugins leave out later, and tell nobody."""
        self._seen.add(item.nodeid)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember which files were not run whole: their baselines may be those of tests that were left out."""
        for item in items:
            self.leave_out(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Remember files and classes that could not be read."""
        report = yield
        if report.failed:
            self.leave_out(collector.nodeid)
        return report

    def leave_out(self, nodeid: str) -> None:
        """Note that of this test's file something is missing, or may be."""
        self._left_out.add(file_of(nodeid))

    def partial_files(self, kept: AbstractSet[str]) -> set[str]:
        """The files of which some tests were left out, where the tests `kept` are to run."""
        return self._left_out | {file_of(nodeid) for nodeid in self._seen - kept}

    def whole_files(self, kept: AbstractSet[str]) -> set[str]:
        """The files all of whose tests are to run: of those alone it is known that a test is gone."""
        return {file_of(nodeid) for nodeid in kept} - self.partial_files(kept)


def takes_perf(item: pytest.Item) -> bool:
    """Return True for a perf test."""
    return "kafka_perf" in getattr(item, "fixturenames", ())


def has_thresholds(item: pytest.Item) -> bool:
    """Return True for a test that a `kafka_threshold` marker names, not its class or module."""
    return any(mark.name == "kafka_threshold" for mark in item.own_markers)

"""Runs that start together before Kafka is in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.plugin_runs import PluginRun


@pytest.mark.usefixtures("cold_cache")
def test_two_runs_that_start_at_once_on_a_cold_cache_both_come_up(
    cold_cache: Path, plugin_run: Callable[..., AbstractContextManager[PluginRun]]
) -> None:
    """One fetches, the other waits: no half a jar, no file in the other's way."""
    with plugin_run() as one, plugin_run() as other:
        told = [one.ready(), other.ready()]

        assert [each["version"] for each in told] == [DEFAULT_VERSION] * 2
        assert sum("jgo" in each["modules"] for each in told) == 1
        assert [one.end(), other.end()] == [0, 0]
    assert sorted(path.name for path in (cold_cache / "kafka").iterdir()) == [
        DEFAULT_VERSION,
        f"{DEFAULT_VERSION}.lock",
    ]

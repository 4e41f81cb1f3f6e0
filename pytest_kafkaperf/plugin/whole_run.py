"""Check of whether a run has covered all tests of a project, not a part of them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pytest

from pytest_kafkaperf.plugin.items import Collection

_LEAVING_OUT = ("lf", "ignore", "ignore_glob")
"""Options of pytest that leave out tests before they are collected."""


def ran_everything(session: pytest.Session, collection: Collection, measured: AbstractSet[str]) -> bool:
    """Return True if pytest collected all tests, and every perf test is among those that were measured.

    A run of chosen paths, even of all of them, is a run of some tests.
    """
    config = session.config
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    left_out = any(config.getoption(name, default=None) for name in _LEAVING_OUT)
    items = {item.nodeid for item in session.items}
    if chosen or left_out or collection.incomplete or collection.nodeids - items:
        return False
    return bool(collection.tests) and collection.tests.keys() <= measured

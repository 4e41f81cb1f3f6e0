"""One broker for all tests that only need some broker, and what they do to it with Kafka's own tools."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support import quotas
from tests.support.versions import CHOSEN

pytest_plugins = [
    "pytester",
    "tests.support.archive",
    "tests.support.browser",
    "tests.support.dask_workers",
    "tests.support.exactness",
    "tests.support.project",
    "tests.support.revisions",
    "tests.support.relays",
    "tests.support.report_pages",
    "tests.support.rounds",
    "tests.support.plugin_runs",
    "tests.support.serviced",
]


def pytest_configure() -> None:
    """Take Ctrl-C again where pytest was started in the background.

    Shells let such jobs ignore it, and so would the processes that tests interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def broker() -> Iterator[Cluster]:
    """A broker that the whole run shares: nothing may stop it or leave settings behind.

    Quotas act within a second here: Kafka's default averages over 11 windows of a second, and lets the first burst
    through.
    """
    with provision(ClusterSpec(version=CHOSEN, config={"quota.window.num": "2"}), target="local") as cluster:
        yield cluster


@pytest.fixture
def quota() -> Callable[..., AbstractContextManager[None]]:
    """Slow the clients of a broker down, as an operator would: by a client quota, for the length of a block."""
    return quotas.quota

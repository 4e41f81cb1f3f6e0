"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import Phase, settings
from testcontainers.core.config import testcontainers_config

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.docker.daemon import image_of, is_pulled, look
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.metrics import CATALOGUE
from tests.support.versions import VERSION

# The same examples in every run, fewer of them while somebody waits, and no folder left behind.
_EXAMPLES = 150 if os.environ.get("CI") else 30
# A mutant fails by any example: to look for the smallest would take most of the time.
_PHASES = (Phase.explicit, Phase.generate) if "MUTANT_UNDER_TEST" in os.environ else tuple(Phase)
settings.register_profile(
    "kafkaperf", deadline=None, max_examples=_EXAMPLES, phases=_PHASES, derandomize=True, database=None
)
settings.load_profile("kafkaperf")

_STAND_IN_PREFIX = "localhost/kafkaperf-stand-in/"
"""Prefix of the names of images that `.ci/docker` builds."""


def pytest_configure() -> None:
    """Prepare the environment of all processes that tests start.

    Brokers start with the quick compiler alone: they take 40% less CPU, and no test needs their full speed. SIGHUP has
    its effect: under `nohup` it is ignored, and child processes inherit that.
    """
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need Docker where there is none, and say why; let them use the stand-in image where it is."""
    in_need = [item for item in items if item.get_closest_marker("docker")]
    if not in_need:
        return
    address, reason = look()
    if reason is not None:
        for item in in_need:
            item.add_marker(pytest.mark.skip(reason=f"no Docker daemon at {address}: {reason}"))
    elif not is_pulled(image_of(ClusterSpec())) and is_pulled(_STAND_IN_PREFIX + image_of(ClusterSpec())):
        os.environ["TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX"] = _STAND_IN_PREFIX
        testcontainers_config.hub_image_name_prefix = _STAND_IN_PREFIX


def pytest_collection_finish() -> None:
    """Let the garbage collector skip modules and tests, which live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def kafka() -> distribution.Distribution:
    """The version that tests run, from the user's cache: fetched on the first run ever."""
    return distribution.installed(VERSION, java=java.find(), cache=distribution.cache_folder())


@pytest.fixture
def catalogue() -> Iterator[None]:
    """Let a test declare metrics of its own, which other tests do not see."""
    before = dict(CATALOGUE)
    yield
    CATALOGUE.clear()
    CATALOGUE.update(before)

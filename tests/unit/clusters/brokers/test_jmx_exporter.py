"""The jar of the JMX exporter, and the option that loads it."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters.brokers import distribution, jmx_exporter
from pytest_kafkaperf.clusters.brokers.downloads import pinned, sha256
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_agents_jar_missing_without_a_network_says_what_to_do(cold_cache: Path, no_network: str) -> None:
    """The first run of many a CI machine."""
    with pytest.raises(ClusterError) as raised:
        jmx_exporter.jar(cold_cache)

    assert str(raised.value) == (
        f"the JMX exporter is not in the cache ({cold_cache}/agents/jmx_prometheus_javaagent-1.0.1.jar) and cannot "
        "be downloaded: io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1 from "
        f"central ({no_network}): ConnectionRefusedError: [Errno {errno.ECONNREFUSED}] Connection refused. "
        "Run once with network access, copy that path from another machine, "
        "or use a running cluster with --kafka-cluster=HOST:PORT"
    )


@pytest.mark.usefixtures("no_network")
def test_half_an_agents_jar_makes_it_missing(tmp_path: Path, agent: Path) -> None:
    """A copy that was interrupted would keep every broker from starting; a whole one needs no network."""
    copied = tmp_path / "cache" / "agents" / agent.name
    copied.parent.mkdir(parents=True)
    shutil.copy(agent, copied)
    assert jmx_exporter.jar(tmp_path / "cache") == copied

    os.truncate(copied, copied.stat().st_size // 2)

    with pytest.raises(ClusterError, match="is not in the cache"):
        jmx_exporter.jar(tmp_path / "cache")


@pytest.mark.usefixtures("no_network")
def test_an_agents_jar_that_was_changed_is_refused(tmp_path: Path, agent: Path) -> None:
    """It would run in every broker; this one is a whole zip file, of another content."""
    copied = tmp_path / "cache" / "agents" / agent.name
    copied.parent.mkdir(parents=True)
    shutil.copy(agent, copied)
    with zipfile.ZipFile(copied, "a") as opened:
        opened.writestr("Added.class", b"")

    with pytest.raises(ClusterError) as raised:
        jmx_exporter.jar(tmp_path / "cache")

    assert str(raised.value) == (
        f"{copied.name} has changed and is not used: its SHA-256 is {sha256(copied)}, expected "
        f"{pinned(jmx_exporter.COORDINATE)[jmx_exporter.COORDINATE]} (pinned in pytest-kafkaperf). "
        f"Find out what changed {copied}; to download it again, delete it"
    )


def test_the_agents_option_names_jar_address_and_configuration() -> None:
    """In a container the agent must listen on all addresses."""
    assert jmx_exporter.option("/a.jar", "/c.yaml", 7071) == "-javaagent:/a.jar=127.0.0.1:7071:/c.yaml"
    assert jmx_exporter.option("/a.jar", "/c.yaml", 1, host="0.0.0.0") == "-javaagent:/a.jar=0.0.0.0:1:/c.yaml"  # noqa: S104


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's jar in the user's cache: fetched on the first run ever."""
    return jmx_exporter.jar(distribution.cache_folder())

"""Kafka in the cache: fetched once, complete or not there at all."""

from __future__ import annotations

import errno
import shutil
import sys
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.brokers.java import Java
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.plugin_runs import installed


def test_a_cold_cache_without_a_network_says_what_is_missing_and_what_to_do(cold_cache: Path, no_network: str) -> None:
    """The first run of many a CI machine."""
    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)

    version = DEFAULT_VERSION
    assert str(raised.value) == (
        f"Kafka {version} is not in the cache ({cold_cache}/kafka/{version}) and cannot be downloaded: "
        f"org.apache.kafka:kafka_2.13:{version} from central ({no_network}): "
        f"ConnectionRefusedError: [Errno {errno.ECONNREFUSED}] Connection refused. "
        "Run once with network access, copy that path from another machine, "
        "or use a running cluster with --kafka-cluster=HOST:PORT"
    )


def test_the_login_of_a_mirror_is_not_shown(cold_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Companies' mirrors have one, in jgo's settings, and CI shows the message to everybody."""
    settings = tmp_path / "jgo.conf"
    settings.write_text("[repositories]\ncentral = http://me:hunter2@127.0.0.1:9/maven\n", encoding="utf-8")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))

    with pytest.raises(ClusterError, match=r"from central \(http://127\.0\.0\.1:9/maven\)") as raised:
        installed(cold_cache)

    assert "hunter2" not in str(raised.value)


@pytest.mark.usefixtures("no_network")
def test_a_jar_that_is_not_complete_makes_the_version_missing(
    kafka: distribution.Distribution, cold_cache: Path
) -> None:
    """A download or a copy that was interrupted must never be run."""
    folder = shutil.copytree(kafka.folder, cold_cache / "kafka" / kafka.version)
    jar = folder / "jars" / kafka.classpath[0].name
    assert installed(cold_cache).classpath[0] == jar

    with jar.open("r+b") as file:
        file.truncate(1000)

    with pytest.raises(ClusterError, match="is not in the cache"):
        installed(cold_cache)


@pytest.mark.usefixtures("no_network")
def test_a_manifest_that_cannot_be_read_makes_the_version_missing(
    kafka: distribution.Distribution, cold_cache: Path
) -> None:
    """A full disk leaves half a file."""
    folder = shutil.copytree(kafka.folder, cold_cache / "kafka" / kafka.version)
    (folder / "manifest.json").write_text('{"files"', encoding="utf-8")

    with pytest.raises(ClusterError, match="is not in the cache"):
        installed(cold_cache)


def test_a_cold_cache_without_jgo_names_the_extra(cold_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional: external clusters need none of it."""
    monkeypatch.setitem(sys.modules, "jgo.config", None)

    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)

    assert str(raised.value) == (
        f"downloading Kafka {DEFAULT_VERSION} for a local broker requires the package jgo; "
        "run: pip install 'pytest-kafkaperf[local]'"
    )


def test_a_version_that_does_not_exist_is_named_with_the_default(cold_cache: Path) -> None:
    """A typing error in --kafka-cluster=local:VERSION."""
    with pytest.raises(ClusterError) as raised:
        installed(cold_cache, "9.9.9")

    text = str(raised.value)
    assert text.startswith("Kafka 9.9.9 is not available from central (")
    assert text.endswith(
        "): Artifact org.apache.kafka:kafka_2.13:pom:9.9.9 not found. "
        f"Choose a released version with --kafka-cluster=local:VERSION; the default is {DEFAULT_VERSION}"
    )


@pytest.mark.parametrize(
    ("sign", "what"), [(":", "the entries of Java's class path"), (",", "the folders of Kafka's log.dirs")]
)
def test_a_cache_path_that_java_or_kafka_would_split_is_refused_before_a_download(
    tmp_path: Path, sign: str, what: str
) -> None:
    """A workspace is often named after a job and its parameters."""
    cache = tmp_path / f"job{sign}1"
    with pytest.raises(ClusterError) as raised:
        installed(cache)
    assert str(raised.value) == (
        f"the cache path must not contain {sign!r}, which separates {what}: {cache}; set the environment variable "
        "PYTEST_KAFKAPERF_CACHE to another folder"
    )
    assert not cache.exists()


def test_the_error_of_the_tool_that_formats_does_not_show_the_options_of_the_jvm(tmp_path: Path) -> None:
    """Companies pass the password of a truststore there."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Dx=hunter2' >&2\necho no disk\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(ClusterError) as raised:
        distribution.format_storage(tmp_path, [], "4.1.0", Java(path=java, description="openjdk 21"))
    assert str(raised.value) == (f"Kafka 4.1.0 could not format a data folder with openjdk 21 ({java}):\nno disk")


def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build machines have read-only homes."""
    occupied = tmp_path / "file"
    occupied.touch()
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(occupied))

    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(), target="local"):
        pass

    assert str(raised.value) == (
        f"cannot write Kafka {DEFAULT_VERSION} to the cache {occupied}: [Errno 20] Not a directory: "
        f"'{occupied}/kafka'; free disk space or set the environment variable PYTEST_KAFKAPERF_CACHE "
        "to another folder"
    )

"""One version of Kafka in the user's cache: its jars and a formatted data folder.

Layout of the cache folder; all paths are relative, so that it can be copied to a machine without a network::

    kafka/4.3.1/manifest.json    files with sizes; written last, before the folder gets its final name
    kafka/4.3.1/jars/*.jar
    kafka/4.3.1/storage/         output of Kafka's own `kafka-storage format`
    kafka/4.3.1.lock             held while a session downloads that version
    kafka/4.3.1.partial/         an incomplete download; the next session removes it

Other downloads use the same cache, also one session at a time (`fetching`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.clusters.local import maven
from pytest_kafkaperf.clusters.local.java import Java
from pytest_kafkaperf.clusters.local.maven import file_name, pinned, verify_sha256
from pytest_kafkaperf.core.errors import ClusterError

CACHE_VARIABLE = "PYTEST_KAFKAPERF_CACHE"
"""Environment variable with the path of another cache folder."""

NODE_ID = 1
"""Broker id in the formatted data folder."""

_OTHER_SESSION_TIMEOUT_S = 600
"""Time to wait for a session that downloads the same version: about 45 MB in 100 requests."""
_FORMAT_TIMEOUT_S = 60
_FORMAT_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""A UUID in base64; each run replaces it by its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A complete version of Kafka in the cache."""

    version: str
    classpath: tuple[Path, ...]
    storage: Path
    """A formatted data folder, which each run copies."""


def cache_folder() -> Path:
    """Return the path of the plugin's cache folder; does not create it."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else platformdirs.user_cache_path("pytest-kafkaperf")


@contextmanager
def fetching(path: Path, what: str, *, cache: Path, timeout_s: int) -> Iterator[None]:
    """Hold a lock on a path in the cache while it is downloaded; creates the parent folder.

    Raises:
        ClusterError: another session holds the lock for longer than `timeout_s`, or the cache cannot be written.

    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=timeout_s):
            yield
    except Timeout:
        raise ClusterError(
            f"another session has been downloading {what} for {timeout_s} s and holds {lock}; end it and try again"
        ) from None
    except OSError as error:
        raise ClusterError(
            f"cannot write {what} to the cache {cache}: {error}; "
            f"free disk space or set the environment variable {CACHE_VARIABLE} to another folder"
        ) from error


def is_installed(version: str) -> bool:
    """Return True if the user's cache has this version completely."""
    return _read(cache_folder() / "kafka" / version, version) is not None


def installed(version: str, *, java: Java, cache: Path) -> Distribution:
    """Return this version from the cache; download it first if it is missing.

    Needs neither jgo nor the network if it is in the cache. Safe for sessions that start at the same time.

    Raises:
        ClusterError: it is missing and cannot be downloaded, or one of its files has changed; says what to do.

    """
    folder = cache / "kafka" / version
    distribution = _read(folder, version)
    if distribution is None:
        with fetching(folder, f"Kafka {version}", cache=cache, timeout_s=_OTHER_SESSION_TIMEOUT_S):
            # Another session may have downloaded it.
            distribution = _read(folder, version) or _install(folder, version, java)
    _verify(distribution, folder)
    return distribution


def _read(folder: Path, version: str) -> Distribution | None:
    """Return the distribution in this folder; None if a file in its manifest is missing or incomplete."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        sizes: dict[str, int] = manifest["files"]
        if any((folder / name).stat().st_size < sizes[name] for name in {*sizes, *manifest["classpath"]}):
            return None
        classpath = tuple(folder / name for name in manifest["classpath"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Distribution(version=version, classpath=classpath, storage=folder / "storage")


def _verify(distribution: Distribution, folder: Path) -> None:
    """Raise `ClusterError` if a jar of a version that is pinned has changed.

    Takes a tenth of a second, before each start of brokers.
    """
    pins = {file_name(name): expected for name, expected in pinned(maven.coordinate(distribution.version)).items()}
    problem = f"of Kafka {distribution.version} has changed"
    for path in distribution.classpath if pins else ():
        advice = f"Find out what changed {path}; to download everything again, delete {folder}"
        verify_sha256(path, pins.get(path.name, "no jar of that name"), problem=problem, advice=advice)


def _install(folder: Path, version: str, java: Java) -> Distribution:
    partial = folder.with_name(f"{version}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    scratch = partial / "fetched"
    fetched = maven.fetch(version, scratch=scratch, target=folder)
    (partial / "jars").mkdir(parents=True)
    jars = [jar.rename(partial / "jars" / jar.name) for jar in fetched]
    shutil.rmtree(scratch)
    _format(partial, jars, version, java)
    names = {file: file.relative_to(partial) for file in (*jars, *sorted((partial / "storage").iterdir()))}
    manifest = {
        "classpath": [names[jar].as_posix() for jar in jars],
        "files": {name.as_posix(): file.stat().st_size for file, name in names.items()},
    }
    (partial / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return Distribution(
        version=version, classpath=tuple(folder / names[jar] for jar in jars), storage=folder / "storage"
    )


def _format(partial: Path, classpath: list[Path], version: str, java: Java) -> None:
    """Format a data folder with Kafka's own tool, only once: the tool needs a JVM start of a second or more."""
    properties = partial / "format.properties"
    properties.write_text(
        "process.roles=broker,controller\n"
        f"node.id={NODE_ID}\n"
        f"controller.quorum.voters={NODE_ID}@127.0.0.1:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "log.dirs=storage\n",
        encoding="ascii",
    )
    tool = [str(java.path), "-Xmx256m", "-cp", os.pathsep.join(map(str, classpath)), "kafka.tools.StorageTool"]
    arguments = ["format", "--cluster-id", _FORMAT_CLUSTER_ID, "--config", str(properties)]
    try:
        result = subprocess.run(  # noqa: S603 - Kafka's own tool
            [*tool, *arguments], cwd=partial, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"formatting the data folder of Kafka {version} with {java.description} ({java.path}) took more than "
            f"{_FORMAT_TIMEOUT_S} s; try again when the machine is less busy, or set JAVA_HOME to another Java"
        ) from None
    if result.returncode != 0:
        output = "\n".join((result.stdout + result.stderr).splitlines()[-20:])
        raise ClusterError(
            f"Kafka {version} could not format a data folder with {java.description} ({java.path}):\n{output}"
        )
    properties.unlink()

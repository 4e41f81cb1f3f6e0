"""One version of Kafka, ready to run, in the user's cache: its jars and a formatted data folder.

Layout below the cache folder, all of it relative, so that it can be copied to a machine without a network::

    kafka/4.3.1/manifest.json    what is there, with sizes and SHA-256; written last, before the folder gets its name
    kafka/4.3.1/jars/*.jar
    kafka/4.3.1/storage/         what Kafka's own `kafka-storage format` writes
    kafka/4.3.1.lock             held while a session fetches that version
    kafka/4.3.1.partial/         what that session has so far; removed by the next one

What else is fetched into the cache is fetched as these are, by one session at a time (`fetching`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.clusters.local import maven
from pytest_kafkaperf.clusters.local.maven import file_name, pinned, refuse_other, sha256
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.local.java import Java

CACHE_VARIABLE = "PYTEST_KAFKAPERF_CACHE"
"""Environment variable that names another cache folder."""

NODE_ID = 1
"""The broker's id; the formatted data folder carries it."""

_SCHEMA = 1
_OTHER_SESSION_TIMEOUT_S = 600
"""How long to wait for a session that fetches the same version: some 45 MB, and about 100 requests."""
_FORMAT_TIMEOUT_S = 60
_FORMAT_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""A UUID in base64; each run gets its own in place of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A version of Kafka that is complete in the cache."""

    version: str
    classpath: tuple[Path, ...]
    storage: Path
    """A formatted data folder, to copy for each run."""
    sums: Mapping[Path, str]
    """SHA-256 of each file, as it was noted when the file was new."""


def cache_folder() -> Path:
    """The plugin's cache folder; nothing is created."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else Path(platformdirs.user_cache_dir("pytest-kafkaperf"))


@contextmanager
def fetching(path: Path, what: str, *, cache: Path, timeout_s: int) -> Iterator[None]:
    """Keep other sessions from fetching the same to this path of the cache, whose folder is made where it is missing.

    Raises:
        ClusterError: another session fetches it for longer than `timeout_s`, or the cache cannot be written.

    """
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=timeout_s):
            yield
    except Timeout:
        raise ClusterError(
            f"another session has been fetching {what} for {timeout_s} s and still holds {lock}; end it and try again"
        ) from None
    except OSError as error:
        raise ClusterError(
            f"{what} cannot be written to the cache {cache}: {error}; "
            f"make room or name another folder by the environment variable {CACHE_VARIABLE}"
        ) from error


def is_installed(version: str) -> bool:
    """Whether this version is in the user's cache, complete."""
    return _read(cache_folder() / "kafka" / version, version) is not None


def installed(version: str, *, java: Java, cache: Path) -> Distribution:
    """Give this version from the cache, fetching it first where it is missing.

    Once it is there, neither jgo nor the network is needed. Safe when two sessions start at once.

    Raises:
        ClusterError: it is not there and cannot be fetched, or a file of it has changed; says what to do.

    """
    folder = cache / "kafka" / version
    found = _read(folder, version) or _fetched(folder, version, java)
    _refuse_changed(found, folder)
    return found


def _fetched(folder: Path, version: str, java: Java) -> Distribution:
    with fetching(folder, f"Kafka {version}", cache=folder.parents[1], timeout_s=_OTHER_SESSION_TIMEOUT_S):
        found = _read(folder, version)  # another session may have been first
        if found is None:
            _install(folder, version, java)
            found = _read(folder, version)
    if found is None:  # pragma: no cover - only where someone deletes what was just written
        raise ClusterError(f"Kafka {version} vanished from {folder} while it was being written; try again")
    return found


def _read(folder: Path, version: str) -> Distribution | None:
    """The distribution in this folder, if each file that its manifest names is there and no copy stopped half way."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        if manifest["schema"] != _SCHEMA:
            return None
        sizes: dict[str, int] = manifest["files"]
        if any((folder / name).stat().st_size < size for name, size in sizes.items()):
            return None
        sums = {folder / name: str(manifest["sha256"][name]) for name in sizes}
        classpath = tuple(folder / name for name in manifest["classpath"])
        if not sums.keys() >= set(classpath):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Distribution(version=version, classpath=classpath, storage=folder / "storage", sums=sums)


def _refuse_changed(found: Distribution, folder: Path) -> None:
    """Run nothing but what was fetched: of a pinned version the jars that are pinned, whatever the manifest says.

    Reading all of it takes a tenth of a second, each time that brokers are about to start.
    """
    pins = {file_name(name): expected for name, expected in pinned(maven.coordinate(found.version)).items()}
    for path, noted in found.sums.items():
        by_pin = bool(pins) and path in found.classpath
        refuse_other(
            path,
            pins.get(path.name, "no jar of that name") if by_pin else noted,
            source="is pinned in pytest-kafkaperf" if by_pin else "was noted when it was new",
            what=f"of Kafka {found.version} has changed",
            advice=f"Find out what has changed {path}; to fetch all of it anew, delete {folder}",
        )


def _install(folder: Path, version: str, java: Java) -> None:
    partial = folder.with_name(f"{version}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    classpath = _fetch(partial, folder, version)
    _format(partial, classpath, version, java)
    files = [*classpath, *sorted((partial / "storage").iterdir())]
    _write_manifest(
        partial / "manifest.json",
        {
            "schema": _SCHEMA,
            "version": version,
            "classpath": [jar.relative_to(partial).as_posix() for jar in classpath],
            "files": {file.relative_to(partial).as_posix(): file.stat().st_size for file in files},
            "sha256": {file.relative_to(partial).as_posix(): sha256(file) for file in files},
        },
    )
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _fetch(partial: Path, folder: Path, version: str) -> list[Path]:
    scratch = partial / "fetched"
    try:
        fetched = maven.fetch(version, scratch=scratch)
    except maven.Unreachable as error:
        raise ClusterError(
            f"Kafka {version} is not in the cache ({folder}) and cannot be fetched: "
            f"{maven.coordinate(version)} was looked for in {error.looked}: {error.reason}. "
            f"Run once with a network, or copy that folder from a machine that has it, "
            f"or name a running cluster by --kafka-cluster=HOST:PORT"
        ) from error
    (partial / "jars").mkdir(parents=True)
    classpath = [jar.rename(partial / "jars" / jar.name) for jar in fetched]
    shutil.rmtree(scratch)
    return classpath


def _format(partial: Path, classpath: list[Path], version: str, java: Java) -> None:
    """Let Kafka's own tool format a data folder, once: the tool is a JVM start of a second or more."""
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
    tool = [
        str(java.path),
        "-Xmx256m",
        "-cp",
        os.pathsep.join(map(str, classpath)),
        "kafka.tools.StorageTool",
    ]
    arguments = ["format", "--cluster-id", _FORMAT_CLUSTER_ID, "--config", str(properties)]
    try:
        done = subprocess.run(  # noqa: S603 - Kafka's own tool
            [*tool, *arguments],
            cwd=partial,
            capture_output=True,
            text=True,
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"formatting the data folder of Kafka {version} with {java.description} ({java.path}) took more than "
            f"{_FORMAT_TIMEOUT_S} s; try again when the machine has less to do, or set JAVA_HOME to another Java"
        ) from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise ClusterError(
            f"Kafka {version} could not format a data folder with {java.description} ({java.path}):\n{said}"
        )
    properties.unlink()


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())

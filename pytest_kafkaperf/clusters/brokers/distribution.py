"""One Kafka version in the user's cache: its jars and a formatted data folder.

The cache folder has the following layout. All paths are relative, so you can copy it to an offline machine::

    kafka/4.4.0/manifest.json    files with sizes and SHA-256; written last, before the folder gets its final name
    kafka/4.4.0/jars/*.jar
    kafka/4.4.0/storage/         output of Kafka's own `kafka-storage format`
    kafka/4.4.0.lock             held while a run downloads that version
    kafka/4.4.0.partial/         an incomplete download; the next run removes it

Other downloads use the same cache and the same kind of lock (see `fetching`).

Others may be able to write to the cache. For example, a CI job may restore a cache written by an earlier job. For a
pinned version, the cache cannot change what runs, because this package contains the names, order and SHA-256 of the
files. For other versions, the manifest contains the SHA-256 of the download, which protects the files only as long as
nobody changes the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from pytest_kafkaperf.clusters.brokers import downloads
from pytest_kafkaperf.clusters.brokers.downloads import PINNED, pinned_files
from pytest_kafkaperf.clusters.brokers.java import Java
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import last_lines

CACHE_VARIABLE = "PYTEST_KAFKAPERF_CACHE"
"""Environment variable that specifies a different cache folder."""

NODE_ID = 1
"""Broker id in the formatted data folder."""

_OTHER_RUN_TIMEOUT_S = downloads.TIMEOUT_S + 60
"""Maximum time to wait for another run that is downloading the same version."""
_FORMAT_TIMEOUT_S = 60
_FORMAT_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""A placeholder UUID in base64, which each run replaces with a new one."""
_JARS, _STORAGE = "jars", "storage"
_FILE = re.compile(rf"{_JARS}/[\w.+-]+\.jar|{_STORAGE}/([\w-]+/)?[\w.-]+\.checkpoint")
"""Pattern of file paths in a manifest: inside the folder, without Java wildcards and without `os.pathsep`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A complete Kafka version in the cache."""

    version: str
    folder: Path
    sums: Mapping[str, str]
    """Expected SHA-256 by path in the folder, for the jars (in class path order) and for the data folder."""
    origin: str
    """Origin of the SHA-256 sums, for error messages."""

    @property
    def classpath(self) -> tuple[Path, ...]:
        """The jars in class path order."""
        return tuple(self.folder / name for name in self.sums if name.startswith(_JARS))

    def copy_storage(self, target: Path) -> None:
        """Copy the formatted data folder, without the properties that differ between brokers."""
        for name in self.sums:
            if name.startswith(_STORAGE):
                path = target / Path(name).relative_to(_STORAGE)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / name, path)


def cache_folder() -> Path:
    """Return the path of the plugin's cache folder without creating it."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).absolute() if named else platformdirs.user_cache_path("pytest-kafkaperf")


@contextmanager
def fetching(path: Path, what: str, *, cache: Path, timeout_s: int) -> Iterator[None]:
    """Hold a lock on a path in the cache while it is being downloaded; create the parent folder.

    Raises:
        ClusterError: another run holds the lock for longer than `timeout_s`, or the cache is not writable.

    """
    lock = path.with_name(f"{path.name}.lock")
    refuse_links(lock, cache=cache)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=timeout_s):
            yield
    except Timeout:
        raise ClusterError(
            f"another run has been preparing {what} for {timeout_s} s and holds {lock}; stop it and try again"
        ) from None
    except OSError as error:
        raise ClusterError(
            f"cannot write {what} to the cache {cache}: {error}; "
            f"free disk space or set the environment variable {CACHE_VARIABLE} to another folder"
        ) from error


def is_installed(version: str) -> bool:
    """Return True if this version is complete in the user's cache."""
    return _read(cache_folder() / "kafka" / version, version) is not None


def installed(version: str, *, java: Java, cache: Path) -> Distribution:
    """Return this version from the cache; download it first if it is missing.

    For a cached version, neither jgo nor the network is required. Several runs can start at the same time.

    Raises:
        ClusterError: the version is missing and cannot be downloaded, or a file has changed; the message contains the
            fix.

    """
    folder = cache / "kafka" / version
    for sign, what in ((os.pathsep, "the entries of Java's class path"), (",", "the folders of Kafka's log.dirs")):
        if sign in str(folder):
            raise ClusterError(
                f"the cache path must not contain {sign!r}, which separates {what}: {cache}; set the environment "
                f"variable {CACHE_VARIABLE} to another folder"
            )
    refuse_links(folder / _JARS, folder / _STORAGE, cache=cache)
    distribution = _read(folder, version)
    if distribution is None:
        with fetching(folder, f"Kafka {version}", cache=cache, timeout_s=_OTHER_RUN_TIMEOUT_S):
            # Another run may have downloaded it in the meantime.
            distribution = _read(folder, version) or _install(folder, version, java)
    _verify(distribution)
    return distribution


def refuse_links(*paths: Path, cache: Path) -> None:
    """Raise `ClusterError` if any of these paths in the cache, or any of their parent folders inside it, is a link.

    Others could change a link's target, and removing a version must not affect files elsewhere. Only the cache
    folder itself may be a link.
    """
    for path in paths:
        inner = path.relative_to(cache)
        for part in (cache / parent for parent in (inner, *inner.parents[:-1])):
            if part.is_symlink():
                raise ClusterError(
                    f"{part} is a symbolic link, which the plugin does not follow in its cache; replace it with a "
                    f"copy, or set the environment variable {CACHE_VARIABLE} to another folder"
                )


def _read(folder: Path, version: str) -> Distribution | None:
    """Return the distribution in this folder; None if one of its files is missing or incomplete."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        sizes: dict[str, int] = manifest["files"]
        sums = pinned_files(version)
        origin = PINNED if sums else "recorded when it was downloaded"
        sums = sums or manifest["sha256"]
        is_complete = all(_is_complete(folder / name, sizes[name]) for name in sums)
        is_plain = all(map(_FILE.fullmatch, sums))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not (is_complete and is_plain and sums):
        return None
    return Distribution(version=version, folder=folder, sums=sums, origin=origin)


def _is_complete(path: Path, size: int) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size >= size


def _verify(distribution: Distribution) -> None:
    """Raise `ClusterError` if a file has changed. This is checked before each broker start, and takes about 0.1 s."""
    for name, expected in distribution.sums.items():
        path = distribution.folder / name
        found = file_sum(path)
        if found != expected:
            raise ClusterError(
                f"{path.name} of Kafka {distribution.version} has changed and is not used: its SHA-256 is {found}, "
                f"expected {expected} ({distribution.origin}). Find out what changed {path}; to download everything "
                f"again, delete {distribution.folder}"
            )


def file_sum(path: Path) -> str:
    """Return the SHA-256 of a jar, or of a snapshot excluding its timestamps."""
    return checkpoint_sum(path) if path.suffix == ".checkpoint" else downloads.sha256(path)


_BATCH_HEADER_BYTES = 61
_BATCH_CRC = slice(17, 21)
_BATCH_TIMESTAMPS = slice(27, 43)
_SNAPSHOT_TIMESTAMP = slice(73, 81)
"""Sizes and positions in a record batch (KIP-98) and in a snapshot's first batch, its header (KIP-630)."""


def checkpoint_sum(path: Path) -> str:
    """Return the SHA-256 of a metadata snapshot, excluding its timestamps and CRC.

    For a given version, everything else that `kafka-storage format` writes is always identical. Kafka itself checks the
    CRC.
    """
    content = bytearray(path.read_bytes())
    _clear(content, _SNAPSHOT_TIMESTAMP)
    start = 0
    while start + _BATCH_HEADER_BYTES <= len(content):
        _clear(content, _BATCH_CRC, start)
        _clear(content, _BATCH_TIMESTAMPS, start)
        start += 12 + int.from_bytes(content[start + 8 : start + 12], "big")  # the length does not include itself
    return hashlib.sha256(content).hexdigest()


def _clear(content: bytearray, field: slice, start: int = 0) -> None:
    for position in range(start + field.start, min(start + field.stop, len(content))):
        content[position] = 0


def _install(folder: Path, version: str, java: Java) -> Distribution:
    partial = folder.with_name(f"{version}.partial")
    if partial.is_symlink():
        partial.unlink()
    shutil.rmtree(partial, ignore_errors=True)
    scratch = partial / "fetched"
    fetched = downloads.fetch(version, scratch=scratch, target=folder)
    (partial / _JARS).mkdir(parents=True)
    jars = [jar.rename(partial / _JARS / jar.name) for jar in fetched]
    shutil.rmtree(scratch)
    format_storage(partial, jars, version, java)
    names = [jar.relative_to(partial).as_posix() for jar in jars] + storage_files(partial)
    manifest = {
        "files": {name: (partial / name).stat().st_size for name in names},
        "sha256": {name: file_sum(partial / name) for name in names},
    }
    (partial / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    distribution = _read(folder, version)
    assert distribution is not None  # noqa: S101 - it is complete
    return distribution


def storage_files(folder: Path) -> list[str]:
    """Return the paths of the formatted files that each broker of a version starts with."""
    return [path.relative_to(folder).as_posix() for path in sorted((folder / _STORAGE).rglob("*.checkpoint"))]


def format_storage(partial: Path, classpath: Sequence[Path], version: str, java: Java) -> None:
    """Format the data folder `storage` with Kafka's own tool. This happens only once, as it takes a second or more."""
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
        output = last_lines(result.stdout + result.stderr)
        raise ClusterError(
            f"Kafka {version} could not format a data folder with {java.description} ({java.path}):\n{output}"
        )
    properties.unlink()

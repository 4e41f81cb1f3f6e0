"""Download and verification of Kafka's jars with jgo, which is used only by this module and `registry`."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, innermost
from pytest_kafkaperf.core.text import discreet

_T = TypeVar("_T")

_ATTEMPTS = 3
"""Maximum number of attempts if the network responds but then fails."""
TIMEOUT_S = 600
"""Time limit for one download including all attempts; Kafka is about 45 MB in 100 requests."""

_VERSIONS = f"Choose a released version with --kafka-cluster=local:VERSION; the default is {DEFAULT_VERSION}"


def fetch(version: str, *, scratch: Path, target: Path) -> list[Path]:
    """Download the jars for a broker of this version, and a jar that writes the broker's log to standard error.

    Args:
        version: the version.
        scratch: the download folder, which is replaced.
        target: the place in the cache where the jars are missing, for error messages.

    Raises:
        ClusterError: jgo is not installed, there is no network, the version does not exist, the time limit is exceeded,
            or a jar does not match its pin or the repository's checksum.

    """
    return list(resolve(version, scratch=scratch, target=target, pins=pinned(coordinate(version))).values())


def fetch_one(what: str, coordinate: str, *, scratch: Path, target: Path) -> Path:
    """Download one jar by its `GROUP:ARTIFACT:VERSION`, without dependencies; raises the same errors as `fetch`."""
    pins = pinned(coordinate)
    return _download(
        what,
        coordinate,
        lambda context: _download_pinned(context, pins) if pins else _download_all([_artifact(context, coordinate)]),
        scratch=scratch,
        target=target,
        advice="Check the repositories in jgo's settings file",
    )[0]


def resolve(version: str, *, scratch: Path, target: Path, pins: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Download as in `fetch`, using the repository's metadata instead of pins; return the jars by Maven coordinate."""

    def download(context: Any) -> dict[str, Path]:
        if pins:
            return dict(zip(pins, _download_pinned(context, pins), strict=True))
        artifacts = _runtime_artifacts(context, version)
        names = [f"{each.groupId}:{each.artifactId}:{each.version}" for each in artifacts]
        return dict(zip(names, _download_all(artifacts), strict=True))

    name = coordinate(version)
    return _download(f"Kafka {version}", name, download, scratch=scratch, target=target, advice=_VERSIONS)


def _download(
    what: str, coordinate: str, download: Callable[[Any], _T], *, scratch: Path, target: Path, advice: str
) -> _T:
    """Run a download with jgo; try again if the network responds but then fails.

    All files go to `scratch` instead of the user's Maven folder, because jgo writes directly to the final name. An
    interrupted download in the Maven folder would count as complete from then on.
    """
    try:
        import requests  # noqa: PLC0415 - installed with jgo
        from jgo.config import GlobalSettings  # noqa: PLC0415 - an extra, needed only for downloads
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415

        from pytest_kafkaperf.clusters.brokers.registry import Registry  # noqa: PLC0415 - imports jgo
    except ImportError:
        raise ClusterError(
            f"downloading {what} for a local broker requires the package jgo; run: "
            "pip install 'pytest-kafkaperf[local]'"
        ) from None
    # jgo's settings file may set a mirror: `[repositories]`, `central = ...`.
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    shown = ", ".join(f"{name} ({discreet(url)})" for name, url in repositories.items())
    registry = Registry(TIMEOUT_S)
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(scratch, ignore_errors=True)
        context = MavenContext(resolver=registry, repo_cache=scratch, local_repos=[], remote_repos=repositories)
        try:
            return download(context)
        except requests.RequestException as error:
            online = any(scratch.rglob("*.pom")) or any(scratch.rglob("*.jar"))
            if attempt == _ATTEMPTS or not online:
                raise ClusterError(
                    f"{what} is not in the cache ({target}) and cannot be downloaded: {coordinate} from {shown}: "
                    f"{innermost(error)}. Run once with network access, copy that path from another machine, or use "
                    "a running cluster with --kafka-cluster=HOST:PORT"
                ) from error
        # jgo raises these if no repository has the artifact, or if a server responds with an unrelated page.
        except (RuntimeError, ElementTree.ParseError) as error:
            reason = str(error).partition(" in remote ")[0]
            if registry.refusals:
                reason += f"; {registry.refusals[0]}"
                advice = "If the repository requires a login, add it to the file ~/.netrc"
            raise ClusterError(f"{what} is not available from {shown}: {reason}. {advice}") from error
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def coordinate(version: str) -> str:
    """Return the Maven coordinate of this version's broker."""
    return f"org.apache.kafka:kafka_2.13:{version}"


def _download_pinned(context: Any, pins: Mapping[str, str]) -> list[Path]:
    """Download exactly these jars and compare them with their pins."""
    jars = {name: Path(_artifact(context, name).resolve()) for name in pins}
    repositories = ", ".join(map(discreet, context.remote_repos.values()))
    problem = f"from {repositories} is not the expected jar"
    advice = "Try again; if the error persists, find out what that repository serves"
    for name, jar in jars.items():
        verify_sha256(jar, pins[name], problem=problem, advice=advice)
    return list(jars.values())


def _runtime_artifacts(context: Any, version: str) -> list[Any]:
    """Return the broker's artifact, its runtime dependencies, and a log writer.

    Kafka depends on slf4j without a binding, so a broker would not log anything. The binding is excluded from the
    resolution, because a second coordinate can pull in older Kafka jars.
    """
    inputs, transitive = context.resolver.resolve([context.create_dependency(coordinate(version))])
    dependencies = [*inputs, *(each for each in transitive if each.scope in ("compile", "runtime"))]
    artifacts = [each.artifact for each in dependencies]
    versions = [each.version for each in artifacts if each.artifactId == "slf4j-api"]
    return artifacts + [_artifact(context, f"org.slf4j:slf4j-simple:{each}") for each in versions]


def _artifact(context: Any, coordinate: str) -> Any:
    group, artifact, version = coordinate.split(":")
    return context.project(group, artifact).at_version(version).artifact()


def _download_all(artifacts: Iterable[Any]) -> list[Path]:
    """Download jars without pins; a damaged jar is an error."""
    jars = [Path(artifact.resolve()) for artifact in artifacts]
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as opened:
                damaged = opened.testzip()
        except zipfile.BadZipFile as error:
            raise ClusterError(f"the download of {jar.name} is damaged ({error}); try again") from error
        if damaged is not None:
            raise ClusterError(f"the download of {jar.name} is damaged (in {damaged}); try again")
    return jars


FILE = Path(__file__).with_name("pins.json")


def pinned(coordinate: str) -> Mapping[str, str]:
    """Return the SHA-256 sums of all jars that this jar runs with, by Maven coordinate, in class path order.

    The result is empty if this jar is not pinned.
    """
    return _pins("jars").get(coordinate, {})


def pinned_files(version: str) -> Mapping[str, str]:
    """Return the SHA-256 sums of a Kafka version's files by path in the cache; empty if the version is not pinned.

    The jars are in class path order; the other files form the formatted data folder (`distribution.storage_files`).
    """
    storage = _pins("storage").get(version)
    if storage is None:
        return {}
    jars = {f"jars/{file_name(name)}": expected for name, expected in pinned(coordinate(version)).items()}
    return {**jars, **storage}


def _pins(kind: str) -> dict[str, dict[str, str]]:
    pins: dict[str, dict[str, dict[str, str]]] = json.loads(FILE.read_text(encoding="utf-8"))
    return pins[kind]


def file_name(coordinate: str) -> str:
    """Return the file name of a jar, which is the same in a repository and in the cache."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


PINNED = "pinned in pytest-kafkaperf"
"""Origin of a SHA-256, for error messages."""


def verify_sha256(path: Path, expected: str, *, problem: str, advice: str) -> None:
    """Check the SHA-256 of a pinned file.

    Args:
        path: the file.
        expected: SHA-256 in hexadecimal digits.
        problem: the text after the file's name in the error message.
        advice: the steps that the user can take.

    Raises:
        ClusterError: the SHA-256 differs.

    """
    found = sha256(path)
    if found != expected:
        raise ClusterError(
            f"{path.name} {problem} and is not used: its SHA-256 is {found}, expected {expected} ({PINNED}). {advice}"
        )

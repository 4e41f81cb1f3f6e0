"""Kafka's jars, fetched with jgo: the one module that touches jgo."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError, innermost
from pytest_kafkaperf.core.text import discreet

_ATTEMPTS = 3
"""How often to fetch where the network answers and then fails."""

_VERSIONS = f"Name a released version by --kafka-version; the default is {DEFAULT_VERSION}"


def fetch(version: str, *, scratch: Path) -> list[Path]:
    """Fetch the jars that a broker of this version needs, and one that writes its log to standard error.

    Raises:
        ClusterError: jgo is not installed, there is no such version, or a jar is not the one that is pinned.
        Unreachable: there is no network.

    """
    pins = pinned(coordinate(version))
    if not pins:
        return list(resolve(version, scratch=scratch).values())
    return _fetched(f"Kafka {version}", lambda context: _known(context, pins), scratch=scratch, advice=_VERSIONS)


def fetch_one(coordinate: str, *, scratch: Path) -> Path:
    """Fetch one jar, without what it depends on, by its `GROUP:ARTIFACT:VERSION`; raises as `fetch` does."""
    pins = pinned(coordinate)
    return _fetched(
        coordinate,
        lambda context: _known(context, pins) if pins else _whole([_artifact(context, coordinate)]),
        scratch=scratch,
        advice="Look at the repositories in jgo's settings file",
    )[0]


def resolve(version: str, *, scratch: Path) -> dict[str, Path]:
    """As `fetch`, by Maven's names; which jars they are the repository says, whether or not the version is pinned."""

    def whole(context: Any) -> list[Path]:
        artifacts = _needed(context, version)
        names[:] = [f"{each.groupId}:{each.artifactId}:{each.version}" for each in artifacts]
        return _whole(artifacts)

    names: list[str] = []
    found = _fetched(f"Kafka {version}", whole, scratch=scratch, advice=_VERSIONS)
    return dict(zip(names, found, strict=True))


def _fetched(what: str, resolve: Callable[[Any], list[Path]], *, scratch: Path, advice: str) -> list[Path]:
    """Let jgo fetch, again where the network answers and then fails.

    Everything goes below `scratch`, not into the user's own Maven folder: jgo downloads straight to the final
    name, so what an interrupted run leaves there would count as complete ever after.
    """
    try:
        import requests  # noqa: PLC0415 - comes with jgo
        from jgo.config import GlobalSettings  # noqa: PLC0415 - an extra, and only on a cold cache
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415
    except ImportError:
        raise ClusterError(
            f"fetching {what} for a local broker needs the package jgo; run: pip install 'pytest-kafkaperf[local]'"
        ) from None
    # jgo's own settings file may name a mirror: `[repositories]`, `central = ...`.
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    looked = ", ".join(f"{name} ({discreet(url)})" for name, url in repositories.items())
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(scratch, ignore_errors=True)
        context = MavenContext(repo_cache=scratch, local_repos=[], remote_repos=repositories)
        try:
            return resolve(context)
        except requests.RequestException as error:
            online = any(scratch.rglob("*.pom")) or any(scratch.rglob("*.jar"))
            if attempt == _ATTEMPTS or not online:
                raise Unreachable(looked, innermost(error)) from error
        # What jgo raises for an artifact that no repository has, and for a page that is no answer of one.
        except (RuntimeError, ElementTree.ParseError) as error:
            raise ClusterError(
                f"{what} is not to be had from {looked}: {str(error).partition(' in remote ')[0]}. {advice}"
            ) from error
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


class Unreachable(Exception):  # noqa: N818 - a state of the network, told to the user by the caller
    """No repository answered: where it was looked, and the reason."""

    def __init__(self, looked: str, reason: str) -> None:
        super().__init__(looked, reason)
        self.looked = looked
        self.reason = reason


def coordinate(version: str) -> str:
    """Maven's name of the broker."""
    return f"org.apache.kafka:kafka_2.13:{version}"


def _known(context: Any, pins: Mapping[str, str]) -> list[Path]:
    """Fetch exactly these jars, and none that is another one than its name says."""
    jars = {name: Path(_artifact(context, name).resolve()) for name in pins}
    looked = ", ".join(map(discreet, context.remote_repos.values()))
    for name, jar in jars.items():
        refuse_other(
            jar,
            pins[name],
            what=f"from {looked} is another jar than it should be",
            advice="Try again; if it stays so, find out what that repository serves",
        )
    return list(jars.values())


def _needed(context: Any, version: str) -> list[Any]:
    inputs, transitive = context.resolver.resolve([context.create_dependency(coordinate(version))])
    needed = [*inputs, *(each for each in transitive if each.scope in ("compile", "runtime"))]
    artifacts = [each.artifact for each in needed]
    return artifacts + [_log_writer(context, each) for each in artifacts if each.artifactId == "slf4j-api"]


def _artifact(context: Any, coordinate: str) -> Any:
    group, artifact, version = coordinate.split(":")
    return context.project(group, artifact).at_version(version).artifact()


def _whole(artifacts: Iterable[Any]) -> list[Path]:
    """Fetch jars of which no SHA-256 is known; one that is damaged is refused."""
    jars = [Path(artifact.resolve()) for artifact in artifacts]
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as opened:
                damaged = opened.testzip()
        except zipfile.BadZipFile as error:
            raise ClusterError(f"{jar.name} came damaged ({error}); try again") from error
        if damaged is not None:
            raise ClusterError(f"{jar.name} came damaged (in {damaged}); try again")
    return jars


def _log_writer(context: Any, slf4j: Any) -> Any:
    """Kafka's jars bring slf4j without a binding, and then a broker logs nothing.

    Taken alone, beside the resolution: in it, another coordinate can pull in older Kafka jars.
    """
    return _artifact(context, f"org.slf4j:slf4j-simple:{slf4j.version}")


FILE = Path(__file__).with_name("pins.json")


def pinned(coordinate: str) -> Mapping[str, str]:
    """SHA-256, by Maven's names, of the jars that this one runs with, in the order of the classpath.

    Empty where it is not pinned.
    """
    pins: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return pins.get(coordinate, {})


def file_name(coordinate: str) -> str:
    """The name of a jar's file, in a repository and in the cache."""
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_other(
    path: Path, expected: str, *, what: str, advice: str, source: str = "is pinned in pytest-kafkaperf"
) -> None:
    """Refuse a file whose SHA-256 is another one; `what` says what is wrong with it then, `source` who expects it.

    Raises:
        ClusterError: names both, where the expected one is from, and what to do.

    """
    found = sha256(path)
    if found != expected:
        raise ClusterError(
            f"{path.name} {what}, and is not run: its SHA-256 is {found}, and {expected} {source}. {advice}"
        )

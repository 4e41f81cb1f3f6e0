"""Kafka's jars, fetched with jgo: the one module that touches jgo."""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_kafkaperf.clusters.pins import pinned, refuse_other
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.settings import DEFAULT_VERSION, discreet

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
        lambda context: _known(context, pins) if pins else _whole(lambda: [_artifact(context, coordinate)]),
        scratch=scratch,
        advice="Look at the repositories in jgo's settings file",
    )[0]


def resolve(version: str, *, scratch: Path) -> dict[str, Path]:
    """As `fetch`, by Maven's names; which jars they are the repository says, whether or not the version is pinned."""
    names: list[str] = []

    def needed(context: Any) -> list[Any]:
        artifacts = _needed(context, version)
        names[:] = [f"{each.groupId}:{each.artifactId}:{each.version}" for each in artifacts]
        return artifacts

    found = _fetched(
        f"Kafka {version}", lambda context: _whole(lambda: needed(context)), scratch=scratch, advice=_VERSIONS
    )
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
                raise Unreachable(looked, _innermost(error)) from error
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


def _whole(needed: Callable[[], list[Any]]) -> list[Path]:
    """Fetch jars of which nothing is known but what their repository tells."""
    with _told_mismatches() as mismatches:
        jars = [Path(artifact.resolve()) for artifact in needed()]
    if mismatches:
        raise ClusterError(f"a file came damaged, or is not what its repository tells: {mismatches[0]}; try again")
    for jar in jars:
        _refuse_damaged(jar)
    return jars


def _log_writer(context: Any, slf4j: Any) -> Any:
    """Kafka's jars bring slf4j without a binding, and then a broker logs nothing.

    Taken alone, beside the resolution: in it, another coordinate can pull in older Kafka jars.
    """
    return _artifact(context, f"org.slf4j:slf4j-simple:{slf4j.version}")


@contextmanager
def _told_mismatches() -> Iterator[list[str]]:
    """Collect what jgo says where a file has another SHA-1 than its repository tells: it logs that, and goes on."""
    mismatches: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if text.startswith("Checksum mismatch"):
                mismatches.append(text)

    logger, listener = logging.getLogger("jgo"), Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield mismatches
    finally:
        logger.removeHandler(listener)


def _refuse_damaged(jar: Path) -> None:
    """Where no sum is pinned, and a repository may tell none."""
    try:
        with zipfile.ZipFile(jar) as opened:
            damaged = opened.testzip()
    except zipfile.BadZipFile as error:
        raise ClusterError(f"{jar.name} came damaged ({error}); try again") from error
    if damaged is not None:
        raise ClusterError(f"{jar.name} came damaged (in {damaged}); try again")


def _innermost(error: BaseException) -> str:
    """The reason at the bottom: `requests` wraps it four deep."""
    while True:
        inner = error.__cause__ or error.__context__
        if inner is None:
            return f"{type(error).__name__}: {error}"
        error = inner

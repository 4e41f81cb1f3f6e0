"""Kafka's jars, fetched with jgo: the one module that touches jgo."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.settings import DEFAULT_VERSION

_ATTEMPTS = 3
"""How often to fetch where the network answers and then fails."""


def fetch(version: str, *, scratch: Path) -> list[Path]:
    """Fetch the jars that a broker of this version needs, and one that writes its log to standard error.

    Raises:
        ClusterError: jgo is not installed, or no such version.
        Unreachable: there is no network.

    """
    return _fetched(
        f"Kafka {version}",
        lambda context: _resolve(context, version),
        scratch=scratch,
        advice=f"Name a released version by --kafka-version; the default is {DEFAULT_VERSION}",
    )


def fetch_one(coordinate: str, *, scratch: Path) -> Path:
    """Fetch one jar, without what it depends on, by its `GROUP:ARTIFACT:VERSION`.

    Raises:
        ClusterError: jgo is not installed, or no repository has it.
        Unreachable: there is no network.

    """
    group, artifact, version = coordinate.split(":")
    return _fetched(
        coordinate,
        lambda context: _whole([context.project(group, artifact).at_version(version).artifact()]),
        scratch=scratch,
        advice="Look at the repositories in jgo's settings file",
    )[0]


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
    looked = ", ".join(f"{name} ({url})" for name, url in repositories.items())
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(scratch, ignore_errors=True)
        context = MavenContext(repo_cache=scratch, local_repos=[], remote_repos=repositories)
        try:
            return resolve(context)
        except requests.RequestException as error:
            online = any(scratch.rglob("*.pom"))
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


def _resolve(context: Any, version: str) -> list[Path]:
    inputs, transitive = context.resolver.resolve([context.create_dependency(coordinate(version))])
    needed = [*inputs, *(each for each in transitive if each.scope in ("compile", "runtime"))]
    artifacts = [each.artifact for each in needed]
    artifacts += [_log_writer(context, each) for each in artifacts if each.artifactId == "slf4j-api"]
    return _whole(artifacts)


def _whole(artifacts: list[Any]) -> list[Path]:
    jars = [Path(artifact.resolve()) for artifact in artifacts]
    for jar in jars:
        _refuse_damaged(jar)
    return jars


def _log_writer(context: Any, slf4j: Any) -> Any:
    """Kafka's jars bring slf4j without a binding, and then a broker logs nothing.

    Taken alone, beside the resolution: in it, another coordinate can pull in older Kafka jars.
    """
    return context.project("org.slf4j", "slf4j-simple").at_version(slf4j.version).artifact()


def _refuse_damaged(jar: Path) -> None:
    """Jgo only warns when a checksum does not match."""
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

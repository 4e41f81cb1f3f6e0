"""Which jars are run: those that are pinned, and of other versions those that were fetched."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers import distribution, downloads, jmx_exporter
from pytest_kafkaperf.clusters.brokers.downloads import FILE, file_name, pinned, pinned_files
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.plugin_runs import copied, installed
from tests.support.rounds import within

OTHER_VERSION = "4.2.99"
"""Which nobody has pinned; the tests' own copy of the default goes by that name."""
DEFAULT = downloads.coordinate(DEFAULT_VERSION)
SUPPORTED = Path(__file__).parents[4] / "docs" / "reference" / "supported.md"
ANOTHER = b"another jar"
POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>org.apache.kafka</groupId>
<artifactId>kafka_2.13</artifactId><version>{OTHER_VERSION}</version></project>""".encode()


@pytest.fixture
def copy(kafka: distribution.Distribution, cold_cache: Path) -> Callable[[str], Path]:
    """Copy the default version into a cache of the test's own, under any version; gives its folder."""
    return lambda version: shutil.copytree(kafka.folder, cold_cache / "kafka" / version)


@dataclass(slots=True)
class Repository:
    """A Maven repository; it has anything, and of one and the same content but for what `files` says, by suffix."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    trickles: bool = False
    """Whether it sends a byte from time to time, for longer than anybody waits."""
    broken: list[str] = field(default_factory=list)
    """Suffixes of files of which only a half is sent, once each."""
    status: int = 200
    """Status of its answers."""
    busy: list[str] = field(default_factory=list)
    """Values of `Retry-After` for the first answers, which are `429 Too Many Requests`."""

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
            if found.busy:
                self.send_response(429)
                self.send_header("Retry-After", found.busy.pop(0))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(found.status)
            if found.trickles:
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.trickle()
                return
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if any(self.path.endswith(suffix) for suffix in found.broken):
                found.broken.clear()
                content = content[: len(content) // 2]
            self.wfile.write(content)

        def trickle(self) -> None:
            with contextlib.suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b"x")
                    time.sleep(0.02)

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


def test_each_supported_version_and_the_exporter_are_pinned() -> None:
    """A version without pins is as trustworthy as the cache, which CI shares among branches."""
    pins = json.loads(FILE.read_text(encoding="ascii"))
    versions = [name.rpartition(":")[2] for name in pins["jars"] if ":kafka_2.13:" in name]
    assert set(pins["jars"]) == {*map(downloads.coordinate, versions), jmx_exporter.COORDINATE}
    assert list(pins["storage"]) == versions
    tested = re.search(r"tested: (\d.+) and the default", SUPPORTED.read_text(encoding="utf-8"))
    assert tested is not None
    assert {DEFAULT_VERSION, *tested[1].split(", ")} <= set(versions)


def test_pins_are_coordinates_with_sums() -> None:
    """After a release, `python .ci/pins.py` makes the pins again."""
    pins = json.loads(FILE.read_text(encoding="ascii"))
    assert list(pins["jars"][jmx_exporter.COORDINATE]) == [jmx_exporter.COORDINATE]
    for kind, name_of_one in (
        ("jars", r"[\w.-]+:[\w.-]+:[\w.-]+"),
        ("storage", r"storage/(__cluster_metadata-0/)?[\w-]+\.checkpoint"),
    ):
        for sums in pins[kind].values():
            assert [name for name in sums if not re.fullmatch(name_of_one, name)] == []
            assert [each for each in sums.values() if not re.fullmatch(r"[0-9a-f]{64}", each)] == []


def test_what_runs_is_what_is_pinned_in_its_order(kafka: distribution.Distribution) -> None:
    """Two jars may have a class of one name: the order decides."""
    assert [jar.name for jar in kafka.classpath] == [file_name(name) for name in pinned(DEFAULT)]
    assert [downloads.sha256(jar) for jar in kafka.classpath] == list(pinned(DEFAULT).values())


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


def with_manifest(folder: Path, *names: str) -> None:
    """Write a manifest of these files, first on the class path, as somebody would who can write to the cache."""
    path = folder / "manifest.json"
    before = json.loads(path.read_text(encoding="utf-8"))["files"]
    files = [*names, *(name for name in before if not name.endswith(".properties"))]
    sizes = {name: (folder / name).stat().st_size for name in files}
    sums = {name: distribution.file_sum(folder / name) for name in files}
    path.write_text(json.dumps({"files": sizes, "sha256": sums}), encoding="utf-8")


def foreign(folder: Path, name: str) -> str:
    """Put a jar of somebody else into a version's folder; gives its path there."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jar_of("kafka/Kafka"))
    return name


FOREIGN = ["jars/added-1.0.jar", "jars/:/kafka-clients.jar", "jars/*.jar", "../added-1.0.jar", "jars/../added-1.0.jar"]
"""Ways to bring a jar or a folder onto Java's class path: `:` separates its entries, and `*` stands for all jars."""


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", FOREIGN)
def test_a_manifest_adds_nothing_to_the_class_path_of_a_pinned_version(
    copy: Callable[[str], Path], cold_cache: Path, name: str
) -> None:
    """First on the class path, its classes would win."""
    folder = copy(DEFAULT_VERSION)
    with_manifest(folder, foreign(folder, name))

    found = installed(cold_cache)

    assert found.classpath == tuple(folder / "jars" / file_name(each) for each in pinned(DEFAULT))


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", FOREIGN[1:])
def test_a_manifest_of_another_version_has_plain_jars_only(
    copy: Callable[[str], Path], cold_cache: Path, name: str
) -> None:
    """Without pins, all else in its manifest is trusted; such a version is downloaded again."""
    folder = copy(OTHER_VERSION)
    with_manifest(folder)
    assert installed(cold_cache, OTHER_VERSION).version == OTHER_VERSION

    with_manifest(folder, foreign(folder, name))

    with pytest.raises(ClusterError, match="is not in the cache"):
        installed(cold_cache, OTHER_VERSION)


@pytest.mark.usefixtures("no_network")
def test_a_jar_of_another_version_that_was_changed_is_refused(copy: Callable[[str], Path], cold_cache: Path) -> None:
    """A disk that flips bits, and whoever can change a jar but not the manifest."""
    folder = copy(OTHER_VERSION)
    with_manifest(folder)
    change(jar := folder / "jars" / file_name(DEFAULT))

    with pytest.raises(ClusterError, match=rf"{jar.name} of .* \(recorded when it was downloaded\)"):
        installed(cold_cache, OTHER_VERSION)


@pytest.mark.usefixtures("no_network")
def test_another_version_without_recorded_sums_is_downloaded_again(
    copy: Callable[[str], Path], cold_cache: Path
) -> None:
    """Whatever nobody has recorded cannot be compared."""
    folder = copy(OTHER_VERSION)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**manifest, "sha256": {}}), encoding="utf-8")

    with pytest.raises(ClusterError, match="is not in the cache"):
        installed(cold_cache, OTHER_VERSION)


@pytest.mark.usefixtures("no_network")
def test_a_formatted_folder_that_was_changed_is_refused(copy: Callable[[str], Path], cold_cache: Path) -> None:
    """Its records are a cluster's first: users, quotas, dynamic properties."""
    (name,) = [name for name in pinned_files(DEFAULT_VERSION) if name.startswith("storage/")]
    checkpoint = copy(DEFAULT_VERSION) / name
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content.replace(b"group.version", b"group.versio_"))

    with pytest.raises(ClusterError, match=rf"{checkpoint.name} of .* has changed .* \(pinned in"):
        installed(cold_cache)


def test_the_sum_of_a_snapshot_leaves_out_its_timestamps_only(tmp_path: Path) -> None:
    """Two machines format at two times; anything else is a change, also a batch more."""
    header, batch = (bytearray(range(61)) + records for records in (b"x" * 40, b"records"))
    for each in (header, batch):
        each[8:12] = (len(each) - 12).to_bytes(4, "big")
    path = tmp_path / "bootstrap.checkpoint"

    def sum_of(content: bytes | bytearray) -> str:
        path.write_bytes(content)
        return distribution.checkpoint_sum(path)

    whole = header + batch
    free = {*range(17, 21), *range(27, 43)}  # the CRC, and two timestamps
    same = []
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        if sum_of(changed) == sum_of(whole):
            same.append(position)
    assert same == sorted({*free, *range(73, 81), *(len(header) + each for each in free)})
    assert len({sum_of(whole), sum_of(whole + batch), sum_of(whole[:-1]), sum_of(b"")}) == 4


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("part", [".", "jars", "storage", f"jars/{file_name(DEFAULT)}"])
def test_links_in_the_cache_are_not_followed(
    copy: Callable[[str], Path], cold_cache: Path, tmp_path: Path, part: str
) -> None:
    """Whoever owns the target can change it after it was verified."""
    path = copy(DEFAULT_VERSION) / part
    path.rename(elsewhere := tmp_path / "elsewhere")
    path.symlink_to(elsewhere)

    with pytest.raises(ClusterError, match="does not follow in its cache|is not in the cache"):
        installed(cold_cache)


@pytest.mark.usefixtures("no_network")
def test_a_cache_whose_path_separates_entries_of_the_class_path_is_refused(
    kafka: distribution.Distribution, tmp_path: Path
) -> None:
    """Java would read it as two folders, one of which may be somebody else's."""
    cache = tmp_path / "a:b"
    copied(kafka, cache)

    with pytest.raises(ClusterError, match="must not contain ':'"):
        installed(cache)


def test_another_jar_of_a_repository_is_refused_and_nothing_is_kept(repository: Repository, cold_cache: Path) -> None:
    """A mirror that somebody else can write to; what runs is asked for by name, and no repository adds to it."""
    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)

    first, expected = next(iter(pinned(DEFAULT).items()))
    found = hashlib.sha256(ANOTHER).hexdigest()
    assert str(raised.value).startswith(f"{file_name(first)} from http://127.0.0.1:")
    assert str(raised.value).endswith(
        f" is not the expected jar and is not used: its SHA-256 is {found}, expected {expected} (pinned in "
        "pytest-kafkaperf). Try again; if the error persists, find out what that repository serves"
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


@pytest.mark.parametrize("suffix", [".jar", ".pom"])
def test_a_file_that_does_not_match_the_published_checksum_is_refused(
    repository: Repository, tmp_path: Path, suffix: str
) -> None:
    """Without a pin, it is all that tells a changed download from a whole one; a POM says which jars there are."""
    jar = jar_of("Kafka")
    repository.files |= {f"{suffix}.sha1": b"0" * 40 + b"  kafka.jar", ".pom": POM, ".jar": jar}

    with pytest.raises(ClusterError, match=rf"{suffix} does not match its published checksum"):
        downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)

    digest = hashlib.sha1(jar if suffix == ".jar" else POM).hexdigest()  # noqa: S324 - Maven's
    repository.files[f"{suffix}.sha1"] = digest.upper().encode("ascii")
    (found,) = downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
    assert found.read_bytes() == jar


def test_a_download_that_trickles_ends_at_its_limit(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes in time; other runs wait for the lock meanwhile."""
    monkeypatch.setattr(downloads, "TIMEOUT_S", 0.3)
    repository.trickles = True

    with within(5), pytest.raises(ClusterError, match="not complete within 300 ms: http://127.*too slow"):
        downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)


def test_a_pause_that_a_repository_asks_for_is_within_the_limit(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maven Central limits the requests of large companies; a whole day would hang the run."""
    monkeypatch.setattr(downloads, "TIMEOUT_S", 20)
    repository.files |= {".pom": POM, ".jar": jar_of("Kafka")}
    repository.busy = ["1"]
    assert downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)

    repository.busy = ["86400"]
    with within(10), pytest.raises(ClusterError, match="not complete within 20 s"):
        downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)


def test_a_repository_that_asks_for_a_login_is_named_with_its_answer(repository: Repository, cold_cache: Path) -> None:
    """Otherwise, the version would seem not to exist."""
    repository.status = 401
    with pytest.raises(ClusterError) as raised:
        installed(cold_cache)
    text = str(raised.value)
    assert " answered 401 Unauthorized. If the repository requires a login, add it to the file ~/.netrc" in text
    assert text.startswith(f"Kafka {DEFAULT_VERSION} is not available from central (http://127.0.0.1:")


def test_half_a_file_is_downloaded_again(repository: Repository, tmp_path: Path) -> None:
    """A connection that breaks leaves no jar that looks complete."""
    repository.files |= {".pom": POM, ".jar": jar_of("Kafka")}
    repository.broken = [".jar"]
    assert downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
    assert repository.broken == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_of_another_version_a_jar_is_refused_only_where_it_is_damaged(
    repository: Repository, tmp_path: Path, *, is_whole: bool
) -> None:
    """Nothing else is known of it."""
    jar = jar_of("Kafka")
    repository.files |= {".pom": POM, ".jar": jar if is_whole else jar[:-10]}
    if is_whole:
        (found,) = downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
        assert found.read_bytes() == jar
        return
    with pytest.raises(ClusterError) as raised:
        downloads.fetch(OTHER_VERSION, scratch=tmp_path / "scratch", target=tmp_path)
    assert str(raised.value) == (
        f"the download of kafka_2.13-{OTHER_VERSION}.jar is damaged (File is not a zip file); try again"
    )

"""The folders of a run, also on disks that others use."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.brokers.run_folders import is_alive, run_folder
from pytest_kafkaperf.clusters.child_process import ChildProcess
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from tests.support.orphans import becomes, with_word

_NOBODY = 65534
_APPLICATION = """
import sys, tempfile
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.cluster import Cluster
recipe = Recipe(command=("python", "-c", "print('up', flush=True); import time; time.sleep(60)"), ready="line:up")
with Application(recipe, Cluster(bootstrap_servers="127.0.0.1:9", brokers=1)).open():
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_disk_of_several_users_serves_each_and_keeps_nothing() -> None:
    """What the first user leaves on it would keep out the second."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        disk = Path(name) / "disk"
        disk.mkdir()
        disk.chmod(0o777)
        with run_folder(disk) as first:
            with _as_nobody(), run_folder(disk) as second:
                assert second.is_dir()
                assert len([*disk.iterdir()]) == 4  # two folders with their locks
            assert [*disk.iterdir()] != []
            with _as_nobody():
                assert is_alive(first)
        assert [*disk.iterdir()] == []


@pytest.mark.parametrize("kind", ["link", "broken link", "folder", "pipe", "of another user"])
def test_an_odd_lock_file_neither_breaks_a_run_nor_is_touched(tmp_path: Path, kind: str) -> None:
    """`/tmp` and a disk for `log_dirs` belong to everybody; a link in place of a lock file once emptied its target."""
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    runs.mkdir()
    victim.write_text("precious", encoding="ascii")
    neighbor, lock = runs / "kafkaperf-0123", runs / "kafkaperf-0123.lock"
    neighbor.mkdir()
    (neighbor / "file").touch()
    match kind:
        case "link":
            lock.symlink_to(victim)
        case "broken link":
            lock.symlink_to(tmp_path / "nowhere")
        case "folder":
            lock.mkdir()
        case "pipe":
            os.mkfifo(lock)
        case _:
            if os.geteuid() != 0:
                pytest.skip("only root can give files away")
            lock.touch(mode=0o666)
            os.chown(lock, _NOBODY, _NOBODY)

    with run_folder(runs) as folder:
        assert folder.is_dir()

    assert sorted(path.name for path in runs.iterdir()) == [neighbor.name, lock.name]
    assert (neighbor / "file").exists()
    assert victim.read_text(encoding="ascii") == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_whose_run_is_gone_is_swept_and_one_whose_run_lives_stays(tmp_path: Path) -> None:
    """The kernel frees the lock; nothing else is known of a run that was killed."""
    dead, alive, application = "kafkaperf-0123456789abcdef", f"kafkaperf-{'a' * 16}", f"kafkaperf-app-{'d' * 16}"
    for name in (dead, alive, application):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.lock").touch()
    with (tmp_path / f"{alive}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with run_folder(tmp_path):
            pass

        assert sorted(path.name for path in tmp_path.iterdir()) == [alive, f"{alive}.lock"]


@pytest.mark.parametrize(
    "name", ["kafkaperf-orders", "kafkaperf-app-data", "kafkaperf-2026112618000000x", f"kafkaperf-{'0' * 15}"]
)
def test_a_folder_with_another_name_than_the_plugin_gives_stays(tmp_path: Path, name: str) -> None:
    """Somebody's data next to a lock file, for example in `/tmp`, must not be deleted."""
    (tmp_path / name).mkdir()
    (tmp_path / f"{name}.lock").touch()
    with run_folder(tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, f"{name}.lock"]


def test_a_lock_file_has_its_name_only_while_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run that sweeps at that moment would take the new folder for a leftover."""
    seen: list[Path] = []
    flock = fcntl.flock

    def locked(file: int, operation: int) -> None:
        seen.extend(tmp_path.glob("kafkaperf-*.lock"))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", locked)

    with run_folder(tmp_path) as folder:
        monkeypatch.undo()
        assert seen == []
        assert is_alive(folder)


def test_only_the_user_can_read_run_folders_and_logs(tmp_path: Path) -> None:
    """Records, properties with passwords, and whatever a broker, an application or a setup command prints."""
    before = os.umask(0)
    try:
        with run_folder(tmp_path) as folder:
            process = ChildProcess("anything", folder / "broker.log", stop_timeout_s=1)
            process.launch([sys.executable, "-c", ""], folder=folder)
            process.wait(20)
            process.stop()
            modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "broker.log")]
    finally:
        os.umask(before)
    assert modes == [0o700, 0o600]


def test_an_application_whose_run_and_supervisor_were_killed_leaves_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder holds the private key of a client; the next run removes it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    command = [sys.executable, "-c", _APPLICATION]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        (left,) = filter(Path.is_dir, tmp_path.glob("kafkaperf-app-*"))
        for child in _children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
    assert left.is_dir()

    recipe = Recipe(command=("python", "-c", "print('up', flush=True); import time; time.sleep(60)"), ready="line:up")
    with Application(recipe, Cluster(bootstrap_servers="127.0.0.1:9", brokers=1)).open():
        assert not left.exists()


def _children(pid: int) -> list[int]:
    assert becomes(lambda: with_word(psutil.Process(pid).children(), "supervisor") != [])
    return [child.pid for child in psutil.Process(pid).children()]


@contextmanager
def _as_nobody() -> Iterator[None]:
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)

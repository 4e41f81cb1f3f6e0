"""Files that are written whole or not at all, whoever else writes there."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from pytest_kafkaperf.core import files
from pytest_kafkaperf.core.errors import BaselineError, UsageError
from pytest_kafkaperf.core.files import lock_folder, remove_report, replace_file, write_report
from tests.support.patience import PATIENCE_S


def test_what_a_killed_writer_has_left_goes_with_the_next_file(tmp_path: Path) -> None:
    """It lies among the files that a team commits."""
    left = tmp_path / ".kafkaperf-0123456789abcdef.tmp"
    left.write_bytes(b"half a base")
    an_hour_ago_s = time.time() - 3601
    os.utime(left, (an_hour_ago_s, an_hour_ago_s))
    (tmp_path / "mine.tmp").write_bytes(b"")
    replace_file(tmp_path / "a.json", b"whole")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.json": b"whole", "mine.tmp": b""}


def test_what_somebody_else_is_writing_stays(tmp_path: Path) -> None:
    """A container or machine that shares the folder is kept out by no lock of ours."""
    theirs = tmp_path / ".kafkaperf-0123456789abcdef.tmp"
    theirs.write_bytes(b"half a base")
    replace_file(tmp_path / "a.json", b"whole")
    assert theirs.read_bytes() == b"half a base"


def test_a_file_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    """A report that others may not read, or that a group may, stays so."""
    path = tmp_path / "report.json"
    path.touch()
    for mode in (0o600, 0o664):
        path.chmod(mode)
        replace_file(path, b"new")
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)


@pytest.mark.parametrize("target", ["there.json", "absent.json"])
def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path, target: str) -> None:
    """`latest.json` may lead to a folder that a web server shows."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "there.json").write_bytes(b"old")
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "shown" / target)
    write_report(link, "new", kind="json")
    assert (link.is_symlink(), (tmp_path / "shown" / target).read_bytes()) == (True, b"new")


def _write(path: Path) -> None:
    write_report(path, "{}", kind="json")


def _remove(path: Path) -> None:
    remove_report(path, kind="json")


@pytest.mark.parametrize("change", [_write, _remove], ids=["written", "removed"])
def test_a_report_replaces_no_pipe_and_no_device(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """Where the standard output is a file, a report there would replace what is printed already.

    The report of the previous run is removed before the first test, so this is known before anything is measured.
    """
    fifo = tmp_path / "report.json"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, Path("/dev/stdout")):
        with pytest.raises(UsageError) as raised:
            change(path)
        assert str(raised.value) == (f"--kafka-report=json:{path}: this is not a regular file; give the path of a file")
    assert fifo.is_fifo()


@pytest.mark.parametrize("change", [_write, _remove], ids=["written", "removed"])
def test_a_report_needs_a_folder(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """One that does not exist yet is created when the report is written."""
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    path = file / "reports" / "report.json"
    with pytest.raises(UsageError) as raised:
        change(path)
    assert str(raised.value) == (
        f"--kafka-report=json:{path}: {file} is not a folder; give the path of a file in a folder"
    )
    change(tmp_path / "new" / "report.json")
    assert (file.read_bytes(), (tmp_path / "new").exists()) == (b"mine", change is _write)


def test_a_path_that_the_system_refuses_is_an_error_of_the_option(tmp_path: Path) -> None:
    """Such as a name that is too long, or a folder that the user must not open."""
    path = tmp_path / f"{'long' * 100}.json"
    with pytest.raises(UsageError) as raised:
        _write(path)
    assert str(raised.value) == f"--kafka-report=json:{path}: cannot write the report: File name too long"


def test_who_wants_to_be_alone_waits_for_the_others(tmp_path: Path) -> None:
    """Otherwise what one has read is old before it is written."""
    order: list[str] = []

    def other() -> None:
        with lock_folder(tmp_path):
            order.append("other")

    with lock_folder(tmp_path):
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join(PATIENCE_S)
    assert order == ["first", "other"]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """The kernel lets go of its lock."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path, theirs))
    process.start()
    assert ours.poll(PATIENCE_S)
    process.kill()
    process.join(PATIENCE_S)
    with lock_folder(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_waiting_for_the_others_is_bounded_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that hangs must not make the next one hang."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT_S", 0)
    with lock_folder(tmp_path), pytest.raises(BaselineError) as raised, lock_folder(tmp_path):
        pass
    assert str(raised.value) == (
        f"cannot write a baseline: another run has been writing to {tmp_path} for 0 s; wait for it and try again"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_costs_the_lock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have no home; a baseline is as good without."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path / "file" / "cache")
    replace_file(tmp_path / "made" / "a.json", b"whole")
    with lock_folder(tmp_path / "made"), lock_folder(tmp_path / "made"):
        pass
    assert [path.read_bytes() for path in (tmp_path / "made").iterdir()] == [b"whole"]


def _hold(folder: Path, told: multiprocessing.connection.Connection) -> None:
    with lock_folder(folder):
        told.send("held")
        told.poll(None)

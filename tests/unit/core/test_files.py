"""Files that are written whole or not at all, whoever else writes there."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from pathlib import Path

import platformdirs
import pytest

from pytest_kafkaperf.core import files
from pytest_kafkaperf.core.files import lock_folder, replace_file


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
    waiting.join(10)
    assert order == ["first", "other"]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """The kernel lets go of its lock."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path, theirs))
    process.start()
    assert ours.poll(30)
    process.kill()
    process.join(10)
    with lock_folder(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_waiting_for_the_others_is_bounded_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that hangs must not make the next one hang."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT_S", 0)
    with lock_folder(tmp_path), pytest.raises(TimeoutError) as raised, lock_folder(tmp_path):
        pass
    assert str(raised.value) == f"another run has been writing in {tmp_path} for 0 s"
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

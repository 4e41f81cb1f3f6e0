"""Files that are written whole or not at all, whoever else writes there."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import threading
from pathlib import Path

import pytest

from pytest_kafkaperf import files
from pytest_kafkaperf.files import alone_in, replace_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no lock on a folder")


def test_what_a_killed_writer_has_left_goes_with_the_next_file(tmp_path: Path) -> None:
    """It lies among the files that a team commits."""
    (tmp_path / ".kafkaperf-0123456789abcdef.tmp").write_bytes(b"half a base")
    (tmp_path / "mine.tmp").write_bytes(b"")
    replace_file(tmp_path / "a.json", b"whole")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.json": b"whole", "mine.tmp": b""}


def test_who_wants_to_be_alone_waits_for_the_others(tmp_path: Path) -> None:
    """Otherwise what one has read is old before it is written."""
    order: list[str] = []

    def other() -> None:
        with alone_in(tmp_path) as is_alone:
            order.append(f"other {is_alone}")

    with alone_in(tmp_path) as is_alone:
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.2)
        order.append(f"first {is_alone}")
    waiting.join(10)
    assert order == ["first True", "other True"]
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
    with alone_in(tmp_path) as is_alone:
        assert is_alone


def test_waiting_for_the_others_is_bounded_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that hangs must not make the next one hang."""
    monkeypatch.setattr(files, "_LOCK_TIMEOUT_S", 0)
    with alone_in(tmp_path), pytest.raises(TimeoutError) as raised:
        replace_file(tmp_path / "a.json", b"")
    assert str(raised.value) == f"another run has been writing in {tmp_path} for 0 s"
    assert list(tmp_path.iterdir()) == []


def _hold(folder: Path, told: multiprocessing.connection.Connection) -> None:
    with alone_in(folder):
        told.send("held")
        told.poll(None)

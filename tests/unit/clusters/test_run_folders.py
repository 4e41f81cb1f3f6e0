"""The folders of a run on disks that others use, too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.brokers.run_folders import run_folder

_NOBODY = 65534


def test_a_disk_of_several_users_serves_each_and_keeps_nothing() -> None:
    """What the first user leaves on it, even the file of a lock, would keep out the second."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        shared = Path(name)
        shared.chmod(0o777)
        disk, homes = shared / "disk", [shared / "root", shared / "nobody"]
        disk.mkdir()
        disk.chmod(0o777)
        with run_folder(disk, guard=homes[0] / ".lock"):
            with _as_nobody(), run_folder(disk, guard=homes[1] / ".lock") as second:
                assert second.is_dir()
                assert len([*disk.iterdir()]) == 4  # two folders with their locks
            assert len([*disk.iterdir()]) == 2
        assert [*disk.iterdir()] == []


@contextmanager
def _as_nobody() -> Iterator[None]:
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)

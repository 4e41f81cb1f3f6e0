"""`kafkaperf bisect` with programs that stand for a commit's Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_kafkaperf.plugin import bisect_revisions
from pytest_kafkaperf.runner.checkout import Checkout
from tests.support.orphans import ended
from tests.support.rounds import within

HANGS = """
import os, signal, time
{before}
open("pid", "w").write(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"], ids=["ends", "ignores"])
def test_a_commit_whose_test_hangs_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """A search runs at night; one commit must not keep it from all others."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}{HANGS.format(before=before)}", encoding="utf-8")
    python.chmod(0o700)
    monkeypatch.setattr(bisect_revisions, "_COMPARISON_TIMEOUT_S", 2)
    monkeypatch.setattr(bisect_revisions, "_END_TIMEOUT_S", 1)
    side = Checkout(root=tmp_path, python=str(python), commit=None)

    with within(20):
        answer = bisect_revisions._compared(side, side, [], tmp_path / "report.json", os.environ)  # noqa: SLF001

    assert answer == ("skip", "skipped: the comparison did not finish within 2 s")
    assert ended(int((tmp_path / "pid").read_text()))

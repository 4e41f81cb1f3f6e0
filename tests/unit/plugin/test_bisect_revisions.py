"""`kafkaperf bisect` with programs that stand for a commit's Python."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.plugin import bisect_revisions
from pytest_kafkaperf.runner.checkout import Checkout, checked_out
from tests.support.orphans import ended
from tests.support.repository import git
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


COLLECTS = """
import subprocess, sys
with open({out!r}, "w") as out:
    subprocess.run([sys.executable, *sys.argv[1:], "--collect-only", "-q"], stdout=out)
"""


@pytest.mark.parametrize("options", [["-p", "no:cacheprovider"], []], ids=["no cache", "no options"])
def test_the_test_runs_even_if_the_ini_file_deselects_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """Otherwise every commit would be skipped in projects that leave perf tests out of their unit tests.

    So it does if pytest loads no plugin on its own, or not its cache, whose settings are unknown then.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    repository, python, out = tmp_path / "repository", tmp_path / "python", tmp_path / "out.txt"
    repository.mkdir()
    git(repository, "init", "--quiet", "--initial-branch=main")
    ini = '[pytest]\naddopts = -m "not kafka_perf" -k other --strict-config\n'
    (repository / "pytest.ini").write_text(ini, encoding="utf-8")
    (repository / "test_perf.py").write_text("def test_it(kafka_perf): ...\n", encoding="utf-8")
    git(repository, "add", "--all")
    for message in ("Begin", "Go on"):
        git(repository, "commit", "--quiet", "--allow-empty", f"--message={message}")
    python.write_text(f"#!{sys.executable}{COLLECTS.format(out=str(out))}", encoding="utf-8")
    python.chmod(0o700)

    @contextlib.contextmanager
    def collecting(*arguments: Any, **named: Any) -> Iterator[Checkout]:
        with checked_out(*arguments, **named) as found:
            yield dataclasses.replace(found, python=str(python))

    monkeypatch.setattr(bisect_revisions, "checked_out", collecting)
    monkeypatch.chdir(repository)
    with pytest.raises(UsageError, match="the test did not run"):
        bisect_revisions.find_commit("main~1..main", "test_perf.py::test_it", setup=None, options=options, say=print)
    assert "test_perf.py::test_it\n" in out.read_text(encoding="utf-8")

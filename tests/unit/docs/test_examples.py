"""The examples are collected as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import ROOT, copied_example


def test_every_experiment_is_collected(tmp_path: Path) -> None:
    """Each marker of each is read and checked then; whoever copies one gets no error."""
    run = copied_example("experiments", tmp_path).run("--collect-only", "-q", "--kafka-cluster=local", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    files = {path.name for path in (ROOT / "examples" / "experiments").glob("test_*.py")}
    assert len(files) == 14
    assert {line.partition("::")[0] for line in run.out.splitlines() if "::" in line} == files
    folders = ("-o", "kafka_log_dirs=/a,/b", "test_disk.py")
    again = copied_example("experiments", tmp_path / "again")
    assert "test_disk.py::test_disk[/a]" in again.run("--collect-only", "-q", *folders, reports=False).out

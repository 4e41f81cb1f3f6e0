"""The ways to leave perf tests out, each as the page has it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.project import Project
from tests.unit.docs.pages import ROOT

PAGE = (ROOT / "docs" / "how-to" / "add-to-a-service.md").read_text(encoding="utf-8")
FOLDERS = "[pytest]\ntestpaths = tests/unit\n"
MARKER = '[pytest]\naddopts = -m "not kafka_perf"\n'
PERF = "tests/perf/test_topic.py::test_perf"
UNIT = "tests/unit/test_code.py::test_unit"


@pytest.mark.parametrize(
    ("ini", "command", "collected"),
    [
        (FOLDERS, "pytest ", [UNIT]),
        (FOLDERS, "pytest tests/perf", [PERF]),
        ("[pytest]\n", "pytest tests --ignore=tests/perf", [UNIT]),
        (MARKER, "pytest ", [UNIT]),
        (MARKER, "pytest -m kafka_perf", [PERF]),
        ("[pytest]\n", "pytest -n0 -m kafka_perf", [PERF]),
    ],
)
def test_perf_tests_are_left_out(tmp_path: Path, ini: str, command: str, collected: list[str]) -> None:
    """A perf test among unit tests starts brokers; the one here has no marker of its own."""
    assert ini in PAGE
    assert command in PAGE
    project = Project(tmp_path).write("pytest.ini", ini)
    project.write("tests/perf/test_topic.py", "def test_perf(kafka_perf):\n    kafka_perf()\n")
    project.write("tests/unit/test_code.py", "def test_unit():\n    pass\n")
    run = project.run("--collect-only", "-q", "--strict-markers", *shlex.split(command)[1:], reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    assert [line for line in run.out.splitlines() if "::" in line] == collected

"""Reports for CI of runs that measured nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project


def test_a_run_that_measured_nothing_has_its_reports(project: Project, github: dict[str, Any]) -> None:
    """The step that uploads them runs, and the summary says why."""
    body = "@pytest.fixture\ndef kafka_cluster():\n    raise RuntimeError('no room')\n\n"
    run = project.test(f"{body}def test_down(kafka_perf): ...").run(**github)
    assert (run.status, run.report["tests"], run.report["exit_status"]) == (1, [], 1), run.out
    assert run.report["unmeasured"][0]["reason"] == "RuntimeError: no room"
    summary = Path(github["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    assert "1 Kafka test could not be measured\n" in summary


def test_a_run_without_perf_tests_tells_github_nothing(project: Project, github: dict[str, Any]) -> None:
    """The plugin is installed in runs that have nothing to do with it."""
    run = project.test("def test_other(): ...").run("--kafka-report=markdown:summary.md", **github)
    assert run.status == pytest.ExitCode.OK
    assert "::" not in run.out
    assert {"report.json", "summary.md"} & {path.name for path in project.folder.iterdir()} == set()
    assert not Path(github["GITHUB_STEP_SUMMARY"]).exists()

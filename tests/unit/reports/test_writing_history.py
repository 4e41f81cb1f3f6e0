"""The history file: what a line holds, and that no line corrupts another."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import pytest_kafkaperf
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports import writing
from pytest_kafkaperf.reports.writing import append_history, history_lines
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.patience import PATIENCE_S
from tests.support.results import bare_result, trial_at

NODEID = "tests/perf/test_orders.py::test_ingest"
DOCUMENT = Path(pytest_kafkaperf.__file__).parent.parent / "docs" / "how-to" / "find-what-made-it-slower.md"


def _lines(*results: Result) -> list[dict[str, Any]]:
    return [
        line
        for result in results
        for line in history_lines(result, plugin="0.1.0", commit="abc123", environment=f"ci-{result.cluster.provider}")
    ]


def test_a_line_holds_what_weeks_later_is_asked() -> None:
    """When, of which code, where, what; the median of values and the sum of counts, of each trial."""
    first = trial_at(
        12, {"produce.throughput": 3.0, "errors": 1.0}, {"produce.throughput": 1.0, "errors": 2.0}, {"errors": 0.0}
    )
    fresh = trial_at(13, {"produce.throughput": 9.0, "errors": 0.0})
    result = bare_result(first, fresh, verdict=Verdict.REGRESSED)
    common = {
        "schema_version": 1,
        "plugin": "0.1.0",
        "commit": "abc123",
        "environment": "ci-local",
        "nodeid": NODEID,
        "fingerprint": result.cluster.fingerprint,
    }
    assert _lines(result) == [
        {
            **common,
            "time": "2025-01-31T12:00:00+00:00",
            "trial": 0,
            "kind": "first",
            "verdict": "REGRESSED",
            "rounds": 3,
            "metrics": {"produce.throughput": 2.0, "errors": 3.0},
        },
        {
            **common,
            "time": "2025-01-31T13:00:00+00:00",
            "trial": 1,
            "kind": "fresh",
            "verdict": "REGRESSED",
            "rounds": 1,
            "metrics": {"produce.throughput": 9.0, "errors": 0.0},
        },
    ]


def test_a_trial_without_a_round_has_a_line_and_what_json_cannot_hold_is_null(tmp_path: Path) -> None:
    """That a test could not run is history, too."""
    lines = _lines(
        bare_result(trial_at(12), trial_at(13, {"produce.latency.max": float("inf")}), verdict=Verdict.INVALID)
    )
    assert [(line["rounds"], line["metrics"]) for line in lines] == [(0, {}), (1, {"produce.latency.max": None})]
    append_history(tmp_path / "history.jsonl", lines)


def test_lines_are_added_run_after_run(tmp_path: Path) -> None:
    """The file and its folder are made by the first run."""
    path = tmp_path / "new" / "history.jsonl"
    append_history(path, [{"run": 1, "text": "größer\nals"}, {"run": 1}])
    append_history(path, [{"run": 2}])
    assert path.read_bytes() == b'{"run": 1, "text": "gr\\u00f6\\u00dfer\\nals"}\n{"run": 1}\n{"run": 2}\n'


def test_without_a_line_the_file_is_made(tmp_path: Path) -> None:
    """So a run says that it cannot be written before it measures anything."""
    path = tmp_path / "new" / "history.jsonl"
    append_history(path, [])
    assert path.read_bytes() == b""


def test_what_a_killed_writer_left_corrupts_no_other_line(tmp_path: Path) -> None:
    """One line is lost, not two."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"run": 1}\n{"run": 2, "met')
    append_history(path, [{"run": 3}])
    assert path.read_text() == '{"run": 1}\n{"run": 2, "met\n{"run": 3}\n'


def test_writers_at_the_same_time_lose_no_line_and_mix_none(tmp_path: Path) -> None:
    """Two CI jobs on one machine, and lines far longer than what a system writes at once."""
    path = tmp_path / "history.jsonl"
    script = (
        "import sys; from pathlib import Path; from pytest_kafkaperf.reports.writing import append_history\n"
        "for number in range(20):\n"
        "    line = {'writer': sys.argv[2], 'number': number, 'padding': 'x' * 100_000}\n"
        "    append_history(Path(sys.argv[1]), [line, line])\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "ab"]
    assert [writer.wait(timeout=PATIENCE_S) for writer in writers] == [0, 0]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name in "ab":
        own = [line["number"] for line in lines if line["writer"] == name]
        assert own == [number for number in range(20) for _ in range(2)]
    assert [first == second for first, second in zip(lines[::2], lines[1::2], strict=True)] == [True] * 40


def test_a_history_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The folder may be read-only in CI."""
    (tmp_path / "file").write_text("no folder")
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "file" / "history.jsonl", "File exists")):
        with pytest.raises(UsageError) as caught:
            append_history(path, [{}])
        assert str(caught.value) == f"--kafka-report=history:{path}: cannot append to the history: {reason}"


def test_a_lock_that_others_hold_is_waited_for_within_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hung job must not hang this one."""
    monkeypatch.setattr(writing, "_LOCK_TIMEOUT_S", 0.1)
    path = tmp_path / "history.jsonl"
    with FileLock(f"{path}.lock"), pytest.raises(UsageError) as caught:
        append_history(path, [{}])
    assert str(caught.value) == (
        f"--kafka-report=history:{path}: cannot append to the history: another run has held {path}.lock for 0.1 s; "
        "delete the lock file if no other run is active"
    )


def test_the_documented_line_is_what_is_written() -> None:
    """Programs are written after the document."""
    (example,) = re.findall(r"```json\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (line,) = _lines(bare_result(trial_at(12)))
    assert set(json.loads(example)) == set(line)

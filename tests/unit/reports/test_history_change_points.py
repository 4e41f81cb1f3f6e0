"""`kafkaperf trend`: histories whose change points are known."""

from __future__ import annotations

import datetime
import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.plugin.cli import main
from pytest_kafkaperf.reports.history import find_change_points
from pytest_kafkaperf.reports.writing import append_history
from tests.support.hostile_names import NAMES

NODEID = "tests/perf/test_orders.py::test_ingest"
LATENCY = "produce.latency.p99"
Trend = Callable[..., tuple[int, str, str]]
needs_otava = pytest.mark.skipif(
    "not __import__('importlib').util.find_spec('otava')", reason="no Apache Otava: pip install --no-deps apache-otava"
)


def night(number: int, **changed: Any) -> dict[str, Any]:
    """The line of a night's run; its commit has the night's number."""
    time = datetime.datetime(2025, 3, 3, 4, tzinfo=datetime.UTC) + datetime.timedelta(days=number)
    return {
        "schema_version": 1,
        "time": time.isoformat(),
        "plugin": "0.1.0",
        "commit": f"{number:02}" * 20,
        "environment": "ci",
        "nodeid": NODEID,
        "trial": 0,
        "kind": "first",
        "verdict": "PASSED",
        "rounds": 5,
        "metrics": {},
        "fingerprint": {"kafka": "4.1.1"},
        **changed,
    }


def series(*means: float, seed: object = 1, noise: float = 0.03) -> list[float]:
    source = random.Random(str(seed))
    return [mean * source.lognormvariate(0, noise) for mean in means]


def nights(latencies: Sequence[float], **changed: Any) -> list[dict[str, Any]]:
    return [night(number, metrics={LATENCY: value}, **changed) for number, value in enumerate(latencies)]


@pytest.fixture
def trend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trend:
    """Call it on a history of these lines; 80 columns, no terminal."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(lines: Iterable[dict[str, Any]], *arguments: str) -> tuple[int, str, str]:
        append_history(Path("history.jsonl"), lines)
        status = main(["trend", "history.jsonl", *arguments])
        return status, *capsys.readouterr()

    return call


@needs_otava
def test_a_change_names_its_values_the_commit_and_what_else_differs(trend: Trend) -> None:
    """All that a reader needs to find the cause: the commits between two nights, or the new broker."""
    throughputs, latencies = series(*[5000] * 25, *[4400] * 15), series(*[0.01] * 25, *[0.013] * 15, seed=2)
    lines = [
        night(
            number,
            metrics={"produce.throughput": throughput, LATENCY: latency, "errors": 0.0},
            fingerprint={"kafka": "4.1.1" if number < 25 else "4.3.1"},
        )
        for number, (throughput, latency) in enumerate(zip(throughputs, latencies, strict=True))
    ]
    assert trend(lines) == (
        0,
        "tests/perf/test_orders.py::test_ingest\n"
        "  2025-03-28 04:00 UTC, commit 252525252525, previous run 242424242424,\n"
        "    environment ci\n"
        "  metric                       before           after  change\n"
        "  produce.throughput   4974 records/s  4442 records/s  -10.7%\n"
        "  produce.latency.p99         9.95 ms           13 ms  +30.6%\n"
        "  other differences between the runs: kafka: 4.1.1 -> 4.3.1\n"
        "\n",
        "",
    )


@needs_otava
def test_noise_alone_is_no_change(tmp_path: Path) -> None:
    """A nightly job that names an innocent commit each week is soon ignored."""
    found = []
    for seed in range(60):
        path = tmp_path / f"{seed}.jsonl"
        append_history(path, nights(series(*[0.01] * 30, seed=seed, noise=0.08)))
        found.append(find_change_points(path, metrics=[LATENCY], say=pytest.fail))
    assert sum(map(bool, found)) <= 2


@needs_otava
def test_all_changes_of_all_tests_are_found(trend: Trend) -> None:
    """Up and down again, each with its own run; the order of the lines does not matter."""
    up_and_down = nights(series(*[0.01] * 15, *[0.02] * 15, *[0.01] * 15))
    other = nights(series(*[0.01] * 12, *[0.005] * 12), nodeid="tests/perf/test_audit.py::test_audit")
    lines = [*up_and_down, *other]
    random.Random(1).shuffle(lines)
    status, out, _ = trend(lines)
    assert (status, [line.split(",")[0].strip() for line in out.splitlines() if "::" in line or "commit" in line]) == (
        0,
        [
            "tests/perf/test_audit.py::test_audit",
            "2025-03-15 04:00 UTC",
            NODEID,
            "2025-03-18 04:00 UTC",
            NODEID,
            "2025-04-02 04:00 UTC",
        ],
    )


@needs_otava
def test_a_history_is_of_one_environment_and_of_first_trials_that_are_valid(trend: Trend) -> None:
    """Another machine, a suspected regression's fresh trials and broken runs say nothing about the code."""
    slow = [value * 3 for value in series(*[0.01] * 12)]
    lines = [
        *nights(series(*[0.01] * 24)),
        *nights(slow, environment="laptop"),
        *nights(slow, trial=1, kind="fresh"),
        *nights(slow, verdict="INVALID"),
    ]
    assert trend(lines) == (0, "no change points\n", "")


@needs_otava
def test_a_metric_and_a_test_can_be_chosen(trend: Trend) -> None:
    """Counts and custom metrics are no headlines; a change from zero has no ratio."""
    rows = [night(number, metrics={"app.rows": float(number >= 12), "errors": 0.0}) for number in range(24)]
    status, out, _ = trend(rows, "--metric", "app.rows", "--test", "test_orders")
    assert (status, out.splitlines()[4:6]) == (
        0,
        ["  app.rows       0      1       -", "  other differences between the runs: nothing"],
    ), out


@needs_otava
def test_half_a_line_of_a_killed_writer_is_skipped_and_counted(trend: Trend) -> None:
    """The lines after it are intact; a file that loses more and more lines must not go unnoticed."""
    Path("history.jsonl").write_text('{"schema_version": 1, "metr', encoding="utf-8")
    told = "kafkaperf: history.jsonl: skipped 1 line of 13 that are not JSON: 1\n"
    assert trend(nights(series(*[0.01] * 12))) == (0, "no change points\n", told)
    Path("history.jsonl").write_text("x\n" * 7, encoding="utf-8")
    told = "kafkaperf: history.jsonl: skipped 7 lines of 19 that are not JSON: 1, 2, 3, 4, 5 and 2 more\n"
    assert trend(nights(series(*[0.01] * 12))) == (0, "no change points\n", told)


@needs_otava
def test_names_cannot_affect_the_terminal(trend: Trend) -> None:
    """A history can come from somebody else's job."""
    for name in NAMES.values():
        if name.encode("utf-8", "ignore").decode() == name:
            status, out, _ = trend(
                nights(series(*[0.01] * 12, *[0.02] * 12), nodeid=name, environment=name, fingerprint={name: name})
            )
            assert status == 0
            assert out.replace("\n", "").isprintable()


TOO_FEW = (
    "history.jsonl has fewer than 10 valid runs of each {} in one environment with {}; add runs with "
    "--kafka-report=history, or name another metric or test"
)
HEADLINES = (
    "capacity or produce.throughput or produce.latency.p50 or produce.latency.p99 or consume.throughput or "
    "e2e.latency.p50 or e2e.latency.p99"
)


@needs_otava
@pytest.mark.parametrize(
    ("lines", "arguments", "problem"),
    [
        (nights([0.01] * 9), [], TOO_FEW.format("test", HEADLINES)),
        ([], [], TOO_FEW.format("test", HEADLINES)),
        (nights([0.01] * 12), ["--metric", "p99"], TOO_FEW.format("test", "p99")),
        (nights([0.01] * 12), ["--test", "sink"], TOO_FEW.format("sink", HEADLINES)),
        (
            [night(1), {"tests": []}],
            [],
            "line 2 of history.jsonl is not one of --kafka-report=history: schema_version is missing; time is missing; "
            "commit is missing; environment is missing; nodeid is missing; kind is missing; verdict is missing; "
            "metrics is missing; fingerprint is missing",
        ),
        (
            [night(1, schema_version=2)],
            [],
            "line 1 of history.jsonl has schema_version 2, but this version of pytest-kafkaperf reads only 1; "
            "upgrade pytest-kafkaperf",
        ),
        (
            [night(1, metrics={LATENCY: "fast"})],
            [],
            "line 1 of history.jsonl is not one of --kafka-report=history: metrics.produce.latency.p99='fast': must be "
            "a valid number, unable to parse string as a number",
        ),
    ],
)
def test_what_is_no_history_is_one_line(
    trend: Trend, lines: list[dict[str, Any]], arguments: list[str], problem: str
) -> None:
    """A job that found nothing because it read nothing would be green for months."""
    assert trend(lines, *arguments) == (2, "", f"kafkaperf: {problem}\n")


@needs_otava
def test_a_file_that_cannot_be_read_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The first night, say."""
    assert main(["trend", "absent.jsonl"]) == 2
    assert capsys.readouterr().err == "kafkaperf: cannot read history absent.jsonl: No such file or directory\n"


def test_without_the_extra_the_error_names_it(trend: Trend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most users have no need of it."""
    monkeypatch.setitem(sys.modules, "otava.analysis", None)
    problem = "kafkaperf trend needs Apache Otava: pip install 'pytest-kafkaperf[trend]'"
    assert trend(nights([0.01] * 12)) == (2, "", f"kafkaperf: {problem}\n")


def test_a_generated_line_is_as_one_that_is_written() -> None:
    """Or these tests would read what no run writes."""
    document = Path(__file__).parents[3] / "docs" / "how-to" / "find-what-made-it-slower.md"
    example = document.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    assert set(night(0)) == set(json.loads(example))

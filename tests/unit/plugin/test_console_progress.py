"""What is seen while load runs."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.plugin.console import ProgressLine, RoundLines
from pytest_kafkaperf.scenarios.scenario import Scenario

SCENARIO = Scenario.of({"duration": "10 s", "warmup": "2 s", "rounds": 5, "record_size": "1 KiB"})
METRICS = ["produce.throughput", "e2e.latency.p99", "errors"]
RATE = 51_200.0


def seen(phase: str = "measuring", elapsed_s: float = 3.1, acknowledged: int = 0, **more: Any) -> Progress:
    return Progress(phase=phase, elapsed_s=elapsed_s, acknowledged=acknowledged, **more)


def text(width: int, *, scenario: Scenario = SCENARIO, **more: Any) -> str:
    given = {"trial": "", "number": 2, "seen": seen(p99_s=0.0031, lag=1200), "rate": RATE, **more}
    line = ProgressLine("test_orders_ingest", scenario, print, metrics=METRICS)
    return line.text(**given, width=width)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            140,
            "test_orders_ingest  round 2/5  measuring 3.1 s / 10 s  43 s left  51.2k records/s  50 MiB/s  p99 3.1 ms"
            "  lag 1200",
        ),
        (
            110,
            "test_orders_ingest  round 2/5  measuring 3.1 s / 10 s  43 s left  51.2k records/s  p99 3.1 ms  lag 1200",
        ),
        (100, "test_orders_ingest  round 2/5  measuring 3.1 s / 10 s  51.2k records/s  p99 3.1 ms  lag 1200"),
        (79, "test_orders_ingest  round 2/5  measuring 3.1 s / 10 s  51.2k records/s"),
        (40, "test_orders_ingest  round 2/5  measuring"),
    ],
)
def test_what_is_least_missed_goes_first_where_it_is_narrow(width: int, line: str) -> None:
    """One line stays one line."""
    assert text(width) == line


def test_what_is_not_known_is_left_out() -> None:
    """No consumers, no latency yet, samples of any size, and a round that ends with its last record."""
    bare = Scenario.of({"records": 1000, "payload": {"file": "x"}, "rounds": 3})
    assert text(200, scenario=bare, rate=0.0, seen=seen("connecting", 0.0)) == (
        "test_orders_ingest  round 2/3  connecting  0 records/s"
    )


def test_a_round_beyond_the_declared_ones_has_a_number_only() -> None:
    """How many there will be depends on their noise."""
    assert text(200, number=6).startswith("test_orders_ingest  round 6  measuring 3.1 s / 10 s  7 s left  51.2k")


def test_a_further_trial_is_named() -> None:
    """A suspected regression is re-tested, and who waits wonders why."""
    assert "test_orders_ingest  re-test, trial 2  round 1/5" in text(200, trial="re-test, trial 2", number=1)


@pytest.mark.parametrize(
    ("phase", "elapsed_s", "number", "left"),
    [
        ("connecting", 0.0, 5, ""),
        ("warm-up", -2.0, 5, "12 s left"),
        ("measuring", 4.0, 5, "6 s left"),
        ("draining", 11.0, 4, "12 s left"),
        ("measuring", 9.9, 5, ""),
    ],
)
def test_what_is_left_are_the_rounds_to_come(phase: str, elapsed_s: float, number: int, left: str) -> None:
    """Two minutes more, or time for coffee."""
    parts = text(200, seen=seen(phase, elapsed_s), number=number).split("  ")
    assert [part for part in parts if part.endswith("left")] == ([left] if left else [])


def test_the_line_is_written_over_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice a second at most, and the screen is tidy afterwards."""
    written: list[str] = []
    instants = iter([100.0, 100.5, 100.6, 102.0])
    monkeypatch.setattr("time.monotonic", lambda: next(instants))
    monkeypatch.setenv("COLUMNS", "200")
    line = ProgressLine("test_x", SCENARIO, written.append, metrics=METRICS)
    for acknowledged in (600, 900, 14_600):
        line.update("", 1, seen("warm-up", -1.0, acknowledged))
    line.close()
    assert written == [
        "\r\x1b[Ktest_x  round 1/5  warm-up  59 s left  1200 records/s  1.17 MiB/s",
        "\r\x1b[Ktest_x  round 1/5  warm-up  59 s left  9333 records/s  9.11 MiB/s",
        "\r\x1b[K",
    ]


MEASURED = {"produce.throughput": 52_300.0, "produce.latency.p99": 0.0121, "e2e.latency.p99": 0.0172, "errors": 0.0}


@pytest.mark.parametrize(
    ("width", "values"),
    [(140, "  produce.throughput 52.3k/s  e2e.latency.p99 17.2 ms  errors 0"), (62, "  produce.throughput 52.3k/s")],
)
def test_a_round_that_is_done_shows_what_the_table_will_show(width: int, values: str) -> None:
    """Its exact values, of the metrics with a threshold."""
    assert text(width, seen=seen("done", metrics=MEASURED)) == f"test_orders_ingest  round 2/5{values}"


def test_in_a_log_each_round_is_a_line_with_its_exact_values() -> None:
    """The p99 of a last second is not that of the round, and the table would contradict it."""
    written: list[str] = []
    lines = RoundLines("test_x", SCENARIO, written.append, metrics=METRICS)
    for number in (1, 2):
        lines.update("", number, seen("measuring", 9.0, 9000, p99_s=0.004, lag=3))
        lines.update("", number, seen("done", metrics=MEASURED))
    lines.update("re-test, trial 2", 1, seen("done"))
    lines.update("re-test, trial 2", 2, seen("connecting", 0.0))
    lines.close()
    assert written == [
        "test_x  round 1/5  produce.throughput 52.3k/s  e2e.latency.p99 17.2 ms  errors 0",
        "test_x  round 2/5  produce.throughput 52.3k/s  e2e.latency.p99 17.2 ms  errors 0",
        "test_x  re-test, trial 2  round 1/5",
    ]

"""Where the time of tests went, as the terminal shows it with -v."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.span_table import REMEDIES, describe_spans
from pytest_kafkaperf.reports.terminal import render_spans
from tests.support.results import result, table

ROOT = Path(__file__).parents[3]
SPANS = {
    **dict.fromkeys(Span, 0.0),
    Span.START: 4.1,
    Span.WARM_UP: 8.44,
    Span.WINDOW: 15.3,
    Span.CONNECT: 1.2,
    Span.JUDGE: 0.04,
}
RESULTS = [dataclasses.replace(result(name), spans=SPANS) for name in ("test_a", "test_b")]


def test_the_longest_span_comes_first() -> None:
    """It is the one to shorten; what would be shown as nothing is left out."""
    assert describe_spans(SPANS) == "time 29.1 s: window 15.3 s, warm-up 8.4 s, start 4.1 s, connect 1.2 s"


def test_a_test_that_did_not_run_shows_no_time() -> None:
    """The time budget left it out."""
    assert describe_spans({Span.OTHER: 0.01}) == ""


def test_only_v_shows_the_time_of_a_test() -> None:
    """Most readers want the verdict."""
    assert "  time 29.1 s: window" in table(RESULTS, {}, verbose=True)
    assert "time 29.1 s" not in table(RESULTS, {})


def test_the_sum_of_all_tests_has_a_row_for_each_span() -> None:
    """With many tests, no line of a single one shows what is worth changing."""
    head, titles, *rows = render_spans(RESULTS, Paper(width=80)).splitlines()
    assert head == "where the time of 2 tests went: 58s"
    assert titles == "span       time  share  to make it shorter"
    assert [row.split()[:4] for row in rows] == [
        ["window", "30.6", "s", "53%"],
        ["warm-up", "16.9", "s", "29%"],
        ["start", "8.2", "s", "14%"],
        ["connect", "2.4", "s", "4%"],
        ["judge", "0.1", "s", "0%"],
    ]


@pytest.mark.parametrize("span", list(Span))
def test_a_row_fits_into_80_columns(span: Span) -> None:
    """A row of two lines is no row that is read at a glance."""
    long = dataclasses.replace(result("test_long"), spans={Span.WARM_UP: 1000.0, span: 1000.0})
    lines = render_spans([long], Paper(width=80)).splitlines()
    assert len(lines) == 2 + len(long.spans)
    assert any(line.endswith(REMEDIES[span]) for line in lines)


def test_the_reference_shows_this_table() -> None:
    """Nobody looks up a table that the terminal does not print."""
    page = (ROOT / "docs" / "reference" / "thresholds-and-results.md").read_text(encoding="utf-8")
    shown = page.split("\n## Where the time goes\n")[1].partition("```text\n")[2].partition("```")[0]
    times = {
        Span.WARM_UP: 18.71,
        Span.START: 12.11,
        Span.WINDOW: 12.0,
        Span.CONNECT: 2.6,
        Span.TOPIC: 1.25,
        Span.DRAIN: 1.0,
        Span.OTHER: 0.4,
        Span.FETCH: 0.04,
    }
    halves = {span: seconds / 2 for span, seconds in times.items()}
    results = [dataclasses.replace(each, spans=halves) for each in RESULTS]
    assert f"{render_spans(results, Paper(width=80))}\n" == shown

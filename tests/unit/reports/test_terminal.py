"""The table in the terminal, whole, as its readers see it."""

# ruff: noqa: E501, RUF001 - lines as they are shown
from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.reports.table import failure_beside, rows_of
from pytest_kafkaperf.reports.terminal import render_table, wrapped
from tests.support.results import ending, endings, result, rounds, session

EXPECTED_80 = """\
  metric                median    spread baseline   change interval     detects
PASSED        test_ingest
  produce.latency.p99  12.1 ms 11.9–12.3  12.1 ms    0.0 % [-8.0, +8.7] +24.2 %
  produce.throughput   52.3k/s 51.3–53.3  52.3k/s    0.0 % [-8.0, +8.7] -13.0 %
  errors                     0
REGRESSED     test_slow[1 KiB-acks=all]
  produce.latency.p99  18.1 ms 17.8–18.5  12.1 ms  +50.0 % [+38, +63]   +24.2 %
    broken: <= baseline + 20% (14.5 ms)
  e2e.latency.p99      18.9 ms 18.5–19.3  17.2 ms  +10.0 % [+1.2, +20]  +24.2 %
  produce.throughput   52.3k/s 51.3–53.3  52.3k/s    0.0 % [-8.0, +8.7] -13.4 %
VIOLATED      test_sla
  produce.latency.p99  12.1 ms 11.9–12.3                                10.6 ms
    broken: <= 10 ms
  produce.throughput   52.3k/s 51.3–53.3                                47.3k/s
INCONCLUSIVE  test_new
  produce.throughput   52.3k/s 51.3–53.3
    undecided: >= baseline - 10%
INVALID       test_lost_broker
  lost                       -
    undecided: == 0
PASSED        test_counts
  produce.throughput   52.3k/s 51.3–53.3
  produce.latency.p50   2.1 ms 2.06–2.14
  produce.latency.p99  12.1 ms 11.9–12.3
  e2e.latency.p99      17.2 ms 16.9–17.5
  errors                     0
  lost                       0
PASSED        test_bare
  produce.throughput   52.3k/s 51.3–53.3
  produce.latency.p50   2.1 ms 2.06–2.14
  produce.latency.p99  12.1 ms 11.9–12.3
  e2e.latency.p99      17.2 ms 16.9–17.5"""

EXPECTED_140 = """\
  metric                median    spread baseline   change interval     detects  limit                                   verdict
PASSED        test_ingest
  produce.latency.p99  12.1 ms 11.9–12.3  12.1 ms    0.0 % [-8.0, +8.7] +24.2 %  <= baseline + 20% (14.5 ms)             PASSED
  produce.throughput   52.3k/s 51.3–53.3  52.3k/s    0.0 % [-8.0, +8.7] -13.0 %  >= baseline - 10% (47.1k/s)             PASSED
  errors                     0                                                   == 0                                    PASSED
REGRESSED     test_slow[1 KiB-acks=all]
  produce.latency.p99  18.1 ms 17.8–18.5  12.1 ms  +50.0 % [+38, +63]   +24.2 %  <= baseline + 20% (14.5 ms)             REGRESSED
  e2e.latency.p99      18.9 ms 18.5–19.3  17.2 ms  +10.0 % [+1.2, +20]  +24.2 %  <= max(baseline + 20%, 5 ms) (20.6 ms)  PASSED
  produce.throughput   52.3k/s 51.3–53.3  52.3k/s    0.0 % [-8.0, +8.7] -13.4 %  >= baseline - 10% (47.1k/s)             PASSED
VIOLATED      test_sla
  produce.latency.p99  12.1 ms 11.9–12.3                                10.6 ms  <= 10 ms                                VIOLATED
  produce.throughput   52.3k/s 51.3–53.3                                47.3k/s  >= 50k records/s                        PASSED
INCONCLUSIVE  test_new
  produce.throughput   52.3k/s 51.3–53.3                                         >= baseline - 10%                       INCONCLUSIVE
INVALID       test_lost_broker
  lost                       -                                                   == 0                                    INCONCLUSIVE
PASSED        test_counts
  produce.throughput   52.3k/s 51.3–53.3
  produce.latency.p50   2.1 ms 2.06–2.14
  produce.latency.p99  12.1 ms 11.9–12.3
  e2e.latency.p99      17.2 ms 16.9–17.5
  errors                     0                                                   == 0                                    PASSED
  lost                       0                                                   == 0                                    PASSED
PASSED        test_bare
  produce.throughput   52.3k/s 51.3–53.3
  produce.latency.p50   2.1 ms 2.06–2.14
  produce.latency.p99  12.1 ms 11.9–12.3
  e2e.latency.p99      17.2 ms 16.9–17.5"""


def table(width: int, **style: Any) -> str:
    results = session()
    style = {"colour": False, "ascii_only": False, **style}
    return render_table(results, endings(results), width=width, **style)


def test_at_80_columns_limits_stand_below_what_breaks_them() -> None:
    """The width that terminals open with, and that CI logs have."""
    assert table(80) == EXPECTED_80


def test_at_140_columns_each_limit_and_its_verdict_stand_in_the_row() -> None:
    """A wide terminal has room for what passed, too."""
    assert table(140) == EXPECTED_140


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (140, "metric median spread baseline change interval detects limit verdict"),
        (80, "metric median spread baseline change interval detects"),
        (72, "metric median spread baseline change interval"),
        (60, "metric median spread baseline change"),
        (50, "metric median baseline change"),
        (40, "metric median change"),
        (20, "metric median change"),
    ],
)
def test_columns_go_one_after_the_other_where_it_is_narrow(width: int, head: str) -> None:
    """What is a figure of this run stays longest."""
    lines = table(width).splitlines()
    assert " ".join(lines[0].split()) == head
    if width >= 40:
        assert max(map(len, lines)) <= width


def test_columns_that_nothing_would_stand_in_are_left_out() -> None:
    """Without a baseline the table is as narrow as what it says."""
    bare = result("test_sla", "produce.latency.p99 <= 10 ms", measured=rounds()[:1])
    assert (
        render_table([bare], {}, width=100, colour=False, ascii_only=False)
        == """\
  metric                median  limit     verdict
VIOLATED      test_sla
  produce.latency.p99  11.9 ms  <= 10 ms  VIOLATED"""
    )


def test_a_test_that_failed_for_another_reason_says_so_beside_its_verdict() -> None:
    """A green verdict on a test that pytest shows as failed would puzzle."""
    passed, strict = result("test_ok", "errors == 0"), result("test_new", "produce.throughput >= baseline")
    ends = {
        passed.nodeid: ending(passed.nodeid, "error", "no room"),
        strict.nodeid: ending(strict.nodeid, "failed", "INCONCLUSIVE: 1 of 1 thresholds not met"),
    }
    lines = render_table([passed, strict], ends, width=80, colour=False, ascii_only=False).splitlines()
    assert [line for line in lines if "test_" in line] == [
        "PASSED        test_ok  (error)",
        "INCONCLUSIVE  test_new  (failed)",
    ]


def test_a_failure_of_the_tests_own_code_is_told_by_its_cause_not_by_its_text() -> None:
    """An assertion of the user may begin like a verdict."""
    strict, text = result("test_new", "produce.throughput >= baseline"), "INCONCLUSIVE: 1 of 1 thresholds not met"
    assert failure_beside(strict, ending(strict.nodeid, "failed", text, by_verdict=True)) == []
    assert failure_beside(strict, ending(strict.nodeid, "failed", text)) == [text]


def test_a_long_name_is_folded_and_nothing_of_it_lost() -> None:
    """Parametrised tests have names longer than a terminal."""
    name = f"test_sizes[{'x' * 100}]"
    text = render_table([result(name, "errors == 0")], {}, width=60, colour=False, ascii_only=False)
    assert name in re.sub(r"\s+", "", text)
    assert max(map(len, text.splitlines())) <= 60


def test_a_terminal_without_unicode_gets_ascii() -> None:
    """Windows code pages; columns stay aligned."""
    text = table(80, ascii_only=True)
    assert text.isascii()
    assert "  produce.latency.p99  18.1 ms 17.8-18.5  12.1 ms  +50.0 % [+38, +63]   +24.2 %" in text.splitlines()


def test_a_broken_limit_is_red_and_without_colour_there_is_no_escape() -> None:
    """NO_COLOR is pytest's to read: here it is `colour=False`."""
    line = next(line for line in table(80, colour=True).splitlines() if "broken: <= baseline" in line)
    assert line == "\x1b[1;31m    broken: <= baseline + 20% (14.5 ms)\x1b[0m"
    assert "\x1b" not in table(80)
    assert re.sub(r"\x1b\[[0-9;]*m", "", table(80, colour=True)) == table(80)


def test_a_figure_close_to_its_limit_is_shown_with_more_digits() -> None:
    """`25 ms` beside `<= 25 ms` would look like a bug."""
    close = result("test_sla", "produce.latency.p99 <= 25 ms", measured=[{"produce.latency.p99": 0.02504}])
    (row,) = rows_of(close)
    assert (row.median, row.limit, row.bound) == ("25.04 ms", "<= 25 ms", "")


def test_counts_alone_leave_room_for_the_headlines() -> None:
    """Whoever checks errors only still wants to see how fast it was."""
    shown = [row.metric for row in rows_of(result("test_counts", "errors == 0"))]
    assert shown == ["produce.throughput", "produce.latency.p50", "produce.latency.p99", "e2e.latency.p99", "errors"]


def test_long_notes_are_wrapped_with_an_indent() -> None:
    """A line that the terminal breaks in a word is hard to read."""
    note = "test_slow: changed against the baseline: kafka: 4.0.0 -> 4.1.1, config.num.io.threads: not set -> 16, µ"
    assert wrapped([note, "short"], width=60, ascii_only=True) == [
        "test_slow: changed against the baseline: kafka: 4.0.0 ->",
        "    4.1.1, config.num.io.threads: not set -> 16, u",
        "short",
    ]


def test_the_spread_has_its_own_units_where_those_of_the_median_would_mislead() -> None:
    """Nobody reads `980 to 1.02` as 4 %; rounds that look alike have no spread."""
    figures = [0.00098, 0.00099, 0.001, 0.00101, 0.00102]
    measured = [{"produce.latency.p99": value, "produce.throughput": 4998.0} for value in figures]
    (latency, throughput) = rows_of(
        result("test_it", "produce.latency.p99 <= 10 ms", "produce.throughput >= 1 records/s", measured=measured)
    )
    assert (latency.observed, throughput.observed) == ("1 ms (980 µs–1.02 ms)", "4998/s")


@pytest.mark.parametrize(("limited", "lower"), [(3, True), (2, False)])
def test_a_throughput_that_the_generator_limits_is_a_lower_bound(limited: int, *, lower: bool) -> None:
    """Kafka took all that there was. Most rounds decide, because the median does."""
    one = result("test_flood", "produce.throughput >= baseline - 10%", "produce.latency.p99 <= 1 s")
    sessions = [
        dataclasses.replace(
            session,
            rounds=tuple(
                dataclasses.replace(each, limited_by_generator=number < limited)
                for number, each in enumerate(session.rounds)
            ),
        )
        for session in one.sessions
    ]
    one = dataclasses.replace(one, sessions=tuple(sessions))
    mark = "≥ " if lower else ""
    assert [row.median for row in rows_of(one)] == [f"{mark}52.3k/s", "12.1 ms"]
    assert f"| {mark}52.3k/s (51.3–53.3) |" in markdown([one], {})
    ascii_table = render_table([one], {}, width=80, colour=False, ascii_only=True)
    assert (">= 52.3k/s 51.3-53.3" in ascii_table) == lower

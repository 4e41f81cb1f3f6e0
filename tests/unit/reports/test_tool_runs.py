"""The output of Kafka's own tools."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports.tool_runs import CONSUMER, PRODUCER, ToolRun, notes_on, origin, read_runs, rounds_of
from pytest_kafkaperf.verdict.baseline_file import Imported
from tests.support.tool_outputs import HEADER, INTERVAL, ROW, SAMPLES, SUMMARY

MIB = 1024 * 1024


def read(*texts: str, file: str = "run.txt") -> list[ToolRun]:
    return read_runs("\n".join(texts).encode(), file=file)


def refused(*texts: str) -> str:
    with pytest.raises(UsageError) as caught:
        read(*texts)
    return str(caught.value)


def produced(line: int, rate: float, mb: float, *seconds: float, notes: tuple[str, ...] = ()) -> ToolRun:
    """Mean, max, then the four percentiles, in seconds."""
    mean, longest, *percentiles = seconds
    metrics = {"produce.throughput": rate, "produce.bandwidth": mb * MIB, "produce.latency.mean": mean}
    metrics |= {
        f"produce.latency.{part}": value
        for part, value in zip(("p50", "p95", "p99", "p99.9"), percentiles, strict=True)
        if value
    }
    return ToolRun(
        tool=PRODUCER, file="run.txt", line=line, metrics={**metrics, "produce.latency.max": longest}, notes=notes
    )


def consumed(line: int, rate: float, mb: float, *notes: str) -> ToolRun:
    metrics = {"consume.throughput": rate, "consume.bandwidth": mb * MIB}
    return ToolRun(tool=CONSUMER, file="run.txt", line=line, metrics=metrics, notes=notes)


def whole(values: str) -> str:
    return f"known only in whole milliseconds, so ratios are inexact: {values}"


ROWS = f"{HEADER}\n{ROW}"
OF_16_KIB = (37696.729809, 36.81, 0.79654, 3.838, 0.322, 2.282, 2.745, 3.593)
OF_16_KIB_3_REPLICAS = (15245.877896, 14.89, 1.96388, 7.471, 0.306, 5.854, 6.682, 7.439)
JOINING = "nMsg.sec and MB.sec include the time to join the group; the output has no other values"
WAITED = "the tool waited {} ms for records that never came, which lowers its results"


@pytest.mark.parametrize(
    ("file", "runs"),
    [
        (
            "producer-1.x-replication-partitions.txt",
            [
                produced(4, 17166.497863, 16.37, 1.59707, 3.447, 2.147, 3.322, 3.408, 3.436),
                produced(8, 8121.101871, 7.74, 3.85384, 9.507, 4.267, 8.685, 9.215, 9.449),
                produced(10, 11424.784928, 10.90, 2.76217, 2.906, 2.861, 2.882, 2.902, 2.904),
                produced(13, 17222.968551, 16.43, 1.58168, 3.563, 2.095, 3.36, 3.504, 3.552),
            ],
        ),
        (
            "producer-2.7-matrix.txt",
            [
                produced(1, *OF_16_KIB),
                produced(
                    *(2, 102399.31843, 100.0, 0.00462, 0.751, 0.001, 0.003, 0.164, 0.406),
                    notes=(whole("produce.latency.p50 1 ms, produce.latency.p95 3 ms"),),
                ),
                produced(3, *OF_16_KIB),
                produced(4, 15358.152107, 15.0, 1.94409, 8.179, 0.013, 6.049, 6.549, 8.086),
                produced(5, *OF_16_KIB),
                produced(6, *OF_16_KIB_3_REPLICAS),
                produced(7, *OF_16_KIB_3_REPLICAS),
                produced(8, 5180.783438, 5.06, 5.69227, 10.312, 5.579, 7.538, 9.481, 10.219),
            ],
        ),
        (
            "producer-3.0.txt",
            [produced(6, 73494.285819, 71.77, 0.39449, 2.037, 0.302, 0.998, 1.746, 2.029)],
        ),
        (
            "producer-3.9-print-metrics.txt",
            [
                produced(
                    *(5, 49987.503124, 48.82, 0.01658, 0.265, 0.001, 0.161, 0.241, 0.256),
                    notes=(whole("produce.latency.p50 1 ms"),),
                )
            ],
        ),
        (
            "producer-4.1.txt",
            [
                produced(
                    *(3, 99810.4, 9.52, 0.00094, 0.275, 0, 0.003, 0.008, 0.016),
                    notes=(
                        "omitted, because 0 means too small to print: produce.latency.p50",
                        whole("produce.latency.p95 3 ms, produce.latency.p99 8 ms"),
                    ),
                )
            ],
        ),
        (
            "producer-4.3-deprecated-options.txt",
            [produced(2, 359195.402299, 34.26, 0.1227, 0.353, 0.139, 0.176, 0.184, 0.189)],
        ),
        (
            "producer-4.3-warmup.txt",
            [
                produced(
                    *(9, 260111.848095, 24.81, 0.13221, 0.831, 0.001, 0.733, 0.767, 0.825),
                    notes=(whole("produce.latency.p50 1 ms"),),
                )
            ],
        ),
        ("consumer-3.0.txt", [consumed(2, 896860.9865, 875.8408)]),
        ("consumer-4.3.txt", [consumed(2, 2073431.2370, 197.7378)]),
        ("consumer-4.1-timeout.txt", [consumed(3, 1192799.8265, 304.8614, WAITED.format(2000))]),
    ],
)
def test_every_sample_gives_the_values_that_stand_in_it(file: str, runs: list[ToolRun]) -> None:
    """What was printed is what is imported, to the last digit."""
    assert read((SAMPLES / file).read_text()) == runs


def test_no_sample_is_left_out() -> None:
    """A sample that nobody reads proves nothing."""
    assert len(list(SAMPLES.iterdir())) == 10


# The producer


STEADY = SUMMARY.replace("records sent", "steady state records sent")


@pytest.mark.parametrize(
    ("lines", "rates"),
    [
        ([SUMMARY, SUMMARY.replace("99810.4", "5.0")], [99810.4, 5.0]),
        ([SUMMARY, STEADY.replace("99810.4", "5.0")], [5.0]),
        ([STEADY.replace("99810.4", rate) for rate in "23"], [2.0, 3.0]),
        ([f"kafka-1  | {SUMMARY}", "", "\tat java.base/java.lang.Thread.run"], [99810.4]),
        ([SUMMARY, INTERVAL, "^C"], [99810.4]),
    ],
)
def test_each_final_row_is_a_run_and_the_steady_state_replaces_that_of_all(
    lines: list[str], rates: list[float]
) -> None:
    """Scripts collect several runs in one file, or keep only what `grep` finds; an interval is no average of a run."""
    assert [run.metrics["produce.throughput"] for run in read("\r\n".join(lines))] == rates


@pytest.mark.parametrize("given", ["99,810", "99810,4", "99,810.4", "NaN", "Infinity", "1" * 5000, "-5.0", "fast"])
def test_a_value_that_cannot_be_is_named(given: str) -> None:
    """A factor of 1000, or a NaN that compares as false, would be a baseline that nothing fails."""
    shown = given if len(given) < 60 else f"{given[:60]}..."
    assert refused(INTERVAL, SUMMARY.replace("99810.4", given)) == (
        f"run.txt: line 2: records/sec is '{shown}', which is not a number such as 1234.5; remove this run, or run the "
        "tool again with LC_ALL=C"
    )


def test_failed_sends_are_told() -> None:
    """The tool prints them, does not count them and exits with 0."""
    failure = "org.apache.kafka.common.errors.TimeoutException: Expiring 6 record(s) for s-0:1000 ms has passed"
    (run,) = read(failure, failure, SUMMARY)
    assert run.notes == ("2 failed sends in the output, which the tool does not count",)


# The consumer


def test_the_consumers_own_rate_contains_the_time_of_joining_and_ours_does_not() -> None:
    """Our window opens when the group is stable: `fetch.nMsg.sec` is the value to compare with."""
    assert read(ROWS) == [consumed(2, 2073431.2370, 197.7378)]


def test_several_rows_are_several_runs() -> None:
    """`--hide-header` after the first."""
    assert len(read(ROWS, ROW, ROWS)) == 3


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("nMsg.sec,start.time,MB.sec,data.consumed.in.nMsg", "5.0,2026-11-21 05:15:45:015,7.0,10"),
        ("nMsg.sec,MB.sec,fetch.nMsg.sec", "5.0,7.0,6.0"),
    ],
)
def test_columns_are_found_by_their_names(names: str, cells: str) -> None:
    """A spreadsheet was cut down to what its reader wanted, in another order."""
    assert read(names, cells) == [consumed(2, 5.0, 7.0, JOINING)]


def test_a_negative_fetch_time_is_a_defect_of_some_versions() -> None:
    """They print the time of day as time of joining; the other values are right."""
    broken = ", ".join([*ROW.split(", ")[:6], "1593109326262", "-1593109324152", "-0.0000", "-0.0021"])
    assert read(HEADER, broken) == [consumed(2, 1421921.8009, 135.6050, JOINING)]


CUT = "because the output is cut off or has decimal commas; run the tool again with LC_ALL=C and let it finish"


@pytest.mark.parametrize(
    ("header", "row", "problem"),
    [
        (HEADER, ROW[:60], f"2: this row has 4 cells but its header has 10, {CUT}"),
        (HEADER, ROW.replace(".", ","), f"2: this row has 15 cells but its header has 10, {CUT}"),
        (
            HEADER,
            ROW.replace("2073431.2370", "NaN"),
            "2: fetch.nMsg.sec is 'NaN', which is not a number such as 1234.5; remove this run, or run the tool again "
            "with LC_ALL=C",
        ),
        (
            HEADER,
            ROW.replace("197.7378, 2073431.2370", "0.0, 0.0"),
            "2: all values are 0, so nothing was measured; remove this run",
        ),
        (
            HEADER.replace("start.time, end.time", "time, threadId"),
            "2026-11-21 05:15:48:160, 0, 12.1751, 24.3502, 127665, 255330.0000, 281, 219, 55.5940, 582945.2055",
            "1: each row of --show-detailed-stats describes only an interval; run the tool without that option",
        ),
    ],
)
def test_a_consumers_output_that_cannot_be_is_refused(header: str, row: str, problem: str) -> None:
    """Each with its line and what to do."""
    assert refused(header, row) == f"run.txt: line {problem}"


# Rounds of several runs


PRODUCED = {
    "produce.throughput": 99810.4,
    "produce.bandwidth": 9982443.52,
    "produce.latency.mean": 0.00094,
    "produce.latency.max": 0.275,
    "produce.latency.p50": 0.021,
    "produce.latency.p95": 0.03,
    "produce.latency.p99": 0.08,
    "produce.latency.p99.9": 0.16,
}
CONSUMED = {"consume.throughput": 2073431.237, "consume.bandwidth": 207343111.3728}


def test_runs_of_one_tool_are_rounds_in_their_order() -> None:
    """Over all files, as they are given."""
    runs = [*read(SUMMARY, SUMMARY), *read(SUMMARY.replace("99810.4", "7.0"))]
    assert rounds_of(runs) == (PRODUCED, PRODUCED, {**PRODUCED, "produce.throughput": 7.0})
    assert rounds_of(read(ROWS)) == (CONSUMED,)


def test_runs_of_several_tools_stand_side_by_side() -> None:
    """A round that lacks a metric decides nothing about it: the first of each are the first round."""
    runs = [*read(ROWS, ROW, file="consumer.txt"), *read(SUMMARY, SUMMARY, file="producer.txt")]
    assert rounds_of(runs) == ({**PRODUCED, **CONSUMED},) * 2
    assert origin(runs) == Imported(
        tool="kafka-consumer-perf-test and kafka-producer-perf-test", files=("consumer.txt", "producer.txt")
    )


def test_tools_that_print_into_one_file_are_told_apart() -> None:
    """A script runs one after the other."""
    runs = read(SUMMARY, ROWS, SUMMARY, ROW)
    assert [(run.tool, run.line) for run in runs] == [(PRODUCER, 1), (PRODUCER, 4), (CONSUMER, 3), (CONSUMER, 5)]


def test_tools_with_different_numbers_of_runs_make_no_rounds() -> None:
    """Which belongs to which nobody can tell."""
    with pytest.raises(UsageError) as caught:
        rounds_of(read(SUMMARY, SUMMARY, ROWS))
    assert str(caught.value) == (
        "2 runs of kafka-producer-perf-test and 1 run of kafka-consumer-perf-test cannot be combined into rounds; "
        "give as many runs of each tool, or import one tool alone"
    )


def test_what_is_to_know_is_told_once_with_its_lines() -> None:
    """Twenty runs with a p50 of 0 ms are one note."""
    zero = SUMMARY.replace("21 ms 50th", "0 ms 50th")
    assert notes_on(read(zero, zero)) == [
        "run.txt: omitted, because 0 means too small to print: produce.latency.p50 (lines 1, 2)"
    ]


# Anything else


@pytest.mark.timeout(20)
def test_a_line_without_an_end_takes_no_longer_than_its_length() -> None:
    """It may be a binary that happens to be text; each place in it is looked at once."""
    refused(f"Exception {'a.' * 500_000}")
    refused(f"{'a.' * 500_000} Exception")


@pytest.mark.parametrize(
    "line", ["", "<!DOCTYPE html>", "a,b,c", "records", "x" * 5000, "\x7fELF\0", INTERVAL[:50], HEADER[:50]]
)
def test_any_other_text_is_refused_with_its_first_line(line: str) -> None:
    """The wrong file, a page of an error instead of the artefact, or a run that was broken off."""
    shown = line if len(line) < 60 else f"{line[:60]}..."
    assert refused(f"\n  {line}\n1, 2, 3\n" if line else "") == (
        "run.txt: this is not the output of a finished run of kafka-producer-perf-test or kafka-consumer-perf-test; "
        f"its first line is {shown!r}"
    )


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfea"])
def test_what_is_no_text_is_refused(content: bytes) -> None:
    """With the file's name."""
    with pytest.raises(UsageError, match=r"^run.txt: this is not text in UTF-8; give what the tool printed$"):
        read_runs(content, file="run.txt")


def test_a_mark_at_the_beginning_is_no_part_of_the_text() -> None:
    """Editors on Windows write one."""
    assert rounds_of(read_runs(ROWS.encode("utf-8-sig"), file="run.txt")) == (CONSUMED,)


@given(st.text(alphabet=st.sampled_from("0123456789.,- \n\tNaNrecods entmsMB/()th=:" + "é٣"), max_size=200))
def test_whatever_the_text_is_there_are_runs_or_one_error(text: str) -> None:
    """People give any file."""
    _refused_or_read(text)


@given(st.data())
def test_a_damaged_output_is_read_or_refused(data: st.DataObject) -> None:
    """A download that was cut, an editor that slipped."""
    text = f"{INTERVAL}\n{SUMMARY}\n{ROWS}"
    begin, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    _refused_or_read(text[:begin] + data.draw(st.sampled_from(["", "x", ",", "-", "\n"])) + text[end:])


def _refused_or_read(text: str) -> None:
    try:
        runs = read(text)
    except UsageError as error:
        assert str(error)
    else:
        assert runs
        for run in runs:
            assert run.metrics
            assert all(math.isfinite(value) and value >= 0 for value in run.metrics.values())

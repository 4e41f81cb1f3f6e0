"""The output of Kafka's own tools."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports.interchange.importing import read_output
from pytest_kafkaperf.reports.interchange.runs import ToolRun
from tests.support.tool_outputs import HEADER, INTERVAL, ROW, SAMPLES, SUMMARY

PRODUCER, CONSUMER = "kafka-producer-perf-test", "kafka-consumer-perf-test"
MIB = 1024 * 1024


def produced(line: int, rate: float, mb: float, *seconds: float, notes: tuple[str, ...] = ()) -> ToolRun:
    """Mean, max, then the four percentiles, in seconds."""
    mean, longest, *percentiles = seconds
    metrics = {"produce.throughput": rate, "produce.bandwidth": mb * MIB, "produce.latency.mean": mean}
    metrics |= {
        f"produce.latency.{part}": value
        for part, value in zip(("p50", "p95", "p99", "p99.9"), percentiles, strict=True)
        if value
    }
    return ToolRun(tool=PRODUCER, line=line, metrics={**metrics, "produce.latency.max": longest}, notes=notes)


def consumed(line: int, rate: float, mb: float, *notes: str) -> ToolRun:
    metrics = {"consume.throughput": rate, "consume.bandwidth": mb * MIB}
    return ToolRun(tool=CONSUMER, line=line, metrics=metrics, notes=notes)


def whole(figures: str) -> str:
    return f"known only in whole milliseconds, so ratios are inexact: {figures}"


OF_16_KIB = (37696.729809, 36.81, 0.79654, 3.838, 0.322, 2.282, 2.745, 3.593)
OF_16_KIB_3_REPLICAS = (15245.877896, 14.89, 1.96388, 7.471, 0.306, 5.854, 6.682, 7.439)
JOINING = "nMsg.sec and MB.sec, which include the time to join the group: the output has no other figures"
WAITED = "the tool waited {} ms for records that never came, which lowers its figures"


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
def test_every_sample_gives_the_figures_that_stand_in_it(file: str, runs: list[ToolRun]) -> None:
    """What was printed is what is imported, to the last digit."""
    assert list(read_output((SAMPLES / file).read_text())) == runs


def test_no_sample_is_left_out() -> None:
    """A sample that nobody reads proves nothing."""
    assert len(list(SAMPLES.iterdir())) == 10


# The producer


@pytest.mark.parametrize(
    ("lines", "rates"),
    [
        ([SUMMARY, SUMMARY.replace("99810.4", "5.0")], [99810.4, 5.0]),
        ([SUMMARY, SUMMARY.replace("records sent", "steady state records sent").replace("99810.4", "5.0")], [5.0]),
        (
            [SUMMARY.replace("records sent", "steady state records sent").replace("99810.4", rate) for rate in "23"],
            [2.0, 3.0],
        ),
        ([f"kafka-1  | {SUMMARY}", "", "\tat java.base/java.lang.Thread.run"], [99810.4]),
    ],
)
def test_each_final_row_is_a_run_and_the_steady_state_replaces_that_of_all(
    lines: list[str], rates: list[float]
) -> None:
    """Scripts collect several runs in one file, or keep only what `grep` finds."""
    assert [run.metrics["produce.throughput"] for run in read_output("\r\n".join(lines))] == rates


@pytest.mark.parametrize(
    ("given", "rate"), [("99810,400000", 99810.4), ("99810,4", 99810.4), ("99810", 99810.0), ("+1.5", 1.5)]
)
def test_a_comma_before_the_decimals_is_understood(given: str, rate: float) -> None:
    """Java prints numbers as the locale has them, and the row separates by a comma and a blank."""
    text = SUMMARY.replace("99810.4", given).replace("9.52", "9,52").replace("0.94", "0,94").replace("275.00", "275,00")
    (run,) = read_output(text)
    figures = [run.metrics[f"produce.{name}"] for name in ("throughput", "bandwidth", "latency.mean", "latency.max")]
    assert figures == [rate, 9.52 * MIB, 0.00094, 0.275]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "99,810",
            "line 2: records/sec is '99,810', in which the comma may separate decimals or thousands; run the tool "
            "with LC_ALL=C, or write the number with a decimal point",
        ),
        (
            "99,810.4",
            "line 2: records/sec is '99,810.4', which is not a number such as 1234.5; run the tool with LC_ALL=C",
        ),
        ("NaN", "line 2: records/sec is 'NaN', so nothing was measured; remove this run"),
        ("Infinity", "line 2: records/sec is 'Infinity', so nothing was measured; remove this run"),
        (
            "1" * 5000,
            f"line 2: records/sec is '{'1' * 60}...', which is not a number such as 1234.5; run the tool with LC_ALL=C",
        ),
        ("-5.0", "line 2: records/sec is '-5.0', but must not be negative; remove this run"),
        (
            "fast",
            "line 2: cannot read this row of kafka-producer-perf-test: "
            "'1000000 records sent, fast records/sec (9.52 MB/sec), 0.94 m...'; import the output exactly as the tool "
            "printed it",
        ),
    ],
)
def test_a_figure_that_cannot_be_is_named(given: str, problem: str) -> None:
    """A factor of 1000, or a NaN that compares as false, would be a baseline that nothing fails."""
    with pytest.raises(UsageError) as caught:
        read_output(f"{INTERVAL}\n{SUMMARY.replace('99810.4', given)}\n")
    assert str(caught.value) == problem


def test_failed_sends_are_told() -> None:
    """The tool prints them, does not count them and exits with 0."""
    failure = "org.apache.kafka.common.errors.TimeoutException: Expiring 6 record(s) for s-0:1000 ms has passed"
    first, second = read_output(f"{failure}\n{failure}\n{SUMMARY}\n{SUMMARY}")
    assert (first.notes, second.notes) == (("2 failed sends in the output, which the tool does not count",), ())


def test_a_run_that_was_broken_off_is_no_run_and_never_silent() -> None:
    """The last interval is not the average of a run."""
    with pytest.raises(UsageError) as caught:
        read_output(f"{INTERVAL}\n{INTERVAL}\n^C\n")
    assert str(caught.value) == (
        "line 2: a run of kafka-producer-perf-test is incomplete: 2 interval rows and no final row; run the tool to "
        "its end"
    )
    (run,) = read_output(f"{SUMMARY}\n{INTERVAL}\n")
    assert run.notes == (
        "omitted: line 2: a run of kafka-producer-perf-test is incomplete: 1 interval row and no final row",
    )


# The consumer


def test_the_consumers_own_rate_contains_the_time_of_joining_and_ours_does_not() -> None:
    """Our window opens when the group is stable: `fetch.nMsg.sec` is the figure to compare with."""
    (run,) = read_output(f"{HEADER}\n{ROW}")
    assert run == consumed(2, 2073431.2370, 197.7378)


def test_several_rows_are_several_runs() -> None:
    """`--hide-header` after the first."""
    assert len(read_output(f"{HEADER}\n{ROW}\n{ROW}\n{HEADER}\n{ROW}")) == 3


def test_the_order_of_the_columns_is_the_headers() -> None:
    """A spreadsheet makes its own."""
    names = ["nMsg.sec", "start.time", "MB.sec", "data.consumed.in.nMsg", "data.consumed.in.MB"]
    cells = ["5.0", "2026-11-21 05:15:45:015", "7.0", "10", "14.0"]
    text = f"{','.join(names)}\n{','.join(cells)}"
    assert read_output(text) == (consumed(2, 5.0, 7.0, JOINING),)


def test_a_comma_without_a_blank_stands_before_decimals() -> None:
    """In most of Europe the tool prints ten figures with six commas more."""
    text = ROW.replace(".", ",")
    assert read_output(f"{HEADER}\n{text}") == read_output(f"{HEADER}\n{ROW}")


def test_a_negative_fetch_time_is_a_defect_of_some_versions() -> None:
    """They print the time of day as time of joining; the other figures are right."""
    cells = ROW.split(", ")
    broken = ", ".join([*cells[:6], "1593109326262", "-1593109324152", "-0.0000", "-0.0021"])
    assert read_output(f"{HEADER}\n{broken}") == (
        consumed(
            *(2, 1421921.8009, 135.6050),
            "nMsg.sec and MB.sec, which include the time to join the group: fetch.time.ms is -1593109324152, a bug of "
            "that version",
        ),
    )


def test_columns_that_are_gone_are_not_asked_for() -> None:
    """A spreadsheet was cut down to what its reader wanted."""
    names = ["nMsg.sec", "MB.sec", "data.consumed.in.nMsg", "data.consumed.in.MB", "fetch.nMsg.sec"]
    assert read_output(f"{','.join(names)}\n5.0,7.0,10,14.0,6.0") == (consumed(2, 5.0, 7.0, JOINING),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            HEADER,
            "line 1: a run of kafka-consumer-perf-test is incomplete: a header and no row; run the tool to its end",
        ),
        (
            f"{HEADER}\n{ROW[:60]}",
            "line 2: this row has 4 cells but its header has 10, because the output is cut off or has decimal commas; "
            "run the tool again with LC_ALL=C and let it finish",
        ),
        (
            f"{HEADER}\n{ROW.replace('2073431.2370', 'NaN')}",
            "line 2: fetch.nMsg.sec is 'NaN', so nothing was measured; remove this run",
        ),
        (
            f"{HEADER.replace('start.time, end.time', 'time, threadId')}\n"
            "2026-11-21 05:15:48:160, 0, 12.1751, 24.3502, 127665, 255330.0000, 281, 219, 55.5940, 582945.2055",
            "line 2: this row of --show-detailed-stats describes only an interval; run the tool without that option",
        ),
    ],
)
def test_a_consumers_output_that_cannot_be_is_refused(text: str, problem: str) -> None:
    """Each with its line and what to do."""
    with pytest.raises(UsageError) as caught:
        read_output(text)
    assert str(caught.value) == problem


# Anything else


@pytest.mark.timeout(20)
def test_a_line_without_an_end_takes_no_longer_than_its_length() -> None:
    """It may be a binary that happens to be text; each place in it is looked at once."""
    with pytest.raises(UsageError):
        read_output(f"Exception {'a.' * 500_000}")


def test_tools_that_print_into_one_file_are_told_apart() -> None:
    """A script runs one after the other."""
    runs = read_output(f"{SUMMARY}\n{HEADER}\n{ROW}\n{SUMMARY}")
    assert [(run.tool, run.line) for run in runs] == [(PRODUCER, 1), (CONSUMER, 3), (PRODUCER, 4)]


@pytest.mark.parametrize("line", ["<!DOCTYPE html>", "a,b,c", "records", "x" * 5000])
def test_any_other_text_is_refused_with_its_first_line(line: str) -> None:
    """The wrong file, or a page of an error instead of the artefact."""
    with pytest.raises(UsageError) as caught:
        read_output(f"\n  {line}\n1, 2, 3\n")
    shown = line if len(line) < 60 else f"{line[:60]}..."
    assert str(caught.value) == (
        f"this is not output of kafka-producer-perf-test or kafka-consumer-perf-test; its first line is '{shown}'"
    )


@given(st.text(alphabet=st.sampled_from("0123456789.,- \n\tNaNrecods entmsMB/()th=:" + "é٣"), max_size=200))
def test_whatever_the_text_is_there_are_runs_or_one_error(text: str) -> None:
    """People give any file."""
    _refused_or_read(text)


@given(st.data())
def test_a_damaged_output_is_read_or_refused(data: st.DataObject) -> None:
    """A download that was cut, an editor that slipped."""
    text = f"{INTERVAL}\n{SUMMARY}\n{HEADER}\n{ROW}"
    begin, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    _refused_or_read(text[:begin] + data.draw(st.sampled_from(["", "x", ",", "-", "\n"])) + text[end:])


def _refused_or_read(text: str) -> None:
    try:
        runs = read_output(text)
    except UsageError as error:
        assert str(error)
    else:
        assert runs
        for run in runs:
            assert run.metrics
            assert all(math.isfinite(value) and value >= 0 for value in run.metrics.values())

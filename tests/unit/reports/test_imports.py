"""Files of other tools' output made into rounds."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports.interchange.importing import Source, notes_on, origin, read_source, rounds_of
from pytest_kafkaperf.verdict.baselines.record import Imported
from tests.support.tool_outputs import HEADER, ROW, SUMMARY

PRODUCED = {
    "produce.throughput": 99810.4,
    "produce.bandwidth": 9982443.52,
    "produce.latency.mean": 0.00094,
    "produce.latency.p50": 0.021,
    "produce.latency.p95": 0.03,
    "produce.latency.p99": 0.08,
    "produce.latency.p99.9": 0.16,
    "produce.latency.max": 0.275,
}
CONSUMED = {"consume.throughput": 2073431.237, "consume.bandwidth": 207343111.3728}
ROWS = f"{HEADER}\n{ROW}"


def source(*texts: str, name: str = "run.txt") -> Source:
    return read_source("\n".join(texts).encode(), name=name)


def test_runs_of_one_tool_are_rounds_in_their_order() -> None:
    """Over all files, as they are given."""
    files = [source(SUMMARY, SUMMARY), source(SUMMARY.replace("99810.4", "7.0"))]
    assert rounds_of(files) == (PRODUCED, PRODUCED, {**PRODUCED, "produce.throughput": 7.0})


def test_runs_of_several_tools_stand_side_by_side() -> None:
    """A round that lacks a metric decides nothing about it: the first of each are the first round."""
    files = [source(ROWS, ROW, name="consumer.txt"), source(SUMMARY, SUMMARY, name="producer.txt")]
    rounds = rounds_of(files)
    assert rounds == ({**PRODUCED, **CONSUMED},) * 2
    assert list(rounds[0]) == [*PRODUCED, *CONSUMED]
    assert origin(files) == Imported(
        tool="kafka-consumer-perf-test and kafka-producer-perf-test", files=("consumer.txt", "producer.txt")
    )


def test_tools_with_different_numbers_of_runs_make_no_rounds() -> None:
    """Which belongs to which nobody can tell."""
    with pytest.raises(UsageError) as caught:
        rounds_of([source(SUMMARY, SUMMARY), source(ROWS)])
    assert str(caught.value) == (
        "2 runs of kafka-producer-perf-test and 1 run of kafka-consumer-perf-test cannot be combined into rounds; "
        "give as many runs of each tool, or import one tool alone"
    )


def test_what_is_to_know_is_told_once_with_its_lines() -> None:
    """Twenty runs with a p50 of 0 ms are one note."""
    zero = SUMMARY.replace("21 ms 50th", "0 ms 50th")
    files = [source(zero, zero)]
    assert notes_on(files, rounds_of(files)) == [
        "run.txt: omitted, because 0 means too small to print: produce.latency.p50 (lines 1, 2)"
    ]


def test_runs_that_lie_far_apart_may_be_of_several_workloads() -> None:
    """A matrix of settings in one file has a median that means nothing."""
    files = [source(SUMMARY, SUMMARY.replace("99810.4", "9981.04"))]
    assert notes_on(files, rounds_of(files)) == [
        "produce.throughput differs by a factor of 10.0 between rounds; if the runs are of different workloads, "
        "import those of only one"
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_a_shell_has_written_is_read(encoding: str) -> None:
    """Windows PowerShell redirects into UTF-16."""
    (run,) = read_source(SUMMARY.encode(encoding), name="run.txt").runs
    assert run.metrics == PRODUCED


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "run.txt: the file is empty; run the tool to its end and save its output"),
        (b" \n\n", "run.txt: the file is empty; run the tool to its end and save its output"),
        (b"\x7fELF\x00\x01", "run.txt: the file is binary or not UTF-8; give the text that the tool printed, in UTF-8"),
        (b"caf\xe9", "run.txt: the file is binary or not UTF-8; give the text that the tool printed, in UTF-8"),
        (b"\xff\xfea", "run.txt: the file is binary or not UTF-8; give the text that the tool printed, in UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(content: bytes, problem: str) -> None:
    """Each with the file's name."""
    with pytest.raises(UsageError) as caught:
        read_source(content, name="run.txt")
    assert str(caught.value) == problem

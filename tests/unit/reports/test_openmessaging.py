"""Results of OpenMessaging Benchmark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports.interchange.openmessaging import TOOL, read_result
from pytest_kafkaperf.reports.interchange.runs import ToolRun

FROM_THE_SEND = "publish latency starts at the send; with a rate, produce.latency starts when a record is due"
RESULT: dict[str, Any] = {
    "workload": "1 topic / 1 partition / 1Kb",
    "driver": "Kafka",
    "messageSize": 1024,
    "topics": 1,
    "publishRate": [50_000.0, 49_000.0, 51_000.0],
    "publishErrorRate": [0.0, 0.0, 0.0],
    "consumeRate": [50_000.0, 48_000.0, 52_000.0],
    "backlog": [0, 329, 0],
    "publishLatencyAvg": [17.3, 14.8, 11.4],
    "aggregatedPublishLatencyAvg": 19.625,
    "aggregatedPublishLatency50pct": 12.15,
    "aggregatedPublishLatency75pct": 21.327,
    "aggregatedPublishLatency95pct": 48.698,
    "aggregatedPublishLatency99pct": 106.617,
    "aggregatedPublishLatency999pct": 539.399,
    "aggregatedPublishLatency9999pct": 654.731,
    "aggregatedPublishLatencyMax": 846.899,
    "aggregatedPublishDelayLatencyAvg": 222.5,
    "aggregatedPublishDelayLatency50pct": 43,
    "aggregatedPublishDelayLatency99pct": 3366,
    "aggregatedPublishLatencyQuantiles": {"50.0": 12.15},
    "aggregatedEndToEndLatencyAvg": 21.5,
    "aggregatedEndToEndLatency50pct": 14.0,
    "aggregatedEndToEndLatency99pct": 110.0,
    "aggregatedEndToEndLatencyMax": 850.0,
}


def test_a_result_gives_its_aggregates_in_base_units() -> None:
    """Latencies there are milliseconds, delays microseconds; what it does not tell, such as p90, is not made up."""
    assert read_result(json.dumps(RESULT)) == ToolRun(
        tool="OpenMessaging Benchmark",
        line=1,
        metrics={
            "produce.throughput": 50_000.0,
            "produce.bandwidth": 51_200_000.0,
            "consume.throughput": 50_000.0,
            "consume.bandwidth": 51_200_000.0,
            "produce.latency.mean": 0.019625,
            "produce.latency.p50": 0.01215,
            "produce.latency.p95": 0.048698,
            "produce.latency.p99": 0.106617,
            "produce.latency.p99.9": 0.539399,
            "produce.latency.max": 0.846899,
            "produce.delay.mean": 0.0002225,
            "produce.delay.p50": 0.000043,
            "produce.delay.p99": 0.003366,
            "e2e.latency.mean": 0.0215,
            "e2e.latency.p50": 0.014,
            "e2e.latency.p99": 0.11,
            "e2e.latency.max": 0.85,
        },
        notes=(FROM_THE_SEND,),
    )


def test_what_went_wrong_in_it_is_told() -> None:
    """A producer that died halfway leaves intervals of nothing, and they are in the mean."""
    run = read_result(json.dumps({"publishRate": [100.0, 0.0], "publishErrorRate": [0, 0.5]}))
    assert run.metrics == {"produce.throughput": 50.0}
    assert run.notes == (
        FROM_THE_SEND,
        "1 of 2 intervals sent nothing; they count",
        "some sends failed (publishErrorRate)",
        "no messageSize, so no bandwidth",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{",
            "this starts like JSON but is not valid: Expecting property name enclosed in double quotes: line 1 column "
            "2 "
            "(char 1); give a result of OpenMessaging Benchmark",
        ),
        (
            '{"a": 1}',
            "this JSON is not a result of OpenMessaging Benchmark: publishRate={'a': 1}: field required; give the "
            "file that the benchmark wrote, unchanged",
        ),
        (
            '{"schema": 1, "tests": []}',
            "this JSON is not a result of OpenMessaging Benchmark: publishRate={'schema': 1, 'tests': []}: field "
            "required; to compare JSON reports (--kafka-report=json), use kafkaperf compare",
        ),
        (
            '{"sessions": []}',
            "this JSON is not a result of OpenMessaging Benchmark: publishRate={'sessions': []}: field required; "
            "to show a baseline, use kafkaperf show",
        ),
        (
            '{"publishRate": []}',
            "this JSON is not a result of OpenMessaging Benchmark: publishRate=[]: at least one interval is needed; "
            "give the file that the benchmark wrote, unchanged",
        ),
        (
            '{"publishRate": [NaN]}',
            "this JSON is not a result of OpenMessaging Benchmark: publishRate.0=nan: must be a finite "
            "number; give the file that the benchmark wrote, unchanged",
        ),
        (
            '{"publishRate": [0.0]}',
            "all figures of this result of OpenMessaging Benchmark are 0, so nothing was measured; run the benchmark "
            "again",
        ),
    ],
)
def test_what_is_no_result_is_refused(text: str, problem: str) -> None:
    """JSON is what many programs write, ours among them."""
    with pytest.raises(UsageError) as caught:
        read_result(text)
    assert str(caught.value) == problem


def test_json_that_is_hard_to_read_is_refused_too() -> None:
    """Nesting beyond Python's bounds raises an error of its own."""
    with pytest.raises(UsageError, match=f"is not valid: .*; give a result of {TOOL}"):
        read_result('{"a":' * 100_000)

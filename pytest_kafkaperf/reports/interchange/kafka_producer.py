"""The output of `kafka-producer-perf-test`.

Source: `ProducerPerformance`, Kafka 1.x to 4.3. Its throughput is the number of acknowledged records divided by the
time from before the first `send()` to after the last acknowledgement. Its latency is the time from `send()` to the
acknowledgement. Both agree with the plugin's metrics in a closed loop. With `--throughput`, the tool's latency still
starts at the send, but the plugin's when a record is due. The tool's bandwidth counts only values, the plugin's also
keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.interchange.runs import (
    MAX_SHOWN,
    MB,
    NUMBER,
    ToolRun,
    Unfinished,
    coarse,
    number,
    without_zeros,
)

TOOL = "kafka-producer-perf-test"
_PERCENTILES = {"p50": "50th", "p95": "95th", "p99": "99th", "p99.9": "99.9th"}
_FIGURES = ("records/sec", "MB/sec", "avg latency", "max latency", *_PERCENTILES.values())
_HEAD = (
    rf"(?<!\S)(?P<records>\d+)(?P<steady> steady state)? records sent, ({NUMBER}) records?/sec \(({NUMBER}) MB/sec\), "
    rf"({NUMBER}) ms avg latency, ({NUMBER})"
)
_SUMMARY = re.compile(
    _HEAD + " ms max latency, " + ", ".join(rf"({NUMBER}) ms {re.escape(name)}" for name in _PERCENTILES.values()),
    re.ASCII,
)
_INTERVAL = re.compile(_HEAD + r"(?: ms)? max latency\.", re.ASCII)
"""An interval row; old versions print the maximum without its unit."""
_SENT = "records sent,"
_FAILED = re.compile(r"(?<![\w.])(?:[a-z]\w*\.)+[A-Z]\w*Exception\b", re.ASCII)
"""First line of a stack trace. The tool prints failed sends, but does not count them and exits with status 0.

The lookbehind makes a match start only at the beginning of a dotted name; otherwise, the time for a long name would
grow with the square of its length.
"""


def read(lines: Sequence[str]) -> Iterator[ToolRun | Unfinished]:
    """Yield the runs. With `--warmup-records`, the summary of the steady state replaces that of the whole run.

    Raises:
        UsageError: A row or a number of the tool's output cannot be read.

    """
    run: ToolRun | None = None
    steady = False
    intervals, failures, failures_of_run = 0, 0, 0
    for place, text in enumerate(lines, 1):
        failures += "Exception" in text and bool(_FAILED.search(text))
        if _SENT not in text:
            continue
        if found := _SUMMARY.search(text):
            replaces = found["steady"] and not steady and not intervals
            if run is not None and not replaces:
                yield run
            if run is None or not replaces:
                failures_of_run, failures = failures, 0
            run, steady, intervals = _run(found, place, failures_of_run), bool(found["steady"]), 0
        elif _INTERVAL.search(text):
            intervals += 1
            last = place
        else:
            raise UsageError(
                f"line {place}: cannot read this row of {TOOL}: {shortened(text.strip(), MAX_SHOWN)!r}; import the "
                "output exactly as the tool printed it"
            )
    if run is not None:
        yield run
    if intervals:
        yield Unfinished(tool=TOOL, line=last, what=f"{counted(intervals, 'interval row')} and no final row")


def _run(found: re.Match[str], line: int, failures: int) -> ToolRun:
    _, _, *texts = found.groups()
    rate, mb, *times = (number(text, line=line, name=name) for text, name in zip(texts, _FIGURES, strict=True))
    mean, longest, *percentiles = (Fraction(time, 1000) for time in times)
    whole = {f"produce.latency.{part}": value for part, value in zip(_PERCENTILES, percentiles, strict=True)}
    metrics, notes = without_zeros(
        {
            "produce.throughput": rate,
            "produce.bandwidth": mb * MB,
            "produce.latency.mean": mean,
            **whole,
            "produce.latency.max": longest,
        }
    )
    failed = (f"{counted(failures, 'failed send')} in the output, which the tool does not count",) if failures else ()
    return ToolRun(tool=TOOL, line=line, metrics=metrics, notes=(*notes, *coarse(whole), *failed))

"""`kafka-e2e-latency`; older versions run it by `kafka-run-class`.

Source: `EndToEndLatency`. One record is on its way at a time: it is sent, acknowledged and polled for, and its latency
runs from before `send()` until the consumer has it. The mean is exact, percentiles are whole milliseconds, cut off.
Ours runs from when a record was due; compare it at a low rate, with one producer and one consumer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from pytest_kafkaperf.kafka_tools.runs import NUMBER, Run, Unfinished, coarse, number, without_zeros
from pytest_kafkaperf.units import counted

TOOL = "kafka-e2e-latency"
_MEAN = re.compile(rf"(?<!\S)Avg latency: ({NUMBER}) ms", re.ASCII)
_PERCENTILES = re.compile(rf"(?<!\S)Percentiles: 50th = ({NUMBER}), 99th = ({NUMBER}), 99\.9th = ({NUMBER})", re.ASCII)
_PROGRESS = re.compile(rf"\d+\t(?:{NUMBER})\s*", re.ASCII)


def read(lines: Sequence[str]) -> Iterator[Run | Unfinished]:
    """Its runs: the line of the mean and that of the percentiles, whatever stands between them.

    Raises:
        UsageError: a figure that cannot be.

    """
    mean: Fraction | None = None
    rows, last = 0, 0
    for place, text in enumerate(lines, 1):
        if _PROGRESS.fullmatch(text):
            rows, last = rows + 1, place
        elif found := _MEAN.search(text):
            mean, last = Fraction(number(found[1], line=place, name="Avg latency"), 1000), place
        elif (found := _PERCENTILES.search(text)) and mean is not None:
            yield _run(mean, found, place)
            mean, rows = None, 0
    if rows or mean is not None:
        what = "no percentiles" if mean is not None else f"{counted(rows, 'row')} and no average"
        yield Unfinished(tool=TOOL, line=last, what=what)


def _run(mean: Fraction, found: re.Match[str], line: int) -> Run:
    named = zip(("p50", "p99", "p99.9"), ("50th", "99th", "99.9th"), found.groups(), strict=True)
    percentiles = {
        f"e2e.latency.{part}": Fraction(number(text, line=line, name=name), 1000) for part, name, text in named
    }
    metrics, notes = without_zeros({"e2e.latency.mean": mean, **percentiles})
    return Run(tool=TOOL, line=line, metrics=metrics, notes=(*notes, *coarse(percentiles)))

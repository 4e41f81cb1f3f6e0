"""The output of Kafka's consumer tools, and of `kafka-e2e-latency`.

Sources: `ConsumerPerformance` (`kafka-consumer-perf-test`), `ShareConsumerPerformance`. The plugin measures
`consume.throughput` from the start of the window, when the consumers have joined their group, to the last record. The
tool prints two figures: `nMsg.sec` includes the time to join the group (`rebalance.time.ms`), `fetch.nMsg.sec` does
not. So `fetch.nMsg.sec` and `fetch.MB.sec` are imported if the output has them.

The tool reads records that are already in the log; compare it with `consume="backlog"`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.interchange.runs import MB, NUMBER, ToolRun, Unfinished, coarse, number, without_zeros

TOOL = "kafka-consumer-perf-test"

SHARE_TOOL = "kafka-share-consumer-perf-test"

_NEEDED = {"MB.sec", "nMsg.sec", "data.consumed.in.MB", "data.consumed.in.nMsg"}

_FETCHED = {"fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec"}

_TIMEOUT = re.compile(r"timeout \((\d{1,12}) ms\) exceeded", re.ASCII)

_DATE = re.compile(r"\d{4}-\d\d-\d\d\b", re.ASCII)

_SINGLE_CONSUMER = "for share consumer"
"""Text in rows of one share consumer, whose records the row of the whole group contains."""


def read(lines: Sequence[str]) -> Iterator[ToolRun | Unfinished]:
    """Yield the runs, one for each row.

    Raises:
        UsageError: A row does not match its header or describes only an interval, or a number cannot be read.

    """
    names: tuple[str, ...] = ()
    header, rows = 0, 0
    timeout_ms: int | None = None
    for place, text in enumerate([*lines, ",".join(_NEEDED)], 1):  # the last line ends the last table
        found = tuple(name.strip() for name in text.split(","))
        if _NEEDED.issubset(found):
            if names and not rows:
                yield Unfinished(tool=_tool(names), line=header, what="a header and no row")
            names, header, rows, timeout_ms = found, place, 0, None
        elif waited := _TIMEOUT.search(text):
            timeout_ms = int(waited[1])
        elif names and (cells := _cells(text, names, place)):
            yield _run(cells, place, timeout_ms)
            rows, timeout_ms = rows + 1, None


def _cells(text: str, names: Sequence[str], line: int) -> dict[str, str] | None:
    """Return the cells of a row; None if the line is not a row.

    Cells are separated by commas followed by spaces, because a comma alone may separate decimals; if their number
    differs from that of the header, by any commas.
    """
    text = text.strip()
    if not text[:1].isdigit() or _SINGLE_CONSUMER in text:
        return None
    split = next((cells for cells in (re.split(r",\s+", text), text.split(",")) if len(cells) == len(names)), None)
    if split is not None:
        return {name: cell.strip() for name, cell in zip(names, split, strict=True)}
    if _DATE.match(text):
        raise UsageError(
            f"line {line}: this row has {len(text.split(','))} cells but its header has {len(names)}, because the "
            "output is cut off or has decimal commas; run the tool again with LC_ALL=C and let it finish"
        )
    return None


def _tool(names: Collection[str]) -> str:
    """Return the tool of a header; only that of the share consumer has no column for the time to join a group."""
    return SHARE_TOOL if "fetch.time.ms" in names and "rebalance.time.ms" not in names else TOOL


def _run(cells: Mapping[str, str], line: int, timeout_ms: int | None) -> ToolRun:
    if "threadId" in cells:
        raise UsageError(
            f"line {line}: this row of --show-detailed-stats describes only an interval; run the tool without that "
            "option"
        )
    notes, prefix, time = [], "fetch.", cells.get("fetch.time.ms", "")
    if not _FETCHED.issubset(cells) or time.startswith("-"):  # old versions count joining from 1970
        prefix = ""
        why = (
            f"fetch.time.ms is {time}, a bug of that version" if time[:1] == "-" else "the output has no other figures"
        )
        notes.append(f"nMsg.sec and MB.sec, which include the time to join the group: {why}")
    if timeout_ms is not None:
        notes.append(f"the tool waited {timeout_ms} ms for records that never came, which lowers its figures")
    records, rate, mb_rate = (
        number(cells[name], line=line, name=name)
        for name in ("data.consumed.in.nMsg", f"{prefix}nMsg.sec", f"{prefix}MB.sec")
    )
    figures = {"consume.throughput": rate, "consume.bandwidth": mb_rate * MB}
    metrics, zeros = without_zeros(figures)
    if not records:  # then a figure of 0 is exact
        metrics = {name: float(value) for name, value in figures.items()}
        zeros = ("the tool read no records, so no ratio to its figures exists",)
    return ToolRun(tool=_tool(cells), line=line, metrics=metrics, notes=(*notes, *zeros))


LATENCY_TOOL = "kafka-e2e-latency"

_LATENCY_MEAN = re.compile(rf"(?<!\S)Avg latency: ({NUMBER}) ms", re.ASCII)

_LATENCY_PERCENTILES = re.compile(
    rf"(?<!\S)Percentiles: 50th = ({NUMBER}), 99th = ({NUMBER}), 99\.9th = ({NUMBER})", re.ASCII
)

_LATENCY_PROGRESS = re.compile(rf"\d+\t(?:{NUMBER})\s*", re.ASCII)


def read_latency(lines: Sequence[str]) -> Iterator[ToolRun | Unfinished]:
    """Yield the runs of `kafka-e2e-latency`: a line with the mean and a later one with the percentiles.

    Raises:
        UsageError: A number cannot be read.

    """
    mean: Fraction | None = None
    rows, last = 0, 0
    for place, text in enumerate(lines, 1):
        if _LATENCY_PROGRESS.fullmatch(text):
            rows, last = rows + 1, place
        elif found := _LATENCY_MEAN.search(text):
            mean, last = Fraction(number(found[1], line=place, name="Avg latency"), 1000), place
        elif (found := _LATENCY_PERCENTILES.search(text)) and mean is not None:
            yield _latency_run(mean, found, place)
            mean, rows = None, 0
    if rows or mean is not None:
        what = "no percentiles" if mean is not None else f"{counted(rows, 'row')} and no average"
        yield Unfinished(tool=LATENCY_TOOL, line=last, what=what)


def _latency_run(mean: Fraction, found: re.Match[str], line: int) -> ToolRun:
    named = zip(("p50", "p99", "p99.9"), ("50th", "99th", "99.9th"), found.groups(), strict=True)
    percentiles = {
        f"e2e.latency.{part}": Fraction(number(text, line=line, name=name), 1000) for part, name, text in named
    }
    metrics, notes = without_zeros({"e2e.latency.mean": mean, **percentiles})
    return ToolRun(tool=LATENCY_TOOL, line=line, metrics=metrics, notes=(*notes, *coarse(percentiles)))

"""The output of `kafka-consumer-perf-test`.

Source: `ConsumerPerformance`. The plugin measures
`consume.throughput` from the start of the window, when the consumers have joined their group, to the last record. The
tool prints two figures: `nMsg.sec` includes the time to join the group (`rebalance.time.ms`), `fetch.nMsg.sec` does
not. So `fetch.nMsg.sec` and `fetch.MB.sec` are imported if the output has them.

The tool reads records that are already in the log; compare it with `consume="backlog"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.reports.interchange.runs import MB, ToolRun, Unfinished, number, without_zeros

TOOL = "kafka-consumer-perf-test"

_NEEDED = {"MB.sec", "nMsg.sec", "data.consumed.in.MB", "data.consumed.in.nMsg"}

_FETCHED = {"fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec"}

_TIMEOUT = re.compile(r"timeout \((\d{1,12}) ms\) exceeded", re.ASCII)

_DATE = re.compile(r"\d{4}-\d\d-\d\d\b", re.ASCII)


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
                yield Unfinished(tool=TOOL, line=header, what="a header and no row")
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
    if not text[:1].isdigit():
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
    return ToolRun(tool=TOOL, line=line, metrics=metrics, notes=(*notes, *zeros))

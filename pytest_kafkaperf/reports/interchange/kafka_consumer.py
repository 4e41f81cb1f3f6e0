"""The output of Kafka's consumer tools, and of `kafka-e2e-latency`.

Sources: `ConsumerPerformance` (`kafka-consumer-perf-test`), `ShareConsumerPerformance`. The plugin measures
`consume.throughput` from the start of the window, when the consumers have joined their group, to the last record. The
tool prints two figures: `nMsg.sec` includes the time to join the group (`rebalance.time.ms`), `fetch.nMsg.sec` does
not. So `fetch.nMsg.sec` and `fetch.MB.sec` are imported if the output has them.

The tool reads records that are already in the log; compare it with `consume="backlog"`.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.interchange.kafka_producer import records_sent
from pytest_kafkaperf.reports.interchange.runs import MB, NUMBER, ToolRun, Unfinished, coarse, number, without_zeros
from pytest_kafkaperf.scenarios.scenario import Scenario

TOOL = "kafka-consumer-perf-test"

SHARE_TOOL = "kafka-share-consumer-perf-test"

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)

_NEEDED = {"MB.sec", "nMsg.sec", "data.consumed.in.MB", "data.consumed.in.nMsg"}

_FETCHED = {"fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec"}

_TOTALS = ("data.consumed.in.nMsg", "data.consumed.in.MB")

_TIMEOUT = re.compile(r"timeout \((\d{1,12}) ms\) exceeded", re.ASCII)

_DATE = re.compile(r"\d{4}-\d\d-\d\d\b", re.ASCII)

_SINGLE_CONSUMER = "for share consumer"
"""Text in rows of one share consumer, whose records the row of the whole group contains."""

_JOINING = "nMsg.sec and MB.sec, which include the time to join the group"

_NO_OTHER = "the output has no other figures"

_WAITED = "the tool waited {} ms for records that never came, which lowers its figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row, with its cells by the header's names."""

    line: int
    cells: Mapping[str, str]
    timeout_ms: int | None
    """Timeout that the tool reported before this row."""

    def figure(self, name: str) -> Fraction:
        return number(self.cells[name], line=self.line, name=name)


@dataclass(slots=True, kw_only=True)
class _Table:
    """A header and its rows."""

    names: tuple[str, ...]
    line: int
    rows: list[_Row] = field(default_factory=list)
    timeout_ms: int | None = None
    """Reported timeout that no row has followed yet."""

    @property
    def tool(self) -> str:
        """The tool that printed the header; only the share consumer has no column for the time to join a group."""
        return SHARE_TOOL if "fetch.time.ms" in self.names and "rebalance.time.ms" not in self.names else TOOL

    def add(self, line: int, text: str) -> None:
        if found := _TIMEOUT.search(text):
            self.timeout_ms = int(found[1])
        elif cells := _cells(text, self.names, line):
            self.rows.append(_Row(line=line, cells=cells, timeout_ms=self.timeout_ms))
            self.timeout_ms = None


def read(lines: Sequence[str]) -> Iterator[ToolRun | Unfinished]:
    """Yield the runs: one for each row, or with `--show-detailed-stats` one for all rows until the totals restart.

    Raises:
        UsageError: A row does not match its header, or a number cannot be read.

    """
    tables: list[_Table] = []
    for place, text in enumerate(lines, 1):
        names = tuple(name.strip() for name in text.split(","))
        if _NEEDED.issubset(names):
            tables.append(_Table(names=names, line=place))
        elif tables:
            tables[-1].add(place, text)
    for table in tables:
        if not table.rows:
            yield Unfinished(tool=table.tool, line=table.line, what="a header and no row")
        elif "threadId" in table.names:
            yield from (_detailed(rows, table) for rows in _split_runs(table.rows))
        else:
            yield from (_single(row, table.tool) for row in table.rows)


def format_row(metrics: Mapping[str, float], scenario: Scenario, *, began: datetime.datetime) -> str | None:
    """Return the row below `HEADER` that the tool would print for a round; None if the round lacks one of its values.

    The time to join the group is 0, because consumers join before the round starts. One row stands for all groups.
    """
    sent, throughput = records_sent(metrics, scenario), metrics.get("consume.throughput")
    if sent is None or not throughput or "consume.bandwidth" not in metrics:
        return None
    received = sent * scenario.consumer_groups
    elapsed_ms = max(1, round(received / throughput * 1000))
    mb_rate = metrics["consume.bandwidth"] / MB
    times = [_time(began), _time(began + datetime.timedelta(milliseconds=elapsed_ms))]
    mb = mb_rate * elapsed_ms / 1000
    cells = [*times, f"{mb:.4f}", f"{mb_rate:.4f}", str(received), f"{throughput:.4f}", "0", str(elapsed_ms)]
    return ", ".join([*cells, f"{mb_rate:.4f}", f"{throughput:.4f}"])


def _time(instant: datetime.datetime) -> str:
    """Format a time like the tool's default, `yyyy-MM-dd HH:mm:ss:SSS`."""
    return f"{instant:%Y-%m-%d %H:%M:%S}:{instant.microsecond // 1000:03}"


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


def _single(row: _Row, tool: str) -> ToolRun:
    """Return the run of a row that describes a whole run."""
    fetched, defect = _FETCHED.issubset(row.cells), _defect([row])
    prefix = "fetch." if fetched and defect is None else ""
    figures = {
        "consume.throughput": row.figure(f"{prefix}nMsg.sec"),
        "consume.bandwidth": row.figure(f"{prefix}MB.sec") * MB,
    }
    notes = []
    if defect is not None or not fetched:
        notes.append(f"{_JOINING}: {defect or _NO_OTHER}")
    if row.timeout_ms is not None:
        notes.append(_WAITED.format(row.timeout_ms))
    metrics, zeros = _record_metrics(row.figure("data.consumed.in.nMsg"), figures)
    return ToolRun(tool=tool, line=row.line, metrics=metrics, notes=(*notes, *zeros))


def _defect(rows: Sequence[_Row]) -> str | None:
    """Return a description of a negative fetch time, which old versions print because they count joining from 1970."""
    times = (row.cells.get("fetch.time.ms", "") for row in rows)
    return next((f"fetch.time.ms is {time}, a bug of that version" for time in times if time.startswith("-")), None)


def _record_metrics(records: Fraction, figures: Mapping[str, Fraction]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the figures and notes on them; if no record was read, a figure of 0 is exact and is kept."""
    if records:
        return without_zeros(figures)
    return {name: float(value) for name, value in figures.items()}, (
        "the tool read no records, so no ratio to its figures exists",
    )


def _split_runs(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Yield the rows of each run; a total that falls starts a new run."""
    run: list[_Row] = []
    for row in rows:
        if run and row.figure("data.consumed.in.nMsg") < run[-1].figure("data.consumed.in.nMsg"):
            yield run
            run = []
        run.append(row)
    yield run


def _detailed(rows: Sequence[_Row], table: _Table) -> ToolRun:
    """Return the run of rows that describe one interval each: the totals of the last row divided by the time of all.

    That time is the sum of `fetch.time.ms`. If the output lacks this column, or a bug of the tool spoils it, the time
    is computed from the other columns.
    """
    last = rows[-1]
    if len({row.cells["threadId"] for row in rows}) > 1:
        raise UsageError(f"line {last.line}: rows of several threads are not supported; run the tool with one thread")
    records, mb = (last.figure(name) for name in _TOTALS)
    defect = _defect(rows)
    if "fetch.time.ms" in table.names and defect is None:
        elapsed_s = sum((row.figure("fetch.time.ms") for row in rows), Fraction()) / 1000
        note = (
            f"totals of the last row divided by the sum of fetch.time.ms, {float(elapsed_s):g} s; later records have "
            "no row"
        )
    else:
        elapsed_s = _interval_s(rows)
        note = f"totals of the last row divided by the time of all rows; {_JOINING}: {defect or _NO_OTHER}"
    if not elapsed_s:
        raise UsageError(
            f"line {last.line}: the rows of the run that ends here cover 0 s, so nothing was measured; remove these "
            "rows from the output"
        )
    metrics, zeros = _record_metrics(
        records, {"consume.throughput": records / elapsed_s, "consume.bandwidth": mb * MB / elapsed_s}
    )
    # The tool reports a timeout after the rows, which include those of the time that it waited.
    waited = last is table.rows[-1] and table.timeout_ms is not None
    notes = (note, *([_WAITED.format(table.timeout_ms)] if waited else ()), *zeros)
    return ToolRun(tool=table.tool, line=last.line, metrics=metrics, notes=notes)


def _interval_s(rows: Sequence[_Row]) -> Fraction:
    """Return the sum of the intervals in seconds.

    The summands are floating-point numbers, because the denominator of an exact sum would grow with every row.
    """
    seconds, before = [], Fraction()
    for row in rows:
        total, rate = row.figure("data.consumed.in.nMsg"), row.figure("nMsg.sec")
        seconds.append(float((total - before) / rate) if rate else 0.0)
        before = total
    return Fraction(math.fsum(seconds))


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

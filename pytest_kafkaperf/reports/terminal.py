"""The summary that the terminal shows at the end of a run: tables of results, and notes."""

from __future__ import annotations

import dataclasses
import datetime
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.core.text import ascii_of, printable
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.failure import wrap_text
from pytest_kafkaperf.reports.interchange import kafka_consumer, kafka_producer
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, latency_curve
from pytest_kafkaperf.reports.table import Row, names_of, remark_of, render_notes, rows_of
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.round import StepOutcome
from pytest_kafkaperf.verdict.outcome import Verdict

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.session import Session


_STYLES = {
    "PASSED": "green",
    "IMPROVED": "bold green",
    "MEASURED": "cyan",
    "REGRESSED": "bold red",
    "VIOLATED": "bold red",
    "INVALID": "bold magenta",
    "INCONCLUSIVE": "yellow",
}

_STEP_STYLES = {
    StepOutcome.HELD: "green",
    StepOutcome.BROKEN: "red",
    StepOutcome.UNREACHED: "yellow",
    StepOutcome.DISTURBED: "yellow",
}

_BAR_WIDTH = 24

_INDENT = "  "


def render_table(
    results: Sequence[Result], endings: Mapping[str, Ending], *, width: int, colour: bool, ascii_only: bool
) -> str:
    """Render one block for each test: its verdict and name, then one row for each threshold.

    Empty columns are left out. If the terminal is too narrow for all columns, `_DROPPED_WHEN_NARROW` gives the order in
    which columns are left out; a failed threshold is then shown below its row.
    """

    def plain(text: str) -> str:
        return _plain(text, ascii_only=ascii_only)

    names = names_of(results)
    blocks = [(result, rows_of(result)) for result in results]
    columns = _columns([row for _, rows in blocks for row in rows], width=width, plain=plain)
    lines = [_line([(column, column.title, "bold") for column in columns])] if columns else []
    for result, rows in blocks:
        verdict, remark = str(result.verdict), remark_of(result, endings.get(result.nodeid))
        head = Text(verdict.ljust(_VERDICT_WIDTH), style=_STYLES[verdict])
        head.append(plain(names[result.nodeid]), style="bold")
        lines.append(head.append(f"  ({remark})" if remark else "", style="yellow"))
        for row in rows:
            lines.append(_line([(column, plain(column.text(row)), column.style(row)) for column in columns]))
            if "limit" not in {column.title for column in columns}:
                lines += _failed_threshold(row, plain)
    return render(Group(*lines), width=width, colour=colour, ascii_only=ascii_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    title: str
    text: Callable[[Row], str]
    style: Callable[[Row], str] = lambda _: ""
    left: bool = False
    gap: int = 2
    width: int = 0


def _broken(row: Row) -> str:
    return "bold red" if row.outcome is not None and row.outcome.fails else ""


def _outcome(row: Row) -> str:
    return "" if row.outcome is None else str(row.outcome)


def _limit(row: Row) -> str:
    return f"{row.limit} ({row.bound})" if row.bound else row.limit


_COLUMNS = (
    _Column(title="metric", text=lambda row: row.metric, left=True, gap=len(_INDENT)),
    _Column(title="median", text=lambda row: row.median, style=_broken),
    _Column(title="spread", text=lambda row: row.spread, gap=1),
    _Column(title="baseline", text=lambda row: row.baseline, gap=1),
    _Column(title="change", text=lambda row: row.change, style=_broken),
    _Column(title="interval", text=lambda row: row.interval, left=True, gap=1),
    _Column(title="detects", text=lambda row: row.detectable, gap=1),
    _Column(title="limit", text=_limit, style=_broken, left=True),
    _Column(title="verdict", text=_outcome, style=lambda row: _STYLES.get(_outcome(row), ""), left=True),
)

_DROPPED_WHEN_NARROW = (("limit", "verdict"), ("detects",), ("interval",), ("spread",), ("baseline",))
"""Titles of the columns that a narrow terminal lacks, in the order in which they are left out.

Thresholds go first, because a failed one is shown below its row.
"""

_VERDICT_WIDTH = max(map(len, _STYLES)) + 2


def _columns(rows: Sequence[Row], *, width: int, plain: Callable[[str], str]) -> list[_Column]:
    """Return the columns that are not empty and fit into `width`, each as wide as its cells."""
    shown = []
    for column in _COLUMNS:
        cells = [cell_len(plain(column.text(row))) for row in rows]
        if any(cells):
            shown.append(dataclasses.replace(column, width=max(len(column.title), *cells)))
    for titles in _DROPPED_WHEN_NARROW:
        if sum(column.gap + column.width for column in shown) > width:
            shown = [column for column in shown if column.title not in titles]
    return shown


def _line(cells: Sequence[tuple[_Column, str, str]]) -> Text:
    line = Text(no_wrap=True, overflow="ignore")
    for column, text, style in cells:
        padding = " " * (column.width - cell_len(text))
        line.append(" " * column.gap)
        line.append(text + padding if column.left else padding + text, style=style)
    return line


def _failed_threshold(row: Row, plain: Callable[[str], str]) -> list[Text]:
    """Return a line with the threshold of a row, unless it holds."""
    if row.outcome in (None, Verdict.PASSED, Verdict.IMPROVED):
        return []
    fails, undecided = row.outcome.fails, row.outcome is Verdict.INCONCLUSIVE
    kind = "broken" if fails else "undecided" if undecided else row.outcome
    return [Text(plain(f"{2 * _INDENT}{kind}: {_limit(row)}"), style=_STYLES.get(row.outcome, ""))]


def wrapped(lines: Sequence[str], *, width: int, ascii_only: bool) -> list[str]:
    """Wrap lines at `width` columns; continuation lines are indented."""
    hanging = 2 * _INDENT
    return [part for line in lines for part in wrap_text(_plain(line, ascii_only=ascii_only), width, hanging=hanging)]


def render_calibration(result: Result, *, width: int, colour: bool, ascii_only: bool) -> str:
    """Render one row for each calibrated metric, then the remarks; the result must have at least one."""
    rows = {name: calibration_cells(name, found) for name, found in result.calibration.items()}
    table = new_table("metric", right=list(next(iter(rows.values()))))
    table.columns[0].min_width = 12
    for name, cells in rows.items():
        table.add_row(name, *(cell or "-" for cell in cells.values()))
    remarks = [
        f"{name}: {text}"
        for name, found in result.calibration.items()
        for text in calibration_remarks(name, found, result)
    ]
    lines = [Text(line, style="yellow") for line in wrapped(remarks, width=width, ascii_only=ascii_only)]
    return render(Group(table, *lines), width=width, colour=colour, ascii_only=ascii_only)


def render_latency_curve(curve: LatencyCurve, *, width: int, colour: bool, ascii_only: bool) -> str:
    """Render one row for each rate; a bar shows the higher quantile on a logarithmic scale."""
    table = new_table(right=["rate", *(name.split(".", 2)[2] for name in curve.names)])
    table.add_column("", no_wrap=True)
    table.add_column("")
    known = [point.high for point in curve.points if point.high]
    for point in curve.points:
        style = _STEP_STYLES[point.outcome]
        attempts = f" ({point.attempts} attempts)" if point.attempts > 1 else ""
        table.add_row(
            format_quantity(point.rate, Unit.RECORD_RATE),
            *("-" if value is None else format_quantity(value, Unit.SECONDS) for value in (point.low, point.high)),
            Text(_bar(point.high, known, ascii_only=ascii_only), style=style),
            Text(f"{point.outcome}{attempts}", style=style),
        )
    reasons = [
        Text(f"{format_quantity(point.rate, Unit.RECORD_RATE)}: {printable(str(point.reason))}")
        for point in curve.points
        if point.outcome is not StepOutcome.HELD
    ]
    return render(Group(table, *reasons[:1]), width=width, colour=colour, ascii_only=ascii_only)


def _bar(value: float | None, all_values: Sequence[float], *, ascii_only: bool) -> str:
    """Return a bar of 1 to `_BAR_WIDTH` columns, or an empty text without a value."""
    if not value:
        return ""
    low, high = min(all_values), max(all_values)
    share = math.log(value / low) / math.log(high / low) if high > low else 0.0
    return ("#" if ascii_only else "█") * (1 + round(share * (_BAR_WIDTH - 1)))


def _plain(text: str, *, ascii_only: bool) -> str:
    return ascii_of(text) if ascii_only else text


def new_table(*left: str, right: Sequence[str]) -> Table:
    """Return an empty table without borders; cells of its `left` columns may be folded."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in left:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def render(content: RenderableType, *, width: int, colour: bool, ascii_only: bool) -> str:
    """Return the text that rich prints for its objects, with escape sequences if it is in colour."""
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(content, crop=False)
    return _plain("\n".join(line.rstrip() for line in capture.get().splitlines()), ascii_only=ascii_only)


def summary_lines(
    perf: Session, endings: Mapping[str, Ending], *, width: int, colour: bool, ascii_only: bool, verbose: bool
) -> list[str]:
    """Return the whole summary as lines of at most `width` columns.

    The lines of `--kafka-report=perftest` may be longer, because programs read them.
    """
    names = names_of(perf.results)
    lines = render_table(perf.results, endings, width=width, colour=colour, ascii_only=ascii_only).splitlines()
    for result in perf.results:
        if result.calibration:
            table = render_calibration(result, width=width, colour=colour, ascii_only=ascii_only)
            lines += ["", names[result.nodeid], *table.splitlines()]
    for result in perf.results:
        curve = latency_curve(result, result.rounds[:1])  # later searches try only rates close to what it found
        if curve is not None:
            table = render_latency_curve(curve, width=width, colour=colour, ascii_only=ascii_only)
            which = f", the first of {len(result.rounds)} searches" if len(result.rounds) > 1 else ""
            lines += ["", f"{names[result.nodeid]}{which}", *table.splitlines()]
    notes = wrapped(render_notes(perf, verbose=verbose), width=width, ascii_only=ascii_only)
    lines += ["", *notes] if "" in lines else notes  # apart from the tables of single tests
    if "perftest" in perf.settings.reports and perf.settings.reports["perftest"] is None:
        for result in perf.results:
            lines += ["", *compat_lines(result)]
    return lines


def compat_lines(result: Result) -> Iterator[str]:
    """Yield the test's name, then for each round the line that Kafka's own producer or consumer tool would print.

    The producer's lines come first. A round without all figures of a line gets no such line. As clock time, each
    consumer line has the time at which the session started.
    """
    yield printable(result.nodeid)
    for one in result.rounds:
        line = kafka_producer.format_summary(one.metrics, result.scenario)
        if line is not None:
            yield line
    began = datetime.datetime.fromisoformat(result.sessions[0].created)
    rows = [kafka_consumer.format_row(one.metrics, result.scenario, began=began) for one in result.rounds]
    if any(rows):
        yield kafka_consumer.HEADER
        yield from (row for row in rows if row is not None)

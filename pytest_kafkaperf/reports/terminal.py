"""What stands in the terminal at the end: a table of results."""

from __future__ import annotations

import dataclasses
import datetime
import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.core.text import ascii_of, printable
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.interchange import kafka_consumer, kafka_producer
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, stick_of
from pytest_kafkaperf.reports.table import Row, calibration_cells, names_of, remark_of, render_notes, rows_of
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.round import StepOutcome
from pytest_kafkaperf.verdict.outcome import Verdict

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.session import Session


_STYLES = {
    "PASSED": "green",
    "IMPROVED": "bold green",
    "REGRESSED": "bold red",
    "VIOLATED": "bold red",
    "INVALID": "bold magenta",
    "INCONCLUSIVE": "yellow",
}

_STICK_STYLES = {
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
    """A block a test: its verdict and name, and below them a row a limit; columns that would be empty are left out.

    Where the terminal is narrow, limits stand below their rows if they are not kept, and further columns go as
    `_NARROWED` says.
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
                lines += _below(row, plain)
    return _print(Group(*lines), width=width, colour=colour)


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
    _Column(title="baseline", text=lambda row: row.baseline),
    _Column(title="change", text=lambda row: row.change, style=_broken),
    _Column(title="interval", text=lambda row: row.interval, left=True, gap=1),
    _Column(title="finds", text=lambda row: row.detectable),
    _Column(title="limit", text=_limit, style=_broken, left=True),
    _Column(title="verdict", text=_outcome, style=lambda row: _STYLES.get(_outcome(row), ""), left=True),
)

_NARROWED = (("limit", "verdict"), ("finds",), ("interval",), ("spread",), ("baseline",))
"""What goes first: what can stand below its row, then what is no figure of this run."""

_VERDICT_WIDTH = max(map(len, _STYLES)) + 2


def _columns(rows: Sequence[Row], *, width: int, plain: Callable[[str], str]) -> list[_Column]:
    """Those that have something to show and fit, as wide as their cells."""
    shown = []
    for column in _COLUMNS:
        cells = [cell_len(plain(column.text(row))) for row in rows]
        if any(cells):
            shown.append(dataclasses.replace(column, width=max(len(column.title), *cells)))
    for titles in _NARROWED:
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


def _below(row: Row, plain: Callable[[str], str]) -> list[Text]:
    """The limit of a row, where it is not kept and has no column."""
    if row.outcome is None or not (row.outcome.fails or row.outcome is Verdict.INCONCLUSIVE):
        return []
    kind = "broken" if row.outcome.fails else "undecided"
    return [Text(plain(f"{2 * _INDENT}{kind}: {_limit(row)}"), style=_STYLES[str(row.outcome)])]


def wrapped(lines: Sequence[str], *, width: int, ascii_only: bool) -> list[str]:
    """Long lines over several, further ones with an indent."""
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            _plain(printable(line, keep="\t\n"), ascii_only=ascii_only),
            width,
            subsequent_indent=2 * _INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def render_calibration(result: Result, *, width: int, colour: bool, ascii_only: bool) -> str:
    """One row a metric, of those that were calibrated: at least one."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("metric", overflow="fold", min_width=12)
    rows = {name: calibration_cells(name, found) for name, found in result.calibration.items()}
    for title in next(iter(rows.values())):
        table.add_column(title, justify="right", no_wrap=True)
    for name, cells in rows.items():
        table.add_row(name, *(cell or "-" for cell in cells.values()))
    return _plain(_print(table, width=width, colour=colour), ascii_only=ascii_only)


def render_stick(stick: LatencyCurve, *, width: int, colour: bool, ascii_only: bool) -> str:
    """Latency against rate: a row a rate, with a bar for the higher quantile on a logarithmic scale."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in ("rate", *(name.split(".", 2)[2] for name in stick.names)):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("")
    known = [point.high for point in stick.points if point.high]
    for point in stick.points:
        style = _STICK_STYLES[point.outcome]
        tries = f" ({point.tries} tries)" if point.tries > 1 else ""
        table.add_row(
            format_quantity(point.rate, Unit.RECORD_RATE),
            *("-" if value is None else format_quantity(value, Unit.SECONDS) for value in (point.low, point.high)),
            Text(_bar(point.high, known, ascii_only=ascii_only), style=style),
            Text(f"{point.outcome}{tries}", style=style),
        )
    broken = next((point for point in stick.points if point.outcome is not StepOutcome.HELD), None)
    why = []
    if broken is not None:
        why.append(Text(f"{format_quantity(broken.rate, Unit.RECORD_RATE)}: {printable(str(broken.reason))}"))
    return _plain(_print(Group(table, *why), width=width, colour=colour), ascii_only=ascii_only)


def _bar(value: float | None, all_values: Sequence[float], *, ascii_only: bool) -> str:
    """From 1 to `_BAR_WIDTH` columns."""
    if not value:
        return ""
    low, high = min(all_values), max(all_values)
    share = math.log(value / low) / math.log(high / low) if high > low else 0.0
    return ("#" if ascii_only else "█") * (1 + round(share * (_BAR_WIDTH - 1)))


def _plain(text: str, *, ascii_only: bool) -> str:
    return ascii_of(text) if ascii_only else text


def _print(what: RenderableType, *, width: int, colour: bool) -> str:
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
        console.print(what, crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def summary_lines(
    perf: Session, endings: Mapping[str, Ending], *, width: int, colour: bool, ascii_only: bool, verbose: bool
) -> list[str]:
    """Lines of at most `width` columns, but for those of `--kafka-compat`: a program reads them."""
    names = names_of(perf.results)
    lines = render_table(perf.results, endings, width=width, colour=colour, ascii_only=ascii_only).splitlines()
    for result in perf.results:
        if result.calibration:
            table = render_calibration(result, width=width, colour=colour, ascii_only=ascii_only)
            lines += ["", names[result.nodeid], *table.splitlines()]
    for result in perf.results:
        stick = stick_of(result, result.rounds[:1])  # later searches begin near its end
        if stick is not None:
            table = render_stick(stick, width=width, colour=colour, ascii_only=ascii_only)
            which = f", the first of {len(result.rounds)} searches" if len(result.rounds) > 1 else ""
            lines += ["", f"{names[result.nodeid]}{which}", *table.splitlines()]
    lines += wrapped(render_notes(perf, verbose=verbose), width=width, ascii_only=ascii_only)
    if perf.settings.compat:
        for result in perf.results:
            lines += ["", *compat_lines(result)]
    return lines


def compat_lines(result: Result) -> Iterator[str]:
    """The test's name, then a line a round of `kafka-producer-perf-test`, then of `kafka-consumer-perf-test`.

    A round that lacks a figure of a line has none. The consumer's clock times are those at which the session began.
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

"""The summary that the terminal shows at the end of a run: tables of results, and notes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, counted, format_quantity
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, latency_curve
from pytest_kafkaperf.reports.layout import STYLES, Columns, Line, Paper, mark_of
from pytest_kafkaperf.reports.spans import span_rows
from pytest_kafkaperf.reports.table import Block, block_of, count_verdicts, names_of, render_notes, tolerated, took
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.round import StepOutcome

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.perf_run import PerfRun


_STEP_STYLES = {
    StepOutcome.HELD: "green",
    StepOutcome.BROKEN: "red",
    StepOutcome.UNREACHED: "yellow",
    StepOutcome.DISTURBED: "yellow",
}


def render_table(blocks: Sequence[Block], paper: Paper) -> str:
    """Render one block for each test: its verdict and name, one row for each threshold, and the texts below."""
    rows = [row for block in blocks for row in block.rows]
    columns = Columns(rows, paper)
    verdict_width = max((len(block.verdict) for block in blocks), default=0)
    lines, header = [], [_text(columns.header)] if rows else []
    for block in blocks:
        head = Text(f"{mark_of(block.verdict)} {block.verdict.ljust(verdict_width)}  ", STYLES[block.verdict])
        lines.append(head.append(block.name, style="bold"))
        if block.remark:
            gap = max(2, columns.start + 2 - head.cell_len)
            remark = printable(block.remark)
            if head.cell_len + gap + len(remark) <= paper.width:
                head.append(f"{' ' * gap}{remark}", style="dim")
            else:
                lines += _below([remark], paper)
        lines += _below(block.problems, paper)
        if block.rows:
            lines += header
            header = []
        lines += [_text(line) for row in block.rows for line in columns.lines(row)]
        lines += _below(block.lines, paper)
    return render(Group(*lines), paper)


def _text(line: Line) -> Text:
    return Text.assemble(*line, no_wrap=True, overflow="ignore")


def _below(texts: Sequence[str], paper: Paper) -> list[Text]:
    """Wrap texts below the rows of a test."""
    return [Text(line) for text in texts for line in paper.wrap(text, indent="  ", hanging="  ")]


def wrapped(lines: Sequence[str], paper: Paper) -> list[str]:
    """Wrap lines; continuation lines are indented."""
    return [part for line in lines for part in paper.wrap(line, hanging="    ")]


def render_calibration(result: Result, paper: Paper) -> str:
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
    lines = [Text(line, style="yellow") for line in wrapped(remarks, paper)]
    return render(Group(table, *lines), paper)


def render_latency_curve(curve: LatencyCurve, paper: Paper) -> str:
    """Render one row for each rate, then the reason why the first of them did not hold."""
    table = new_table(right=["rate", *(name.split(".", 2)[2] for name in curve.names)])
    table.add_column("")
    for point in curve.points:
        attempts = f" ({point.attempts} attempts)" if point.attempts > 1 else ""
        table.add_row(
            format_quantity(point.rate, Unit.RECORD_RATE),
            *("-" if value is None else format_quantity(value, Unit.SECONDS) for value in (point.low, point.high)),
            Text(f"{point.outcome}{attempts}", style=_STEP_STYLES[point.outcome]),
        )
    reasons = [
        Text(f"{format_quantity(point.rate, Unit.RECORD_RATE)}: {printable(str(point.reason))}")
        for point in curve.points
        if point.outcome is not StepOutcome.HELD
    ]
    return render(Group(table, *reasons[:1]), paper)


def render_spans(results: Sequence[Result], paper: Paper) -> str:
    """Render one row for each span of all tests, with what makes it shorter."""
    took_s = sum(result.took_s for result in results)
    table = new_table("span", right=["time", "share"])
    table.add_column("to make it shorter", overflow="fold")
    for row in span_rows(results):
        table.add_row(*row)
    return render(Group(f"where the time of {counted(len(results), 'test')} went: {took(took_s)}", table), paper)


def new_table(*left: str, right: Sequence[str]) -> Table:
    """Return an empty table without borders; cells of its `left` columns may be folded."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in left:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def render(content: RenderableType, paper: Paper) -> str:
    """Return the text that rich prints for its objects, with escape sequences if it is in colour."""
    console = Console(
        file=io.StringIO(),
        width=paper.width,
        force_terminal=paper.colour,
        no_color=not paper.colour,
        color_system="standard" if paper.colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(content, crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def summary_lines(perf: PerfRun, endings: Mapping[str, Ending], paper: Paper, *, verbose: bool) -> list[str]:
    """Return the whole summary as lines."""
    names = names_of(perf.results)
    results = perf.results
    blocks = [block_of(each, names[each.nodeid], endings.get(each.nodeid), verbose=verbose) for each in results]
    lines = [*wrapped_overview(overview(perf), paper), ""] if results else []
    lines += render_table(blocks, paper).splitlines()
    for result in perf.results:
        if result.calibration:
            lines += ["", names[result.nodeid], *render_calibration(result, paper).splitlines()]
    for result in perf.results:
        curve = latency_curve(result, result.rounds[:1])  # later searches try only rates close to what it found
        if curve is not None:
            which = f", the first of {len(result.rounds)} searches" if len(result.rounds) > 1 else ""
            lines += ["", f"{names[result.nodeid]}{which}", *render_latency_curve(curve, paper).splitlines()]
    if verbose and len(results) > 1:
        lines += ["", *render_spans(results, paper).splitlines()]
    notes = wrapped([*tolerated(results, endings), *render_notes(perf)], paper)
    lines += ["", *notes] if notes and lines else notes
    return [*lines, count_verdicts([result.verdict for result in results])] if results else lines


def overview(perf: PerfRun) -> str:
    """Return the line above the table: what the tests ran on and were compared with, their number and the duration."""
    results = perf.results
    kafka = dict.fromkeys(f"Kafka {each.cluster.version} {each.cluster.provider}" for each in results)
    keys = dict.fromkeys(perf.environment_key(each.cluster.provider) for each in results)
    live_baselines = dict.fromkeys(
        each.revision or f"Kafka {each.live_baseline.version} {each.live_baseline.provider}"  # type: ignore[union-attr]
        for each in results
        if each.live_baseline or each.revision
    )
    counts = sorted({each.baseline_trials for each in results if each.baseline_trials is not None})
    trials = counted(counts[-1], "trial") if counts else ""
    trials = f"{counts[0]} to {trials}" if len(counts) > 1 else trials
    parts = [
        ", ".join(kafka),
        f"env {', '.join(keys)}",
        f"compared with: {', '.join(live_baselines)}" if live_baselines else "",
        f"baseline: {trials}" if trials else "",
        f"{counted(len(results), 'test')}, {took(perf.took_s)}",
    ]
    return printable(" | ".join(filter(None, parts))).replace("Kafka unknown", "Kafka")


def wrapped_overview(text: str, paper: Paper) -> list[str]:
    """Wrap the line above the table between its parts, such as `baseline: 5 trials`, not within them."""
    lines: list[str] = []
    for part in text.split(" | "):
        if lines and len(f"{lines[-1]} | {part}") <= paper.width:
            lines[-1] += f" | {part}"
        else:
            lines.append(f"    {part}" if lines else part)
    return wrapped(lines, paper)

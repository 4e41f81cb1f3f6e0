"""Terminal tables: the summary at the end of a run, and the output of the `kafkaperf` command."""

from __future__ import annotations

import dataclasses
import io
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import DIRTY, differences
from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, counted, format_quantity, format_ratio
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.columns import STYLES, Columns, Line, Paper, mark_of
from pytest_kafkaperf.reports.compare import Compared, ComparedReports
from pytest_kafkaperf.reports.history import ChangePoint
from pytest_kafkaperf.reports.latency_curve import LatencyCurve, latency_curve
from pytest_kafkaperf.reports.remedy import is_compared
from pytest_kafkaperf.reports.span_table import span_rows
from pytest_kafkaperf.reports.wording import (
    Block,
    block_of,
    count_verdicts,
    names_of,
    render_notes,
    row_of,
    tolerated,
    took,
)
from pytest_kafkaperf.runner.result import Result, RunResult, unmeasured
from pytest_kafkaperf.runner.rounds.round import StepOutcome
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord
from pytest_kafkaperf.verdict.outcome import Check, Verdict

_STEP_STYLES = {
    StepOutcome.HELD: "green",
    StepOutcome.BROKEN: "red",
    StepOutcome.UNREACHED: "yellow",
    StepOutcome.DISTURBED: "yellow",
}


def render_table(blocks: Sequence[Block], paper: Paper) -> str:
    """Render a block for each test: its verdict and name, a row for each threshold, and the texts below."""
    rows = [row for block in blocks for row in block.rows]
    columns = Columns(rows, paper)
    verdict_width = max((len(block.verdict) for block in blocks), default=0)
    lines = []
    header = [_text(columns.header)] if rows else []
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
    """Wrap the texts below a test's rows."""
    return [Text(line) for text in texts for line in paper.wrap(text, indent="  ", hanging="  ")]


def wrapped(lines: Sequence[str], paper: Paper) -> list[str]:
    """Wrap lines; continuation lines are indented."""
    return [part for line in lines for part in paper.wrap(line, hanging="    ")]


def render_calibration(result: Result, paper: Paper) -> str:
    """Render each calibrated metric's detectable change, then advice; requires at least one metric."""
    rows = {name: calibration_cells(name, found) for name, found in result.calibration.items()}
    table = new_table("metric", right=list(next(iter(rows.values()))))
    table.columns[0].min_width = 12
    for name, cells in rows.items():
        table.add_row(name, *(cell or "-" for cell in cells.values()))
    first, advice = [], []
    for name, found in result.calibration.items():
        can_catch, *others = calibration_remarks(name, found, result)
        first.append(f"{name}: {can_catch}")
        advice += [f"{name}: {text}" for text in others]
    above = [Text(line) for line in wrapped(first, paper)]
    below = [Text(line, style="yellow") for line in wrapped(advice, paper)]
    return render(Group(*above, table, *below), paper)


def render_latency_curve(curve: LatencyCurve, paper: Paper) -> str:
    """Render a row for each rate, then the reason why the first unsustainable rate failed."""
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
    """Render a row for each span over all tests, with advice on shortening it."""
    took_s = sum(result.took_s for result in results)
    table = new_table("span", right=["time", "share"])
    table.add_column("to make it shorter", overflow="fold")
    for row in span_rows(results):
        table.add_row(*row)
    return render(Group(f"where the time of {counted(len(results), 'test')} went: {took(took_s)}", table), paper)


def new_table(*left: str, right: Sequence[str]) -> Table:
    """Return an empty table without borders; cells in its `left` columns may be folded."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for title in left:
        table.add_column(title, overflow="fold")
    for title in right:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def render(content: RenderableType, paper: Paper) -> str:
    """Return the text that rich prints for an object, with escape sequences if colors are enabled."""
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


def summary_lines(run: RunResult, paper: Paper, *, verbose: bool, failures: bool) -> list[str]:
    """Return the complete summary; `failures` is True if pytest prints the messages of failed tests above it."""
    results, endings = run.results, run.endings
    names = names_of(results)
    blocks = [
        block_of(each, names[each.nodeid], endings.get(each.nodeid), verbose=verbose, failures=failures)
        for each in results
    ]
    lines = [*wrapped_overview(overview(run), paper), ""] if results else []
    lines += render_table(blocks, paper).splitlines()
    for result in results:
        if result.calibration:
            lines += ["", names[result.nodeid], *render_calibration(result, paper).splitlines()]
    for result in results:
        curve = latency_curve(result, result.rounds[:1])  # later searches try only rates close to the first result
        if curve is not None:
            which = f", the first of {len(result.rounds)} searches" if len(result.rounds) > 1 else ""
            lines += ["", f"{names[result.nodeid]}{which}", *render_latency_curve(curve, paper).splitlines()]
    if verbose and len(results) > 1:
        lines += ["", *render_spans(results, paper).splitlines()]
    compared = [check for result in results if is_compared(result) for check in result.checks]
    notes = wrapped([*explain_range(compared), *tolerated(results, endings), *render_notes(run)], paper)
    lines += ["", *notes] if notes and lines else notes
    if not results:
        return lines
    not_measured = sum(each.fails for each in unmeasured(results, endings))
    return [*lines, count_verdicts([result.verdict for result in results], not_measured=not_measured)]


def explain_range(checks: Sequence[Check]) -> list[str]:
    """Return a line that explains the column `range`, if any row has a range."""
    side_by_side = {bool(check.trials) for check in checks if check.interval is not None and check.is_relative}
    if not side_by_side:
        return []
    text, stored, live = "range: where the true change lies", "with 95% confidence", "with at least 90% confidence"
    if side_by_side == {True}:
        return [f"{text}, {live}"]
    if side_by_side == {False}:
        return [f"{text}, {stored}, on other days as well"]
    return [f"{text}: side by side, {live}; against a stored baseline, {stored}, on other days as well"]


def overview(run: RunResult) -> list[str]:
    """Return the parts of the line above the table: the cluster, baseline, number of tests, and duration."""
    results = run.results
    kafka = dict.fromkeys(_described(each.cluster) for each in results)
    others = [each.revision or each.live_baseline for each in results]
    live_baselines = dict.fromkeys(_described(each) for each in others if each is not None)
    counts = sorted({each.baseline_trials for each in results if each.baseline_trials is not None})
    trials = counted(counts[-1], "trial") if counts else ""
    trials = f"{counts[0]} to {trials}" if len(counts) > 1 else trials
    parts = [
        ", ".join(kafka),
        f"env {', '.join(run.environment_keys)}",
        f"compared with: {', '.join(live_baselines)}" if live_baselines else "",
        f"baseline: {trials}" if trials else "",
        f"{counted(len(results), 'test')}, {took(run.took_s)}",
    ]
    return [printable(part) for part in parts if part]


def _described(side: Cluster | Revision) -> str:
    """Return a text such as `Kafka 4.1.0 local`, or `git:main (cf541ca)`."""
    if isinstance(side, Revision):
        return str(side)
    version = "" if side.version == "unknown" else f" {side.version}"
    compiler = " (quick compiler)" if "compiler" in side.fingerprint else ""
    return f"Kafka{version} {side.provider}{compiler}"


def wrapped_overview(parts: Sequence[str], paper: Paper) -> list[str]:
    """Wrap the line above the table between its parts, but never within a part such as `baseline: 5 trials`."""
    lines: list[str] = []
    for part in parts:
        if lines and len(f"{lines[-1]} | {part}") <= paper.width:
            lines[-1] += f" | {part}"
        else:
            lines.append(f"    {part}" if lines else part)
    return wrapped(lines, paper)


_INDENT = "  "


def standard_output() -> Paper:
    """Describe standard output; if it is not a terminal, assume 80 columns and no color."""
    console = Console()
    colour = console.is_terminal and not console.no_color
    return Paper(width=max(1, console.width), colour=colour)


def render_metrics(rounds: Sequence[Mapping[str, float]], paper: Paper, *, names: Iterable[str]) -> list[str]:
    """Return a row for each measured metric: the median, minimum and maximum over the rounds."""
    table = new_table("metric", right=("median", "least", "most"))
    for name in names:
        values = [one[name] for one in rounds if name in one]
        if values:
            numbers = (statistics.median(values), min(values), max(values))
            table.add_row(name, *(format_quantity(value, CATALOGUE[name].unit) for value in numbers))
    return _lines(table, paper)


def render_baseline(record: BaselineRecord, path: Path, paper: Paper) -> list[str]:
    """Return a baseline's test, environment, trials and headline metrics."""
    trials = new_table("trial", right=("rounds",))
    trials.add_column("commit")
    trials.add_column("source")
    for trial in record.trials:
        source = "imported" if trial.imported else "measured"
        trials.add_row(printable(trial.created), str(len(trial.rounds)), _commit(trial.commit), source)
    imports = dict.fromkeys(
        f"imported from {trial.imported.tool}: {', '.join(trial.imported.files)}"
        for trial in record.trials
        if trial.imported
    )
    rounds = [one for trial in record.trials for one in trial.rounds]
    known = [name for name in HEADLINES if any(name in one for one in rounds)]
    return [
        printable(record.nodeid),
        printable(f"{_INDENT}environment {record.environment}, {path}"),
        *_lines(trials, paper),
        *(line for each in imports for line in render_note(each, paper)),
        *render_metrics(rounds, paper, names=known or CATALOGUE),
    ]


def render_compared(test: Compared, paper: Paper) -> list[str]:
    """Return a test's verdict, a row for each threshold, and the reasons for thresholds that did not pass."""
    reasons: dict[str, list[str]] = {}  # one reason can apply to all thresholds
    for check in test.checks:
        if check.outcome is not Verdict.PASSED:
            reasons.setdefault(check.reason, []).append(check.metric)
    block = Block(
        verdict=test.verdict,
        name=printable(test.nodeid),
        rows=tuple(dataclasses.replace(row_of(check), why="", rounds="", can_detect="") for check in test.checks),
        lines=(*test.notes, *test.failures, *(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())),
    )
    wide = dataclasses.replace(paper, width=max(paper.width, len(block.name) + 16))
    return render_table([block], wide).splitlines()


def render_unmatched(compared: ComparedReports) -> list[str]:
    """Return a line for each test that was not compared, then a line about failures."""
    lines = [f"only in base: {nodeid}{_in_brackets(why)}" for nodeid, why in compared.missing.items()]
    lines += [f"only in head: {test.nodeid}" for test in compared.new if not test.fails]
    lines += [f"measured nothing in head: {nodeid}{_in_brackets(why)}" for nodeid, why in compared.unmeasured.items()]
    if not compared.tests:
        lines.append("nothing was compared: no test is in both reports")
    elif compared.fails:
        lines += [*([""] if lines else []), f"head fails: {', '.join(_failed(compared))}"]
    return [printable(line) for line in lines]


def _failed(compared: ComparedReports) -> Iterator[str]:
    """Yield the number of tests for each type of failure, such as `1 regressed` or `2 only in base`."""
    failing = [test for test in (*compared.tests, *compared.new) if test.fails]
    verdicts = [test.verdict for test in failing if test.verdict.fails]
    counts = {
        "failed for another reason": len(failing) - len(verdicts),
        "only in base": len(compared.missing),
        "measured nothing": len(compared.unmeasured),
    }
    if verdicts:
        yield count_verdicts(verdicts)
    yield from (f"{count} {what}" for what, count in counts.items() if count)


def _in_brackets(text: str | None) -> str:
    return f" ({text})" if text else ""


def render_changes(changes: Iterable[Sequence[ChangePoint]], paper: Paper) -> list[str]:
    """Return the time, commit, metrics and other changes for each run in which a test changed."""
    lines = []
    for found in changes:
        table = new_table("metric", right=("before", "after", "change"))
        for name, before, after, *_ in found:
            change = format_ratio(after / before - 1) if before > 0 else "-"
            table.add_row(printable(name), _value(name, before), _value(name, after), change)
        *_, last, first = found[0]
        commits = f"commit {_commit(first.commit)}, previous run {_commit(last.commit)}"
        head = f"{first.time:%Y-%m-%d %H:%M %Z}, {commits}, environment {first.environment}"
        other = ", ".join(map(str, differences(last.fingerprint, first.fingerprint))) or "nothing"
        lines += [printable(first.nodeid), *render_note(head, paper), *_lines(table, paper)]
        lines += [*render_note(f"other differences between the runs: {other}", paper), ""]
    return lines or ["no change points"]


def render_note(text: str, paper: Paper) -> list[str]:
    """Wrap a sentence into indented lines."""
    return paper.wrap(text, indent=_INDENT, hanging=_INDENT)


def _lines(table: Table, paper: Paper) -> list[str]:
    text = render(table, dataclasses.replace(paper, width=paper.width - len(_INDENT)))
    return [f"{_INDENT}{line}" for line in text.splitlines()]


def _commit(given: str | None) -> str:
    if not given:
        return "-"
    mark = DIRTY if given.endswith(DIRTY) else ""
    return printable(f"{given[:12]}{mark}")


def _value(name: str, value: float) -> str:
    found = CATALOGUE.get(name)  # a test's custom metric is not declared here
    return f"{value:.6g}" if found is None else format_quantity(value, found.unit)

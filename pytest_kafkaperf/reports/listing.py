"""What the command `kafkaperf` prints: baselines, imported runs, two reports compared."""

from __future__ import annotations

import io
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.text import ascii_of, printable
from pytest_kafkaperf.core.units import format_quantity, format_ratio
from pytest_kafkaperf.reports.compare import Compared
from pytest_kafkaperf.verdict.baselines.record import BaselineRecord, Imported
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check

_INDENT = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Where it is printed."""

    width: int
    """Columns."""
    colour: bool
    ascii_only: bool

    @classmethod
    def here(cls) -> Paper:
        """Standard output: 80 columns where it is no terminal; no colour there, nor with `NO_COLOR`."""
        console = Console()
        colour = console.is_terminal and not console.no_color
        return cls(width=console.width, colour=colour, ascii_only="utf" not in console.encoding.lower())


def render_metrics(rounds: Sequence[Mapping[str, float]], paper: Paper, *, names: Iterable[str]) -> list[str]:
    """One row a metric that a round has: the median over the rounds, and how far they lie apart."""
    table = _table("metric", ("median", "least", "most"))
    for name in names:
        values = [one[name] for one in rounds if name in one]
        if values:
            figures = (statistics.median(values), min(values), max(values))
            table.add_row(name, *(_figure(name, value) for value in figures))
    return _lines(table, paper)


def render_baseline(record: BaselineRecord, path: Path, paper: Paper) -> list[str]:
    """Whose it is, its sessions, and what people look at first."""
    sessions = _table("session", ("rounds",))
    sessions.add_column("commit")
    sessions.add_column("figures")
    for session in record.sessions:
        commit = printable(session.commit[:12]) if session.commit else "-"
        sessions.add_row(
            printable(session.created), str(len(session.rounds)), commit, "imported" if session.imported else "measured"
        )
    imports = dict.fromkeys(_origin(session.imported) for session in record.sessions if session.imported)
    rounds = [one for session in record.sessions for one in session.rounds]
    known = [name for name in HEADLINES if any(name in one for one in rounds)]
    return [
        printable(record.nodeid),
        printable(f"{_INDENT}environment {record.environment}, {path}"),
        *_lines(sessions, paper),
        *(line for each in imports for line in render_note(each, paper)),
        *render_metrics(rounds, paper, names=known or CATALOGUE),
    ]


def render_compared(test: Compared, paper: Paper) -> list[str]:
    """Its verdict, one row a limit, and why where that is not plain."""
    head = Text.assemble(_verdict(test.verdict), "  ", printable(test.nodeid))
    table = _table("metric", ("A", "B", "change"))
    table.add_column("verdict", no_wrap=True)
    for check in test.checks:
        table.add_row(*_cells(check), _verdict(check.outcome))
    notes = [*test.notes, *(f"{', '.join(names)}: {reason}" for reason, names in _reasons(test.checks).items())]
    return [
        *_lines(head, paper, indent="", width=max(paper.width, head.cell_len)),
        *(_lines(table, paper) if test.checks else ()),
        *(line for note in notes for line in render_note(note, paper)),
    ]


def render_note(text: str, paper: Paper) -> list[str]:
    """A sentence, wrapped and indented."""
    return textwrap.wrap(
        printable(text, keep="\t\n"),
        paper.width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(title: str, figures: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column(title, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _lines(content: Table | Text, paper: Paper, *, indent: str = _INDENT, width: int | None = None) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=paper.width - len(indent) if width is None else width,
        force_terminal=paper.colour,
        color_system="standard" if paper.colour else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(content)
    text = capture.get()
    if paper.ascii_only:
        text = ascii_of(text)
    return [f"{indent}{line.rstrip()}" for line in text.splitlines()]


def _verdict(verdict: Verdict) -> Text:
    style = "yellow" if verdict is Verdict.INCONCLUSIVE else "bold red" if verdict.fails else "green"
    return Text(str(verdict), style=style)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    found = CATALOGUE.get(name)
    return f"{value:.6g}" if found is None else format_quantity(value, found.unit)


def _origin(imported: Imported) -> str:
    return f"imported from {imported.tool}: {', '.join(imported.files)}"


def _cells(check: Check) -> tuple[str, str, str, str]:
    change = "-" if check.change is None else format_ratio(check.change)
    return check.metric, _figure(check.metric, check.baseline), _figure(check.metric, check.observed), change


def _reasons(checks: Sequence[Check]) -> dict[str, list[str]]:
    """The metrics by what is not plain from their row: an obstacle is that of every limit."""
    reasons: dict[str, list[str]] = {}
    for check in checks:
        if check.outcome is not Verdict.PASSED:
            reasons.setdefault(check.reason, []).append(check.metric)
    return reasons

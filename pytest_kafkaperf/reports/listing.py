"""The output of the command `kafkaperf`: baselines, imported runs, comparisons of two reports."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pytest_kafkaperf.core.environment import DIRTY, differences
from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import format_quantity, format_ratio
from pytest_kafkaperf.reports.compare import Compared, ComparedReports
from pytest_kafkaperf.reports.layout import Paper
from pytest_kafkaperf.reports.table import Block, count_verdicts, row_of
from pytest_kafkaperf.reports.terminal import new_table, render, render_table
from pytest_kafkaperf.reports.trend import ChangePoint
from pytest_kafkaperf.verdict.baselines.record import BaselineRecord
from pytest_kafkaperf.verdict.outcome import Verdict

_INDENT = "  "


def standard_output() -> Paper:
    """Describe standard output. Without a terminal it has 80 columns and no colour."""
    console = Console()
    colour = console.is_terminal and not console.no_color
    return Paper(width=max(1, console.width), colour=colour)


def render_metrics(rounds: Sequence[Mapping[str, float]], paper: Paper, *, names: Iterable[str]) -> list[str]:
    """Return one row for each metric that a round has: median, least and most over the rounds."""
    table = new_table("metric", right=("median", "least", "most"))
    for name in names:
        values = [one[name] for one in rounds if name in one]
        if values:
            numbers = (statistics.median(values), min(values), max(values))
            table.add_row(name, *(format_quantity(value, CATALOGUE[name].unit) for value in numbers))
    return _lines(table, paper)


def render_baseline(record: BaselineRecord, path: Path, paper: Paper) -> list[str]:
    """Return the test and the environment of a baseline, its trials and its headline metrics."""
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
    """Return the verdict of a test, one row for each threshold, and the reasons of those that did not pass."""
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
    """Return one line for each test that was not compared, then what failed."""
    lines = [f"only in A: {nodeid}{_in_brackets(why)}" for nodeid, why in compared.missing.items()]
    lines += [f"only in B: {test.nodeid}" for test in compared.new if not test.fails]
    lines += [f"measured nothing in B: {nodeid}{_in_brackets(why)}" for nodeid, why in compared.unmeasured.items()]
    if not compared.tests:
        lines.append("nothing was compared: no test is in both reports")
    elif compared.fails:
        lines += [*([""] if lines else []), f"B fails: {', '.join(_failed(compared))}"]
    return [printable(line) for line in lines]


def _failed(compared: ComparedReports) -> Iterator[str]:
    """Yield the number of tests for each reason to fail: `1 regressed`, `2 only in A`."""
    failing = [test for test in (*compared.tests, *compared.new) if test.fails]
    verdicts = [test.verdict for test in failing if test.verdict.fails]
    counts = {
        "failed for another reason": len(failing) - len(verdicts),
        "only in A": len(compared.missing),
        "measured nothing": len(compared.unmeasured),
    }
    if verdicts:
        yield count_verdicts(verdicts)
    yield from (f"{count} {what}" for what, count in counts.items() if count)


def _in_brackets(text: str | None) -> str:
    return f" ({text})" if text else ""


def render_changes(changes: Iterable[Sequence[ChangePoint]], paper: Paper) -> list[str]:
    """Return for each run from which on a test differs its time and commit, the metrics, and what else changed."""
    lines = []
    for found in changes:
        table = new_table("metric", right=("before", "after", "change"))
        for name, before, after, *_ in found:
            change = format_ratio(after / before - 1) if before > 0 else "-"
            table.add_row(printable(name), _value(name, before), _value(name, after), change)
        *_, last, first = found[0]
        commits = f"commit {_commit(first.commit)}, in the run before {_commit(last.commit)}"
        head = f"{first.time:%Y-%m-%d %H:%M %Z}, {commits}, environment {first.environment}"
        other = ", ".join(differences(last.fingerprint, first.fingerprint)) or "nothing"
        lines += [printable(first.nodeid), *render_note(head, paper), *_lines(table, paper)]
        lines += [*render_note(f"other differences of the two runs: {other}", paper), ""]
    return lines or ["no change points"]


def render_note(text: str, paper: Paper) -> list[str]:
    """Return a sentence as wrapped, indented lines."""
    return paper.wrap(text, indent=_INDENT, hanging=_INDENT)


def _lines(table: Table, paper: Paper) -> list[str]:
    text = render(table, dataclasses.replace(paper, width=paper.width - len(_INDENT)))
    return [f"{_INDENT}{line}" for line in text.splitlines()]


def _commit(given: str | None) -> str:
    return printable(f"{given[:12]}{DIRTY if given.endswith(DIRTY) else ''}") if given else "-"


def _value(name: str, value: float) -> str:
    found = CATALOGUE.get(name)  # a metric of a test's own is not there
    return f"{value:.6g}" if found is None else format_quantity(value, found.unit)

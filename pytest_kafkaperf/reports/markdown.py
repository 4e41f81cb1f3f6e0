"""The summary in Markdown for GitHub and GitLab: for the page of a job or a comment on a change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports import wording
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.columns import Row, mark_of
from pytest_kafkaperf.runner.evidence import baseline_doubts
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, judged, unmeasured
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.outcome import Verdict

LIMIT_BYTES = 1024 * 1024
"""Maximum size of the summary of one step; GitHub does not show a larger one.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
"""
_RESERVED_BYTES = 1000
"""Bytes reserved for the header of the table and for the note on omitted parts."""
_SPECIAL = re.compile(r"[&<>|`*\\\[\]~$#!@{}\"]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=http)s?:|(?<=www)\.")
"""Characters with a meaning in Markdown, HTML or tables, and beginnings of addresses that would become links."""
_ITEM = re.compile(r"^(?:[-+](?= |$)|-(?=[- ]*$)|\d{1,9}[.)](?= |$))")
"""Characters that start a nested list or a horizontal rule at the beginning of an item."""
_NO_CELLS = [""] * 4
"""Cells of a row for the values of a threshold."""


def markdown(run: RunResult, *, limit_bytes: int = LIMIT_BYTES) -> str:
    """Return the number of tests by verdict, a table, the reasons of tests that did not pass, and all values, folded.

    The worst verdicts come first. If the text exceeds `limit_bytes` as UTF-8, the values are left out first, then
    reasons, then rows of the table; a note says so.
    """
    results, endings = run.results, run.endings
    ranked = sorted(results, key=lambda result: _rank(result, endings.get(result.nodeid)))
    alone = unmeasured(results, endings)
    failed = [each for each in alone if each.fails]
    rows = [*map(_unmeasured_row, alone), *_table_rows(ranked, endings)]
    reasons = [_section("❌ not measured", each.nodeid, [text(each.reason or each.outcome)]) for each in failed]
    reasons += [_reasons(result, endings.get(result.nodeid)) for result in ranked if _has_reasons(result, endings)]
    reasons += _compared(result for result in ranked if not _has_reasons(result, endings))
    values = [_values(result) for result in ranked]
    sections = {"tests": rows, "tests' reasons": reasons, "tests' values": values}
    headline = _headline(results, endings, alone, run.errors) + _gate_changes(run)
    return _joined(headline, sections, limit_bytes)


def code(given: str) -> str:
    """Return a name as code that is safe in a table, a heading, a list and HTML."""
    return f"<code>{text(printable(given))}</code>"


def text(given: str) -> str:
    """Return a text in one line, escaped for Markdown."""
    return _SPECIAL.sub(_escaped, printable(" ".join(given.split())))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(each)};" for each in found[0])


def _joined(headline: str, sections: Mapping[str, Sequence[str]], limit_bytes: int) -> str:
    """Join the blocks of the table, the reasons and the values, in this order, as far as they fit."""
    head = ("", "threshold", "measured", "rounds", "baseline", "change (range)")
    left_bytes = limit_bytes - _RESERVED_BYTES - len(headline.encode())
    kept: dict[str, list[str]] = {name: [] for name in sections}
    for name, blocks in sections.items():
        for block in blocks:
            left_bytes -= len(block.encode())
            if left_bytes >= 0:
                kept[name].append(block)
    rows, reasons, values = kept.values()
    counts = {name: (len(blocks) - len(kept[name]), len(blocks)) for name, blocks in sections.items()}
    missing = [f"{omitted} of {count} {name}" for name, (omitted, count) in counts.items() if omitted]
    header = [f"{_table_line(head)}\n", f"{_table_line(['---', '---', *['--:'] * len(_NO_CELLS)])}\n"]
    lines = [headline, "\n", *(header if rows else ()), *rows, *reasons]
    if values:
        lines += ["\n<details><summary>All values, by test</summary>\n", *values, "\n</details>\n"]
    if missing:
        lines.append(f"\nLeft out, because a summary is limited to {limit_bytes:,} bytes: {', '.join(missing)}.\n")
    return "".join(lines)


def _rank(result: Result, ending: Ending | None) -> tuple[bool, int]:
    return not _fails(result.verdict, ending), -list(Verdict).index(result.verdict)


def _headline(
    results: Sequence[Result], endings: Mapping[str, Ending], unmeasured: Sequence[Ending], errors: Sequence[str]
) -> str:
    signs = [_sign(each, Verdict.INCONCLUSIVE) for each in unmeasured]
    signs += [_sign(endings.get(result.nodeid), result.verdict) for result in results]
    signs += ["❌"] * len(errors)
    sign = next((each for each in ("❌", "⚠️") if each in signs), "✅")
    revisions = ", ".join(dict.fromkeys(text(str(result.revision)) for result in results if result.revision))
    compared = f" compared with {revisions}" if revisions else ""
    lines = [f"### {sign} Kafka performance{compared}: {_counts(results, endings, unmeasured)}\n"]
    if errors:
        lines += ["\n", *(f"- ❌ {text(error)}\n" for error in errors)]
    return "".join(lines)


def _gate_changes(run: RunResult) -> str:
    """Return the tests that only one side has: renaming or deleting a test would otherwise remove its gate unseen."""
    lines = [f"- {text(what)}: {', '.join(map(code, names))}\n" for what, names in wording.gate_changes(run).items()]
    return "".join(["\n", *lines] if lines else [])


def _counts(results: Sequence[Result], endings: Mapping[str, Ending], unmeasured: Sequence[Ending]) -> str:
    """Return the number of tests by verdict, and of those that failed for another reason than their verdict."""
    counts = Counter(result.verdict for result in results)
    texts = [f"{counts[verdict]} {verdict}" for verdict in reversed(Verdict) if verdict in counts]
    outcomes = Counter(ending.outcome for ending in unmeasured)
    texts += [f"{count} not measured ({outcome})" for outcome, count in outcomes.items()]
    others = sum(bool(wording.failure_next_to(result, endings.get(result.nodeid))) for result in results)
    remark = f"; {others} of them failed for another reason" if others else ""
    return f"{', '.join(texts) or 'no tests'}{remark}"


def _fails(verdict: Verdict, ending: Ending | None) -> bool:
    """Return True if the test failed for pytest, or if its verdict fails and pytest reported no ending."""
    return verdict.fails if ending is None else ending.fails


def _sign(ending: Ending | None, verdict: Verdict) -> str:
    if _fails(verdict, ending):
        return "❌"
    is_partial = ending is not None and ending.outcome == "not run"
    return "⚠️" if verdict.needs_reason or is_partial else "✅"


def _status(result: Result, ending: Ending | None) -> str:
    remark = wording.remark_of(result, ending)
    return f"{_sign(ending, result.verdict)} {result.verdict}{f' ({remark})' if remark else ''}"


def _table_rows(results: Sequence[Result], endings: Mapping[str, Ending]) -> Iterator[str]:
    """Yield for each test a row with its verdict and name, and below it one row for each threshold."""
    names = wording.names_of(results)
    for result in results:
        how = wording.how_of(result)
        name = f"{code(names[result.nodeid])}{f' {text(how)}' if how else ''}"
        head = [_status(result, endings.get(result.nodeid)), name, *_NO_CELLS]
        yield "".join(f"{_table_line(cells)}\n" for cells in (head, *map(_cells, wording.rows_of(result))))


def _unmeasured_row(ending: Ending) -> str:
    status = f"{_sign(ending, Verdict.INCONCLUSIVE)} not measured ({ending.outcome})"
    return f"{_table_line([status, code(ending.nodeid), *_NO_CELLS])}\n"


def _cells(row: Row) -> list[str]:
    return [
        mark_of(row.outcome),
        f"{code(row.threshold)}{f' {row.outcome}' if row.outcome is Verdict.MEASURED else ''}",
        text(row.measured),
        text(row.rounds),
        text(row.baseline),
        text(f"{row.change} ({row.interval})" if row.interval else row.change),
    ]


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _has_reasons(result: Result, endings: Mapping[str, Ending]) -> bool:
    return _fails(result.verdict, endings.get(result.nodeid)) or result.verdict.needs_reason


def _compared(results: Iterable[Result]) -> Iterator[str]:
    """Yield what differed between the two sides of the comparisons that passed, each set of changes once."""
    changes = dict.fromkeys(tuple(wording.changes_of(each)) for each in results if each.live_baseline is not None)
    yield from (f"\nchanged, and passed: {', '.join(map(code, each))}\n" for each in changes if each)


def _reasons(result: Result, ending: Ending | None) -> str:
    unmet = [
        f"{code(check.expression)}: {check.outcome}, {text(check.reason)}"
        for check in result.checks
        if check.outcome.needs_reason
    ]
    lines = [
        *(text(problem.text) for problem in result.problems),
        *([f"changed: {', '.join(map(code, wording.changes_of(result)))}"] if result.changed else ()),
        *unmet,
        *(text(str(note)) for note in result.notes),
        *map(text, wording.failure_next_to(result, ending)),
        *(f"other change (no threshold): {text(wording.describe_other_change(one))}" for one in result.other_changes),
    ]
    return _section(_status(result, ending), result.nodeid, lines)


def _section(status: str, nodeid: str, lines: Sequence[str]) -> str:
    items = "".join(f"- {_ITEM.sub(_escaped, line)}\n" for line in lines)
    return f"\n#### {status}: {code(nodeid)}\n\n{items}"


def _values(result: Result) -> str:
    """Return the cluster, the scenario and all values of a test except those of brokers."""
    cluster = result.cluster
    scenario = ", ".join(f"{name}={format_field(name, getattr(result.scenario, name))}" for name in result.sources)
    version = f"{cluster.provider}, Kafka {cluster.version or 'of unknown version'}"
    trials = len(judged(result.trials))
    first = ", the values of the first" if trials > 1 else ""
    lines = [
        f"{version}; {counted(len(result.rounds), 'round')}, {counted(trials, 'trial')}{first}",
        f"scenario: {scenario or 'defaults'}",
        *(_noise(name, found, result) for name, found in result.calibration.items()),
        *wording.warning_lines(result),
        *map(str, baseline_doubts(result)),
    ]
    rows = "".join(
        _values_line(name, values, result) for name, values in result.values().items() if not name.startswith("broker.")
    )
    values = f"\n| metric | value | rounds |\n| --- | --: | --- |\n{rows}" if rows else ""
    items = "".join(f"- {text(line)}\n" for line in lines)
    return f"\n##### {code(result.nodeid)}\n\n{items}{values}"


def _noise(name: str, found: Calibrated, result: Result) -> str:
    cells = ", ".join(f"{title} {cell}" for title, cell in calibration_cells(name, found).items() if cell)
    return "; ".join([f"noise of {name}: {cells}", *calibration_remarks(name, found, result)])


def _values_line(name: str, values: list[float], result: Result) -> str:
    unit = CATALOGUE[name].unit
    rounds = ", ".join(wording.short(value, unit) for value in values)
    median = wording.bounded(wording.short(CATALOGUE[name].aggregate(values), unit), name, result)
    return f"{_table_line([code(name), text(median), text(rounds)])}\n"

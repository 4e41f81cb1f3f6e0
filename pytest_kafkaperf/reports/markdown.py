"""The summary in Markdown, as GitHub and GitLab render it: for a job's page, or a comment on a change."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.core.files import write_report
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.failure import describe_advice
from pytest_kafkaperf.reports.table import Row, failure_beside, names_of, remark_of, rows_of, short
from pytest_kafkaperf.runner.result import Ending, Result, standard_of, summary
from pytest_kafkaperf.scenario.fields import format_field
from pytest_kafkaperf.verdict.outcome import Verdict

LIMIT_BYTES = 1024 * 1024
"""Of the summary of one step; GitHub shows nothing of a longer one.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
"""
_RESERVED_BYTES = 1000
"""Of that, for the head and for what says that something was left out."""
_SPECIAL = re.compile(r"[&<>|`*\\\[\]~$#!@{}\"]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=http)s?:|(?<=www)\.")
"""What Markdown, HTML or a table could take for its own, or for an address."""
_ITEM = re.compile(r"^(?:[-+](?= |$)|-(?=[- ]*$)|\d{1,9}[.)](?= |$))")
"""What at the beginning of an item would be another list, or a line across the page."""
_HEAD = ("", "test", "metric", "median", "baseline", "change", "finds", "limit")
_NO_CELLS = [""] * (len(_HEAD) - 2)
_RIGHT = ("median", "baseline", "change", "finds")


def write_markdown(path: Path, results: Sequence[Result], endings: Mapping[str, Ending]) -> None:
    """Write the summary whole or not at all.

    Raises:
        UsageError: the file cannot be written; names it and the reason.

    """
    write_report(path, markdown(results, endings).encode(), option="markdown", what="summary")


def markdown(results: Sequence[Result], endings: Mapping[str, Ending], *, limit_bytes: int = LIMIT_BYTES) -> str:
    """How many tests got which verdict, a table, why some failed or could not be decided; the rest folded.

    `endings` are those of all perf tests that pytest ran, by nodeid, also of those that measured nothing. The gravest
    stand first. What exceeds `limit_bytes` as UTF-8 is left out, folded parts first, and the text says so.
    """
    ranked = sorted(results, key=lambda result: _rank(result, endings.get(result.nodeid)))
    measured = {result.nodeid for result in results}
    unmeasured = [each for each in endings.values() if each.nodeid not in measured]
    failed = [each for each in unmeasured if each.fails]
    parts = _Parts(
        head=_headline(results, endings, unmeasured),
        rows=[*map(_unmeasured_row, unmeasured), *_table_rows(ranked, endings)],
        reasons=[
            *(_section("❌ not measured", each.nodeid, [text(each.reason or each.outcome)]) for each in failed),
            *(_reasons(result, endings.get(result.nodeid)) for result in ranked if _has_reasons(result, endings)),
        ],
        folded=[_folded(result) for result in ranked],
    )
    return parts.within(limit_bytes)


def code(given: str) -> str:
    """A name, shown as it is whatever it holds: in a table, a heading, a list or HTML."""
    return f"<code>{text(printable(given))}</code>"


def text(given: str) -> str:
    """Words, shown as they are, whatever stands between them."""
    return _SPECIAL.sub(_by_number, printable(" ".join(given.split())))


def _by_number(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(each)};" for each in found[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    head: str
    rows: list[str]
    reasons: list[str]
    folded: list[str]

    def within(self, limit_bytes: int) -> str:
        """Put together what fits: the table before the reasons, these before what is folded."""
        left = limit_bytes - _RESERVED_BYTES - len(self.head.encode())
        rows, left = _fitting(self.rows, left)
        reasons, left = _fitting(self.reasons, left if len(rows) == len(self.rows) else 0)
        folded, _ = _fitting(self.folded, left if len(reasons) == len(self.reasons) else 0)
        missing = [
            f"{len(whole) - len(kept)} of {len(whole)} {what}"
            for whole, kept, what in (
                (self.rows, rows, "rows of the table"),
                (self.reasons, reasons, "tests' reasons"),
                (self.folded, folded, "tests' figures"),
            )
            if len(kept) < len(whole)
        ]
        table = [f"{_table_line(_HEAD)}\n", f"{_table_line(['--:' if each in _RIGHT else '---' for each in _HEAD])}\n"]
        lines = [self.head, "\n", *(table if rows else ()), *rows, *reasons]
        if folded:
            lines += ["\n<details><summary>All figures, by test</summary>\n", *folded, "\n</details>\n"]
        if missing:
            lines.append(f"\nLeft out, for a summary takes {limit_bytes:,} bytes: {', '.join(missing)}.\n")
        return "".join(lines)


def _fitting(blocks: Sequence[str], left: int) -> tuple[list[str], int]:
    """As many as fit, from the first on, and what they leave."""
    used = [*itertools.accumulate((len(block.encode()) for block in blocks), initial=0)]
    count = sum(size <= left for size in used[1:])
    return list(blocks[:count]), left - used[count]


def _rank(result: Result, ending: Ending | None) -> tuple[bool, int]:
    return not _fails(result.verdict, ending), -list(Verdict).index(result.verdict)


def _headline(results: Sequence[Result], endings: Mapping[str, Ending], unmeasured: Sequence[Ending]) -> str:
    counts = Counter(result.verdict for result in results)
    told = [f"{counts[verdict]} {verdict}" for verdict in reversed(Verdict) if verdict in counts]
    told += [f"{count} not measured ({outcome})" for outcome, count in Counter(e.outcome for e in unmeasured).items()]
    beside = sum(bool(failure_beside(result, endings.get(result.nodeid))) for result in results)
    signs = [_sign(each, Verdict.INCONCLUSIVE) for each in unmeasured]
    signs += [_sign(endings.get(result.nodeid), result.verdict) for result in results]
    sign = next((each for each in ("❌", "⚠️") if each in signs), "✅")
    return (
        f"### {sign} Kafka performance: {', '.join(told) or 'no test'}"
        f"{f'; {beside} of them failed otherwise' if beside else ''}\n"
    )


def _fails(verdict: Verdict, ending: Ending | None) -> bool:
    """For pytest, as far as it has told how the test ended."""
    return verdict.fails if ending is None else ending.fails


def _sign(ending: Ending | None, verdict: Verdict) -> str:
    if _fails(verdict, ending):
        return "❌"
    return "⚠️" if verdict.fails or verdict is Verdict.INCONCLUSIVE else "✅"


def _told(result: Result, ending: Ending | None) -> str:
    remark = remark_of(result, ending)
    return f"{_sign(ending, result.verdict)} {result.verdict}{f' ({remark})' if remark else ''}"


def _table_rows(results: Sequence[Result], endings: Mapping[str, Ending]) -> Iterator[str]:
    """A row a limit; the test stands in the first of its rows."""
    names = names_of(results)
    for result in results:
        first = [_told(result, endings.get(result.nodeid)), code(names[result.nodeid])]
        for cells in [_cells(row) for row in rows_of(result)] or [_NO_CELLS]:
            yield f"{_table_line([*first, *cells])}\n"
            first = ["", ""]


def _unmeasured_row(ending: Ending) -> str:
    told = f"{_sign(ending, Verdict.INCONCLUSIVE)} not measured ({ending.outcome})"
    return f"{_table_line([told, code(ending.nodeid), *_NO_CELLS])}\n"


def _cells(row: Row) -> list[str]:
    broken = row.outcome is not None and row.outcome.fails
    limit = f"{code(row.limit)}{f' ({text(row.bound)})' if row.bound else ''}" if row.limit else ""
    return [
        code(row.metric),
        text(f"{row.median} {row.spread}"),
        text(row.baseline),
        text(f"{row.change} {row.interval}"),
        text(row.detectable),
        f"❌ {limit}" if broken else limit,
    ]


def _table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _has_reasons(result: Result, endings: Mapping[str, Ending]) -> bool:
    return (
        _fails(result.verdict, endings.get(result.nodeid))
        or result.verdict.fails
        or result.verdict is Verdict.INCONCLUSIVE
    )


def _reasons(result: Result, ending: Ending | None) -> str:
    undecided = [
        f"{code(check.expression)}: {check.outcome}, {text(check.reason)}"
        for check in result.checks
        if check.outcome.fails or check.outcome is Verdict.INCONCLUSIVE
    ]
    lines = [
        *(text(problem.text) for problem in result.problems),
        *undecided,
        *map(text, result.notes),
        *map(text, failure_beside(result, ending)),
        *(f"changed against the {standard_of(result)}: {code(each)}" for each in result.changed),
        *(f"advice, not a limit: {text(describe_advice(one))}" for one in result.advice),
    ]
    return _section(_told(result, ending), result.nodeid, lines)


def _section(told: str, nodeid: str, lines: Sequence[str]) -> str:
    listed = "".join(f"- {_ITEM.sub(_by_number, line)}\n" for line in lines)
    return f"\n#### {told}: {code(nodeid)}\n\n{listed}"


def _folded(result: Result) -> str:
    """Where it ran, what it did, and every figure; rounds one by one are in the JSON report."""
    cluster = result.cluster
    scenario = ", ".join(f"{name}={format_field(name, getattr(result.scenario, name))}" for name in result.sources)
    place = f"{cluster.provider}, Kafka {cluster.version or 'of unknown version'}"
    lines = [
        f"{place}; {counted(len(result.rounds), 'round')}, {counted(len(result.sessions), 'session')}",
        f"scenario: {scenario or 'defaults'}",
        *(f"warning: {each}" for each in result.warnings),
    ]
    figures = "".join(
        _figures_line(name, values) for name, values in result.values().items() if not name.startswith("broker.")
    )
    table = f"\n| metric | median | rounds |\n| --- | --: | --- |\n{figures}" if figures else ""
    listed = "".join(f"- {text(line)}\n" for line in lines)
    return f"\n##### {code(result.nodeid)}\n\n{listed}{table}"


def _figures_line(name: str, values: list[float]) -> str:
    unit = CATALOGUE[name].unit
    rounds = ", ".join(short(value, unit) for value in values)
    return f"{_table_line([code(name), text(short(summary(name, values), unit)), text(rounds)])}\n"

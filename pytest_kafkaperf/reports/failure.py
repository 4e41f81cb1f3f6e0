"""The message of a failed test: what changed, then the thresholds that are not met, as in the table of results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.reports.again import without_remedy
from pytest_kafkaperf.reports.layout import PLAIN, Columns, Paper, Row, text_of
from pytest_kafkaperf.reports.table import describe_changes, row_of, without_repeats
from pytest_kafkaperf.runner.result import Result, standard_of
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.verdict import worst


def failure_of(result: Result, paper: Paper = PLAIN, *, strict: bool) -> str | None:
    """Return the message with which a test fails, or None if it passes. With `strict`, INCONCLUSIVE fails, too."""
    undecided = strict and result.verdict is Verdict.INCONCLUSIVE
    if not result.verdict.fails and not undecided:
        return None
    changed, after = "", [*filter(None, [result.deduced])]
    if undecided:
        after = list(result.notes)
    elif result.verdict is Verdict.REGRESSED:
        rounds = [one for session in result.sessions for one in session.all_rounds]
        busy = without_repeats(one.busy_warning for one in rounds if one.busy_warning is not None)
        changed, after = describe_changes(result), [*after, *(f"warning: {text}" for text in busy)]
    text = failure_text(
        [(check, row_of(check, result)) for check in result.checks],
        result.problems,
        paper,
        strict=undecided,
        changed=changed,
        standard=standard_of(result),
    )
    notes = [line for note in after for line in paper.wrap(note, indent="  ", hanging="  ")]
    return "\n".join([text or f"{result.verdict} (--kafka-strict)", *notes])


def failure_text(
    checked: Sequence[tuple[Check, Row]],
    problems: Sequence[Problem] = (),
    paper: Paper = PLAIN,
    *,
    strict: bool = False,
    changed: str = "",
    standard: str = "baseline",
) -> str:
    """Return the problems of a run, what changed, and each threshold that is not met, with the reason below it.

    With `strict`, an INCONCLUSIVE threshold counts as not met.
    """
    broken = [
        (check, dataclasses.replace(row, detects="", why=without_remedy(row.why)))
        for check, row in checked
        if check.outcome.fails or (strict and check.outcome is Verdict.INCONCLUSIVE)
    ]
    lines = []
    if problems:
        lines.append(f"{Verdict.INVALID}: the run cannot be trusted")
        texts = [text for problem in problems for text in problem.text.split("\n")]  # the lines of a log stay lines
        lines += [line for text in texts for line in paper.wrap(text, indent="  ")]
    if broken:
        verdict = worst([check.outcome for check, _ in broken])
        first, row = next(each for each in broken if each[0].outcome is verdict)
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        figure = (row.change if first.is_relative else "") or row.measured
        lines.append(f"{'not met in this run' if problems else verdict}: {first.metric} {figure}{more}")
        lines += paper.wrap(changed, indent="  ", hanging="  ")
        columns = Columns([row for _, row in broken], paper, standard=standard)
        lines += [text_of(columns.header), *(text_of(line) for _, row in broken for line in columns.lines(row))]
    return "\n".join(lines)

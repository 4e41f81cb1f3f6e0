"""The message of a failed test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from pytest_kafkaperf.reports.columns import PLAIN, Columns, text_of
from pytest_kafkaperf.reports.wording import describe_changes, row_of, why_before_command, without_repeats
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Check, Verdict, worst


def failure_of(result: Result, *, strict: bool) -> str | None:
    """Return the message with which a test fails, or None if it passes. With `strict`, INCONCLUSIVE fails, too.

    It has the problems of the run, what changed, and each threshold that is not met, with the reason below it.
    """
    undecided = strict and is_undecided(result)
    if not undecided and (result.accepted or not result.verdict.fails):
        return None
    lines = list(_untrusted(result))
    failing = {Verdict.INCONCLUSIVE} if undecided else {Verdict.REGRESSED, Verdict.VIOLATED}
    if not result.problems:  # otherwise they explain what is INVALID
        failing.add(Verdict.INVALID)
    broken = [check for check in result.checks if check.outcome in failing]
    if broken:
        lines += _not_met(broken, result)
    if not lines:
        lines.append(f"{result.verdict} (--kafka-strict)")
    for note in result.notes if undecided else _explanations(result):
        lines += PLAIN.wrap(str(note), indent="  ", hanging="  ")
    return "\n".join(lines)


def _untrusted(result: Result) -> Iterator[str]:
    """Yield the problems of a run."""
    if result.problems:
        yield f"{Verdict.INVALID}: the run cannot be trusted"
    for problem in result.problems:
        for text in problem.text.split("\n"):  # the lines of a log stay
            yield from PLAIN.wrap(text, indent="  ")


def _explanations(result: Result) -> Iterator[str]:
    """Yield what may explain a failure: the deduced bottleneck, and for a regression the busy machine."""
    if result.deduced:
        yield result.deduced
    if result.verdict is Verdict.REGRESSED:
        rounds = [one for trial in result.trials for one in trial.all_rounds]
        for text in without_repeats(notice for one in rounds for notice in one.busy):
            yield f"warning: {text}"


def is_undecided(result: Result) -> bool:
    """Return True if the test is INCONCLUSIVE, or would be but for a regression that is accepted."""
    open_checks = [check for check in result.checks if check.outcome is Verdict.INCONCLUSIVE]
    return result.verdict is Verdict.INCONCLUSIVE or (result.accepted and bool(open_checks))


def _not_met(checks: Sequence[Check], result: Result) -> Iterator[str]:
    """Yield the first of the worst thresholds, what changed, and the table of all of them."""
    rows = [
        dataclasses.replace(row_of(check, result), can_detect="", why=why_before_command(check)) for check in checks
    ]
    verdict = worst([check.outcome for check in checks])
    first, row = next(each for each in zip(checks, rows, strict=True) if each[0].outcome is verdict)
    more = f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""
    value = (row.change if first.is_relative else "") or row.measured
    yield f"{'not met in this run' if result.problems else verdict}: {first.metric} {value}{more}"
    if result.verdict is Verdict.REGRESSED:
        yield from PLAIN.wrap(describe_changes(result), indent="  ", hanging="  ")
    columns = Columns(rows, PLAIN)
    yield from (text_of(line) for line in [columns.header, *(line for row in rows for line in columns.lines(row))])

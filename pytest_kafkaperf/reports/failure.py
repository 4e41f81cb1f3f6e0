"""The message of a failing test."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity, format_ratio
from pytest_kafkaperf.runner.result import Result, standard_of
from pytest_kafkaperf.verdict.advice import Advice
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check, worst


def failure_of(result: Result, *, strict: bool) -> str | None:
    """Why a test fails, for its user; None when it passes. With `strict`, what could not be decided fails, too."""
    undecided = strict and result.verdict is Verdict.INCONCLUSIVE
    if not result.verdict.fails and not undecided:
        return None
    changed = [f"changed against the {standard_of(result)}: {', '.join(result.changed)}"] if result.changed else []
    advice = [f"{describe_advice(one)} (advice, not a limit)" for one in result.advice if not one.better]
    rounds = [one for session in result.sessions for one in session.all_rounds]
    busy = dict.fromkeys(one.busy_warning for one in rounds if one.busy_warning is not None)
    text = failure_text(result.checks, result.problems, strict=undecided)
    if undecided:
        notes = (line for note in result.notes for line in _wrapped(note, indent=2))
        return "\n".join([text or f"{result.verdict} (--kafka-strict)", *notes])
    if result.verdict is not Verdict.REGRESSED:
        return text
    return "\n".join([text, *(line for told in (*changed, *busy, *advice) for line in _wrapped(told, indent=2))])


def describe_advice(advice: Advice) -> str:
    """`e2e.latency.p50 +32.0 % (2.1 ms -> 2.8 ms)`."""
    unit = metric(advice.metric).unit
    return (
        f"{advice.metric} {format_ratio(advice.change)} "
        f"({format_quantity(advice.baseline, unit)} -> {format_quantity(advice.observed, unit)})"
    )


def failure_text(checks: Sequence[Check], problems: Sequence[Problem] = (), *, strict: bool = False) -> str:
    """The message of a failing test: its problems, then each limit not met, one a line, with the reason below.

    With `strict`, what could not be decided is not met.
    """
    broken = [check for check in checks if check.outcome.fails or (strict and check.outcome is Verdict.INCONCLUSIVE)]
    lines = []
    if problems:
        lines.append(f"{Verdict.INVALID}: the run cannot be trusted")
        lines += [line for problem in problems for line in _wrapped(problem.text)]
    if broken:
        count = f"{len(broken)} of {len(checks)} limits not met"
        verdict = worst([check.outcome for check in broken])
        lines.append(f"{count}, as far as this run can tell" if problems else f"{verdict}: {count}")
        head, *rows = _table(broken)
        lines.append(head)
        for row, check in zip(rows, broken, strict=True):
            needs = " (--kafka-strict)" if check.outcome is Verdict.INCONCLUSIVE else ""
            lines += [row, *_wrapped(f"{check.outcome}{needs}: {check.reason}")]
    return "\n".join(lines)


def digits_of(check: Check) -> int:
    """Of what was observed: 25.04 ms against 25 ms would read as 25 ms against 25 ms."""
    unit, observed, limit = metric(check.metric).unit, check.observed, check.limit_value
    close = observed != limit and _shown(observed, unit) == _shown(limit, unit)
    return _CLOSE_DIGITS if close else _DIGITS


_HEAD = ("expression", "observed", "limit", "baseline", "change")
_WIDTH = 80


def _table(checks: Sequence[Check]) -> list[str]:
    """Head and rows, aligned; columns that would be empty are left out."""
    rows = [_HEAD, *(_row(check) for check in checks)]
    columns = [column for column in zip(*rows, strict=True) if any(cell != "-" for cell in column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for first, *others in zip(*columns, strict=True):
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _row(check: Check) -> tuple[str, str, str, str, str]:
    unit, digits = metric(check.metric).unit, digits_of(check)
    return (
        check.expression,
        _shown(check.observed, unit, digits),
        _shown(check.limit_value, unit, digits),
        _shown(check.baseline, unit),
        "-" if check.change is None else format_ratio(check.change),
    )


_DIGITS = 3
_CLOSE_DIGITS = 6


def _shown(value: float | None, unit: Unit, digits: int = _DIGITS) -> str:
    return "-" if value is None else format_quantity(value, unit, digits=digits)


def _wrapped(text: str, indent: int = 4) -> list[str]:
    margin = " " * indent
    shown = printable(text, keep="\t\n")
    return textwrap.wrap(shown, _WIDTH, initial_indent=margin, subsequent_indent=margin, break_long_words=False)

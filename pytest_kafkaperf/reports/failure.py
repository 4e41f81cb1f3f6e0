"""The message of a failed test."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.problems import Problem
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity, format_ratio
from pytest_kafkaperf.runner.result import Result, standard_of
from pytest_kafkaperf.verdict.advice import Advice
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.verdict import worst


def failure_of(result: Result, *, strict: bool) -> str | None:
    """Return the message with which a test fails, or None if it passes. With `strict`, INCONCLUSIVE fails, too."""
    undecided = strict and result.verdict is Verdict.INCONCLUSIVE
    if not result.verdict.fails and not undecided:
        return None
    changed = [f"changed against the {standard_of(result)}: {', '.join(result.changed)}"] if result.changed else []
    advice = [f"{describe_advice(one)} (advice, no threshold)" for one in result.advice if not one.better]
    rounds = [one for session in result.sessions for one in session.all_rounds]
    busy = dict.fromkeys(one.busy_warning for one in rounds if one.busy_warning is not None)
    text = failure_text(result.checks, result.problems, strict=undecided)
    if undecided:
        text, notes = text or f"{result.verdict} (--kafka-strict)", list(result.notes)
    else:
        notes = [*changed, *busy, *advice] if result.verdict is Verdict.REGRESSED else []
    return "\n".join([text, *(line for note in notes for line in wrap_text(note, indent="  "))])


def describe_advice(advice: Advice) -> str:
    """Return a text such as `e2e.latency.p50 +32.0 % (2.1 ms -> 2.8 ms)`."""
    unit = metric(advice.metric).unit
    return (
        f"{advice.metric} {format_ratio(advice.change)} "
        f"({format_quantity(advice.baseline, unit)} -> {format_quantity(advice.observed, unit)})"
    )


def failure_text(checks: Sequence[Check], problems: Sequence[Problem] = (), *, strict: bool = False) -> str:
    """Return the problems of a run, then one line for each threshold that is not met, with the reason below it.

    With `strict`, an INCONCLUSIVE threshold counts as not met.
    """
    broken = [check for check in checks if check.outcome.fails or (strict and check.outcome is Verdict.INCONCLUSIVE)]
    lines = []
    if problems:
        lines.append(f"{Verdict.INVALID}: the run cannot be trusted")
        texts = [text for problem in problems for text in problem.text.split("\n")]  # the lines of a log stay lines
        lines += [line for text in texts for line in wrap_text(text, indent=_MARGIN)]
    if broken:
        count = f"{len(broken)} of {len(checks)} thresholds not met"
        verdict = worst([check.outcome for check in broken])
        lines.append(f"{count} in this run" if problems else f"{verdict}: {count}")
        head, *rows = _table(broken)
        lines.append(head)
        for row, check in zip(rows, broken, strict=True):
            needs = " (--kafka-strict)" if check.outcome is Verdict.INCONCLUSIVE else ""
            lines += [row, *wrap_text(f"{check.outcome}{needs}: {check.reason}", indent=_MARGIN)]
    return "\n".join(lines)


def digits_of(check: Check) -> int:
    """Return the number of digits that tell an observed value from its threshold, such as 25.04 ms from 25 ms."""
    unit, observed, limit = metric(check.metric).unit, check.observed, check.limit_value
    close = observed != limit and _shown(observed, unit) == _shown(limit, unit)
    return _CLOSE_DIGITS if close else _DIGITS


def wrap_text(text: str, width: int = 80, *, indent: str = "", hanging: str = "") -> list[str]:
    """Wrap a text at `width` columns; `hanging` is the further indent of continuation lines."""
    return textwrap.wrap(
        printable(text, keep="\t\n"),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


_HEAD = ("expression", "observed", "limit", "baseline", "change")
_MARGIN = "    "


def _table(checks: Sequence[Check]) -> list[str]:
    """Return the header and the rows, aligned and without empty columns."""
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

"""The rows of the tables of results, as text: one for each threshold, or one for each headline metric."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES, metric
from pytest_kafkaperf.core.text import file_of, printable, without_folders
from pytest_kafkaperf.core.units import Unit, format_quantity, format_ratio
from pytest_kafkaperf.load.allocation import described
from pytest_kafkaperf.reports.failure import describe_advice, digits_of
from pytest_kafkaperf.reports.latency_curve import describe_search
from pytest_kafkaperf.runner.judging import baseline_doubts
from pytest_kafkaperf.runner.result import Ending, Result, standard_of
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.verdict.outcome import Check, Verdict

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric of one test. A text is empty if the value is unknown or does not apply."""

    metric: str
    median: str
    """Median over the rounds; the sum for counts."""
    spread: str = ""
    """Least and greatest value of the rounds: `51.3–53.3` beside `52.3k/s`."""  # noqa: RUF001
    baseline: str = ""
    change: str = ""
    interval: str = ""
    """Confidence interval of the change in per cent: `[+41, +52]`."""
    detectable: str = ""
    """Minimum detectable change, or for an absolute threshold the smallest detectable value."""
    limit: str = ""
    """Threshold without its metric: `<= baseline + 20%`."""
    bound: str = ""
    """Limit as a quantity, if the threshold does not contain it: `14.5 ms`."""
    outcome: Verdict | None = None
    """None without a threshold."""

    @property
    def observed(self) -> str:
        """The median with the spread: `52.3k/s (51.3–53.3)`."""  # noqa: RUF002 - as it is shown
        return f"{self.median} ({self.spread})" if self.spread else self.median


_DIGITS = "0123456789."


def rows_of(result: Result) -> list[Row]:
    """Return one row for each threshold, after the headline metrics if all thresholds are on counts."""
    rows = [row_of(check, result) for check in result.checks]
    if all(CATALOGUE[check.metric].over_rounds == "sum" for check in result.checks):
        rows = [
            _headline_row(name, values, result) for name, values in result.values().items() if name in HEADLINES
        ] + rows
    return rows


def remark_of(result: Result, ending: Ending | None) -> str | None:
    """Return how the test ended for pytest, or None if its verdict implies that."""
    expected = "failed" if result.verdict.fails else "passed"
    return None if ending is None or ending.outcome == expected else ending.outcome


def failure_beside(result: Result, ending: Ending | None) -> list[str]:
    """Return the reason if the test's own code or a fixture failed, not its verdict or `--kafka-strict`."""
    if ending is None or not ending.fails or ending.reason is None or result.verdict.fails:
        return []
    return [] if ending.by_verdict else [ending.reason]


def short(value: float, unit: Unit, digits: int = 3) -> str:
    """Format a quantity without `records`, which the metric's name implies: `52.3k/s`."""
    text = format_quantity(value, unit, digits=digits)
    return text.removesuffix(" records").replace(" records/s", "/s").replace("/M records", "/M")


def bounded(text: str, name: str, result: Result) -> str:
    """Return the figure of a metric with a sign if it is a lower bound: `≥ 1.56M/s`."""
    return f"≥ {text}" if name in result.lower_bounds else text


def row_of(check: Check, result: Result) -> Row:
    """Return the row of a threshold."""
    unit, digits = metric(check.metric).unit, digits_of(check)
    indirect = check.limit_value is not None and not check.limit[:1].isdigit()
    median = "-" if check.observed is None else short(check.observed, unit, digits)
    return Row(
        metric=check.metric,
        median=bounded(median, check.metric, result),
        spread="" if metric(check.metric).over_rounds == "sum" else _spread(median, check.spread, unit),
        baseline="" if check.baseline is None else short(check.baseline, unit),
        change="" if check.change is None else format_ratio(check.change),
        interval="" if check.interval is None else f"[{', '.join(map(_end, check.interval))}]",
        detectable=_detectable(check, unit),
        limit=check.expression.strip().removeprefix(check.metric).strip(),
        bound=short(check.limit_value, unit, digits) if indirect and check.limit_value is not None else "",
        outcome=check.outcome,
    )


def _detectable(check: Check, unit: Unit) -> str:
    """Return the change, or for an absolute threshold the value, that is detected with a probability of 80 %."""
    if check.detectable is None:
        return ""
    if check.is_relative or check.limit_value is None:
        return format_ratio(check.detectable)
    return short(check.limit_value * (1 + check.detectable), unit)


def _headline_row(name: str, values: Sequence[float], result: Result) -> Row:
    unit = metric(name).unit
    median = short(statistics.median(values), unit)
    spread = _spread(median, (min(values), max(values)), unit)
    return Row(metric=name, median=bounded(median, name, result), spread=spread)


def _spread(median: str, ends: tuple[float, float] | None, unit: Unit) -> str:
    """Return the least and the greatest value, without the unit if it is that of the median."""
    if ends is None:
        return ""
    least, most = (short(end, unit) for end in ends)
    own = median.lstrip(_DIGITS)
    if least.lstrip(_DIGITS) == most.lstrip(_DIGITS) == own:
        least, most = least.removesuffix(own), most.removesuffix(own)
    return f"{least}–{most}" if least != most else ""  # noqa: RUF001 - a dash between two figures


def _end(change: float) -> str:
    """Format one end of a confidence interval in percent: no decimals from 10 % on, else one; it is not more exact."""
    percent = change * 100
    text = f"{percent:+.0f}" if abs(percent) >= 10 else f"{percent:+.1f}"  # noqa: PLR2004
    return "0.0" if text in ("+0.0", "-0.0") else text


_MOST_NAMED = 5
"""Maximum number of baselines without a test that are listed by name."""


def render_notes(session: Session, *, verbose: bool) -> list[str]:
    """Return the notes below the table, neither wrapped nor indented."""
    names = names_of(session.results)
    notes = [
        f"{names[result.nodeid]}: {text}" for result in session.results for text in _notes(result, verbose=verbose)
    ]
    doubts: dict[str, list[str]] = {}
    for result in session.results:
        for text in baseline_doubts(result, session.written.get(result.nodeid)):
            doubts.setdefault(text, []).append(names[result.nodeid])
    notes += [f"{text}: {', '.join(tests)}" for text, tests in doubts.items()]
    if session.orphans:
        notes.append(_orphan_note(session))
    if session.written:
        folder = session.settings.shown(session.settings.baselines)
        notes.append(f"baselines written: {len(session.written)} in {folder} (commit them)")
    return notes


def _orphan_note(session: Session) -> str:
    named = [each.nodeid for each in session.orphans[:_MOST_NAMED]]
    more = len(session.orphans) - len(named)
    text = f"baselines of tests that no longer exist: {', '.join(named)}{f' and {more} more' if more else ''}"
    if session.pruned:
        return f"deleted {text} (commit the deletion)"
    if session.settings.prune:
        return f"{text}; not deleted, because only some tests were collected: run without -k, -m and names of tests"
    return f"{text}; delete them with --kafka-prune-baselines"


def names_of(results: Sequence[Result]) -> dict[str, str]:
    """Return short names by nodeid for tables: without folders, and without the file if all tests share it."""
    files = {file_of(result.nodeid) for result in results}
    return {
        result.nodeid: printable(
            result.nodeid.partition("::")[2] if len(files) == 1 else without_folders(result.nodeid)
        )
        for result in results
    }


def _notes(result: Result, *, verbose: bool) -> Iterator[str]:
    yield from (text.partition("\n")[0] for text in result.warnings)
    yield from result.notes
    for check in result.checks if result.rounds else ():
        if check.outcome is Verdict.INCONCLUSIVE or (check.rerun and check.outcome is Verdict.PASSED):
            yield f"{check.expression}: {check.reason}"
    if result.changed and (verbose or result.reference is not None or len(result.sessions) > 1):
        yield f"changed against the {standard_of(result)}: {', '.join(result.changed)}"
    yield from (f"advice (no threshold): {describe_advice(one)}" for one in result.advice)
    if verbose:
        yield _scenario(result)
    if (verbose or result.allocation.is_measured) and result.rounds and result.rounds[0].shares:
        yield described(result.allocation, result.rounds[0].shares)


def _scenario(result: Result) -> str:
    """Return the scenario's fields that are not defaults, each with its source."""
    fields = (
        f"{name}={format_field(name, getattr(result.scenario, name))} ({source})"
        for name, source in result.sources.items()
    )
    search = [] if result.plan is None else [f"rate: {describe_search(result.plan)}"]
    return ", ".join([*fields, *search]) or "defaults"

"""The content of results tables, as text."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import HEADLINES, metric
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark, each_once
from pytest_kafkaperf.core.problems import ProblemKind, merged
from pytest_kafkaperf.core.text import file_of, listed, printable, without_file, without_folders
from pytest_kafkaperf.core.units import Quantity, Unit, counted, format_quantity, short_change
from pytest_kafkaperf.reports.columns import Row
from pytest_kafkaperf.reports.conditions import describe_conditions
from pytest_kafkaperf.reports.remedy import acceptance_of, is_compared, obstacle_of, remedy_of
from pytest_kafkaperf.runner.evidence import baseline_doubts
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, judged
from pytest_kafkaperf.scenarios.threshold import Threshold
from pytest_kafkaperf.verdict.other_changes import LEAST_CHANGE, OtherChange
from pytest_kafkaperf.verdict.outcome import Check, Verdict, worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One test in the table."""

    verdict: Verdict
    name: str
    remark: str = ""
    """Text next to the name, describing how the verdict was reached."""
    problems: tuple[str, ...] = ()
    """Reasons why the test is INVALID, shown above the rows."""
    rows: tuple[Row, ...]
    lines: tuple[str, ...] = ()
    """Texts below the rows."""


def block_of(result: Result, name: str, ending: Ending | None, *, verbose: bool, failures: bool = False) -> Block:
    """Return a test's block in the table; `verbose` adds the conditions that influence its values.

    With `failures`, pytest prints the messages of failed tests above the table, so the table does not repeat them.
    """
    explained = failures and ending is not None and ending.fails and ending.by_verdict
    # The failure message contains the logs.
    problems = [one.sentence if explained and one.details else one.text for one in merged(result.problems)]
    rows = rows_of(result, verbose=verbose, explained=explained)
    if not verbose:
        rows = [dataclasses.replace(row, can_detect="") for row in rows]
    return Block(
        verdict=result.verdict,
        name=name,
        remark=", ".join(filter(None, (remark_of(result, ending), how_of(result)))),
        problems=tuple(problems),
        rows=tuple(rows),
        lines=tuple(_lines(result, verbose=verbose, explained=explained)),
    )


def count_verdicts(verdicts: Sequence[Verdict], *, not_measured: int = 0) -> str:
    """Return the number of tests by verdict, failures first, as in `1 regressed, 1 passed, 1 inconclusive`.

    `not_measured` is the number of tests that failed before measuring anything.
    """
    counts = Counter(verdicts)
    ranked = sorted(counts, key=lambda verdict: (not verdict.fails, verdict is Verdict.INCONCLUSIVE, str(verdict)))
    parts = [f"{counts[verdict]} {verdict.lower()}" for verdict in ranked]
    return ", ".join([*parts, f"{not_measured} not measured"] if not_measured else parts)


_DIGITS = 3
_CLOSE_DIGITS = 6
_NUMERALS = "0123456789."


def rows_of(result: Result, *, verbose: bool = True, explained: bool = False) -> list[Row]:
    """Return a row for each threshold, preceded by the headline metrics if all thresholds are on counts.

    Counts with equal values share a row. Without any rounds, there are no rows. `explained` is True if a failure
    message already shows the changes and the next step.
    """
    if not result.rounds:
        return []
    rows = [row_of(check, result) for check in result.checks]
    whys = _whys(result, verbose=verbose, explained=explained)
    rows = [dataclasses.replace(row, why=why) for row, why in zip(rows, whys, strict=True)]
    names = {*shown_metrics(result.checks)} - {check.metric for check in result.checks}
    headlines = [_headline_row(name, values, result) for name, values in result.values().items() if name in names]
    return _merged([*headlines, *rows])


def shown_metrics(declared: Sequence[Check] | Sequence[Threshold]) -> list[str]:
    """Return the metrics in the table: those with a threshold, preceded by headline metrics if all are on counts."""
    found = [metric(each.metric) if isinstance(each, Check) else each.metric for each in declared]
    headlines = HEADLINES if all(each.over_rounds == "sum" for each in found) else ()
    return list(dict.fromkeys([*headlines, *(each.name for each in found)]))


def row_of(check: Check, result: Result | None = None) -> Row:
    """Return a threshold's row without a baseline that does not count, or `✓` for a value that is not trustworthy."""
    unit = metric(check.metric).unit
    digits = digits_of(check)
    measured = "-" if check.observed is None else short(check.observed, unit, digits)
    measured = f"≤ {measured}" if check.is_upper_bound else measured
    if result is not None and not is_compared(result):
        check = dataclasses.replace(check, baseline=None, change=None, interval=None)
    return Row(
        threshold=check.expression,
        measured=measured if result is None or check.is_upper_bound else bounded(measured, check.metric, result),
        rounds="" if metric(check.metric).over_rounds == "sum" else _spread(measured, check.spread, unit),
        baseline="" if check.baseline is None else short(check.baseline, unit),
        change="" if check.change is None else short_change(check.change),
        interval="" if check.interval is None else range_of(check.interval),
        can_detect=_can_detect(check, unit),
        outcome=None if check.outcome is Verdict.PASSED and result and result.problems else check.outcome,
        why=_joined(_allowed(check), check.reason),
    )


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def remark_of(result: Result, ending: Ending | None) -> str | None:
    """Return the test's outcome in pytest, or None if the verdict implies it."""
    if result.accepted and (ending is None or not ending.fails):
        return "accepted"
    expected = "failed" if result.verdict.fails else "passed"
    return None if ending is None or ending.outcome == expected else ending.outcome


def how_of(result: Result) -> str:
    """Return how the verdict was reached, or why the test is INCONCLUSIVE; empty after a single trial."""
    further = len(judged(result.trials)) - 1
    if not result.checks and result.rounds and not result.problems:
        return "no threshold"
    if result.baseline.ungated is not None:
        return str(result.baseline.ungated)
    if result.verdict is Verdict.INCONCLUSIVE and (obstacle := obstacle_of(result)) is not None:
        return obstacle.fact
    if result.live_baseline is not None and result.rounds:
        return f"side by side, {counted(further + 1, 'trial')}"
    return _how_re_tested(result, further)


def _how_re_tested(result: Result, further: int) -> str:
    """Return the result of this number of re-tests of a suspected regression; empty if there were none."""
    suspected = [check for check in result.checks if check.rerun]
    if not suspected or not further or result.verdict is Verdict.INVALID:
        return ""
    is_slower = any(notice.kind is NoticeKind.BOTH_SLOWER for notice in result.warnings)
    is_side_by_side = bool(suspected[0].trials)
    where = "side by side in " if is_side_by_side else "in "
    where += counted(further, "trial" if is_side_by_side else "fresh trial")
    outcome = worst([check.outcome for check in suspected])
    if outcome.fails:
        return f"confirmed {where}"
    cleared = "the machine is slower" if is_slower else "cleared"
    return f"re-tested {where}: {'undecided' if outcome is Verdict.INCONCLUSIVE else cleared}"


def tolerated(results: Sequence[Result], endings: Mapping[str, Ending]) -> list[str]:
    """Return a line, with the reason, for each test whose verdict is a failure but which does not make the run fail."""
    names = names_of(results)
    return [
        f"tolerated: {names[result.nodeid]} {result.verdict} ({remark_of(result, endings.get(result.nodeid))})"
        for result in results
        if result.verdict.fails and (result.accepted or _is_expected(endings.get(result.nodeid)))
    ]


def _is_expected(ending: Ending | None) -> bool:
    return ending is not None and ending.outcome == "xfailed"


def failure_next_to(result: Result, ending: Ending | None) -> list[str]:
    """Return the reason if the test's code or a fixture caused the failure, not the verdict or `--kafka-strict`."""
    if ending is None or not ending.fails or ending.reason is None or result.verdict.fails:
        return []
    return [] if ending.by_verdict else [ending.reason]


def short(value: float, unit: str, digits: int = _DIGITS) -> str:
    """Format a quantity without `records`, which the metric's name implies, as in `52.3k/s`."""
    text = format_quantity(value, unit, digits=digits)
    return text.removesuffix(" records").removesuffix(" record").replace(" records/s", "/s").replace("/M records", "/M")


def took(seconds: float) -> str:
    """Format a duration in whole seconds, as in `41s` or `2m41s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def bounded(text: str, name: str, result: Result) -> str:
    """Format a metric's value, with a sign if it is only a lower bound, as in `≥ 1.56M/s`."""
    return f"≥ {text}" if name in result.lower_bounds else text


def without_repeats(notices: Iterable[Notice]) -> list[str]:
    """Return a line for each notice; similar notices that differ only in numbers share a line with a count."""
    return [_line_of(same) for same in _alike(notices)]


def warning_lines(result: Result, *, verbose: bool = True) -> list[str]:
    """Return a line for each warning; without `verbose`, expected warnings of a passing test are omitted.

    Lines about events do not start with `warning`, because events may be planned.
    """
    every = verbose or result.verdict.needs_reason
    lines = []
    for same in _alike(result.warnings):
        is_expected = _is_expected_notice(same[0], result)
        if every or not is_expected:
            is_plain = is_expected or same[0].kind is NoticeKind.EVENT
            lines.append(_line_of(same) if is_plain else f"warning: {_line_of(same)}")
    return lines


def _is_expected_notice(notice: Notice, result: Result) -> bool:
    """Return True for an action that the test itself performed, and for a commit interval far below all thresholds."""
    interval = notice.values.get("interval")
    if notice.remark is Remark.COMMIT_INTERVAL and isinstance(interval, Quantity):
        limits = [check.limit_value for check in result.checks if _is_time_of_application(check)]
        return all(limit is None or limit >= _FAR * interval.value for limit in limits)
    return notice.remark is Remark.ACTION


_FAR = 3
"""Minimum ratio of a threshold to a commit interval for the interval to hardly matter."""


def _is_time_of_application(check: Check) -> bool:
    return check.metric.startswith("app.") and metric(check.metric).unit == Unit.SECONDS


def _alike(notices: Iterable[Notice]) -> list[list[Notice]]:
    """Group notices that differ only in their numbers."""
    groups: dict[Hashable, list[Notice]] = {}
    for notice in each_once(notices):
        groups.setdefault(notice.alike, []).append(notice)
    return [*groups.values()]


def _line_of(same: Sequence[Notice]) -> str:
    first = same[0].text.partition("\n")[0]
    return first if len(same) == 1 else f"{first} (and {len(same) - 1} more like this)"


def describe_other_change(other: OtherChange) -> str:
    """Return a text such as `e2e.latency.p50 +32% (2.1 ms → 2.8 ms)`."""
    unit = metric(other.metric).unit
    before, after = format_quantity(other.baseline, unit), format_quantity(other.observed, unit)
    return f"{other.metric} {short_change(other.change)} ({before} → {after})"


def describe_changes(result: Result) -> str:
    """Return the differences from the stored or live baseline, as in `changed: Kafka 4.0.0 → 4.1.1`; empty if none."""
    return f"changed: {', '.join(changes_of(result))}" if result.changed else ""


def changes_of(result: Result) -> list[str]:
    """Return the displayed differences from the stored or live baseline, such as `Kafka 4.0.0 → 4.1.1`."""
    return [each.shown() for each in result.changed]


def _whys(result: Result, *, verbose: bool, explained: bool) -> Iterator[str]:
    """Yield the reason and advice for each threshold that did not pass; a shared reason appears only once."""
    changed = "" if explained else describe_changes(result)
    remedy = "" if explained else str(remedy_of(result))
    has_ended = any(problem.kind is ProblemKind.APPLICATION_ENDED for problem in result.problems)
    for check in result.checks:
        if check.outcome.fails and check.is_relative:
            source = "values from the re-test" if check.rerun and check.trials else ""
            yield _joined(_allowed(check), source, check.reason if verbose else "", changed)
            changed = ""
        elif check.outcome is Verdict.INCONCLUSIVE and check.obstacle is not None:
            is_known = result.verdict is Verdict.INCONCLUSIVE or not remedy  # in that case, shown next to the name
            yield remedy if is_known else f"{check.obstacle.fact}; {remedy}"
            remedy = ""
        elif check.outcome is Verdict.MEASURED:
            yield f"not judged: {check.reason}"
        elif check.outcome.needs_reason or check.rerun:
            yield "" if has_ended and check.observed is None else check.reason
        else:
            yield _why_within(check)


def _why_within(check: Check) -> str:
    return f"{metric(check.metric).worse}, but within the limit" if check.is_worse_within_limit else ""


def _allowed(check: Check) -> str:
    """Return the value that a failed threshold relative to the baseline allows, as in `14.5 ms allowed`."""
    if not check.outcome.fails or not check.is_relative or check.limit_value is None:
        return ""
    return f"{short(check.limit_value, metric(check.metric).unit, digits_of(check))} allowed"


def _merged(rows: Sequence[Row]) -> list[Row]:
    """Merge adjacent rows for met thresholds on counts with equal values, as in `errors == 0, lost == 0`."""
    merged: list[Row] = []
    for row in rows:
        if merged and row.outcome is Verdict.PASSED and row == dataclasses.replace(merged[-1], threshold=row.threshold):
            row = dataclasses.replace(row, threshold=f"{merged.pop().threshold}, {row.threshold}")  # noqa: PLW2901
        merged.append(row)
    return merged


def digits_of(check: Check) -> int:
    """Return the number of digits needed to tell a measured value from its threshold, such as 25.04 ms from 25 ms."""
    if check.observed is None or check.limit_value is None or check.observed == check.limit_value:
        return _DIGITS
    shown = {format_quantity(value, metric(check.metric).unit) for value in (check.observed, check.limit_value)}
    return _DIGITS if len(shown) > 1 else _CLOSE_DIGITS


def _can_detect(check: Check, unit: str) -> str:
    """Return the change (for an absolute threshold, the value) that is detected with a probability of 80%."""
    if check.detectable_change is None:
        return ""
    if check.is_relative or check.limit_value is None:
        return short_change(check.detectable_change)
    return short(check.limit_value * (1 + check.detectable_change), unit)


def _headline_row(name: str, values: Sequence[float], result: Result) -> Row:
    unit = metric(name).unit
    median = short(statistics.median(values), unit)
    spread = _spread(median, (min(values), max(values)), unit)
    return Row(threshold=name, measured=bounded(median, name, result), rounds=spread)


def _spread(median: str, ends: tuple[float, float] | None, unit: str) -> str:
    """Return the minimum and maximum; the unit is omitted if the median has the same unit."""
    if ends is None:
        return ""
    least, most = (short(end, unit) for end in ends)
    own = median.lstrip(_NUMERALS)
    if least.lstrip(_NUMERALS) == most.lstrip(_NUMERALS) == own:
        least, most = least.removesuffix(own), most.removesuffix(own)
    return f"{least}–{most}" if least != most else ""  # noqa: RUF001 - a dash between two values


def range_of(ends: tuple[float, float]) -> str:
    """Format an interval in whole percent, its actual precision, as in `+50…+60%`; use factors from tenfold up."""
    if max(ends) >= 9:  # noqa: PLR2004 - ten times
        factors = (short_change(end) if end >= 9 else f"×{1 + end:.2g}" for end in ends)  # noqa: PLR2004, RUF001
        return "…".join(factors)
    texts = (f"{change * 100:+.0f}" for change in ends)
    return f"{'…'.join('0' if text in ('+0', '-0') else text for text in texts)}%"


_MOST_NAMES = 20


def gate_changes(run: RunResult) -> dict[str, list[str]]:
    """Return the tests that exist on only one side of a comparison, grouped by their effect on the gate."""
    texts = {
        "new, so only absolute thresholds are judged": run.new,
        "removed by this change, with their thresholds": run.removed,
    }
    found = {}
    for text, names in texts.items():
        more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        if names:
            found[text] = [*names[:_MOST_NAMES], *more]
    return found


def render_notes(run: RunResult) -> list[str]:
    """Return the notes on all tests' baselines, without wrapping or indentation."""
    names = names_of(run.results)
    doubts: dict[tuple[str, str], list[str]] = {}
    for result in run.results:
        for notice in baseline_doubts(result):
            doubts.setdefault((notice.fact, notice.remark.advice), []).append(names[result.nodeid])
    notes = [f"{fact}: {', '.join(tests)}" + (advice and f"; {advice}") for (fact, advice), tests in doubts.items()]
    notes += [f"{text}: {', '.join(map(printable, tests))}" for text, tests in gate_changes(run).items()]
    if run.orphans:
        notes.append(_orphan_note(run))
    written = sum(result.days_written is not None for result in run.results)
    if written:
        folder = run.settings.shown(run.settings.baselines)
        notes.append(f"baselines written: {written} in {folder} (commit them)")
    return notes


def _orphan_note(run: RunResult) -> str:
    text = f"baselines of tests that no longer exist: {listed(run.orphans)}"
    if run.pruned:
        return f"deleted {text} (commit the deletion)"
    if run.settings.prune:
        return f"{text}; not deleted, because not all tests ran: run pytest without -k, -m, -x, --lf or test names"
    return f"{text}; delete them with --kafka-prune-baselines"


def names_of(results: Sequence[Result]) -> dict[str, str]:
    """Return short names for tables, by nodeid: without folders, and without the file if all tests share it.

    Folders are kept if files with the same name in different folders contain tests with the same name.
    """
    files = {file_of(result.nodeid) for result in results}
    names = {
        result.nodeid: without_file(result.nodeid) if len(files) == 1 else without_folders(result.nodeid)
        for result in results
    }
    clash = len(set(names.values())) < len(names)
    return {nodeid: printable(nodeid if clash else name) for nodeid, name in names.items()}


def moved_much(result: Result) -> bool:
    """Return True if a value changed enough to make other changes of interest even if the test passed."""
    changes = [check.change for check in result.checks if check.change is not None] if is_compared(result) else []
    return bool(result.other_changes) or any(abs(change) > LEAST_CHANGE for change in changes)


def _lines(result: Result, *, verbose: bool, explained: bool) -> Iterator[str]:
    if not explained:
        yield from _lines_of_failure(result, verbose=verbose)
    yield from warning_lines(result, verbose=verbose)
    yield from (str(note) for note in result.notes if not explained or note.kind is not NoticeKind.BOTTLENECK)
    for other in result.other_changes:
        yield f"other change (no threshold): {describe_other_change(other)}"
    if verbose:
        yield from describe_conditions(result)


def _lines_of_failure(result: Result, *, verbose: bool) -> Iterator[str]:
    """Yield the lines that a failure message also contains: differences from the baseline, and the next step."""
    if result.changed and (verbose or _needs_changes(result)) and not _has_changes_in_rows(result):
        yield describe_changes(result)
    if result.verdict is Verdict.REGRESSED and not result.accepted:
        yield str(acceptance_of(result))


def _needs_changes(result: Result) -> bool:
    """Return True if differences from the baseline could explain the result."""
    return result.live_baseline is not None or len(result.trials) > 1 or moved_much(result)


def _has_changes_in_rows(result: Result) -> bool:
    """Return True if a table row already shows the changes because a threshold on a change fails."""
    return any(check.outcome.fails and check.is_relative for check in result.checks)

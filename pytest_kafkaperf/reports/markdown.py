"""The Markdown summary for GitHub and GitLab, shown on a job page or in a pull request comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.problems import merged
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports import wording
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.headline import Headline, headline_of
from pytest_kafkaperf.reports.markdown_text import Section, code, codes, fitted, items_of, line_of, text
from pytest_kafkaperf.reports.run_headline import Outcome, State, base_of, outcomes_of, run_headline
from pytest_kafkaperf.runner.evidence import baseline_doubts
from pytest_kafkaperf.runner.result import Result, RunResult, judged
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.threshold import Relative, parse_threshold
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.outcome import Check, Verdict

LIMIT_BYTES = 1024 * 1024
"""Maximum size of a step's summary; GitHub does not show a larger one.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#step-isolation-and-limits
"""
_RESERVED_BYTES = 1000
"""Number of bytes reserved for the table headers, the note on omitted content, and the link."""
_NONE = "–"  # noqa: RUF001 - a dash, as for a missing value
"""Table cell for a value that is unknown or does not apply."""


def markdown(run: RunResult, *, limit_bytes: int = LIMIT_BYTES, run_url: str | None = None) -> str:
    """Return the run's headline, the unmet thresholds, explanations, and all other content in folded sections.

    `run_url` is the CI run's page, which is linked at the end. If the text exceeds `limit_bytes` in UTF-8, the values
    are omitted first, then the other thresholds, the explanations, the changes and table rows. A note shows how much
    content is omitted.
    """
    outcomes = outcomes_of(run)
    base = base_of(run)
    names = {**{each.nodeid: each.nodeid for each in outcomes}, **wording.names_of(run.results)}
    table = _Table(run.results, names, is_code=bool(base))
    unmet = [table.rows(each, are_met=False) for each in outcomes]
    met = [table.rows(each, are_met=True) for each in outcomes if each.state is not State.UNMEASURED]
    strict = run.settings.strict
    explanations = [_explanation(each, names[each.nodeid], strict=strict) for each in outcomes]
    values = [_values(each.result) for each in outcomes if each.result is not None]
    sections = [
        Section(what="tests", head=table.head, blocks=unmet),
        Section(what="lists of changes", blocks=_changes(outcomes, names)),
        Section(what="explanations", blocks=explanations, between="\n"),
        Section(
            what="tests' other thresholds",
            head=table.head,
            blocks=met,
            folded_as="Other thresholds" if any(unmet) else "All thresholds",
        ),
        Section(what="tests' values", blocks=values, between="\n", folded_as="All values, by test"),
    ]
    intro = _intro(run, outcomes, base)
    content, omitted = fitted(sections, limit_bytes - _RESERVED_BYTES - len(intro.encode()))
    paragraphs = [intro, content]
    if omitted:
        paragraphs.append(f"Left out, because a summary is limited to {limit_bytes:,} bytes: {omitted}.\n")
    if run_url:
        is_open = any(each.state in (State.UNMEASURED, State.UNDECIDED) for each in outcomes)
        label = "Open this run to start it again" if is_open else "Open this run"
        paragraphs.append(f"[{label}]({quote(run_url, safe=':/?&=%#')})\n")
    return "\n".join(filter(None, paragraphs))


def _intro(run: RunResult, outcomes: Sequence[Outcome], base: str) -> str:
    """Return the headline with its symbol, and everything without a threshold: errors and tests that were not compared.

    Otherwise, renaming, deleting or skipping a test would silently remove its gate.
    """
    signs = [*(each.sign for each in outcomes), *("❌" for _ in run.errors)]
    sign = next((each for each in ("❌", "⚠️") if each in signs), "✅" if outcomes else "⚠️")
    items = [f"❌ {text(error)}" for error in run.errors]
    lists = {**wording.gate_changes(run), **_not_run(outcomes)}
    items += [f"{text(what)}: {codes(names)}" for what, names in lists.items()]
    return "\n".join([f"### {sign} {text(run_headline(outcomes, base))}\n", *([items_of(items)] if items else [])])


class _Table:
    """A table of thresholds. The baseline columns are omitted if no test has a baseline."""

    def __init__(self, results: Sequence[Result], names: Mapping[str, str], *, is_code: bool) -> None:
        """`names` maps nodeids to names; `is_code` is True if the baseline is another revision of the code."""
        self._names = names
        rows = [wording.row_of(check, result) for result in results for check in result.checks]
        self._has_baseline = any(row.baseline for row in rows)
        now, baseline = ("This PR", "Base") if is_code else ("This run", "Baseline")
        compared = (baseline, now, "Change") if self._has_baseline else (now,)
        titles = ("Test", "Metric", *compared, "Allowed")
        self.head = f"{line_of(titles)}{line_of(['---', '---', *['--:'] * (len(titles) - 2)])}"
        """The column titles."""

    def rows(self, outcome: Outcome, *, are_met: bool) -> str:
        """Return a row for each of a test's thresholds with a value: for those that are met, or for all others.

        In a test that passed, metrics that have clearly become worse count among the others.
        """
        result = outcome.result
        if result is None:
            return ""
        shown = [
            each for each in result.checks if _stands_first(each, outcome) != are_met and each.observed is not None
        ]
        return "".join(line_of(self._cells(each, result)) for each in shown)

    def _cells(self, check: Check, result: Result) -> Iterator[str]:
        row = wording.row_of(check, result)
        yield code(self._names[result.nodeid])
        yield code(check.metric)
        if self._has_baseline:
            yield text(row.baseline or _NONE)
        yield text(row.measured)
        if self._has_baseline:
            yield text(f"{row.change} ({row.interval})" if row.interval else row.change or _NONE)
        yield f"{text(_allowed(check))}{', not judged' if check.outcome is Verdict.MEASURED else ''}"


def _stands_first(check: Check, outcome: Outcome) -> bool:
    """Return True for a threshold that is not met and, in a test that passed, for a metric that has become worse."""
    return check.outcome.needs_reason or (outcome.state.is_good and check.is_worse_within_limit)


def _allowed(check: Check) -> str:
    """Return the change or value that a threshold allows, such as `+20%` or `≤ 25 ms`."""
    limit = parse_threshold(check.expression).limit
    if isinstance(limit, Relative):
        return f"{(limit.factor - 1) * 100:+.6g}%"
    expression = check.expression.removeprefix(check.metric).strip()
    return expression.replace("<=", "≤").replace(">=", "≥").removeprefix("==").strip()


def _not_run(outcomes: Sequence[Outcome]) -> dict[str, list[str]]:
    """Return the tests that did not fail but lack a result, grouped by outcome."""
    found: dict[State, list[str]] = {}
    for each in outcomes:
        if each.result is None and not each.fails:
            found.setdefault(each.state, []).append(each.nodeid)
    return {f"{counted(len(names), 'test')} {state.phrase(len(names))}": names for state, names in found.items()}


def _changes(outcomes: Sequence[Outcome], names: Mapping[str, str]) -> list[str]:
    """Return the differences from the baseline: each set of changes once, with its tests unless these are all tests."""
    tests: dict[tuple[str, ...], list[str]] = {}
    for each in outcomes:
        result = each.result
        if result is not None and result.changed and (not each.state.is_good or result.live_baseline is not None):
            tests.setdefault(tuple(wording.changes_of(result)), []).append(names[each.nodeid])
    if len(tests) == 1:
        return [f"Changed: {codes(*tests)}\n"]
    return [f"- changed in {codes(tested)}: {codes(changes)}\n" for changes, tested in tests.items()]


def _explanation(outcome: Outcome, name: str, *, strict: bool) -> str:
    """Return a heading and details about a test that did not pass; empty if the table already shows everything."""
    result, state = outcome.result, outcome.state
    if state.is_good or (result is None and not outcome.fails):
        return ""
    headline = None if result is None else headline_of(result, strict=strict)
    items = [*_own_failure(outcome), *([] if result is None else _details(result)), *_hints(headline)]
    if state in (State.REGRESSED, State.VIOLATED):
        if not items:
            return ""
        title = code(name)
    elif headline is not None and state is not State.FAILED:
        title = text(headline.sentence)
    else:
        title = f"{code(name)} {state.phrase(1)}"
    tolerated = f" ({outcome.tolerated})" if outcome.tolerated else ""
    return "\n".join([f"#### {outcome.sign} {title}{tolerated}\n", *([items_of(items)] if items else [])])


def _own_failure(outcome: Outcome) -> list[str]:
    """Return the reason if a test failed because of an error in its code or a fixture rather than its verdict."""
    if outcome.ending is None or (outcome.result is not None and outcome.state is not State.FAILED):
        return []
    return [text(outcome.ending.reason or outcome.ending.outcome)]


def _details(result: Result) -> Iterator[str]:
    """Yield the reason why an undeclared threshold applies, and the metrics without a threshold that have changed."""
    yield from (f"{code(each.expression)}: {text(each.reason)}" for each in result.checks if each.implied)
    if result.other_changes:
        others = "; ".join(map(wording.describe_other_change, result.other_changes))
        yield text(f"other changes, without a threshold: {others}")


def _hints(headline: Headline | None) -> Iterator[str]:
    """Yield the likely cause, the trials that confirmed the regression, and the next step."""
    if headline is None:
        return
    if headline.cause:
        yield f"likely cause: {text(headline.cause)}"
    if headline.confirmed:
        yield f"confirmed: {text(headline.confirmed)}"
    if headline.next_step is not None:
        step = headline.next_step
        yield f"{text(step.label)} {code(step.command)}" if step.command else text(step.label)


def _values(result: Result) -> str:
    """Return a test's cluster, scenario and values, except for broker metrics."""
    cluster = result.cluster
    scenario = ", ".join(f"{name}={format_field(name, getattr(result.scenario, name))}" for name in result.sources)
    version = f"{cluster.provider}, Kafka {cluster.version or 'of unknown version'}"
    trials = len(judged(result.trials))
    first = ", the values of the first" if trials > 1 else ""
    lines = [
        f"{version}; {counted(len(result.rounds), 'round')}, {counted(trials, 'trial')}{first}",
        *filter(None, [wording.how_of(result)]),
        f"scenario: {scenario or 'defaults'}",
        *(problem.text for problem in merged(result.problems)),
        *(f"{each.expression}: {each.outcome}, {each.reason}" for each in result.checks if each.outcome.needs_reason),
        *map(str, result.notes),
        *(_noise(name, found, result) for name, found in result.calibration.items()),
        *wording.warning_lines(result),
        *map(str, baseline_doubts(result)),
    ]
    rows = "".join(
        _values_line(name, values, result) for name, values in result.values().items() if not name.startswith("broker.")
    )
    values = f"\n| metric | value | rounds |\n| --- | --: | --- |\n{rows}" if rows else ""
    return f"##### {code(result.nodeid)}\n\n{items_of(map(text, lines))}{values}"


def _noise(name: str, found: Calibrated, result: Result) -> str:
    cells = ", ".join(f"{title} {cell}" for title, cell in calibration_cells(name, found).items() if cell)
    return "; ".join([f"noise of {name}: {cells}", *calibration_remarks(name, found, result)])


def _values_line(name: str, values: list[float], result: Result) -> str:
    unit = CATALOGUE[name].unit
    rounds = ", ".join(wording.short(value, unit) for value in values)
    median = wording.bounded(wording.short(CATALOGUE[name].aggregate(values), unit), name, result)
    return line_of([code(name), text(median), text(rounds)])

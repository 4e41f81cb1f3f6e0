"""What stands below the table: warnings, what could not be decided, what was written, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kafkaperf.collection import file_of, without_folders
from pytest_kafkaperf.division import described
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.noise import FEWEST_SESSIONS
from pytest_kafkaperf.printable import printable
from pytest_kafkaperf.reports.failure import describe_advice
from pytest_kafkaperf.reports.hockey import described_search
from pytest_kafkaperf.result import standard_of
from pytest_kafkaperf.values import format_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.session import Session

_MOST_NAMED = 5
"""Tests whose baselines are named one by one."""


def render_notes(session: Session, *, verbose: bool) -> list[str]:
    """Lines without a margin, for any width."""
    names = names_of(session.results)
    notes = [
        f"{names[result.nodeid]}: {text}" for result in session.results for text in _notes(result, verbose=verbose)
    ]
    if session.settings.reference is not None and session.results:
        notes.append(f"rounds took turns in random order, seed {session.seed}: --kafka-reference-seed={session.seed}")
    known = {result.nodeid: result.baseline_sessions or FEWEST_SESSIONS for result in session.results}
    thin = [nodeid for nodeid, sessions in (known | session.written).items() if sessions < FEWEST_SESSIONS]
    if thin:
        notes.append(
            f"baselines of fewer than {FEWEST_SESSIONS} sessions: {', '.join(names[each] for each in thin)}; "
            "noise between sessions is not known: add some with --kafka-update-baselines=append"
        )
    if session.orphans:
        notes.append(_orphaned(session))
    if session.written:
        folder = session.settings.shown(session.settings.baselines)
        notes.append(f"baselines written: {len(session.written)} in {folder} (commit them)")
    return notes


def _orphaned(session: Session) -> str:
    named = [each.nodeid for each in session.orphans[:_MOST_NAMED]]
    more = len(session.orphans) - len(named)
    text = f"baselines of tests that are gone: {', '.join(named)}{f' and {more} more' if more else ''}"
    if session.pruned:
        return f"deleted {text} (commit it)"
    if session.settings.prune:
        return f"{text}; not deleted, for not all tests were collected: run without -k, -m and names of tests"
    return f"{text}; --kafka-prune-baselines deletes them"


def names_of(results: Sequence[Result]) -> dict[str, str]:
    """What to call each test in a narrow table, on one line: without its file where all are in one."""
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
    if result.changed and (verbose or result.reference is not None or len(result.trials) > 1):
        yield f"changed against the {standard_of(result)}: {', '.join(result.changed)}"
    yield from (f"advice, not a limit: {describe_advice(one)}" for one in result.advice)
    if verbose:
        yield _described(result)
    if (verbose or result.crew.is_measured) and result.rounds and result.rounds[0].shares:
        yield described(result.crew, result.rounds[0].shares)


def _described(result: Result) -> str:
    """The scenario's fields that something has set, each with where."""
    fields = (
        f"{name}={format_field(name, getattr(result.scenario, name))} ({source})"
        for name, source in result.sources.items()
    )
    search = [] if result.plan is None else [f"rate: {described_search(result.plan)}"]
    return ", ".join([*fields, *search]) or "defaults"

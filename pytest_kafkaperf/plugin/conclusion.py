"""The end of a run: its exit status, the tests that did not run, and verdicts that pytest does not report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from pytest_kafkaperf.core.metrics import LOG_FACTS
from pytest_kafkaperf.reports.wording import failure_of, is_undecided
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.verdict.outcome import Verdict

NOT_JUDGED = 10
"""Exit status of a run in which nothing failed except tests that could not be judged."""
_GREEN = ("passed", "skipped")


def contradictions(
    results: Sequence[Result], endings: Mapping[str, Ending], *, strict: bool, succeeds: bool
) -> list[str]:
    """Return a line for each test that pytest does not report as failed although its verdict fails.

    The plugin itself fails such tests. Only other code can change that: a hook, another plugin, or a repetition of the
    test that was skipped. `succeeds` is True if pytest's exit status is 0; then every test that failed is such a test.
    """
    found = [f"{ending.nodeid} failed, but pytest's exit status is 0" for ending in endings.values() if ending.fails]
    found = found if succeeds else []
    for result in results:
        ending = endings.get(result.nodeid)
        if ending is not None and ending.outcome in _GREEN and failure_of(result, strict=strict) is not None:
            found.append(
                f"{result.nodeid} is {result.verdict}, but pytest reports it as {ending.outcome}: a hook, another "
                "plugin or a repetition of the test has hidden the failure"
            )
    return found


def not_run(items: Iterable[pytest.Item], known: Iterable[str]) -> list[Ending]:
    """Return endings for the selected perf tests that pytest did not run to their end, because of Ctrl-C or `-x`."""
    ended = set(known)
    return [
        Ending(
            nodeid=item.nodeid,
            outcome="not run",
            reason="the run ended before this test did",
            file=item.location[0],
            line=None if item.location[1] is None else item.location[1] + 1,
        )
        for item in items
        if item.nodeid not in ended
    ]


def count_not_judged(
    failures: Iterable[tuple[str, str]], results: Sequence[Result], endings: Mapping[str, Ending]
) -> int:
    """Count the failures of tests that are INVALID or INCONCLUSIVE and failed by that alone.

    `failures` are the nodeids and phases (`setup`, `call`, `teardown`) of all failed reports of the run.
    """
    by_verdict = {nodeid for nodeid, ending in endings.items() if ending.by_verdict}
    not_judged = {result.nodeid for result in results if _is_not_judged(result)} & by_verdict
    return sum(nodeid in not_judged and phase != "teardown" for nodeid, phase in failures)


def _is_not_judged(result: Result) -> bool:
    """Return True if nothing is known: neither the values, nor lost records, which the log proves."""
    is_proven = any(check.outcome is Verdict.VIOLATED and check.metric in LOG_FACTS for check in result.checks)
    return not is_proven and (result.verdict is Verdict.INVALID or is_undecided(result))


def nothing_measured(selected: Iterable[pytest.Item], results: Sequence[Result], endings: Mapping[str, Ending]) -> str:
    """Return a line if no selected perf test measured anything, although none failed; else an empty text."""
    known = [endings[item.nodeid] for item in selected if item.nodeid in endings]
    if not known or results or any(ending.outcome != "skipped" for ending in known):
        return ""
    return f"--kafka-strict: all perf tests were skipped, so that nothing was judged; {known[0].reason or 'no reason'}"


def exit_status(status: int, has_errors: bool, /, *, failed: int, not_judged: int) -> int:  # noqa: FBT001 - see below
    """Return the exit status of a run.

    Args:
        status: pytest's own.
        has_errors: True if a report could not be written, for example; the last thing that a run finds out.
        failed: number of failed tests and files, as pytest counts them.
        not_judged: how many of these are tests that could not be judged.

    """
    if status == pytest.ExitCode.OK and has_errors:
        return pytest.ExitCode.TESTS_FAILED
    if status == pytest.ExitCode.TESTS_FAILED and not has_errors and 0 < failed == not_judged:
        return NOT_JUDGED
    return status

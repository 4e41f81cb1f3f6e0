"""The end of a run: its exit status, the tests that it left out, and the verdicts that pytest does not report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import shortened, suggestion
from pytest_kafkaperf.core.metrics import JMX_METRICS
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.plugin.items import Collection
from pytest_kafkaperf.reports.headline import failure_of, is_undecided
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.scenarios.threshold import Threshold
from pytest_kafkaperf.verdict.outcome import Verdict

NOT_JUDGED = 10
"""Exit status for a run in which the only failures are tests that could not be judged."""
_MAX_REASON = 2000
"""Maximum length of a failure's reason in reports, in characters."""
_GREEN = ("passed", "skipped")


def contradictions(
    results: Sequence[Result], endings: Mapping[str, Ending], *, strict: bool, succeeds: bool
) -> list[str]:
    """Return a line for each test that pytest does not report as failed although its verdict is a failure.

    The plugin itself makes such tests fail. Only other code can hide the failure: a hook, another plugin, or a skipped
    repetition of the test. `succeeds` is True if pytest's exit status is 0, in which case every test with a failed
    verdict is listed.
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


def ending_of(item: pytest.Item, report: pytest.TestReport, previous: Ending | None) -> Ending | None:
    """Return a test's outcome after this phase; None if the previous outcome remains."""
    expected = hasattr(report, "wasxfail")
    outcome: Any = f"x{report.outcome}" if expected and report.passed else report.outcome
    if report.skipped and expected:
        outcome = "xfailed"
    elif report.failed and report.when != "call":
        outcome = "error"
    if (previous is not None and previous.fails) or (outcome == "passed" and report.when != "call"):
        return None
    file, line, _ = item.location
    return Ending(
        nodeid=item.nodeid,
        outcome=outcome,
        reason=None if report.passed else _reason(report),
        file=file,
        line=None if line is None else line + 1,
    )


def _reason(report: pytest.TestReport) -> str:
    """Return the reason for a failure without the traceback."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(report.longrepr, tuple):  # a skipped test: file, line, reason
        text = str(report.longrepr[-1])
    else:
        text = report.longreprtext if crash is None else str(crash.message)
    return shortened(text, _MAX_REASON)


def not_run(items: Iterable[pytest.Item], known: Iterable[str]) -> list[Ending]:
    """Return outcomes for selected perf tests that pytest did not finish because of Ctrl-C or `-x`."""
    ended = set(known)
    return [
        Ending(
            nodeid=item.nodeid,
            outcome="not run",
            reason="the run ended before this test finished",
            file=item.location[0],
            line=None if item.location[1] is None else item.location[1] + 1,
        )
        for item in items
        if item.nodeid not in ended
    ]


def count_not_judged(
    failures: Iterable[tuple[str, str]], results: Sequence[Result], endings: Mapping[str, Ending]
) -> int:
    """Count failures of tests that failed only because they are INVALID or INCONCLUSIVE.

    `failures` contains the nodeids and phases (`setup`, `call`, `teardown`) of all failed reports in the run.
    """
    by_verdict = {nodeid for nodeid, ending in endings.items() if ending.by_verdict}
    not_judged = {result.nodeid for result in results if _is_not_judged(result)} & by_verdict
    return sum(nodeid in not_judged and phase != "teardown" for nodeid, phase in failures)


def _is_not_judged(result: Result) -> bool:
    """Return True if nothing is known about a test: neither values nor lost records, which the log would prove."""
    is_proven = any(check.is_proven for check in result.checks)
    return not is_proven and (result.verdict is Verdict.INVALID or is_undecided(result))


def nothing_measured(
    selected: Iterable[pytest.Item], results: Sequence[Result], endings: Mapping[str, Ending]
) -> Iterator[str]:
    """Yield a line if no selected perf test failed but none measured anything either."""
    known = [endings[item.nodeid] for item in selected if item.nodeid in endings]
    if known and not results and all(ending.outcome == "skipped" for ending in known):
        reason = known[0].reason or "no reason given"
        yield f"--kafka-strict: all perf tests were skipped, so nothing was judged: {reason}"


def exit_status(status: int, has_errors: bool, /, *, failed: int, not_judged: int) -> int:  # noqa: FBT001 - see below
    """Return a run's exit status.

    Args:
        status: pytest's exit status.
        has_errors: True if the run itself had errors, such as a report that could not be written; determined last.
        failed: number of failed tests and files, as counted by pytest.
        not_judged: number of failed tests that could not be judged.

    """
    if status == pytest.ExitCode.OK and has_errors:
        return pytest.ExitCode.TESTS_FAILED
    if status == pytest.ExitCode.TESTS_FAILED and not has_errors and 0 < failed == not_judged:
        return NOT_JUDGED
    return status


_LEAVING_OUT = ("lf", "ignore", "ignore_glob")
"""pytest options that exclude tests before collection."""


def ran_everything(session: pytest.Session, collection: Collection, measured: AbstractSet[str]) -> bool:
    """Return True if pytest collected all tests and every perf test was measured.

    A run with paths on the command line counts as a partial run, even if the paths include all tests.
    """
    config = session.config
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    left_out = any(config.getoption(name, default=None) for name in _LEAVING_OUT)
    items = {item.nodeid for item in session.items}
    if chosen or left_out or collection.incomplete or collection.nodeids - items:
        return False
    return bool(collection.tests) and collection.tests.keys() <= measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The tests that a run collected, and the files whose tests it ran completely."""

    nodeids: AbstractSet[str]
    files: AbstractSet[str]
    whole: bool
    """True if the run did not leave out any tests."""


_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Exit statuses of runs that collected all tests."""


def coverage_of(session: pytest.Session, collection: Collection) -> Coverage:
    """Return the subset of the project's tests that a run covered."""
    config = session.config
    nodeids = {item.nodeid for item in session.items}
    broken = session.exitstatus not in _COMPLETE  # this may have happened during collection
    left_out = collection.incomplete | (collection.nodeids - nodeids) | _named_tests(session, nodeids)
    if broken or session.shouldstop or session.shouldfail or config.getoption("lf", default=False):
        left_out |= nodeids
    partial = {file_of(nodeid) for nodeid in left_out}
    files = {file_of(nodeid) for nodeid in nodeids} - partial
    return Coverage(nodeids=nodeids, files=files, whole=not (broken or partial))


def _named_tests(session: pytest.Session, nodeids: AbstractSet[str]) -> set[str]:
    """Return all tests in files from which the command line selects individual tests."""
    config = session.config
    found: set[str] = set()
    for argument in config.args:
        if "::" in argument:
            found.add(argument)
            # Paths are relative to the invocation folder, unlike nodeids. For a module name, the file is unknown.
            path = os.path.normpath(config.invocation_params.dir / file_of(argument))
            found.update([item.nodeid for item in session.items if str(item.path) == path] or nodeids)
    return found


def describe_unjudged(thresholds: Sequence[Threshold], results: Sequence[Result]) -> list[str]:
    """Return a sentence for each of these thresholds that no result judged."""
    judged = {check.expression for result in results for check in result.checks}
    measured = sorted({name for result in results for one in result.rounds for name in one.metrics})
    return [
        f"kafka_thresholds: {limit.expression!r} was never judged, because no test measures {limit.metric.name}; "
        f"{_remedy_of_unjudged(limit, measured)}"
        for limit in thresholds
        if limit.expression not in judged
    ]


def _remedy_of_unjudged(limit: Threshold, measured: Sequence[str]) -> str:
    name = limit.metric.name
    if limit.metric.is_own:
        record = f"record it with kafka_perf.add_metric({name!r}, ...), or remove the threshold"
        return suggestion(name, measured) or record
    if name in JMX_METRICS:
        return "set kafka_jmx = true or kafka_metrics_url, or remove the threshold"
    return "add a test that measures it, or remove the threshold"

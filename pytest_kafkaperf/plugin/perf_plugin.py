"""The hooks of a run that has perf tests, and the state that they share: the session, cases, endings, reports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError, shortened
from pytest_kafkaperf.core.signals import Interruption, hear_no_more, without_interrupt
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.plugin.collection import CollectionPlugin, has_thresholds, takes_perf
from pytest_kafkaperf.plugin.console import print_annotations, print_table
from pytest_kafkaperf.plugin.fixtures import KafkaPerf, add_properties, conclude, failed
from pytest_kafkaperf.reports import pytest_benchmark
from pytest_kafkaperf.reports.writing import append_history, report_to_github, write_reports
from pytest_kafkaperf.runner.case import Case, Mark, read_case
from pytest_kafkaperf.runner.result import Ending
from pytest_kafkaperf.runner.session import Session

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from pytest_kafkaperf.clusters.spec import Cluster

_MARKERS = ("kafka_scenario", "kafka_threshold", "kafka_cluster")
_MOST_REASON = 2000
"""Characters of why a test failed that reports keep."""


class PerfPlugin:
    """One for each pytest run with perf tests; `session` is made when a test first needs it."""

    def __init__(self, config: pytest.Config, collection: CollectionPlugin) -> None:
        self._config = config
        self._collection = collection
        self.settings = collection.settings
        self._session: Session | None = None
        self._cases: dict[str, Case] = {}
        self._clocks: dict[str, pytest_benchmark.LoadClock] = {}
        self._measuring: dict[str, KafkaPerf] = {}
        self._endings: dict[str, Ending] = {}
        """How perf tests have ended so far, by nodeid."""
        self._errors: list[str] = []
        """What went wrong while the reports were written."""
        self._annotations: list[str] = []

    def open_session(self) -> Session:
        """The session of this run.

        Raises:
            KafkaPerfError: it cannot write what it is to keep.

        """
        if self._session is None:
            if self.settings.history is not None:
                append_history(self.settings.history, [])  # refused now, and not after the first test's load
            self._config.pluginmanager.register(Interruption(self._config.add_cleanup))
            self._session = Session(self.settings, began_s=self._collection.began_s)
        return self._session

    def session_or_fail(self) -> Session:
        """The session of this run; where there can be none, the test fails."""
        try:
            return self.open_session()
        except KafkaPerfError as error:
            problem = str(error)
        raise failed(problem)

    def read_cases(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Read the markers of all perf tests; the items without those of files that have a problem, which is told."""
        problems: dict[str, list[str]] = {}
        for item in items:
            if takes_perf(item):
                self._join_benchmarks(item)
                found = self._read_case(item)
                if found:
                    problems.setdefault(file_of(item.nodeid), []).append(found)
        for nodeid, texts in problems.items():
            report = pytest.CollectReport(nodeid, "failed", longrepr="\n".join(texts), result=[])
            self._config.hook.pytest_collectreport(report=report)
        return [item for item in items if file_of(item.nodeid) not in problems]

    def cluster(self, item: pytest.Item) -> Cluster:
        """The cluster of a test's marker; where there can be none, the test fails."""
        session = self.session_or_fail()
        # A test that wants a cluster and no load was not read at collection.
        problem = None if item.nodeid in self._cases else self._read_case(item)
        if problem is None:
            try:
                return session.cluster(self._cases[item.nodeid].spec)
            except KafkaPerfError as error:
                problem = str(error)
        raise failed(problem)

    def measuring(self, request: pytest.FixtureRequest, cluster: object) -> Iterator[KafkaPerf]:
        """The fixture `kafka_perf` of one test."""
        node = request.node
        clock = self._clocks.get(node.nodeid)
        self._measuring[node.nodeid] = perf = KafkaPerf(
            node,
            self.session_or_fail(),
            cluster,
            case=self._cases[node.nodeid],
            later=self._later(node),
            benchmark=None if clock is None else (request.getfixturevalue("benchmark"), clock),
        )
        yield perf
        perf.close(self._endings.get(node.nodeid))

    def pytest_report_collectionfinish(self) -> list[str]:
        """Say what `auto` chose, and tell of a download before it makes the first test wait."""
        if not self._cases or self._config.option.collectonly:
            return []
        cases, reference = self._cases.values(), self.settings.reference
        wanted = {(case.spec, self.settings.cluster) for case in cases}
        if reference is not None:
            wanted |= {(case.reference, reference.target) for case in cases if case.reference is not None}
        notices = dict.fromkeys(provision.first_fetch(spec, target=target) for spec, target in wanted)
        lines = [f"kafkaperf: {notice}" for notice in notices if notice]
        if self.settings.cluster == "auto":
            cluster, environment = self.settings.described_cluster(look=True)
            lines.insert(0, f"kafkaperf: cluster {cluster}, environment {environment}")
        return lines

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Leave a test out that the time budget has no time for: before its cluster starts, after marks that skip."""
        case = self._cases.get(item.nodeid)
        if case is None or self.settings.time_budget_s is None:
            return
        session = self.session_or_fail()
        result = session.refuse_for_time(case, self._later(item))
        if result is not None:
            add_properties(item, session.results)
            conclude(result, session)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Let no test pass whose limits judge nothing."""
        yield
        if item.nodeid not in self._measuring and has_thresholds(item):
            pytest.fail("kafka_threshold judges what kafka_perf() measures: take the fixture kafka_perf", pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep how perf tests end: their own code may fail after a good verdict, a fixture before any."""
        report = yield
        if takes_perf(item):
            if report.when == "setup":
                self._endings.pop(item.nodeid, None)  # of a test that is run again, the last run counts
            ending = _ending_of(item, report, self._endings.get(item.nodeid))
            if ending is not None:
                self._endings[item.nodeid] = ending
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the clusters, then write the reports: nothing is left behind even when writing fails."""
        measured = self._session is not None or self._endings
        if hasattr(self._config, "workerinput") or not (measured or prunes(self._config, self.settings.prune)):
            return
        try:
            with without_interrupt():
                self._finish(session)
        except KeyboardInterrupt:  # held back until all is written; pytest would show a traceback
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            # The run is over: pressed again, it would break off no more than the summary.
            hear_no_more(self._config.add_cleanup)
            self._errors.append("interrupted while the reports were written; they are complete")

    def pytest_unconfigure(self) -> None:
        """Stop what an aborted session left running."""
        if self._session is not None:
            self._session.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table, and what was written."""
        for error in self._errors:
            terminalreporter.write_line(f"ERROR: {error}", red=True)
        perf = self._session
        if perf is None:
            return
        if (perf.results or perf.orphans) and self._config.get_verbosity() >= 0:
            print_table(terminalreporter, self._config, perf, self._endings)
        print_annotations(self._config, self._annotations)

    def _finish(self, session: pytest.Session) -> None:
        try:
            if self._session is not None:
                self._session.close()
        except KafkaPerfError as error:  # its reports are as good
            self._errors.append(str(error))
        try:
            # Where every test failed before it, there is no session yet.
            self._see_orphans(session, self.open_session())
        except KafkaPerfError as error:
            self._errors.append(str(error))
        perf = self._session
        if perf is not None:
            status = int(session.exitstatus)
            self._errors += write_reports(perf, self._endings, exit_status=status, errors=[*self._errors])
            if perf.results or self._endings:
                self._annotations = report_to_github(perf, self._endings, os.environ)
            if not self._config.pluginmanager.has_plugin("terminalreporter"):
                print_annotations(self._config, self._annotations)
        if self._errors and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _see_orphans(self, session: pytest.Session, perf: Session) -> None:
        """Look for baselines of tests that are gone, among the files of which none was left out.

        Raises:
            BaselineError: the folder of baselines cannot be read, or a file not be deleted.

        """
        config, collection = self._config, self._collection
        kept = {item.nodeid for item in session.items}
        for argument in config.args:
            if "::" in argument:
                collection.leave_out(argument)
                # Relative to where pytest was called, which nodeids are not; of a module's name the file is not known.
                path = os.path.normpath(config.invocation_params.dir / file_of(argument))
                for nodeid in [item.nodeid for item in session.items if str(item.path) == path] or kept:
                    collection.leave_out(nodeid)
        if session.shouldstop or session.shouldfail or config.getoption("lf", default=False):
            for nodeid in kept:  # the last failed ones alone are collected
                collection.leave_out(nodeid)
        perf.prune(collected=kept, files=collection.whole_files(kept), whole=not collection.partial_files(kept))

    def _read_case(self, item: pytest.Item) -> str | None:
        """Read the markers of a test and keep them; the problems as text, if there are any."""
        settings = self.settings
        marks = [Mark(name=mark.name, args=mark.args, kwargs=mark.kwargs) for mark in item.iter_markers()]
        marks = [mark for mark in reversed(marks) if mark.name in _MARKERS]  # pytest gives the closest first
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        try:
            case = read_case(item.nodeid, marks, parameters, settings, folder=item.path.parent)
            provision.check(settings.cluster, settings.client_config, settings.metrics_urls, settings.log_dirs)
        except UsageError as error:
            return "\n".join(f"{item.nodeid}: {problem}" for problem in str(error).splitlines())
        self._cases[item.nodeid] = case
        return None

    def _join_benchmarks(self, item: pytest.Item) -> None:
        """Let pytest-benchmark know of a perf test, unless it is not loaded or the test uses it itself."""
        # The list is that of every item that takes fixtures, and all parameters of a test share it.
        names: list[str] = item.fixturenames  # type: ignore[attr-defined]
        if not self._config.pluginmanager.has_plugin("benchmark") or "benchmark" in names:
            return
        self._clocks[item.nodeid] = clock = pytest_benchmark.LoadClock()
        own = item.get_closest_marker("benchmark")
        item.add_marker(pytest.mark.benchmark(**{**(own.kwargs if own else {}), "timer": clock}), append=False)
        item.fixturenames = [*names, "benchmark"]  # type: ignore[attr-defined]

    def _later(self, item: pytest.Item) -> list[Case]:
        """The perf tests that come after this one."""
        items = item.session.items
        return [self._cases[each.nodeid] for each in items[items.index(item) + 1 :] if each.nodeid in self._cases]


def prunes(config: pytest.Config, asked: bool) -> bool:  # noqa: FBT001 - a setting, handed on
    """Return True if baselines of tests that are gone are to go, even where no perf test is left."""
    # Under pytest-xdist nobody has all the tests; with `--dist` alone it distributes nothing.
    shared = hasattr(config, "workerinput") or bool(config.getoption("tx", None))
    return asked and not shared and not config.option.collectonly


def _ending_of(item: pytest.Item, report: pytest.TestReport, before: Ending | None) -> Ending | None:
    """How a test ends, as far as this phase tells; None where it says nothing new."""
    expected = hasattr(report, "wasxfail")
    outcome: Any = f"x{report.outcome}" if expected and report.passed else report.outcome
    if report.skipped and expected:
        outcome = "xfailed"
    elif report.failed and report.when != "call":
        outcome = "error"
    if (before is not None and before.fails) or (outcome == "passed" and report.when != "call"):
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
    """What failed, without the lines of code that led there."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(report.longrepr, tuple):  # of a skipped test: file, line, reason
        text = str(report.longrepr[-1])
    else:
        text = report.longreprtext if crash is None else str(crash.message)
    return shortened(text, _MOST_REASON)

"""The hooks that run perf tests, and their state: the run, its tests, their outcomes, and the reports."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster, as_cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError
from pytest_kafkaperf.core.signals import ignored_interrupt, interrupted_by_sigterm, without_interrupt
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.plugin.announcement import announce
from pytest_kafkaperf.plugin.benchmarks import Groups, asks_for_table, is_disabled, without_tests
from pytest_kafkaperf.plugin.collection import marks_of, read_item
from pytest_kafkaperf.plugin.conclusion import (
    contradictions,
    count_not_judged,
    coverage_of,
    describe_unjudged,
    ending_of,
    exit_status,
    not_run,
    nothing_measured,
    ran_everything,
)
from pytest_kafkaperf.plugin.console import print_table
from pytest_kafkaperf.plugin.items import PEER, Collection, arguments_of, has_thresholds, takes_perf
from pytest_kafkaperf.plugin.kafka_perf import FailedByVerdict, FixtureRun, KafkaPerf, conclude, failing
from pytest_kafkaperf.plugin.peer_side import compares_with_itself, peer_options
from pytest_kafkaperf.reports.calibration import NOTHING_TO_CALIBRATE
from pytest_kafkaperf.reports.ci import junit_properties
from pytest_kafkaperf.reports.writing import append_history, report_to_github, write_reports
from pytest_kafkaperf.runner.flow import refused_for_time
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest, read_spec
from pytest_kafkaperf.runner.result import Ending, RunResult, shows_end
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.threshold import count_gated

if TYPE_CHECKING:
    from pytest_kafkaperf.plugin.peer_side import PeerSide

_LATE_MARKER = "markers are read at collection, so a marker that is added later has no effect; put it on the test"
_REPLACED = (
    "nothing was measured: in this test, kafka_perf is not the plugin's fixture but another fixture or parameter of "
    "the same name; rename that fixture or parameter"
)


class PerfPlugin:
    """Runs the perf tests of one run; the first test that needs clusters or baselines opens a `PerfRun`."""

    def __init__(self, config: pytest.Config, collection: Collection, settings: Settings) -> None:
        self._config = config
        self._collection = collection
        self._settings = settings
        self._perf: PerfRun | None = None
        self._run: RunResult | None = None
        """The run as shown in reports; None until the run is over."""
        self._measuring: dict[str, FixtureRun] = {}
        """The value of each test's `kafka_perf` fixture, by nodeid."""
        self._endings: dict[str, Ending] = {}
        """The outcomes of perf tests so far, by nodeid."""
        self._failures: list[tuple[str, str]] = []
        """Nodeids and phases of all failed reports in the run."""
        self._properties: dict[str, list[tuple[str, object]]] = {}
        """The properties added to each test's report, by nodeid."""
        self._errors: list[str] = []
        """Errors in the run itself, for example from writing the reports."""
        self._unjudged: list[str] = []
        """One line for each threshold in the ini file that no test judged; with `--kafka-strict`, these are errors."""
        self._annotations: list[str] = []
        self._hidden_benchmarks = 0
        """Number of perf tests that pytest-benchmark's table leaves out."""
        self._peer: PeerSide | None = config.pluginmanager.get_plugin(PEER)
        """Serves the measuring pytest process; None in every pytest process that a user starts."""
        self._unstopped: str | None = None
        """The test whose load could not be stopped and may still be running; None if there is none."""
        self._is_base = False
        """True if `--kafka-compare` resolves to this code itself."""
        self._terminable = ExitStack()
        """Open while SIGTERM interrupts the run as Ctrl-C does."""
        self._interrupted = ExitStack()
        """Open while a second Ctrl-C is ignored: while pytest reports the first, before and after fixture teardown."""

    def open_perf_run(self) -> PerfRun:
        """Return the state shared by this run's tests, after opening it if necessary.

        Raises:
            KafkaPerfError: the history file cannot be written, or an option does not fit the cluster.

        """
        if self._perf is None:
            history = self._settings.reports.get("history")
            if history is not None:
                append_history(history, [])  # fails now rather than after the first test's load
            self._perf = PerfRun(
                self._settings,
                began_s=self._collection.began_s,
                files=[*dict.fromkeys(map(file_of, self._collection.tests))],
                peer_options=peer_options(self._config, self._settings),
                is_base=self._is_base,
            )
        return self._perf

    def check_revision(self) -> None:
        """Reject a revision that cannot be compared before any test starts; raises pytest.UsageError."""
        if not is_disabled(self._config) and not hasattr(self._config, "workerinput"):
            self._is_base = compares_with_itself(self._settings)
        if self._is_base:
            tests = self._collection.tests
            self._collection.tests = {name: dataclasses.replace(one, live_baseline=None) for name, one in tests.items()}

    def perf_run_or_fail(self) -> PerfRun:
        """Return the state shared by this run's tests; fail the test if it cannot be opened."""
        with failing():
            return self.open_perf_run()

    def test(self, item: pytest.Item) -> PerfTest:
        """Return a perf test's declaration; fail a test that collection did not recognize as a perf test."""
        test = self._collection.tests.get(item.nodeid)
        if test is None:
            text = "request.getfixturevalue('kafka_perf') is too late; make kafka_perf an argument of the test function"
            pytest.fail(text, pytrace=False)
        return test

    def later(self, item: pytest.Item) -> list[PerfTest]:
        """Return the perf tests that follow this one."""
        items = item.session.items
        tests = self._collection.tests
        return [tests[each.nodeid] for each in items[items.index(item) + 1 :] if each.nodeid in tests]

    def cluster(self, item: pytest.Item) -> Cluster:
        """Return the cluster for a test's marker; fail the test if the cluster cannot be started."""
        with failing():
            # The markers of a test that uses only the cluster were not read at collection.
            test = self._collection.tests.get(item.nodeid) or read_item(item, self._settings)
            return self._provided(test.spec, taken=test.taken_by is not None)

    def lasting_cluster(self, **fields: object) -> Cluster:
        """Return a cluster with these fields of the `kafka_cluster` marker; its addresses do not change in this run."""
        with failing():
            spec = read_spec([fields], self._settings, "kafka_cluster_factory: ")
            return self._provided(spec, lasting=True, taken=True)

    def _provided(self, spec: ClusterSpec, *, taken: bool, lasting: bool = False) -> Cluster:
        settings = self._settings
        provision.check(settings.cluster, settings.client_config, settings.metrics_urls, settings.log_dirs)
        cluster = self.open_perf_run().clusters.own(spec, lasting=lasting)
        if taken and cluster.fleet is not None:
            cluster.fleet.taken = True
        return cluster

    def measuring(self, request: pytest.FixtureRequest, cluster: object) -> Iterator[KafkaPerf]:
        """Provide the value of a test's `kafka_perf` fixture."""
        node = request.node
        self._measuring[node.nodeid] = fixture = FixtureRun(
            request, self.perf_run_or_fail(), cluster, test=self.test(node), later=self.later(node)
        )
        yield KafkaPerf(fixture)
        fixture.keep(self._endings.get(node.nodeid))

    @contextmanager
    def launching(self, own: object, node: pytest.Item | None) -> Iterator[Callable[..., Application]]:
        """Provide the value of `kafka_app`; a failed test's report shows the last output of its applications."""
        with ExitStack() as stack:

            def launch(command: object = (), *, cluster: object = own, **fields: object) -> Application:
                with failing():
                    if cluster is None:
                        raise UsageError("kafka_app_factory needs a cluster; pass cluster=kafka_cluster_factory()")
                    fields |= {"command": command, "cwd": self._config.rootpath / str(fields.get("cwd", ""))}
                    recipe = Recipe.of(fields, where="kafka_app: ")
                    application = Application(recipe, as_cluster(cluster), "baseline" if self._peer else "test")
                    test = None if node is None else self._collection.tests.get(node.nodeid)
                    if test is not None and test.scenario.topic not in recipe.topics:
                        self.perf_run_or_fail().clusters.provide_topic(test.scenario, application.cluster)
                    stack.callback(self.perf_run_or_fail().clusters.opened(application).close)
                if node is not None:
                    stack.callback(self._show_output, application, node)
                return application

            yield launch

    def _show_output(self, application: Application, node: pytest.Item) -> None:
        """Add the application's last output to a test's report unless one of the test's problems already shows it."""
        results = [] if self._perf is None else self._perf.results
        problems = [problem for each in results if each.nodeid == node.nodeid for problem in each.problems]
        for program, section in application.sections().items():
            if not shows_end(problems, program):
                node.add_report_section("teardown", *section)

    def _add_properties(self, item: pytest.Item) -> None:
        """Add a test's results to its report, for JUnit and other reporters; replace results from an earlier run."""
        results = [] if self._perf is None else self._perf.results
        if not results or results[-1].nodeid != item.nodeid:
            return  # nothing was measured
        previous = self._properties.get(item.nodeid, [])
        self._properties[item.nodeid] = added = junit_properties(results[-1])
        item.user_properties[:] = [*(each for each in item.user_properties if each not in previous), *added]

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> list[str]:
        """Show the cluster, the baseline, and any downloads that delay the first test."""
        tests = [self._collection.tests[item.nodeid] for item in items if item.nodeid in self._collection.tests]
        if not tests:
            return []
        return announce(tests, self._settings, self._config, is_base=self._is_base)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test that cannot run, and restore lasting clusters; runs after skip marks and before fixtures."""
        test = None if hasattr(item.config, "workerinput") else self._collection.tests.get(item.nodeid)
        disabled = is_disabled(item.config)
        calibrates = self._settings.calibrate is not None and not disabled
        if test is not None and calibrates and not count_gated(test.thresholds):
            pytest.skip(NOTHING_TO_CALIBRATE)
        if test is not None:
            self._refuse_next_to_unstopped()
            perf = self.perf_run_or_fail()
            later = self.later(item)
            perf.stopwatch.restart()
            with failing():
                result = refused_for_time(test, perf, later)
            if result is not None:
                conclude(result, perf, item)
            if not disabled:
                with failing():
                    perf.announce(test, later)
        if self._perf is not None and "kafka_cluster" in getattr(item, "fixturenames", ()):
            with failing():
                self._perf.clusters.restore()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Make the other side tear down its fixtures at the same time, and then delete the test's topics."""
        if self._perf is not None and self._perf.peer is not None:
            self._perf.peer.stop()
        try:
            return (yield)
        finally:
            if self._perf is not None:
                self._perf.clusters.delete_topics()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test that swallowed its verdict, measured nothing, or has markers that came too late."""
        read = self._collection.marks.get(item.nodeid)
        if read is not None and marks_of(item) != read:
            pytest.fail(_LATE_MARKER, pytrace=False)
        perf = self._measuring.get(item.nodeid)
        skipped = None
        try:
            yield
        except pytest.skip.Exception as skip:
            skipped = skip
        finally:
            if perf is not None and not perf.stop():
                self._unstopped = item.nodeid
        if perf is not None and self._peer is None:
            perf.raise_swallowed(skipped=skipped is not None)
        if skipped is not None:
            raise skipped
        if perf is None and skipped is None and item.nodeid in self._collection.tests:
            pytest.fail(_REPLACED, pytrace=False)
        if perf is None and has_thresholds(item):
            pytest.fail(
                "kafka_threshold has no effect without a measurement; use the kafka_perf fixture and call kafka_perf()",
                pytrace=False,
            )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record a perf test's outcome, because the rest of its code can fail before or after the verdict."""
        if takes_perf(item) and call.when != "teardown":
            self._add_properties(item)
        report = yield
        if takes_perf(item):
            if report.when == "setup":
                self._endings.pop(item.nodeid, None)  # if a test is repeated, its last run counts
            ending = ending_of(item, report, self._endings.get(item.nodeid))
            if ending is not None:
                by_verdict = call.excinfo is not None and isinstance(call.excinfo.value, FailedByVerdict)
                self._endings[item.nodeid] = dataclasses.replace(ending, by_verdict=by_verdict)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count failures as pytest does, because the exit status depends on how many are due to verdicts."""
        if report.failed:
            self._failures.append((report.nodeid, str(report.when)))

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_group_stats(self) -> Generator[None, Groups, Groups]:
        """Omit perf tests from pytest-benchmark's table unless an option requests the table."""
        groups = yield
        if asks_for_table(arguments_of(self._config)):
            return groups
        perf_tests = {nodeid for nodeid, perf in self._measuring.items() if perf.is_benchmark}
        self._hidden_benchmarks = len(perf_tests & {row["fullname"] for _, rows in groups for row in rows})
        return without_tests(groups, perf_tests)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """From now on, make SIGTERM interrupt the run like Ctrl-C so that clusters stop and reports are written."""
        self._terminable.enter_context(interrupted_by_sigterm())

    def pytest_keyboard_interrupt(self) -> None:
        """Ignore a second Ctrl-C until fixture teardown starts, because it would end pytest with a traceback."""
        self._interrupted.enter_context(ignored_interrupt([]))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Stop the clusters and write the reports after fixture teardown, even if Ctrl-C interrupts that teardown."""
        self._interrupted.close()
        interrupted = None
        try:
            yield
        except KeyboardInterrupt:  # otherwise pytest shows a traceback instead of its summary
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            interrupted = "interrupted during fixture teardown, which may be incomplete"
        measured = self._perf is not None or self._endings
        # A pytest-xdist worker runs only some of the tests; with `--dist` alone, pytest-xdist does not distribute any
        # tests.
        prunes = self._settings.prune and not self._config.getoption("tx", None)
        if not hasattr(self._config, "workerinput") and (measured or prunes):
            try:
                with without_interrupt():
                    self._finish(session)
            except KeyboardInterrupt:
                interrupted = (
                    interrupted or "interrupted while the reports were being written; the reports are complete"
                )
        if interrupted is not None:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            self._errors.append(interrupted)
        if session.exitstatus == pytest.ExitCode.INTERRUPTED:
            self._interrupted.enter_context(ignored_interrupt([]))

    def pytest_unconfigure(self) -> None:
        """Stop the clusters of an aborted run."""
        self._interrupted.close()
        with self._terminable:
            if self._perf is not None:
                with without_interrupt():
                    self._perf.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print errors, the table of results, and annotations for CI."""
        for line in (*(f"ERROR: {error}" for error in self._errors), *self._unjudged):
            terminalreporter.write_line(line, red=True)
        run = self._run
        if run is None:
            return
        if (run.results or run.orphans) and self._config.get_verbosity() >= 0:
            print_table(terminalreporter, self._config, run)
        if self._hidden_benchmarks and self._config.get_verbosity() >= 0:
            recorded = counted(self._hidden_benchmarks, "perf test")
            show = "to show: --benchmark-columns=ops,rounds"
            terminalreporter.write_line(f"pytest-benchmark recorded {recorded}; {show}")
        for line in self._annotations:
            terminalreporter.write_line(line)

    def _refuse_next_to_unstopped(self) -> None:
        if self._unstopped is not None:
            pytest.fail(
                f"the load of {self._unstopped} could not be stopped and may still be running, so this run cannot "
                "measure anything else; find out why it hangs: for example, a function passed to kafka_perf.at() or "
                "kafka_perf.add_metric() does not return",
                pytrace=False,
            )

    def _finish(self, session: pytest.Session) -> None:
        """Stop the clusters, delete the baselines of deleted tests, write the reports, and set the exit status."""
        try:
            if self._perf is not None:
                self._perf.close()
        except KafkaPerfError as error:  # the reports can still be written
            self._errors.append(str(error))
        if self._peer is not None:
            return  # the other side writes the reports
        try:
            # There is no `PerfRun` yet if every test failed before it needed one.
            opened = self.open_perf_run()
            covered = coverage_of(session, self._collection)
            opened.prune(collected=covered.nodeids, files=covered.files, whole=covered.whole)
        except KafkaPerfError as error:
            self._errors.append(str(error))
        perf = self._perf
        if perf is not None:
            self._find_errors(session, perf)
        status = functools.partial(
            exit_status,
            int(session.exitstatus),
            failed=session.testsfailed,
            not_judged=count_not_judged(self._failures, [] if perf is None else perf.results, self._endings),
        )
        if perf is not None:
            run = perf.run_result(self._endings, self._errors)
            run = write_reports(run, exit_status=status, variables=os.environ)
            self._run = run
            self._errors = [*run.errors]
            if run.results or run.endings:
                self._annotations = report_to_github(run, os.environ)
        session.exitstatus = status(bool(self._errors))

    def _find_errors(self, session: pytest.Session, perf: PerfRun) -> None:
        """Find errors that make the run fail even if none of its tests failed, and tests that did not run."""
        self._find_unjudged(session, perf)
        strict = self._settings.strict
        succeeds = session.exitstatus == pytest.ExitCode.OK
        self._errors += contradictions(perf.results, self._endings, strict=strict, succeeds=succeeds)
        selected = [item for item in session.items if item.nodeid in self._collection.tests]
        if strict:
            self._errors += nothing_measured(selected, perf.results, self._endings)
        self._errors += [f"{name} could not be collected" for name in sorted(self._collection.broken)]
        self._endings |= {each.nodeid: each for each in not_run(selected, self._endings)}

    def _find_unjudged(self, session: pytest.Session, perf: PerfRun) -> None:
        """Find thresholds in the ini file that no test has judged, if the run measured all tests."""
        measured = {result.nodeid for result in perf.results if result.rounds}
        if is_disabled(self._config) or not ran_everything(session, self._collection, measured):
            return
        found = describe_unjudged(self._settings.thresholds, perf.results)
        (self._errors if self._settings.strict else self._unjudged).extend(found)

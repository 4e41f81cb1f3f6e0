"""The pytest plugin: options, markers, fixtures and hooks.

Loaded in every pytest run of its users: until a perf test is collected, it imports nothing but pytest and the
standard library that pytest has loaded already.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.collection import Collection, file_of
from pytest_kafkaperf.options import MARKERS, OPTIONS, REFERENCE_CONFIG, SWITCHES, THRESHOLDS, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.reports.benchmark import Fixture, LoadClock
    from pytest_kafkaperf.reports.progress import ProgressLine, RoundLines
    from pytest_kafkaperf.result import Ending, Result
    from pytest_kafkaperf.session import Session
    from pytest_kafkaperf.settings import Settings

_UPDATE = "--kafka-update-baselines"
_MOST_REASON = 2000
"""Characters of why a test failed that reports keep."""

_settings = pytest.StashKey["Settings"]()
_session = pytest.StashKey["Session"]()
_case = pytest.StashKey["Case"]()
_clock: pytest.StashKey[LoadClock] = pytest.StashKey()
_began = pytest.StashKey[float]()
_collection = pytest.StashKey[Collection]()
_endings = pytest.StashKey[dict[str, "Ending"]]()
_failed_writing = pytest.StashKey[list[str]]()
_annotations = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option, each also as an ini key."""
    group = parser.getgroup("kafkaperf", "Kafka performance regression tests")
    for name, (metavar, text) in OPTIONS.items():
        group.addoption(f"--kafka-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"kafka_{name.replace('-', '_')}", text, default="")
    metavar, text = UPDATE
    group.addoption(_UPDATE, nargs="?", const="all", default=None, metavar=metavar, help=text)
    parser.addini("kafka_update_baselines", text, default="")
    metavar, text = REFERENCE_CONFIG
    group.addoption("--kafka-reference-config", action="append", default=None, metavar=metavar, help=text)
    parser.addini("kafka_reference_config", text, type="linelist", default=[])
    for name, text in SWITCHES.items():
        group.addoption(f"--kafka-{name}", action="store_true", default=None, help=text)
        parser.addini(f"kafka_{name.replace('-', '_')}", text, type="bool", default=False)
    parser.addini("kafka_thresholds", THRESHOLDS, type="linelist", default=[])


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Let the update option stand before a path, which argparse would take for its value."""
    for position, argument in enumerate(args):
        if argument == _UPDATE:
            args[position] = f"{_UPDATE}=all"


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; refuse options that no test could run with."""
    config.stash[_began] = time.monotonic()
    config.stash[_collection] = Collection()
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    _read_settings(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say where load would go and what it would be compared with."""
    settings = _read_settings(config)
    from pytest_kafkaperf.environment import default_environment_key  # noqa: PLC0415 - only where a header is shown

    provider, cluster = settings.described_cluster()
    lines = [
        (
            f"kafkaperf: cluster {cluster}, baselines {settings.shown(settings.baselines)}, "
            f"environment {settings.environment or default_environment_key(provider)}"
        )
    ]
    if settings.reference is not None:
        changes = ", ".join(f"{name}={value}" for name, value in settings.reference_config.items())
        lines.append(f"kafkaperf: reference {settings.reference}{f' with {changes}' if changes else ''}")
    if config.get_verbosity() > 0 and settings.describe_sources():
        lines.append(f"kafkaperf: {settings.describe_sources()}")
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse files whose perf tests cannot be: all problems of all tests at once, before anything starts."""
    problems: dict[str, list[str]] = {}
    with _without_collecting_garbage():
        for item in items:
            if "kafka_perf" in getattr(item, "fixturenames", ()):
                _join_benchmarks(item)
                found = _read_case(item)
                if found:
                    problems.setdefault(file_of(item.nodeid), []).append(found)
    for nodeid, texts in problems.items():
        report = pytest.CollectReport(nodeid, "failed", longrepr="\n".join(texts), result=[])
        config.hook.pytest_collectreport(report=report)
    items[:] = [item for item in items if file_of(item.nodeid) not in problems]


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Tell of a download before it makes the first test wait."""
    cases = [item.stash[_case] for item in items if _case in item.stash]
    if not cases or config.option.collectonly:
        return []
    from pytest_kafkaperf import clusters  # noqa: PLC0415

    target = _read_settings(config).cluster
    wanted = {(case.spec, target) for case in cases}
    reference = _read_settings(config).reference
    if reference is not None:
        wanted |= {(case.reference, reference.target) for case in cases if case.reference is not None}
    notices = dict.fromkeys(clusters.first_fetch(spec, target=place) for spec, place in wanted)
    return [f"kafkaperf: {notice}" for notice in notices if notice]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Remember tests that plugins leave out later, and tell nobody."""
    item.config.stash[_collection].seen.add(item.nodeid)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which files were not run whole: their baselines may be those of tests that were left out."""
    for item in items:
        item.config.stash[_collection].leave_out(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Remember files and classes that could not be read."""
    report = yield
    if report.failed:
        collector.config.stash[_collection].leave_out(collector.nodeid)
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out for which the time budget has no time: before its cluster is started, after marks that skip."""
    if _case not in item.stash or _read_settings(item.config).time_budget_s is None:
        return
    session = _session_or_fail(item.config)
    result = session.refuse_for_time(item.stash[_case], _later(item))
    if result is not None:
        _add_properties(item, session.results)
        _conclude(result, session)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafkaperf_session: Session) -> Cluster:
    """The cluster of the `kafka_cluster` marker; override this fixture to bring your own."""
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415

    if _case not in request.node.stash:  # a test that wants a cluster and no load
        _fail_on(_read_case(request.node))
    try:
        return _kafkaperf_session.cluster(request.node.stash[_case].spec)
    except KafkaPerfError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)  # out here, for pytest would show the error before it, too


@pytest.fixture
def kafka_perf(request: pytest.FixtureRequest, _kafkaperf_session: Session, kafka_cluster: object) -> KafkaPerf:
    """Run the scenario of the markers; arguments override its fields. Fails the test on a broken limit."""
    benchmark = request.getfixturevalue("benchmark") if _clock in request.node.stash else None
    return KafkaPerf(request.node, _kafkaperf_session, kafka_cluster, benchmark=benchmark)


class KafkaPerf:
    """What the `kafka_perf` fixture gives: call it to run the scenario."""

    def __init__(self, node: pytest.Item, session: Session, cluster: object, *, benchmark: Fixture | None) -> None:
        self._node = node
        self._benchmark = benchmark
        self._session = session
        self._cluster = cluster
        self._planned: list[tuple[str | float, Callable[[], object]]] = []
        self._finished = False

    def at(self, time: str | float, action: Callable[..., object], *arguments: object, **named: object) -> None:
        """Do something in every round, so long after its window opened: `kafka_perf.at("3 s", cluster.stop_broker, 2)`.

        It is done in a thread of its own. What it raises makes the round INVALID.
        """
        self._planned.append((time, functools.partial(action, *arguments, **named)))

    def __call__(self, **overrides: object) -> Result:
        """Run the scenario, with these fields instead of the markers', and fail the test on a broken limit."""

        def declared(case: Case) -> Case:
            return (case.with_overrides(overrides) if overrides else case).without_search()

        return self._run(declared)

    def capacity(
        self, *limits: str, low: object = "1k records/s", high: object = "2M records/s", hold: object = "10 s"
    ) -> Result:
        """Find the highest rate that holds these absolute limits, from `low` to `high`, each step held for so long.

        `kafka_perf.capacity("produce.latency.p99 <= 20 ms", "errors == 0")`. It gives the metric `capacity`, in records
        a second, which `kafka_threshold("capacity >= baseline - 10%")` can gate. Each round of the scenario is a
        search; where nobody says how many, and no limit speaks of a baseline, there is one.
        """
        if self._planned:
            pytest.fail(
                "kafka_perf.at(...) has no place in a search for the capacity: leave one of them out", pytrace=False
            )

        def searching(case: Case) -> Case:
            return case.with_search(limits, low=low, high=high, hold=hold)

        return self._run(searching)

    def _run(self, declared: Callable[[Case], Case]) -> Result:
        from pytest_kafkaperf.actions import planned  # noqa: PLC0415
        from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415
        from pytest_kafkaperf.session import as_cluster  # noqa: PLC0415

        node, session = self._node, self._session
        if self._finished:
            pytest.fail("kafka_perf() runs once a test; use pytest.mark.parametrize for more", pytrace=False)
        reason = ""
        try:
            case = declared(node.stash[_case])
            if self._benchmark is not None and self._benchmark.disabled:
                case = case.as_smoke_test()
            actions = [planned(time, do, duration_s=case.scenario.duration) for time, do in self._planned]
            with _progress(node, case) as line:
                watch = line.update if line else _ignore
                result = session.run(case, as_cluster(self._cluster), watch, actions, later=_later(node))
        except KafkaPerfError as error:
            reason = str(error)
        finally:  # what was measured stands in every report, also when its baseline could not be written
            _add_properties(node, session.results)
        _fail_on(reason)  # out here, for pytest would show the error before it, too
        self._finished = True
        if self._benchmark is not None:
            from pytest_kafkaperf.reports import benchmark  # noqa: PLC0415

            benchmark.tell(result, self._benchmark, node.stash[_clock])
        _conclude(result, session)
        return result


@pytest.fixture
def _kafkaperf_session(request: pytest.FixtureRequest) -> Session:
    config = request.config
    if hasattr(config, "workerinput"):
        pytest.fail(
            "perf tests cannot share the machine with other tests: pytest-xdist runs several at once. "
            "Run them with -n0, for example: pytest -n0 -m kafka_scenario",
            pytrace=False,
        )
    return _session_or_fail(config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep how perf tests end: their own code may fail after a good verdict, a fixture before any."""
    report = yield
    if "kafka_perf" in getattr(item, "fixturenames", ()):
        if report.when == "setup":
            _endings_of(item.config).pop(item.nodeid, None)  # of a test that is run again, the last run counts
        ending = _ending(item, report, _endings_of(item.config).get(item.nodeid))
        if ending is not None:
            item.config.stash.setdefault(_endings, {})[item.nodeid] = ending
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the clusters, then write the reports: nothing is left behind even when writing fails."""
    config = session.config
    measured = _session in config.stash or _endings in config.stash
    if hasattr(config, "workerinput") or not (measured or _prunes(config)):
        return
    from pytest_kafkaperf.clusters.runs import without_interrupt  # noqa: PLC0415 - psutil, filelock: not on import

    try:
        with without_interrupt():
            _finish(session)
    except KeyboardInterrupt:  # held back until all is written; pytest would show a traceback
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        # The run is over: pressed again, it would break off no more than the summary.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)

        def listen_again() -> None:
            signal.signal(signal.SIGINT, before)

        config.add_cleanup(listen_again)
        config.stash[_failed_writing].append("interrupted while the reports were written; they are complete")


def _finish(session: pytest.Session) -> None:
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415

    config = session.config
    failed = config.stash[_failed_writing] = []
    try:
        if _session in config.stash:
            config.stash[_session].close()
    except KafkaPerfError as error:  # its reports are as good
        failed.append(str(error))
    try:
        perf = _open_session(config)  # where every test failed before it, there is none yet
        _see_orphans(session, perf)
    except KafkaPerfError as error:
        failed.append(str(error))
    if _session in config.stash:
        _write(session, config.stash[_session])
    if failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what an aborted session left running."""
    perf = config.stash.get(_session, None)
    if perf is not None:
        perf.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table, and what was written."""
    for error in config.stash.get(_failed_writing, []):
        terminalreporter.write_line(f"ERROR: {error}", red=True)
    perf = config.stash.get(_session, None)
    if perf is None:
        return
    if (perf.results or perf.orphans) and config.get_verbosity() >= 0:
        _print_table(terminalreporter, config, perf)
    _print_annotations(config)


def _print_table(terminalreporter: pytest.TerminalReporter, config: pytest.Config, perf: Session) -> None:
    from pytest_kafkaperf.reports.summary import summary_lines  # noqa: PLC0415

    writer = terminalreporter._tw  # noqa: SLF001 - the only way to its width, colour and encoding
    terminalreporter.write_sep("=", "kafka performance")
    for line in summary_lines(
        perf,
        _endings_of(config),
        width=writer.fullwidth,
        colour=writer.hasmarkup,
        ascii_only=_is_ascii_only(writer._file),  # noqa: SLF001
        verbose=config.get_verbosity() > 0,
    ):
        terminalreporter.write_line(line)


def _read_settings(config: pytest.Config) -> Settings:
    """The options of this run, read once.

    Raises pytest.UsageError for a value that no test could run with.
    """
    if _settings in config.stash:
        return config.stash[_settings]
    from pytest_kafkaperf.errors import UsageError  # noqa: PLC0415
    from pytest_kafkaperf.settings import read_settings  # noqa: PLC0415

    names = [*OPTIONS, *SWITCHES, "update-baselines", "reference-config"]
    try:
        settings = read_settings(
            {name: config.getoption(f"kafka_{name.replace('-', '_')}") for name in names},
            {name: config.getini(f"kafka_{name.replace('-', '_')}") for name in names},
            config.getini("kafka_thresholds"),
            invocation_folder=config.invocation_params.dir,
            root=config.rootpath,
        )
        if settings.html is not None:
            from pytest_kafkaperf.reports.html import check_installed  # noqa: PLC0415

            check_installed()
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_settings] = settings
    return settings


def _open_session(config: pytest.Config) -> Session:
    """The session of this run, made when first asked for.

    Raises:
        KafkaPerfError: it cannot write what it is to keep.

    """
    if _session not in config.stash:
        from pytest_kafkaperf.session import Session  # noqa: PLC0415

        config.stash[_session] = Session(_read_settings(config), began_s=config.stash[_began])
    return config.stash[_session]


def _session_or_fail(config: pytest.Config) -> Session:
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415

    try:
        return _open_session(config)
    except KafkaPerfError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)  # out here, for pytest would show the error before it, too


@contextlib.contextmanager
def _without_collecting_garbage() -> Iterator[None]:
    """What is loaded and read for hundreds of tests stays: looking through all of it for garbage takes longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_case(item: pytest.Item) -> str | None:
    """Read the markers of a test and keep them with it; the problems as text, if there are any."""
    from pytest_kafkaperf import clusters  # noqa: PLC0415
    from pytest_kafkaperf.case import Mark, read_case  # noqa: PLC0415
    from pytest_kafkaperf.errors import UsageError  # noqa: PLC0415

    settings = _read_settings(item.config)
    names = ("kafka_scenario", "kafka_threshold", "kafka_cluster")
    marks = [Mark(name=mark.name, args=mark.args, kwargs=mark.kwargs) for mark in item.iter_markers()]
    marks = [mark for mark in reversed(marks) if mark.name in names]  # pytest gives the closest first
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    try:
        case = read_case(item.nodeid, marks, parameters, settings, folder=item.path.parent)
        clusters.check(settings.cluster, settings.client_config, settings.metrics_urls, settings.log_dirs)
    except UsageError as error:
        return "\n".join(f"{item.nodeid}: {problem}" for problem in str(error).splitlines())
    item.stash[_case] = case
    return None


def _join_benchmarks(item: pytest.Item) -> None:
    """Let pytest-benchmark know of a perf test, unless it is not loaded or the test uses it itself."""
    # The list is that of every item that takes fixtures, and all parameters of a test share it.
    names: list[str] = item.fixturenames  # type: ignore[attr-defined]
    if not item.config.pluginmanager.has_plugin("benchmark") or "benchmark" in names:
        return
    from pytest_kafkaperf.reports import benchmark  # noqa: PLC0415

    item.stash[_clock] = clock = benchmark.LoadClock()
    own = item.get_closest_marker("benchmark")
    item.add_marker(pytest.mark.benchmark(**{**(own.kwargs if own else {}), "timer": clock}), append=False)
    item.fixturenames = [*names, "benchmark"]  # type: ignore[attr-defined]


def _prunes(config: pytest.Config) -> bool:
    """Whether baselines of tests that are gone are to go, even where no perf test is left."""
    shared = hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"  # nobody has all the tests
    asked = _settings in config.stash and config.stash[_settings].prune
    return asked and not shared and not config.option.collectonly


def _endings_of(config: pytest.Config) -> dict[str, Ending]:
    """How the perf tests of this run have ended so far, by nodeid."""
    return config.stash.get(_endings, {})


def _ending(item: pytest.Item, report: pytest.TestReport, before: Ending | None) -> Ending | None:
    """How a test ends, as far as this phase tells; None where it says nothing new."""
    from pytest_kafkaperf.result import Ending  # noqa: PLC0415

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
    return text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]}..."


def _write(session: pytest.Session, perf: Session) -> None:
    """All reports that were asked for."""
    from pytest_kafkaperf.reports.writing import tell_github, write_reports  # noqa: PLC0415

    config, endings = session.config, _endings_of(session.config)
    failed = config.stash[_failed_writing]
    failed += write_reports(perf, endings, exit_status=int(session.exitstatus), errors=[*failed])
    if perf.results or endings:
        config.stash[_annotations] = tell_github(perf, endings, os.environ)
        if not config.pluginmanager.has_plugin("terminalreporter"):
            _print_annotations(config)


def _print_annotations(config: pytest.Config) -> None:
    """Each on a line of its own, where the runner looks for them, whatever pytest captures or shows."""
    lines = config.stash.get(_annotations, [])
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        for line in lines:
            reporter.write_line(line)
    elif lines and sys.__stdout__ is not None:
        encoding = sys.__stdout__.encoding or "utf-8"
        with _uncaptured(config):
            for line in lines:
                print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.__stdout__, flush=True)


def _see_orphans(session: pytest.Session, perf: Session) -> None:
    """Look for baselines of tests that are gone, among the files of which none was left out."""
    config = session.config
    collection = config.stash[_collection]
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
    perf.prune(collected=kept, files=collection.whole_files(kept), whole=not collection.partly(kept))


def _later(item: pytest.Item) -> list[Case]:
    """The perf tests that come after this one."""
    items = item.session.items
    return [each.stash[_case] for each in items[items.index(item) + 1 :] if _case in each.stash]


def _conclude(result: Result, session: Session) -> None:
    """Let a test end as its verdict says."""
    from pytest_kafkaperf.reports.failure import failure_of  # noqa: PLC0415

    _fail_on(failure_of(result, strict=session.settings.strict))
    if not result.rounds:  # no time was left, and the rest of the test has nothing to look at
        pytest.skip("; ".join(result.notes))


def _fail_on(reason: str | None) -> None:
    if reason:
        pytest.fail(reason, pytrace=False)


def _add_properties(item: pytest.Item, results: Sequence[Result]) -> None:
    """For JUnit and other reporters: what was found, each metric in its base unit, and each limit by its number."""
    if not results or results[-1].nodeid != item.nodeid:
        return  # nothing was measured
    from pytest_kafkaperf.reports.junit import properties  # noqa: PLC0415

    item.user_properties += properties(results[-1])


def _ignore(*_: Any) -> None:
    """Progress that nobody watches."""


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Write past pytest's capture."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()


def _is_ascii_only(file: object) -> bool:
    """Whether it is no Unicode terminal, such as one with a Windows code page."""
    return "utf" not in (getattr(file, "encoding", None) or "utf-8").lower()


@contextlib.contextmanager
def _progress(item: pytest.Item, case: Case) -> Iterator[ProgressLine | RoundLines | None]:
    """A progress line where someone watches a terminal; elsewhere a line a round with `-v`, or nothing."""
    config = item.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    live = reporter is not None and reporter.isatty and config.get_verbosity() >= 0 and not os.environ.get("CI")
    if reporter is None or not (live or config.get_verbosity() > 0):
        yield None
        return
    from pytest_kafkaperf.reports.progress import ProgressLine, RoundLines  # noqa: PLC0415

    def write(text: str) -> None:
        with _uncaptured(config):
            sys.stdout.write(text)
            sys.stdout.flush()

    def write_line(text: str) -> None:
        with _uncaptured(config):
            reporter.ensure_newline()
            reporter.write_line(text)

    line: ProgressLine | RoundLines
    if live:
        with _uncaptured(config):
            reporter.ensure_newline()
            ascii_only = _is_ascii_only(sys.stdout)
        line = ProgressLine(item.name, case.scenario, write, ascii_only=ascii_only)
    else:
        line = RoundLines(item.name, case.scenario, write_line)
    try:
        yield line
    finally:
        line.close()
        if config.get_verbosity() == 0:  # above that, pytest writes the test's name again by itself
            with _uncaptured(config):
                reporter.write_fspath_result(item.nodeid, "")

"""The pytest plugin: options, markers, fixtures and hooks.

Loaded in every pytest run of its users: until a perf test is collected, it imports nothing but pytest and the
standard library that pytest has loaded already.
"""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.collection import Collection, file_of
from pytest_kafkaperf.options import MARKERS, UPDATE_OPTION, declare, given

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.fixture import KafkaPerf
    from pytest_kafkaperf.reports.benchmark import LoadClock
    from pytest_kafkaperf.result import Ending
    from pytest_kafkaperf.session import Session
    from pytest_kafkaperf.settings import Settings

_settings = pytest.StashKey["Settings"]()
_session = pytest.StashKey["Session"]()
_case = pytest.StashKey["Case"]()
_perf = pytest.StashKey["KafkaPerf"]()
_clock: pytest.StashKey[LoadClock] = pytest.StashKey()
_began = pytest.StashKey[float]()
_collection = pytest.StashKey[Collection]()
_endings = pytest.StashKey[dict[str, "Ending"]]()
_failed_writing = pytest.StashKey[list[str]]()
_annotations = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option, each also as an ini key."""
    declare(parser)


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Let the update option stand before a path, which argparse would take for its value."""
    for position, argument in enumerate(args):
        if argument == UPDATE_OPTION:
            args[position] = f"{UPDATE_OPTION}=all"


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
    from pytest_kafkaperf.settings import discreet  # noqa: PLC0415 - the same

    provider, cluster = settings.described_cluster()
    lines = [
        (
            f"kafkaperf: cluster {cluster}, baselines {settings.shown(settings.baselines)}, "
            f"environment {settings.environment or default_environment_key(provider)}"
        )
    ]
    if settings.reference is not None:
        changes = ", ".join(discreet(f"{name}={value}") for name, value in settings.reference_config.items())
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
        from pytest_kafkaperf.fixture import add_properties, conclude  # noqa: PLC0415

        add_properties(item, session.results)
        conclude(result, session)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafkaperf_session: Session) -> Cluster:
    """The cluster of the `kafka_cluster` marker; override this fixture to bring your own."""
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415
    from pytest_kafkaperf.fixture import failed  # noqa: PLC0415

    # A test that wants a cluster and no load was not read at collection.
    problem = None if _case in request.node.stash else _read_case(request.node)
    if problem is None:
        try:
            return _kafkaperf_session.cluster(request.node.stash[_case].spec)
        except KafkaPerfError as error:
            problem = str(error)
    raise failed(problem)


@pytest.fixture
def kafka_perf(
    request: pytest.FixtureRequest, _kafkaperf_session: Session, kafka_cluster: object
) -> Iterator[KafkaPerf]:
    """Run the scenario of the markers; arguments override its fields. Fails the test on a broken limit."""
    from pytest_kafkaperf.fixture import KafkaPerf  # noqa: PLC0415

    node = request.node
    node.stash[_perf] = perf = KafkaPerf(
        node,
        _kafkaperf_session,
        kafka_cluster,
        case=node.stash[_case],
        later=_later(node),
        benchmark=(request.getfixturevalue("benchmark"), node.stash[_clock]) if _clock in node.stash else None,
    )
    yield perf
    perf.close(_endings_of(node.config).get(node.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Let no test pass whose limits judge nothing."""
    yield
    if _perf not in item.stash and any(mark.name == "kafka_threshold" for mark in item.own_markers):
        pytest.fail("kafka_threshold judges what kafka_perf() measures: take the fixture kafka_perf", pytrace=False)


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
        from pytest_kafkaperf.ending import ending_of  # noqa: PLC0415

        if report.when == "setup":
            _endings_of(item.config).pop(item.nodeid, None)  # of a test that is run again, the last run counts
        ending = ending_of(item, report, _endings_of(item.config).get(item.nodeid))
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
    from pytest_kafkaperf.interruption import hear_no_more  # noqa: PLC0415

    try:
        with without_interrupt():
            _finish(session)
    except KeyboardInterrupt:  # held back until all is written; pytest would show a traceback
        session.exitstatus = pytest.ExitCode.INTERRUPTED
        # The run is over: pressed again, it would break off no more than the summary.
        hear_no_more(config.add_cleanup)
        config.stash[_failed_writing].append("interrupted while the reports were written; they are complete")


def _finish(session: pytest.Session) -> None:
    from pytest_kafkaperf.closing import see_orphans, write  # noqa: PLC0415
    from pytest_kafkaperf.console import print_annotations  # noqa: PLC0415
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
        see_orphans(session, config.stash[_collection], perf)
    except KafkaPerfError as error:
        failed.append(str(error))
    if _session in config.stash:
        endings, status = _endings_of(config), int(session.exitstatus)
        errors, annotations = write(config.stash[_session], endings, exit_status=status, errors=[*failed])
        failed += errors
        config.stash[_annotations] = annotations
        if not config.pluginmanager.has_plugin("terminalreporter"):
            print_annotations(config, annotations)
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
    from pytest_kafkaperf.console import print_annotations, print_table  # noqa: PLC0415

    if (perf.results or perf.orphans) and config.get_verbosity() >= 0:
        print_table(terminalreporter, config, perf, _endings_of(config))
    print_annotations(config, config.stash.get(_annotations, []))


def _read_settings(config: pytest.Config) -> Settings:
    """The options of this run, read once.

    Raises pytest.UsageError for a value that no test could run with.
    """
    if _settings in config.stash:
        return config.stash[_settings]
    from pytest_kafkaperf.errors import UsageError  # noqa: PLC0415
    from pytest_kafkaperf.settings import read_settings  # noqa: PLC0415

    try:
        settings = read_settings(
            *given(config),
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
        from pytest_kafkaperf.interruption import Interruption  # noqa: PLC0415
        from pytest_kafkaperf.session import Session  # noqa: PLC0415

        config.pluginmanager.register(Interruption(config.add_cleanup))
        config.stash[_session] = Session(_read_settings(config), began_s=config.stash[_began])
    return config.stash[_session]


def _session_or_fail(config: pytest.Config) -> Session:
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415
    from pytest_kafkaperf.fixture import failed  # noqa: PLC0415

    try:
        return _open_session(config)
    except KafkaPerfError as error:
        problem = str(error)
    raise failed(problem)


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
    # Under pytest-xdist nobody has all the tests; with `--dist` alone it distributes nothing.
    shared = hasattr(config, "workerinput") or bool(config.getoption("tx", None))
    asked = _settings in config.stash and config.stash[_settings].prune
    return asked and not shared and not config.option.collectonly


def _endings_of(config: pytest.Config) -> dict[str, Ending]:
    """How the perf tests of this run have ended so far, by nodeid."""
    return config.stash.get(_endings, {})


def _later(item: pytest.Item) -> list[Case]:
    """The perf tests that come after this one."""
    items = item.session.items
    return [each.stash[_case] for each in items[items.index(item) + 1 :] if _case in each.stash]

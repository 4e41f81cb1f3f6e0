"""The pytest plugin: options, markers, fixtures and hooks.

Loaded in every pytest run of its users: until a perf test is collected, it imports nothing but pytest and the
standard library that pytest has loaded already.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.reports.terminal import ProgressLine
    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.session import Session
    from pytest_kafkaperf.settings import Settings

_OPTIONS: dict[str, tuple[str, str]] = {
    "cluster": (
        "auto|local|docker|HOST:PORT[,...]",
        "where the brokers are: started here (auto: in Docker where a daemon answers), or an existing cluster",
    ),
    "client-config": ("FILE", "client.properties of an existing cluster, as Kafka's own tools take it"),
    "metrics-url": ("URL[,URL...]", "JMX exporters of an existing cluster's brokers, as Prometheus reads them"),
    "version": ("VERSION", "Kafka version of the brokers that are started, for example 4.1.0"),
    "image": ("IMAGE", "Docker image of the brokers that are started, for example confluentinc/cp-kafka:8.0.0"),
    "brokers": ("N", "number of brokers that are started, or that an existing cluster must have"),
    "rounds": ("N", "rounds of every scenario"),
    "duration": ("TIME", "length of every round, for example '10 s'; replaces 'records', too"),
    "warmup": ("TIME", "load before each round, for example '2 s'"),
    "preheat": ("TIME", "load on brokers that were started here, before the first round of a scenario (default: 6 s)"),
    "baselines": ("DIR", "folder of the baseline files (default: kafka-baselines)"),
    "environment": (
        "NAME",
        "name of this environment; baselines count only within one (default: the machine's)",
    ),
    "reference": (
        "local[:VERSION]|docker[:IMAGE]|HOST:PORT[,...]",
        "compare with this cluster instead of stored baselines, rounds on both in turns",
    ),
    "reference-client-config": ("FILE", "client.properties of a reference that runs already"),
    "reference-seed": ("N", "repeat the order in which rounds took turns; a report with a reference names it"),
    "calibrate": ("N", "run every test in N fresh sessions, and tell how much they differ and what changes are found"),
    "time-budget": ("TIME", "bound of the whole run, for example 10m: rounds are left out where it would be longer"),
    "json": ("PATH", "write the JSON report"),
    "history": ("FILE", "append one JSON line a test and session, for change points over weeks"),
}
_MARKERS = (
    "kafka_scenario(**fields): the workload of a perf test, for example rate='5k records/s', producers=2",
    "kafka_threshold(*expressions): limits, for example 'produce.latency.p99 <= 25 ms'",
    "kafka_cluster(**fields): the cluster that the test needs, for example version='4.1.0'",
)
_SWITCHES = {
    "strict": "fail tests that are INCONCLUSIVE, for example without a baseline",
    "no-confirm": "do not run suspects again on fresh sessions: one session decides",
    "prune-baselines": "delete the baselines of tests that are gone, after a run of all tests",
    "jmx": "let brokers that are started tell of their work, through the JMX exporter: broker.handlers.idle, ...",
}
_UPDATE = "--kafka-update-baselines"

_settings = pytest.StashKey["Settings"]()
_session = pytest.StashKey["Session"]()
_case = pytest.StashKey["Case"]()
_began = pytest.StashKey[float]()
_partly = pytest.StashKey[set[str]]()
"""Files of which some tests were left out, or may have been."""
_seen = pytest.StashKey[set[str]]()
"""Every test that was collected, whatever became of it later."""
_failed_writing = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every option, each also as an ini key."""
    group = parser.getgroup("kafkaperf", "Kafka performance regression tests")
    for name, (metavar, text) in _OPTIONS.items():
        group.addoption(f"--kafka-{name}", metavar=metavar, default=None, help=text)
        parser.addini(f"kafka_{name.replace('-', '_')}", text, default="")
    text = (
        "write baselines: all (accept today's figures), new (only of tests without one), improved (only of tests that "
        "got better beyond noise), append (add this session; the newest 10 are kept)"
    )
    group.addoption(_UPDATE, nargs="?", const="all", default=None, metavar="all|new|improved|append", help=text)
    parser.addini("kafka_update_baselines", text, default="")
    text = "a broker property of the reference, such as num.io.threads=1; again for each"
    group.addoption("--kafka-reference-config", action="append", default=None, metavar="NAME=VALUE", help=text)
    parser.addini("kafka_reference_config", text, type="linelist", default=[])
    for name, text in _SWITCHES.items():
        group.addoption(f"--kafka-{name}", action="store_true", default=None, help=text)
        parser.addini(f"kafka_{name.replace('-', '_')}", text, type="bool", default=False)
    parser.addini("kafka_thresholds", "limits for every test that has those metrics", type="linelist", default=[])


def pytest_load_initial_conftests(args: list[str]) -> None:
    """Let the update option stand before a path, which argparse would take for its value."""
    for position, argument in enumerate(args):
        if argument == _UPDATE:
            args[position] = f"{_UPDATE}=all"


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; refuse options that no test could run with."""
    config.stash[_began] = time.monotonic()
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _read_settings(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say where load would go and what it would be compared with."""
    settings = _read_settings(config)
    from pytest_kafkaperf.environment import default_environment_key  # noqa: PLC0415 - only where a header is shown

    provider, cluster = _describe_cluster(settings)
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
    for item in items:
        if "kafka_perf" in getattr(item, "fixturenames", ()):
            found = _read_case(item)
            if found:
                problems.setdefault(_file_of(item.nodeid), []).append(found)
    for nodeid, texts in problems.items():
        report = pytest.CollectReport(nodeid, "failed", longrepr="\n".join(texts), result=[])
        config.hook.pytest_collectreport(report=report)
    items[:] = [item for item in items if _file_of(item.nodeid) not in problems]


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
    item.config.stash.setdefault(_seen, set()).add(item.nodeid)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which files were not run whole: their baselines may be those of tests that were left out."""
    for item in items:
        item.config.stash.setdefault(_partly, set()).add(_file_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Remember files and classes that could not be read."""
    report = yield
    if report.failed:
        collector.config.stash.setdefault(_partly, set()).add(_file_of(collector.nodeid))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out for which the time budget has no time, before its cluster is started."""
    if _case not in item.stash or _read_settings(item.config).time_budget_s is None:
        return
    session = _session_or_fail(item.config)
    result = session.refuse_for_time(item.stash[_case], _later(item))
    if result is not None:
        _conclude(item, result, session)


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
    return KafkaPerf(request.node, _kafkaperf_session, kafka_cluster)


class KafkaPerf:
    """What the `kafka_perf` fixture gives: call it to run the scenario."""

    def __init__(self, node: pytest.Item, session: Session, cluster: object) -> None:
        self._node = node
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
        from pytest_kafkaperf.actions import planned  # noqa: PLC0415
        from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415
        from pytest_kafkaperf.session import as_cluster  # noqa: PLC0415

        node, session = self._node, self._session
        if self._finished:
            pytest.fail("kafka_perf() runs once a test; use pytest.mark.parametrize for more", pytrace=False)
        reason = ""
        try:
            case = node.stash[_case].with_overrides(overrides) if overrides else node.stash[_case]
            actions = [planned(time, do, duration_s=case.scenario.duration) for time, do in self._planned]
            with _progress(node, case) as line:
                watch = line.update if line else _ignore
                result = session.run(case, as_cluster(self._cluster), watch, actions, later=_later(node))
        except KafkaPerfError as error:
            reason = str(error)
        _fail_on(reason)  # out here, for pytest would show the error before it, too
        self._finished = True
        _conclude(node, result, session)
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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the clusters, then write the report: nothing is left behind even when writing fails."""
    config = session.config
    if _session not in config.stash and not _prunes(config):
        return
    from pytest_kafkaperf.errors import KafkaPerfError  # noqa: PLC0415

    if _session in config.stash:
        config.stash[_session].close()
    for write in (_write_reports, functools.partial(_see_orphans, session)):
        try:
            write(_open_session(config))
        except KafkaPerfError as error:
            config.stash.setdefault(_failed_writing, []).append(str(error))
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what an aborted session left running."""
    perf = config.stash.get(_session, None)
    if perf is not None:
        perf.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table, and what was written."""
    perf = config.stash.get(_session, None)
    if perf is None:
        return
    for error in config.stash.get(_failed_writing, []):
        terminalreporter.write_line(f"ERROR: {error}", red=True)
    if config.get_verbosity() < 0 or not (perf.results or perf.orphans):
        return
    from pytest_kafkaperf.reports.notes import names_of, render_notes  # noqa: PLC0415
    from pytest_kafkaperf.reports.terminal import render_calibration, render_table  # noqa: PLC0415

    writer = terminalreporter._tw  # noqa: SLF001 - the only way to its width, colour and encoding
    terminalreporter.write_sep("=", "kafka performance")
    encoding = getattr(writer._file, "encoding", None) or "utf-8"  # noqa: SLF001
    style: dict[str, Any] = {
        "width": writer.fullwidth,
        "colour": writer.hasmarkup,
        "ascii_only": "utf" not in encoding.lower(),
    }
    names = names_of(perf.results)
    lines = render_table(perf.results, **style).splitlines()
    for result in perf.results:
        if result.calibration:
            lines += ["", names[result.nodeid], *render_calibration(result, **style).splitlines()]
    for line in [*lines, *render_notes(perf, verbose=config.get_verbosity() > 0)]:
        terminalreporter.write_line(line)


def _read_settings(config: pytest.Config) -> Settings:
    """The options of this run, read once.

    Raises pytest.UsageError for a value that no test could run with.
    """
    if _settings in config.stash:
        return config.stash[_settings]
    from pytest_kafkaperf.errors import UsageError  # noqa: PLC0415
    from pytest_kafkaperf.settings import read_settings  # noqa: PLC0415

    names = [*_OPTIONS, *_SWITCHES, "update-baselines", "reference-config"]
    try:
        settings = read_settings(
            {name: config.getoption(f"kafka_{name.replace('-', '_')}") for name in names},
            {name: config.getini(f"kafka_{name.replace('-', '_')}") for name in names},
            config.getini("kafka_thresholds"),
            invocation_folder=config.invocation_params.dir,
            root=config.rootpath,
        )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[_settings] = settings
    return settings


def _describe_cluster(settings: Settings) -> tuple[str, str]:
    """The provider, and where load would go and why, for people."""
    from pytest_kafkaperf.target import choose, read_target  # noqa: PLC0415

    provider = read_target(settings.cluster).name
    image = settings.command_line.get("image") or settings.ini.get("image")
    started = f"Kafka {settings.version}" if provider == "local" or image is None else image
    match settings.cluster:
        case "auto":
            return provider, f"{provider} (auto: {choose()[1]}), {started}"
        case "local" | "docker":
            return provider, f"{provider}, {started}"
        case servers:
            return provider, f"{servers} ({provider})"


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
        clusters.check(settings.cluster, settings.client_config, settings.metrics_urls)
    except UsageError as error:
        return "\n".join(f"{item.nodeid}: {problem}" for problem in str(error).splitlines())
    item.stash[_case] = case
    return None


def _prunes(config: pytest.Config) -> bool:
    """Whether baselines of tests that are gone are to go, even where no perf test is left."""
    shared = hasattr(config, "workerinput") or config.getoption("dist", "no") != "no"  # nobody has all the tests
    asked = _settings in config.stash and config.stash[_settings].prune
    return asked and not shared and not config.option.collectonly


def _write_reports(perf: Session) -> None:
    if perf.settings.json is None:
        return
    from pytest_kafkaperf.reports.json import write_json  # noqa: PLC0415
    from pytest_kafkaperf.session import plugin_version  # noqa: PLC0415

    write_json(
        perf.settings.json,
        perf.results,
        created=perf.created,
        plugin=plugin_version(),
        environment=perf.environment(),
        reference_seed=None if perf.settings.reference is None else perf.seed,
    )


def _see_orphans(session: pytest.Session, perf: Session) -> None:
    """Look for baselines of tests that are gone, among the files of which none was left out."""
    config = session.config
    collected = {item.nodeid for item in session.items}
    seen: set[str] = config.stash.get(_seen, set())
    known: set[str] = config.stash.get(_partly, set())
    partly = known | {_file_of(nodeid) for nodeid in seen - collected}
    partly |= {_file_of(argument) for argument in config.args if "::" in argument}
    if session.shouldstop or session.shouldfail or config.getoption("lf", default=False):
        partly |= {_file_of(nodeid) for nodeid in collected}  # the last failed ones alone are collected
    files = {_file_of(nodeid) for nodeid in collected} - partly
    perf.prune(collected=collected, files=files, whole=not partly)


def _later(item: pytest.Item) -> list[Case]:
    """The perf tests that come after this one."""
    items = item.session.items
    return [each.stash[_case] for each in items[items.index(item) + 1 :] if _case in each.stash]


def _conclude(item: pytest.Item, result: Result, session: Session) -> None:
    """Let a test end as its verdict says."""
    from pytest_kafkaperf.reports.failure import failure_of  # noqa: PLC0415

    _add_properties(item, result)
    _fail_on(failure_of(result, strict=session.settings.strict))
    if not result.rounds:  # no time was left, and the rest of the test has nothing to look at
        pytest.skip("; ".join(result.notes))


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _fail_on(reason: str | None) -> None:
    if reason:
        pytest.fail(reason, pytrace=False)


def _add_properties(item: pytest.Item, result: Result) -> None:
    """For JUnit and other reporters: the verdict and each metric in its base unit."""
    item.user_properties.append(("kafka_verdict", str(result.verdict)))
    item.user_properties += [(name, value) for name, value in result.metrics.items()]


def _ignore(*_: Any) -> None:
    """Progress that nobody watches."""


@contextlib.contextmanager
def _progress(item: pytest.Item, case: Case) -> Iterator[ProgressLine | None]:
    """A progress line where someone watches a terminal; None elsewhere."""
    config = item.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or not reporter.isatty or config.get_verbosity() < 0 or "CI" in os.environ:
        yield None
        return
    from pytest_kafkaperf.reports.terminal import ProgressLine  # noqa: PLC0415

    def uncaptured() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()

    def write(text: str) -> None:
        with uncaptured():
            sys.stdout.write(text)
            sys.stdout.flush()

    with uncaptured():
        reporter.ensure_newline()
    line = ProgressLine(item.name, case.scenario, write)
    try:
        yield line
    finally:
        line.clear()
        if config.get_verbosity() == 0:  # above that, pytest writes the test's name again by itself
            with uncaptured():
                reporter.write_fspath_result(item.nodeid, "")

"""Reads the markers of collected perf tests."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import Auto, External, Local
from pytest_kafkaperf.core.errors import ScenarioError, UsageError
from pytest_kafkaperf.core.metrics import SEARCH_METRICS
from pytest_kafkaperf.core.text import file_of, printable
from pytest_kafkaperf.plugin.benchmarks import LoadClock
from pytest_kafkaperf.plugin.calls import wrong_calls
from pytest_kafkaperf.plugin.items import asks_for_benchmark, takes_perf
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.scenario import Scenario

_RESEMBLES = 0.8
"""Minimum similarity of two names, as computed by `difflib`; tolerates about one or two different letters."""
_CLUSTERS = frozenset({"kafka_cluster", "kafka_cluster_factory"})
_FIELDS = frozenset({*Scenario.model_fields, *ClusterSpec.model_fields})
"""Names of parameters that set scenario or cluster fields."""
_MARKERS = ("kafka_scenario", "kafka_threshold", "kafka_cluster")


class LatencyWithoutRateWarning(pytest.PytestWarning):
    """Warns that a latency threshold judges a load that runs as fast as possible."""


def read_perftests(items: Iterable[pytest.Item], settings: Settings) -> tuple[list[pytest.Item], dict[str, PerfTest]]:
    """Read all perf tests' markers; report a collection error for each file with invalid markers.

    Returns:
        The items from all other files, and their perf tests by nodeid.

    """
    tests: dict[str, PerfTest] = {}
    problems: dict[str, list[str]] = {}
    for item in items:
        misused = [f"{item.nodeid}: {text}" for text in (*_misspelt(item), *_misused(item))]
        if misused:
            problems.setdefault(file_of(item.nodeid), []).extend(misused)
        elif takes_perf(item):
            item.add_marker("kafka_perf")
            _join_benchmarks(item)
            try:
                tests[item.nodeid] = read_item(item, settings)
            except UsageError as error:
                problems.setdefault(file_of(item.nodeid), []).append(str(error))
    return _without_broken(items, problems), tests


def _without_broken(items: Iterable[pytest.Item], problems: Mapping[str, Sequence[str]]) -> list[pytest.Item]:
    """Report a collection error for each file with problems, and return the items from the other files."""
    for file, texts in problems.items():
        report = pytest.CollectReport(file, "failed", longrepr="\n".join(texts), result=[])
        next(iter(items)).config.hook.pytest_collectreport(report=report)
    return [item for item in items if file_of(item.nodeid) not in problems]


def warn_of_latency(items: Sequence[pytest.Item], tests: Mapping[str, PerfTest]) -> list[pytest.Item]:
    """Warn about perf tests with a latency threshold but no rate before they waste minutes on a meaningless load.

    Thresholds in the ini file do not cause a warning, because they also apply to tests that measure throughput.

    Returns:
        The items, except those in files where the warning is an error.

    """
    problems: dict[str, list[str]] = {}
    for item in items:
        test = tests.get(item.nodeid)
        text = None if test is None else _latency_without_rate(test)
        if text is None:
            continue
        try:
            item.warn(LatencyWithoutRateWarning(printable(text)))
        except LatencyWithoutRateWarning:
            problems.setdefault(file_of(item.nodeid), []).append(f"{item.nodeid}: {text}")
    return _without_broken(items, problems)


def _latency_without_rate(test: PerfTest) -> str | None:
    own = [limit for limit in test.thresholds if not limit.from_ini]
    searches = any(limit.metric.name in SEARCH_METRICS for limit in own)
    expressions = [repr(limit.expression) for limit in own if ".latency." in limit.metric.name]
    if test.scenario.rate is not None or not test.scenario.producers or searches or not expressions:
        return None
    return (
        f"{', '.join(expressions)} without a rate: producers send as fast as they can, so records queue up, and "
        "latency mostly depends on how many may be in flight; declare a rate below the cluster's capacity, for "
        "example kafka_scenario(rate='5k records/s'), or use a threshold on produce.throughput instead"
    )


def read_item(item: pytest.Item, settings: Settings) -> PerfTest:
    """Read a test's markers and parameters.

    Raises:
        UsageError: the test has problems; the message contains one per line, each with the nodeid.

    """
    given = item.callspec.params if hasattr(item, "callspec") else {}
    parameters = {name: value for name, value in given.items() if name not in _FIELDS or _is_direct(item, name)}
    try:
        test = read_perftest(item.nodeid, marks_of(item), parameters, settings, folder=item.path.parent)
        # `auto` never means an external cluster. Docker is detected only when a test runs, which then checks again.
        target = Local() if isinstance(settings.cluster, Auto) else settings.cluster
        provision.check(target, settings.client_config, settings.metrics_urls, settings.log_dirs)
        if not isinstance(target, External) and not _has_own_cluster(item):
            _refuse_missing_brokers(test)
    except UsageError as error:
        raise UsageError("\n".join(f"{item.nodeid}: {problem}" for problem in str(error).splitlines())) from None
    return dataclasses.replace(test, taken_by=_taken_by(item))


def _has_own_cluster(item: pytest.Item) -> bool:
    """Return True if the user's code provides the cluster by overriding the fixture."""
    found = item._fixtureinfo.name2fixturedefs.get("kafka_cluster")  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return found is None or not found[-1].func.__module__.startswith("pytest_kafkaperf.")


def _refuse_missing_brokers(test: PerfTest) -> None:
    replicas, brokers = test.scenario.replication_factor, test.spec.brokers
    if replicas is not None and replicas > brokers:
        raise ScenarioError(
            f"kafka_scenario: replication_factor={replicas} needs {replicas} brokers, but the cluster has {brokers}; "
            f"declare kafka_cluster(brokers={replicas}), or remove replication_factor"
        )


def _is_direct(item: pytest.Item, parameter: str) -> bool:
    """Return True if a parameter belongs to the test itself rather than to a fixture."""
    found = item._fixtureinfo.name2fixturedefs.get(parameter)  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return not found or found[-1].func.__module__.startswith("_pytest.")


def marks_of(item: pytest.Item) -> list[pytest.Mark]:
    """Return the test's markers that belong to this plugin, the closest one last.

    Pytest lists the decorators of a function or a class from the bottom up, a class's after those of its base classes,
    and other markers, such as a parameter's, at the end.
    """
    found: list[pytest.Mark] = []
    for node in item.listchain():
        marks = [mark for mark in node.own_markers if mark.name in _MARKERS]
        for decorators in _decorators(node):
            stacked = sum(mark.name in _MARKERS for mark in decorators)
            found += marks[:stacked][::-1]
            marks = marks[stacked:]
        found += marks
    return found


def _decorators(node: object) -> list[list[pytest.Mark]]:
    """Return the `pytestmark` lists of a function, or of a class and its base classes, in pytest's order."""
    if isinstance(node, pytest.Class):
        given = [vars(each).get("pytestmark", []) for each in reversed(node.obj.__mro__)]
    else:
        given = [getattr(getattr(node, "function", None), "pytestmark", [])]
    return [each if isinstance(each, list) else [each] for each in given]


def _misspelt(item: pytest.Item) -> list[str]:
    """Return an error for each unregistered marker whose name resembles one of this plugin's markers."""
    given = {mark.name for mark in item.iter_markers()} - {*_MARKERS}
    near = {name: difflib.get_close_matches(name, _MARKERS, n=1, cutoff=_RESEMBLES) for name in sorted(given)}
    if not any(near.values()):
        return []
    registered = {re.split(r"[(:\s]", line.strip())[0] for line in item.config.getini("markers")}
    return [
        f"unknown marker {name!r}: did you mean {found[0]!r}? If it is yours, register it in the ini file (markers)"
        for name, found in near.items()
        if found and name not in registered
    ]


def _misused(item: pytest.Item) -> Iterator[str]:
    """Yield an error for each marker or call that does not have the effect its author expects."""
    if any(mark.args or mark.kwargs for mark in item.iter_markers("kafka_perf")):
        yield (
            "the marker kafka_perf takes no arguments, because the plugin sets it on every perf test; to declare the "
            "load, use kafka_scenario(rate='5k records/s')"
        )
    if takes_perf(item):
        yield from wrong_calls(getattr(item, "function", None))
    # A module or class with the marker may also contain tests that measure nothing.
    if not takes_perf(item) and any(mark.name == "kafka_scenario" for mark in item.own_markers):
        yield (
            "kafka_scenario has no effect without the kafka_perf fixture; add the argument kafka_perf to the test "
            "function and call kafka_perf(), or remove the marker"
        )


def _taken_by(item: pytest.Item) -> str | None:
    """Describe the user code that uses the cluster directly (the test or a fixture); None if there is none."""
    info = item._fixtureinfo  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    if taken := _CLUSTERS.intersection(info.argnames):
        return f"the test takes {min(taken)}"
    for name, found in sorted(info.name2fixturedefs.items()):
        # If a fixture requests its own name, pytest passes the definition that the fixture overrides.
        overriding = [*itertools.takewhile(lambda one: one.argname in one.argnames, reversed(found))]
        used = found[-1 - len(overriding) :]
        own = [each for each in used if each.func.__module__.partition(".")[0] != "pytest_kafkaperf"]
        if own and (name == "kafka_cluster" or any(_CLUSTERS.intersection(each.argnames) for each in own)):
            return f"the fixture {name} {'is overridden' if name == 'kafka_cluster' else 'takes the cluster'}"
    return None


def _join_benchmarks(item: pytest.Item) -> None:
    """Make pytest-benchmark record a perf test if an option requests this, unless the test uses that plugin itself."""
    # Tests of the same function share the list, so replace it instead of changing it.
    names: list[str] = item.fixturenames  # type: ignore[attr-defined]
    is_loaded = item.config.pluginmanager.has_plugin("benchmark")
    if not is_loaded or not asks_for_benchmark(item.config) or "benchmark" in names:
        return
    marker = item.get_closest_marker("benchmark")
    arguments = {**(marker.kwargs if marker else {}), "timer": LoadClock()}
    item.add_marker(pytest.mark.benchmark(**arguments), append=False)
    item.fixturenames = [*names, "benchmark"]  # type: ignore[attr-defined]

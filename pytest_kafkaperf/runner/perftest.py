"""A perf test as declared by its markers, validated at collection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import External
from pytest_kafkaperf.core.errors import ScenarioError, UnitError, did_you_mean, suggestion
from pytest_kafkaperf.core.metrics import (
    EVENT_METRICS,
    FINAL_METRICS,
    HOST_METRICS,
    JMX_METRICS,
    LOSS_METRICS,
    PROCESS_METRICS,
    SEARCH_METRICS,
    STEADINESS_METRICS,
    plugins_like,
)
from pytest_kafkaperf.load.engines.engine import client_problems
from pytest_kafkaperf.runner.round_length import in_usual_rounds, short_round_s
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.samples import with_path
from pytest_kafkaperf.runner.settings import SCENARIO_OPTIONS, Revision, Settings
from pytest_kafkaperf.runner.unmeasured import refuse_unmeasured
from pytest_kafkaperf.scenarios.fields import OWN_NAMES, format_field, refuse_arguments
from pytest_kafkaperf.scenarios.rate import format_rate, parse_rate
from pytest_kafkaperf.scenarios.scenario import Scenario, merge
from pytest_kafkaperf.scenarios.threshold import Threshold, count_gated, parse_declared, parse_threshold

if TYPE_CHECKING:
    import pytest

_PAIRS = 4
"""Number of rounds per side in a side-by-side trial."""
_SHORT_WARMUP_S = 0.3
"""Maximum warm-up load before a round in side-by-side trials, in seconds."""
_OPTION = {"ini": "kafka_{}", "command line": "--kafka-{}"}
"""Spelling of scenario fields in the ini file and on the command line."""
_IMPLIED = {"lost": LOSS_METRICS, "errors": ("errors", "error_ratio"), "unsent": ("unsent",)}
"""Metrics that must be 0 wherever they are measured, each with the metrics whose thresholds replace this rule."""


_FAULTS = ("errors", "error_ratio", "unsent", *FINAL_METRICS)


def is_met_if_faster(threshold: Threshold) -> bool:
    """Return True if faster brokers meet an absolute threshold whenever slower ones meet it under any load.

    Not so with steadiness, because throughput rises while brokers warm up, which hides a decline; and with the CPU time
    or the lag of an application in a closed loop, in which slow brokers give it less to do.
    """
    name = threshold.metric.name
    if threshold.relative is not None or threshold.metric.is_own or name in STEADINESS_METRICS:
        return False
    return threshold.allows_better and (name in _FAULTS or ".latency." in name or name.endswith(".throughput"))


def is_met_if_warm(threshold: Threshold, scenario: Scenario) -> bool:
    """Return True if warm brokers and applications meet a threshold whenever cold ones meet it.

    With a rate, both get the same load, so that this also holds for the plugin's other metrics, except memory, which
    grows during a warm-up, and limits in the wrong direction.
    """
    name = threshold.metric.name
    is_unknown = threshold.metric.is_own or name.endswith(".memory") or name in STEADINESS_METRICS
    if scenario.rate is None or threshold.relative is not None or is_unknown:
        return is_met_if_faster(threshold)
    return threshold.allows_better


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfTest:
    """A test's declarations, with the run's options applied."""

    nodeid: str
    scenario: Scenario
    thresholds: tuple[Threshold, ...]
    spec: ClusterSpec
    live_baseline: ClusterSpec | None
    """The cluster to compare with; None if the test is compared with a stored baseline."""
    sources: Mapping[str, str] = field(repr=False)
    """Source of each scenario field that differs from its default: `marker`, `command line`..."""
    parameters: Mapping[str, Any] = field(repr=False)
    """The test's parameters except scenario fields; cluster fields have their effective values."""
    levels: tuple[tuple[str, Mapping[str, Any]], ...] = field(repr=False)
    """Sources with their fields, in order of increasing precedence."""
    folder: Path = field(repr=False)
    """The folder that contains the test's file; relative paths refer to this folder."""
    settings: Settings = field(repr=False)
    taken_by: str | None = None
    """User code that uses the cluster directly, such as `the fixture quota takes the cluster`; None if none does."""
    plan: SearchPlan | None = None
    """The capacity search that each round runs; None if the test declares its rate."""
    is_smoke_test: bool = False
    """True to check only that the scenario runs, without judging thresholds or writing a baseline."""

    @property
    def needs_warm_brokers(self) -> bool:
        """False if a test that passes on cold brokers always passes on warm ones, because its limits are absolute.

        True for capacity searches and for tests without thresholds, which are run for their values.
        """
        if self.is_smoke_test:
            return False
        kept = self.settings.update is not None or self.settings.calibrate is not None
        is_safe = bool(self.thresholds) and all(is_met_if_warm(each, self.scenario) for each in self.thresholds)
        return kept or self.live_baseline is not None or self.plan is not None or not is_safe

    @property
    def limits(self) -> tuple[Threshold, ...]:
        """The declared and the implied thresholds."""
        return (*self.thresholds, *self.implied)

    @property
    def implied(self) -> tuple[Threshold, ...]:
        """Thresholds that apply without being declared, unless the test has a threshold on the same metric."""
        if self.is_smoke_test:
            return ()  # the test's thresholds already include them
        limits = self.thresholds if self.plan is None else (*self.thresholds, *self.plan.limits)
        declared = {limit.metric.name for limit in limits}
        measured = {*self.scenario.metrics(), *(("unsent",) if self.plan is not None else ())}
        return tuple(
            replace(parse_threshold(f"{name} == 0"), implied=True)
            for name, replaced_by in _IMPLIED.items()
            if name in measured and declared.isdisjoint(replaced_by)
        )

    def replacing(self, name: str) -> list[str]:
        """Return this test's metrics whose thresholds replace a metric's implied threshold."""
        return [other for other in _IMPLIED[name] if other == name or other in self.scenario.metrics()]

    def with_overrides(
        self, overrides: Mapping[str, Any], *, where: str = "kafka_scenario: ", names: Mapping[str, str] = OWN_NAMES
    ) -> PerfTest:
        """Return the test with a `kafka_perf()` call's arguments, which only the command line can override.

        Error messages start with `where`; `names` maps fields to the arguments that set them under another name.

        Raises:
            ScenarioError: a field is invalid.

        """
        *farther, command_line = self.levels
        levels = (*farther, ("call", overrides), command_line)
        scenario, sources = _scenario(levels, self.folder, where, names)
        measured = _measured(scenario, self.settings, self.spec)
        own = [limit for limit in self.thresholds if not limit.from_ini]
        refuse_unmeasured(own, scenario, measured)
        _require_declared(self.thresholds, scenario)
        limits = tuple(dict.fromkeys((*own, *_of_settings(self.settings, measured))))
        if "duration" not in sources:
            scenario = in_usual_rounds(scenario, limits)
        return replace(self, scenario=scenario, thresholds=limits, sources=sources, levels=levels)

    def without_search(self) -> PerfTest:
        """Return the test for a `kafka_perf()` call, excluding the ini file's thresholds on capacity search metrics.

        Raises:
            ScenarioError: the test's own markers have such a threshold.

        """
        kept = [limit for limit in self.thresholds if limit.metric.name not in SEARCH_METRICS]
        for limit in self.thresholds:
            if limit.metric.name in SEARCH_METRICS and not limit.from_ini:
                raise ScenarioError(
                    f"threshold {limit.expression!r}: kafka_perf() runs at a single rate; call "
                    f"kafka_perf.capacity(...) to measure {limit.metric.name}"
                )
        return replace(self, thresholds=tuple(kept))

    def with_search(self, limits: Sequence[Any], *, low: Any, high: Any, hold: Any) -> PerfTest:
        """Return the test for a capacity search; the arguments are those of `kafka_perf.capacity()`.

        The test runs a single round unless it declares `rounds` or has a threshold relative to the baseline.

        Raises:
            ScenarioError: all problems of the arguments, one per line.

        """
        overrides: dict[str, Any] = {"rate": low, "duration": hold}
        if "rounds" not in self.sources and not count_gated(self.thresholds):
            overrides["rounds"] = 1
        if hold is None:
            raise ScenarioError(
                "kafka_perf.capacity: hold=None is not a time; give the time to hold each rate, for example hold='10 s'"
            )
        try:
            test = self.with_overrides(overrides, where="", names={"rate": "low", "duration": "hold"})
            plan = _plan(limits, high, test.scenario)
            refuse_unmeasured(plan.limits, test.scenario, _measured(test.scenario, self.settings, self.spec))
        except ScenarioError as error:
            raise ScenarioError(f"kafka_perf.capacity: {error}") from None
        searched = test.scenario.model_copy(update={"rate": None})
        sources = {name: source for name, source in test.sources.items() if name != "rate"}
        test = replace(test, plan=plan, scenario=searched, sources=sources)
        return replace(test, plan=replace(plan, implied=test.implied))

    def with_recorded(self, names: Collection[str]) -> PerfTest:
        """Return the test after its custom metrics were added and their units are known.

        Raises:
            ScenarioError: the test has a threshold on a custom metric that was not added, or with a wrong unit.

        """
        for limit in (*self.thresholds, *(() if self.plan is None else self.plan.limits)):
            name = limit.metric.name
            if limit.metric.is_own and name not in names and not limit.from_ini:
                remedy = suggestion(name, [*names]) or _remedy(name)
                raise ScenarioError(f"threshold {limit.expression!r}: this test does not measure {name}; {remedy}")
        kept = [limit for limit in self.thresholds if limit.metric.name in names or not limit.metric.is_own]
        known = [replace(parse_declared(limit.expression), from_ini=limit.from_ini) for limit in kept]
        return replace(self, thresholds=tuple(known))

    def in_short_rounds(self) -> PerfTest:
        """Return the same test with short rounds, for side-by-side trials.

        Short rounds ensure that disturbances of a few seconds affect both sides equally. Durations set on the command
        line, loads with a fixed number of records, and loads with a changing rate are not shortened.
        """
        scenario = self.scenario
        update: dict[str, Any] = {"rounds": _PAIRS, "warmup": min(scenario.warmup, _SHORT_WARMUP_S)}
        duration_s = short_round_s(scenario, self.thresholds)
        if duration_s is not None:
            update["duration"] = duration_s
        kept = {name: value for name, value in update.items() if self.sources.get(name) != "command line"}
        given = {name: getattr(scenario, name) for name in kept if name in self.sources}
        changed = {name: "side by side" for name, value in given.items() if value != kept[name]}
        return replace(self, scenario=scenario.model_copy(update=kept), sources={**self.sources, **changed})

    @property
    def shortened(self) -> str | None:
        """Declared lengths that short rounds override: `duration=1 s instead of 10 s`; None if there are none."""
        before, short = self.scenario, self.in_short_rounds()
        changed = [name for name, source in short.sources.items() if source != self.sources[name]]
        parts = [
            f"{name}={format_field(name, getattr(short.scenario, name))} instead of "
            f"{format_field(name, getattr(before, name))}"
            for name in changed
        ]
        return ", ".join(parts) or None

    def as_smoke_test(self) -> PerfTest:
        """Return the same test with a single round and without a live baseline; a capacity search runs its lowest rate.

        Only thresholds on lost and failed records remain, because they do not depend on performance.
        """
        lowest = {} if self.plan is None else {"rate": self.plan.low}
        scenario = self.scenario.model_copy(update={"rounds": 1, **lowest})
        limits = (*self.thresholds, *(() if self.plan is None else self.plan.limits), *self.implied)
        kept = [limit for limit in limits if limit.metric.name in (*_IMPLIED["lost"], *_IMPLIED["errors"])]
        thresholds = tuple(replace(limit, implied=True) for limit in kept)
        return replace(
            self, scenario=scenario, thresholds=thresholds, live_baseline=None, plan=None, is_smoke_test=True
        )


def read_perftest(
    nodeid: str, marks: Sequence[pytest.Mark], parameters: Mapping[str, Any], settings: Settings, *, folder: Path
) -> PerfTest:
    """Read a test's markers, in order of increasing precedence, and its parameters.

    A parameter with the name of a scenario or cluster field sets that field. Paths of sample files are relative to
    `folder`.

    Raises:
        ScenarioError: all of the test's problems, one per line.

    """
    problems: list[str] = []

    def attempt(read: Any, *args: Any) -> Any:
        try:
            return read(*args)
        except ScenarioError as error:
            problems.append(str(error))
            return None

    def stop_on_problems() -> None:
        if problems:
            raise ScenarioError("\n".join(problems))

    for mark in marks:
        attempt(refuse_arguments, mark.name, mark.args, mark.kwargs)
    stop_on_problems()
    levels = (
        ("ini", settings.fields(SCENARIO_OPTIONS, "ini")),
        *(("marker", mark.kwargs) for mark in marks if mark.name == "kafka_scenario"),
        ("parameter", {name: value for name, value in parameters.items() if name in Scenario.model_fields}),
        ("command line", settings.fields(SCENARIO_OPTIONS, "command line")),
    )
    declared = attempt(_scenario, levels, folder)
    thresholds = []
    for mark in marks:
        if mark.name == "kafka_threshold":
            thresholds += [attempt(parse_declared, text) for text in mark.args]
    cluster_fields = [mark.kwargs for mark in marks if mark.name == "kafka_cluster"]
    cluster_fields.append({name: value for name, value in parameters.items() if name in ClusterSpec.model_fields})
    spec = attempt(read_spec, cluster_fields, settings)
    stop_on_problems()
    live_baseline = attempt(_live_baseline, spec, settings)
    scenario, sources = declared
    measured = _measured(scenario, settings, spec)
    attempt(refuse_unmeasured, thresholds, scenario, measured)
    stop_on_problems()
    limits = tuple(dict.fromkeys((*thresholds, *_of_settings(settings, measured))))
    return PerfTest(
        nodeid=nodeid,
        scenario=scenario if "duration" in sources else in_usual_rounds(scenario, limits),
        thresholds=limits,
        spec=spec,
        live_baseline=live_baseline,
        sources=sources,
        parameters={
            name: getattr(spec, name) if name in ClusterSpec.model_fields else value  # the command line may override it
            for name, value in parameters.items()
            if name not in Scenario.model_fields
        },
        levels=levels,
        folder=folder,
        settings=settings,
    )


def _of_settings(settings: Settings, measured: Collection[str]) -> list[Threshold]:
    """Return the ini file's thresholds that apply to a test with these metrics."""
    return [one for one in settings.thresholds if one.metric.is_own or one.metric.name in measured]


def _scenario(
    levels: Sequence[tuple[str, Mapping[str, Any]]],
    folder: Path,
    where: str = "kafka_scenario: ",
    names: Mapping[str, str] = OWN_NAMES,
) -> tuple[Scenario, dict[str, str]]:
    fields = merge(*(values for _, values in levels))
    if fields.get("producers") == 0:  # the load reads everything in the topic, so the default duration does not apply
        levels = [
            (source, {name: value for name, value in values.items() if name != "duration" or source not in _OPTION})
            for source, values in levels
        ]
        fields = merge(*(values for _, values in levels))
    sources: dict[str, str] = {}
    for source, values in levels:
        sources |= {name: source for name in values if name in fields}
    options = {name: _OPTION[source].format(name) for name, source in sources.items() if source in _OPTION}
    scenario = Scenario.of(fields, where=where, names={**names, **options}, further=client_problems)
    return with_path(scenario, folder, where), sources


def read_spec(declared: Sequence[Mapping[str, Any]], settings: Settings, where: str = "kafka_cluster: ") -> ClusterSpec:
    """Return the cluster with the run's options and these fields, given in order of increasing precedence.

    Raises:
        ScenarioError: a field is invalid; the message starts with `where`.

    """
    fields = merge(
        {"log_dirs": str(settings.log_dirs[0])} if settings.log_dirs else {},
        settings.cluster_fields("ini"),
        *declared,
        settings.cluster_fields("command line"),
    )
    return ClusterSpec.of(fields, where=where)


def _live_baseline(spec: ClusterSpec, settings: Settings) -> ClusterSpec | None:
    """Return the live baseline's spec: the test's cluster with the changes that the options specify."""
    wanted = settings.compare
    if wanted is None or isinstance(wanted, Revision):  # another revision runs on the same cluster
        return None if wanted is None else spec
    own = {name: getattr(spec, name) for name in spec.model_fields_set}
    changed = {"config": {**spec.config, **settings.compare_config}, **wanted.fields}
    return ClusterSpec.of({**own, **changed}, where="--kafka-compare-config: ")


def _remedy(name: str) -> str:
    """Return a hint for a threshold on a metric that neither the test nor the plugin measures."""
    alike = [known for known in plugins_like(name) if known.startswith("app.")]
    instead = f"; {did_you_mean(alike)}" if alike else ""
    return f"call kafka_perf.add_metric({name!r}, ...) before the load{instead}"


def _require_declared(thresholds: Sequence[Threshold], scenario: Scenario) -> None:
    """Require thresholds without which an application with any output, or without any, would pass."""
    declared = {one.metric.name for one in thresholds}
    if not scenario.expect.is_exact and "app.output_ratio" not in declared:
        raise ScenarioError(
            f"expect='{scenario.expect}' requires a threshold on app.output_ratio, because otherwise an application "
            "without any output would pass; for example 'app.output_ratio >= 90%'"
        )
    if scenario.expect.most == 0 and "duplicated" not in declared:
        raise ScenarioError(
            "expect=0 requires a threshold on duplicated, which counts the output records; for example "
            "'duplicated == 0'"
        )


def _plan(limits: Sequence[Any], high: Any, scenario: Scenario) -> SearchPlan:
    if not limits:
        raise ScenarioError("give at least one threshold, for example 'produce.latency.p99 <= 20 ms'")
    found = [parse_threshold(text) for text in limits]
    for limit in found:
        if limit.metric.name in SEARCH_METRICS or limit.relative is not None:
            raise ScenarioError(
                f"threshold {limit.expression!r}: a capacity search needs absolute thresholds on metrics of each rate, "
                "for example 'produce.latency.p99 <= 20 ms'; declare thresholds on the capacity itself with "
                "kafka_threshold(...)"
            )
    record_bytes = None if scenario.record_size is None else scenario.mean_record_size
    try:
        highest = parse_rate(high, record_bytes=record_bytes)
    except UnitError as error:
        raise ScenarioError(f"high: {error}") from None
    lowest = scenario.rate
    if lowest is None or isinstance(lowest, tuple) or isinstance(highest, tuple):
        raise ScenarioError(
            "low and high must each be a single rate, for example low='1k records/s', high='2M records/s'"
        )
    if lowest >= highest:
        raise ScenarioError(f"low={format_rate(lowest)!r} must be less than high={format_rate(highest)!r}")
    return SearchPlan(limits=tuple(found), low=lowest, high=highest)


def _measured(scenario: Scenario, settings: Settings, spec: ClusterSpec) -> set[str]:
    """Return a round's metrics on the `--kafka-cluster` cluster, even if a fixture provides a different cluster."""
    measured = {*scenario.metrics(), *PROCESS_METRICS, *EVENT_METRICS, *SEARCH_METRICS}
    if not scenario.watch_group:
        measured -= {name for name in EVENT_METRICS if name.startswith("app.")}
    if isinstance(settings.cluster, External):
        return measured | {*(JMX_METRICS if settings.metrics_urls else ())}
    return measured | {*HOST_METRICS, *(JMX_METRICS if spec.jmx else ())}

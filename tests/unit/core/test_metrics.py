"""The catalogue of metrics."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import (
    CATALOGUE,
    EVENT_METRICS,
    HOST_METRICS,
    JMX_METRICS,
    LOAD_METRICS,
    PROCESS_METRICS,
    SEARCH_METRICS,
    STEADINESS_METRICS,
    Metric,
    declare,
    metric,
)
from pytest_kafkaperf.core.units import Unit

_OUTSIDE = ("cpu_per_record", "cpu", "cpu.max", "memory", "disk.read", "disk.write", "network.in", "network.out")
_TIMES = [f"{kind}.{part}" for kind in ("produce", "fetch") for part in ("time", "queue", "local", "remote", "send")]
_INSIDE = ("handlers.idle", "under_replicated", "isr_shrinks", *_TIMES)
_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max")


def test_the_catalogue_is_the_documented_list_in_its_order() -> None:
    """Limits, baselines and reports of users hold these names: losing one breaks their tests."""
    assert list(CATALOGUE) == [
        "produce.throughput",
        "produce.bandwidth",
        "produce.throughput.steadiness",
        *(f"produce.latency.{part}" for part in _LATENCIES),
        *(f"produce.delay.{part}" for part in _LATENCIES),
        "consume.throughput",
        "consume.bandwidth",
        *(f"e2e.latency.{part}" for part in _LATENCIES),
        "e2e.latency.p99.steadiness",
        "lag.max",
        "lag.end",
        "rebalance.pause",
        "catchup",
        "catchup.throughput",
        *(f"app.{name}" for name in ("lag.max", "lag.end", "lag.slope", "throughput")),
        *(f"app.delay.{part}" for part in _LATENCIES),
        "app.drain",
        "app.rebalances",
        "app.rebalance.pause",
        "app.start",
        "app.recovery",
        "app.recovery.throughput",
        "app.output_ratio",
        "app.dead_letters",
        "errors",
        "error_ratio",
        "unsent",
        "lost",
        "duplicated",
        "reordered",
        "client.cpu_per_record",
        "capacity",
        "recovery",
        "app.cpu",
        "app.memory",
        *(f"broker.{name}" for name in _OUTSIDE),
        *(f"broker.{name}" for name in _INSIDE),
    ]


def test_more_is_better_for_throughput_bandwidth_and_their_steadiness_only() -> None:
    """The direction decides what a regression is."""
    higher = {name for name, one in CATALOGUE.items() if one.better == "higher"}
    rates = {
        "produce.throughput",
        "produce.bandwidth",
        "consume.throughput",
        "consume.bandwidth",
        "app.throughput",
        "app.recovery.throughput",
        "catchup.throughput",
        "capacity",
        "app.output_ratio",
    }
    assert higher == rates | {"broker.handlers.idle", "produce.throughput.steadiness"}


def test_counts_are_summed_and_whatever_can_be_zero_is_marked() -> None:
    """A median would let two rounds with losses pass; zero has no logarithm."""
    special = {name: one.over_rounds for name, one in CATALOGUE.items() if one.over_rounds != "median"}
    assert special == dict.fromkeys(
        ("app.dead_letters", "errors", "unsent", "lost", "duplicated", "reordered"), "sum"
    ) | {
        "error_ratio": "mean",
        "app.output_ratio": "mean",
    }
    zero = {name for name, one in CATALOGUE.items() if one.can_be_zero}
    told_by_brokers = {
        f"broker.{name}" for name in (*_OUTSIDE, *_INSIDE) if name not in ("cpu_per_record", "cpu", "cpu.max", "memory")
    }
    assert (
        zero
        == {
            "app.dead_letters",
            "lag.max",
            "lag.end",
            "errors",
            "error_ratio",
            "unsent",
            "lost",
            "duplicated",
            "reordered",
            "recovery",
        }
        | {"app.lag.max", "app.lag.end", "app.lag.slope", "app.drain", "app.start", "app.recovery", "catchup"}
        | {"app.dead_letters", "rebalance.pause", "app.rebalances", "app.rebalance.pause"}
        | {"produce.throughput.steadiness"}
        | told_by_brokers
    )


def test_units_go_with_the_family() -> None:
    """A limit's unit is checked against this."""
    units = {name.rsplit(".", 1)[-1] if "." in name else name: one.unit for name, one in CATALOGUE.items()}
    assert units["throughput"] is Unit.RECORD_RATE
    assert units["bandwidth"] is Unit.BYTE_RATE
    assert units["errors"] is units["lost"] is units["duplicated"] is units["end"] is Unit.RECORDS
    times = [name for name in CATALOGUE if ("latency" in name or "delay" in name) and name not in STEADINESS_METRICS]
    assert {CATALOGUE[name].unit for name in times} == {Unit.SECONDS}
    assert {CATALOGUE[name].unit for name in STEADINESS_METRICS} == {Unit.RATIO}
    assert CATALOGUE["client.cpu_per_record"].unit is Unit.CPU_COST
    assert CATALOGUE["broker.cpu"].unit is Unit.CORES
    assert CATALOGUE["broker.handlers.idle"].unit is Unit.RATIO


def test_every_metric_is_of_one_kind() -> None:
    """Who measures it decides what it needs."""
    of_load = (*LOAD_METRICS, *SEARCH_METRICS, *EVENT_METRICS)
    assert sorted((*of_load, *PROCESS_METRICS, *HOST_METRICS, *JMX_METRICS)) == sorted(CATALOGUE)


def test_a_metric_is_found_by_its_name() -> None:
    """The plain case."""
    assert metric("lost") == Metric(
        name="lost",
        unit=Unit.RECORDS,
        better="lower",
        over_rounds="sum",
        can_be_zero=True,
        meaning="acknowledged records that are missing from the log; absent with acks=0",
    )


def test_an_unknown_metric_is_answered_with_the_nearest() -> None:
    """There are too many to list."""
    with pytest.raises(ScenarioError) as caught:
        metric("produce.latency.p9")
    assert str(caught.value) == (
        "unknown metric 'produce.latency.p9'; "
        "did you mean 'produce.latency.p99', 'produce.latency.p95' or 'produce.latency.p90'?"
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("p99", "did you mean 'produce.latency.p99' or 'e2e.latency.p99'?"),
        ("latency_p99", "did you mean 'produce.latency.p99' or 'e2e.latency.p99'?"),
        ("throughput", "did you mean 'produce.throughput' or 'consume.throughput'?"),
        (
            "p99.9",
            "did you mean 'produce.latency.p99.9', 'produce.delay.p99.9', 'e2e.latency.p99.9' or 'app.delay.p99.9'?",
        ),
        ("e2e_p99", "did you mean 'e2e.latency.p99'?"),
        ("delay.p99", "did you mean 'produce.delay.p99' or 'app.delay.p99'?"),
        ("consumer.lag", "did you mean 'lag.max', 'lag.end', 'app.lag.max', 'app.lag.end' or 'app.lag.slope'?"),
        ("consumer.latency.p99", "did you mean 'produce.latency.p99' or 'e2e.latency.p99'?"),
        (
            "latency",
            "did you mean 'produce.latency.p50', 'produce.latency.p99', 'e2e.latency.p50' or 'e2e.latency.p99'?",
        ),
    ],
)
def test_a_metric_without_its_family_is_answered_with_the_most_important_ones(given: str, told: str) -> None:
    """`p99` is the first thing that everybody types; only the user knows which latency is meant."""
    with pytest.raises(ScenarioError) as caught:
        metric(given)
    assert str(caught.value) == f"unknown metric {given!r}; {told}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("app.lag", "did you mean 'app.lag.max', 'app.lag.end' or 'app.lag.slope'?"),
        ("app.lags.max", "did you mean 'app.lag.max'?"),
        ("app.max.lag", "did you mean 'app.lag.max'?"),
        ("app.lag_max", "did you mean 'app.lag.max'?"),
        ("app.output.ratio", "did you mean 'app.output_ratio'?"),
        ("app.drains", "did you mean 'app.drain'?"),
    ],
)
def test_a_near_miss_of_the_plugins_app_metrics_is_not_a_custom_metric(name: str, hint: str) -> None:
    """Otherwise the mistake would only show after the brokers have started."""
    with pytest.raises(ScenarioError) as caught:
        metric(name)
    assert str(caught.value) == f"unknown metric {name!r}; {hint}"
    with pytest.raises(ScenarioError) as caught:
        declare(name, unit="rows", better="lower")
    assert str(caught.value) == f"invalid custom metric name {name!r}: {hint} If not, use a less similar name"


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("name", ["app.gpu", "app.latency.p99", "app.out", "app.memory.heap"])
def test_other_names_after_app_are_custom_metrics(name: str) -> None:
    assert metric(name).is_own
    declare(name, unit="rows", better="lower")
    assert metric(name).unit == "rows"


@pytest.mark.usefixtures("catalogue")
def test_a_metric_of_a_tests_own_is_found_once_it_is_declared() -> None:
    """Reports know it by its name alone."""
    unknown = Metric(name="app.db.rows", unit="", better="higher", meaning="recorded by the test")
    assert metric("app.db.rows", "higher") == unknown
    for _ in range(2):  # each test that records it does so
        declare("app.db.rows", unit="rows/s", better="higher")
    assert metric("app.db.rows") == dataclasses.replace(unknown, unit="rows/s")
    assert [*CATALOGUE][-1] == "app.db.rows"
    declare("app.pause", unit="s", better="lower")
    assert metric("app.pause").unit is Unit.SECONDS


@pytest.mark.parametrize("name", ["rows", "custom.rows", "app.cpu", "produce.latency.p99", "app", "app.", "app.a-b", 7])
def test_names_of_the_plugin_are_not_those_of_a_test(name: Any) -> None:
    """A later version may have the same."""
    with pytest.raises(ScenarioError) as caught:
        declare(name, unit="rows", better="lower")
    assert str(caught.value) == (
        f"invalid custom metric name {name!r}: must be 'app.' followed by letters, digits and '_', for example "
        "'app.rows'; other names are reserved for the plugin"
    )
    assert name not in CATALOGUE or not metric(name).is_own


@pytest.mark.usefixtures("catalogue")
def test_a_name_means_the_same_in_all_tests() -> None:
    """A report has one unit for it."""
    declare("app.rows", unit="rows", better="higher")
    for other in ({"unit": "rows/s"}, {"better": "lower"}):
        with pytest.raises(ScenarioError) as caught:
            declare("app.rows", **({"unit": "rows", "better": "higher"} | other))  # type: ignore[arg-type]
        assert str(caught.value) == (
            "app.rows has unit='rows' and better='higher' in another test of this run; use the same values "
            "here, or another name"
        )


def test_better_is_lower_or_higher() -> None:
    """`more` would otherwise be taken for lower."""
    with pytest.raises(ScenarioError, match=r"invalid better='more': must be 'lower' or 'higher'"):
        declare("app.rows", unit="rows", better="more")  # type: ignore[arg-type]

"""The catalogue of metrics."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.errors import ScenarioError
from pytest_kafkaperf.metrics import CATALOGUE, Metric, metric
from pytest_kafkaperf.units import Unit

_LATENCIES = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")


def test_the_catalogue_is_the_documented_list_in_its_order() -> None:
    """Limits, baselines and reports of users hold these names: losing one breaks their tests."""
    assert list(CATALOGUE) == [
        "produce.throughput",
        "produce.bandwidth",
        *(f"produce.latency.{part}" for part in _LATENCIES),
        *(f"produce.delay.{part}" for part in _LATENCIES),
        "consume.throughput",
        "consume.bandwidth",
        *(f"e2e.latency.{part}" for part in _LATENCIES),
        "lag.max",
        "lag.end",
        "errors",
        "lost",
        "duplicated",
        "reordered",
        "client.cpu",
    ]


def test_more_is_better_for_throughput_and_bandwidth_only() -> None:
    """The direction decides what a regression is."""
    higher = {name for name, one in CATALOGUE.items() if one.better == "higher"}
    assert higher == {"produce.throughput", "produce.bandwidth", "consume.throughput", "consume.bandwidth"}


def test_counts_are_summed_and_whatever_can_be_zero_is_marked() -> None:
    """A median would let two rounds with losses pass; zero has no logarithm."""
    assert {name for name, one in CATALOGUE.items() if one.summed} == {"errors", "lost", "duplicated", "reordered"}
    zero = {name for name, one in CATALOGUE.items() if one.can_be_zero}
    assert zero == {"lag.max", "lag.end", "errors", "lost", "duplicated", "reordered"}


def test_units_go_with_the_family() -> None:
    """A limit's unit is checked against this."""
    units = {name.rsplit(".", 1)[-1] if "." in name else name: one.unit for name, one in CATALOGUE.items()}
    assert units["throughput"] is Unit.RECORD_RATE
    assert units["bandwidth"] is Unit.BYTE_RATE
    assert units["errors"] is units["lost"] is units["duplicated"] is units["end"] is Unit.RECORDS
    assert {CATALOGUE[name].unit for name in CATALOGUE if "latency" in name or "delay" in name} == {Unit.SECONDS}
    assert units["cpu"] is Unit.CPU_COST


def test_a_metric_is_found_by_its_name() -> None:
    """The plain case."""
    assert metric("lost") == Metric(
        name="lost",
        unit=Unit.RECORDS,
        better="lower",
        summed=True,
        can_be_zero=True,
        meaning="records acknowledged and not in the log; absent with acks=0",
    )


def test_an_unknown_metric_is_answered_with_the_nearest() -> None:
    """There are too many to list."""
    with pytest.raises(ScenarioError) as caught:
        metric("produce.latency.p9")
    assert str(caught.value) == (
        "unknown metric 'produce.latency.p9'; "
        "did you mean 'produce.latency.p99', 'produce.latency.p95' or 'produce.latency.p90'?"
    )

"""Rates that change, and what happened when: due times stand in the records, the series counts each second."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.recorder import Curves
from tests.support.topic_log import Log

if TYPE_CHECKING:
    from tests.support.rounds import Load


def ramp(time_s: float) -> float:
    """Records due by then of `200 -> 2200 records/s over 1 s`: 1200 by the end of it, then 2200 a second."""
    return 200 * time_s + 1000 * time_s**2 if time_s <= 1 else 1200 + 2200 * (time_s - 1)


def steps(time_s: float) -> float:
    """Records due by then of `1500 records/s for 500 ms, 100 records/s for 500 ms, 2000 records/s`."""
    return 1500 * min(time_s, 0.5) + 100 * min(max(time_s - 0.5, 0), 0.5) + 2000 * max(time_s - 1, 0)


def by_second(series: Curves) -> dict[int, float]:
    """Events in the second that begins then."""
    assert series["interval_s"] == 1
    return dict(enumerate(series["count"], start=int(series["first_s"])))


RAMP = "200 -> 2200 records/s over 1 s"
STEPS = ["1500 records/s for 500 ms", "100 records/s for 500 ms", "2000 records/s"]


@pytest.mark.parametrize(
    ("rate", "due", "fields"),
    [
        pytest.param(RAMP, ramp, {"producers": 3}, id="ramp"),
        pytest.param(STEPS, steps, {}, id="steps"),
        pytest.param(STEPS, steps, {"key": "uniform:30"}, id="keyed"),
        pytest.param(RAMP, ramp, {"client": "record"}, id="record"),
    ],
)
def test_records_are_due_as_the_shape_says(
    broker: Cluster, load: Load, log: Log, rate: object, due: Callable[[float], float], *, fields: dict[str, Any]
) -> None:
    """A ramp finds the knee of a cluster: each rate must be what it says, to the record."""
    ran = load(broker, rate=rate, duration="1.5 s", consumers=1, warmup=0, **fields)

    start_ns = ran.report.start_ns
    assert ran.faults == []
    assert start_ns is not None
    dues_s = sorted((record.due_ns - start_ns) / NS_PER_S for record in log.records)
    assert len(dues_s) == sum(part.sent for part in ran.produced) == round(due(1.5))
    for tenths in range(15):
        assert bisect.bisect_left(dues_s, tenths / 10) == pytest.approx(due(tenths / 10), abs=2)
    acknowledged = by_second(ran.round.series["produce"])
    longest_s = ran.metrics["produce.latency.max"]
    assert sum(acknowledged.values()) == round(due(1.5))
    for second, total in zip(acknowledged, itertools.accumulate(acknowledged.values()), strict=True):
        # None before it is due, and each by the time that the slowest one took.
        assert due(min(max(second + 1 - longest_s, 0), 1.5)) - 1 <= total <= due(min(second + 1, 1.5)) + 1


def test_a_series_counts_every_record_warm_up_at_negative_seconds(broker: Cluster, load: Load, log: Log) -> None:
    """Plots begin before the window, and nothing is missing in them, consumers' groups included."""
    ran = load(broker, rate=1000, duration="700 ms", warmup="2.2 s", consumers=1, consumer_groups=2)

    produce, consume = (by_second(ran.round.series[name]) for name in ("produce", "consume"))
    assert ran.faults == []
    assert sum(produce.values()) == len(log.records) == 2900
    assert sum(consume.values()) == 2 * len(log.records)
    assert -3 <= min(produce) <= min(consume) < 0
    assert produce.get(-3, 0) <= 200
    assert sum(count for second, count in produce.items() if second < 0) <= 2200
    for series in ran.round.series.values():
        pairs = zip(series["count"], series["p50"], series["p99"], series["max"], strict=True)
        assert all(p50 is None or 0 < p50 <= p99 <= high for _, p50, p99, high in pairs)  # type: ignore[operator]


def test_a_closed_loop_has_a_series_too(broker: Cluster, load: Load) -> None:
    """Its warm-up is as long as that of a paced load, and what was acknowledged in it is not measured."""
    ran = load(broker, records=30_000, producers=2, warmup="4 s")  # longer than a stall of the machine

    produce = by_second(ran.round.series["produce"])
    assert ran.round.problems == ()
    assert sum(produce.values()) == ran.growth > 30_000
    assert sum(count for second, count in produce.items() if second < 0) > 0
    assert sum(count for second, count in produce.items() if second >= 0) >= 30_000

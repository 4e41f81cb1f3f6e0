"""Drift on clusters of others: rounds that noise does not explain are a warning."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_kafkaperf.clusters.brokers.config import Security
from pytest_kafkaperf.clusters.brokers.fleet import Fleet
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.runner.drift import ALPHA, chance_of, drift_warnings
from pytest_kafkaperf.runner.result import Result, Trial
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import problem_told
from tests.support.results import bare_result

RATE, P50, E2E = "produce.throughput", "produce.latency.p50", "e2e.latency.p50"
EXTERNAL = Cluster(bootstrap_servers="broker1:9092")
STARTED = Cluster(
    bootstrap_servers="127.0.0.1:9092",
    provider="local",
    fleet=Fleet(
        servers={},
        bootstrap_servers="127.0.0.1:9092",
        cluster_id="",
        security=Security.make(None, []),
        shared_probes={},
    ),
)
WARMING_UP = {
    "late": (734, 686, 759, 954, 1867, 1652, 1683, 2525),
    "steadily": (1007, 1270, 1525, 1636, 1933, 1724, 2037, 2436),
    "early": (997, 1084, 1570, 2105, 2065, 1872, 2071, 1825),
}
"""Throughput of rounds of 2 s after three fresh starts of a broker, in thousands of records per second."""
RISING = WARMING_UP["steadily"][:5]
STEADY = (1007, 1044, 985, 1021, 1012)


def warnings_of(result: Result, *actions: Action) -> list[Notice]:
    other = None if result.live_baseline is None else Side.of(result.live_baseline)
    return drift_warnings(result, Side.of(result.cluster, actions=actions), other)


def rounds_of(values: Sequence[float], metric: str = RATE) -> tuple[Round, ...]:
    return tuple(Round(metrics={metric: value}) for value in values)


def result_of(values: Sequence[float], *, metric: str = RATE, **fields: Any) -> Result:
    trial = Trial(created="", rounds=rounds_of(values, metric))
    return bare_result(trial, **({"cluster": EXTERNAL} | fields))


def warns(values: Sequence[float]) -> bool:
    return bool(warnings_of(result_of(values)))


def noisy(values: Sequence[float], deviation: float, draw: random.Random) -> list[float]:
    """The values with lognormal noise."""
    return [value * math.exp(draw.gauss(0, deviation)) for value in values]


def share_of_warnings(values: Sequence[float], deviation: float, *, runs: int) -> float:
    draw = random.Random(20_261_126)
    return sum(warns(noisy(values, deviation, draw)) for _ in range(runs)) / runs


@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize("deviation", [0.03, 0.1, 0.4])
def test_noise_alone_warns_in_at_most_one_of_a_hundred_tests(rounds: int, deviation: float) -> None:
    """Whatever the size of the noise, which nobody knows on a cluster of others."""
    runs = 5000
    by_chance = 3 * math.sqrt(0.01 / runs)

    assert share_of_warnings([1.0] * rounds, deviation, runs=runs) <= 0.01 + by_chance


@pytest.mark.parametrize("count", [4, 5, 8])
def test_the_chance_of_a_drift_is_that_of_simulated_noise(count: int) -> None:
    """The integral is clever; counting is slow and obvious."""
    draw = random.Random(20_261_127)
    runs = 20_000
    ratios = []
    for _ in range(runs):
        noise = [draw.gauss(0, 1) for _ in range(count)]
        steps = sum((after - before) ** 2 for before, after in itertools.pairwise(noise))
        ratios.append((steps / (count * statistics.pvariance(noise)), noise))
    ratios.sort()

    for share in (0.005, 0.01, 0.05, 0.5, 0.9):
        _, noise = ratios[int(share * runs)]
        assert chance_of(noise) == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / runs))


@pytest.mark.parametrize(
    ("start", "rounds", "found"),
    [("late", 5, False), ("steadily", 5, True), ("early", 5, True)] + [(start, 8, True) for start in WARMING_UP],
)
def test_a_broker_that_warms_up_is_found(start: str, rounds: int, *, found: bool) -> None:
    """Five rounds show two of three starts, because a jump in the last one may be an outlier; eight show all."""
    assert warns(WARMING_UP[start][:rounds]) == found


@pytest.mark.parametrize(
    ("start", "rounds", "least"),
    [("steadily", 5, 0.5), ("early", 5, 0.65), ("late", 8, 0.9), ("steadily", 8, 0.9), ("early", 8, 0.9)],
)
def test_the_noise_of_rounds_does_not_hide_that_a_broker_warms_up(start: str, rounds: int, least: float) -> None:
    """The measured rounds have noise already; this adds 5%."""
    assert share_of_warnings(WARMING_UP[start][:rounds], 0.05, runs=500) >= least


@pytest.mark.parametrize(("last", "found"), [(1.09, False), (1.11, True), (0.92, False), (0.9, True)])
def test_a_drift_of_less_than_ten_percent_is_no_warning(last: float, *, found: bool) -> None:
    """Without noise every drift is significant, and a small one does not matter."""
    assert warns([last ** (number / 4) for number in range(5)]) == found


@pytest.mark.parametrize(
    ("fields", "metric"),
    [
        ({}, RATE),
        ({"consumers": 1}, RATE),
        ({"rate": 1000}, P50),
        ({"rate": 1000, "consumers": 1}, E2E),
        ({"rate": 1000, "consumers": 1, "consume": "after"}, P50),
        ({"producers": 0, "consumers": 1, "topic": "orders"}, "consume.throughput"),
    ],
)
def test_the_metric_is_that_of_how_fast_the_cluster_is(fields: dict[str, Any], metric: str) -> None:
    """A paced load has the same throughput on any cluster, and a closed one fills the queues."""
    scenario = Scenario.of(fields)

    (notice,) = warnings_of(result_of(RISING, metric=metric, scenario=scenario))

    assert notice.values["metric"] == metric
    assert not warnings_of(result_of(RISING, metric="client.cpu_per_record", scenario=scenario))


@pytest.mark.parametrize(
    ("values", "remark", "change"),
    [(RISING, Remark.RISE, "92%"), (RISING[::-1], Remark.FALL, "48%")],
    ids=["rising", "falling"],
)
def test_the_warning_has_the_change(values: Sequence[float], remark: Remark, change: str) -> None:
    """A falling throughput matters as well: a quota lets a first burst through."""
    (notice,) = warnings_of(result_of(values))
    assert (notice.remark, notice.values["metric"], str(notice.values["change"])) == (remark, RATE, change)


@pytest.mark.parametrize(
    ("own", "other", "sides"),
    [
        (EXTERNAL, EXTERNAL, [False, True]),
        (STARTED, EXTERNAL, [True]),
        (EXTERNAL, STARTED, [False]),
        (STARTED, STARTED, []),
        (STARTED, None, []),
    ],
)
def test_only_clusters_of_others_are_tested(own: Cluster, other: Cluster | None, sides: list[bool]) -> None:
    """The plugin warms up the brokers that it starts."""
    values = WARMING_UP["steadily"]
    other_side = None if other is None else rounds_of(values)
    trial = Trial(created="", rounds=rounds_of(values), other_side=other_side)

    found = warnings_of(bare_result(trial, cluster=own, live_baseline=other))

    assert [notice.other_side for notice in found] == sides


def test_two_sides_share_the_false_alarm_rate() -> None:
    """A comparison of two clusters has as many false alarms as a test of one."""
    values = (100, 130, 140, 170, 190)
    assert ALPHA / 2 < chance_of([math.log(value) for value in values]) < ALPHA
    rounds = rounds_of(values)
    trial = Trial(created="", rounds=rounds, other_side=rounds)

    assert len(warnings_of(bare_result(trial, cluster=EXTERNAL))) == 1
    assert warnings_of(bare_result(trial, cluster=EXTERNAL, live_baseline=EXTERNAL)) == []


def test_the_brokers_of_a_retest_are_not_taken_for_a_cluster_of_others() -> None:
    """A suspected regression is tested again side by side with brokers that the plugin has started."""
    trial = Trial(created="", rounds=rounds_of(STEADY), other_side=rounds_of(RISING))

    assert warnings_of(bare_result(trial, cluster=EXTERNAL, live_baseline=None)) == []


SLOW = problem_told(ProblemKind.GENERATOR_TOO_SLOW, "generator too slow")
UNTESTED = {
    "steady rounds": result_of(STEADY),
    "a capacity search": result_of(RISING, plan=SearchPlan(limits=(), low=1.0, high=2.0)),
    "three rounds": result_of([1.0, 2.0, 4.0]),
    "no rounds": result_of([]),
    "a throughput of zero": result_of([0.0, 1.0, 2.0, 4.0, 8.0]),
    "an INVALID trial": bare_result(Trial(created="", rounds=rounds_of(RISING), problems=(SLOW,)), cluster=EXTERNAL),
    "a later trial": bare_result(
        Trial(created="", rounds=rounds_of(STEADY)),
        Trial(created="", rounds=rounds_of(RISING)),
        cluster=EXTERNAL,
    ),
}


@pytest.mark.parametrize("name", UNTESTED)
def test_what_has_no_drift_or_another_reason_for_one_is_no_warning(name: str) -> None:
    """A false alarm on each of them would teach users to ignore the warning."""
    assert warnings_of(UNTESTED[name]) == []


def test_rounds_with_actions_are_not_tested_and_a_recorded_metric_is_no_action() -> None:
    """What the test does to the cluster in its rounds explains their drift."""
    assert warnings_of(result_of(RISING), Action(0.5, print)) == []
    assert len(warnings_of(result_of(RISING), Action(0.0, print, metric="rows"))) == 1

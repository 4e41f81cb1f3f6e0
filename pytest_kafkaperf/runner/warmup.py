"""Load on brokers that have just started, before anything is measured: their code is compiled as it runs.

A cold broker took a third of what it took some seconds later, and every round of a first test was faster than the one
before: rounds of 1 s, warmed up for 1 s each, scattered by 43 % on cold brokers and by 8 % after this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from pytest_kafkaperf.clusters.spec import Cluster
from pytest_kafkaperf.load.allocation import WorkerAllocation, cores, decided, undecidable
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.runner.rounds import run_scenario
from pytest_kafkaperf.scenario.rate import peak_rate
from pytest_kafkaperf.scenario.scenario import TAG_BYTES, Scenario

_ANY = WorkerAllocation()

_TIMES = 2
"""Each on a topic of its own, which is deleted before the next: after one, however long, the first round on another
topic was as slow as before. What the JVM had learnt on the one it threw away on the other."""


def preheat(
    scenario: Scenario,
    cluster: Cluster,
    *,
    duration_s: float,
    allocation: WorkerAllocation = _ANY,
    on_progress: Callable[[int, Progress], None],
) -> None:
    """Run what the scenario does as fast as it goes, on topics of its own, once after each start of the brokers.

    Once for each scenario: brokers that knew but another one were 5 % slower than in their next sessions, where this
    one came first. `duration_s` is that of all this load.

    Clusters of somebody else are left alone: they are as warm as they are.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    if cluster.fleet is None or not duration_s or _name(scenario) in cluster.fleet.preheated:
        return
    cluster.fleet.preheated.add(_name(scenario))
    for _ in range(_TIMES):
        run_scenario(
            eager(scenario, duration_s=duration_s / _TIMES), cluster, allocation=allocation, on_progress=on_progress
        )


def eager(scenario: Scenario, *, duration_s: float) -> Scenario:
    """The same load as fast as it goes, on a topic of its own, for so long.

    Consumers find the tags in the values there: values that need none in an application may be too short for one.
    """
    update: dict[str, Any] = {**_ANYTHING, "duration": duration_s}
    if scenario.tags_in_header and (scenario.record_size is None or scenario.min_record_size < TAG_BYTES):
        update |= {"payload": "random", "record_size": _LONG_ENOUGH_BYTES}
    return scenario.model_copy(update=update)


_ANYTHING = {
    **dict.fromkeys(("topic", "output_topic", "correlate", "rate", "records", "duration")),
    "warmup": 0.0,
    "rounds": 1,
}
"""What makes no difference to a broker that is to be warm."""

_LONG_ENOUGH_BYTES = 100


def _name(scenario: Scenario) -> str:
    return scenario.model_copy(update=_ANYTHING).model_dump_json()


_WARMUP_S = 0.3

_DURATION_S = 1.0


def sized(
    scenario: Scenario, allocation: WorkerAllocation, cluster: Cluster, *, on_progress: Callable[[int, Progress], None]
) -> WorkerAllocation:
    """The allocation with as many workers as the scenario needs, and why so many.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    if not allocation.is_open:
        return allocation
    reason = undecidable(scenario, cores())
    if reason is not None:
        return dataclasses.replace(allocation, reason=reason)
    (session,) = run_scenario(
        tried(scenario), cluster, allocation=WorkerAllocation(producing=1, consuming=1), on_progress=on_progress
    )
    return decided(scenario, session.shares, cores())


def tried(scenario: Scenario) -> Scenario:
    """What is run to see what its load takes: its highest rate for a moment."""
    update: dict[str, Any] = {
        "rate": None if scenario.rate is None else peak_rate(scenario.rate),
        "records": None,
        "duration": _DURATION_S,
        "warmup": _WARMUP_S,
        "rounds": 1,
    }
    return scenario.model_copy(update=update)

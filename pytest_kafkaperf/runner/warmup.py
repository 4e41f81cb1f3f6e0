"""Broker warm-up: load on brokers that have just started, so that the JVM compiles their code before a measurement.

A cold broker had a third of its later throughput, and every round of a first test was faster than the one before.
Rounds of 1 s with a warm-up of 1 s varied by 43 % on cold brokers and by 8 % after the broker warm-up.
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
"""Number of loads, each on its own topic that is deleted before the next. After a single load of any length, the first
round on another topic was as slow as on a cold broker: the JVM discards optimizations that a new topic contradicts."""


def preheat(
    scenario: Scenario,
    cluster: Cluster,
    *,
    duration_s: float,
    allocation: WorkerAllocation = _ANY,
    on_progress: Callable[[int, Progress], None],
) -> None:
    """Run the load of the scenario at full speed, on its own topics, once per scenario after each start of the brokers.

    Brokers that had run only another scenario were 5 % slower than in later sessions. `duration_s` is the total time.
    External clusters get no broker warm-up.

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
    """Return the same load at full speed, on its own topic, for `duration_s`.

    Consumers read the tags from the values there. Values that carry no tag with an application may be too short for
    one, so they are replaced.
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
"""Fields of a scenario that make no difference to the warm-up of a broker."""

_LONG_ENOUGH_BYTES = 100


def _name(scenario: Scenario) -> str:
    return scenario.model_copy(update=_ANYTHING).model_dump_json()


_WARMUP_S = 0.3

_DURATION_S = 1.0


def sized(
    scenario: Scenario, allocation: WorkerAllocation, cluster: Cluster, *, on_progress: Callable[[int, Progress], None]
) -> WorkerAllocation:
    """Return the allocation with the number of workers that the scenario needs, and the reason.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    if not allocation.is_open:
        return allocation
    reason = undecidable(scenario, cores())
    if reason is not None:
        return dataclasses.replace(allocation, reason=reason)
    (result,) = run_scenario(
        tried(scenario), cluster, allocation=WorkerAllocation(producing=1, consuming=1), on_progress=on_progress
    )
    return decided(scenario, result.shares, cores())


def tried(scenario: Scenario) -> Scenario:
    """Return a short run of the scenario at its highest rate, which shows how much CPU its load needs."""
    update: dict[str, Any] = {
        "rate": None if scenario.rate is None else peak_rate(scenario.rate),
        "records": None,
        "duration": _DURATION_S,
        "warmup": _WARMUP_S,
        "rounds": 1,
    }
    return scenario.model_copy(update=update)

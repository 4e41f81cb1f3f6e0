"""Load on brokers that have just started, before anything is measured: their code is compiled as it runs.

A cold broker took a third of what it took some seconds later, and every round of a first test was faster than the one
before: rounds of 1 s, warmed up for 1 s each, scattered by 43 % on cold brokers and by 8 % after this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.crew import Crew
from pytest_kafkaperf.run import run_scenario
from pytest_kafkaperf.scenario import TAG_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.scenario import Scenario

_ANY = Crew()
_TIMES = 2
"""Each on a topic of its own, which is deleted before the next: after one, however long, the first round on another
topic was as slow as before. What the JVM had learnt on the one it threw away on the other."""


def is_cold(scenario: Scenario, cluster: Cluster) -> bool:
    """Whether brokers that the session owns have not seen such load since they started."""
    return cluster.fleet is not None and _name(scenario) not in cluster.fleet.preheated


def preheat(
    scenario: Scenario,
    cluster: Cluster,
    *,
    duration_s: float,
    crew: Crew = _ANY,
    on_progress: Callable[[int, Progress], None],
) -> None:
    """Run what the scenario does as fast as it goes, on topics of its own, once after each start of the brokers.

    Once for each scenario: brokers that knew but another one were 5 % slower than in their next sessions, where this
    one came first. `duration_s` is that of all this load.

    Clusters of somebody else are left alone: they are as warm as they are.

    Raises:
        ClusterError: as `run_scenario` does.

    """
    if cluster.fleet is None or not duration_s or not is_cold(scenario, cluster):
        return
    cluster.fleet.preheated.add(_name(scenario))
    for _ in range(_TIMES):
        run_scenario(eager(scenario, duration_s=duration_s / _TIMES), cluster, crew=crew, on_progress=on_progress)


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

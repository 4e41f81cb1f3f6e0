"""The loads before a round: they warm up brokers, show how many workers a scenario needs, and write a backlog. Pure.

A cold broker's code is not compiled yet: its throughput was a third of what it was some seconds later. Rounds of 1 s,
each after a warm-up of 1 s, varied by 43 % on cold brokers, and by 8 % after a broker warm-up.
"""

from __future__ import annotations

from typing import Any

from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

MOST_SLICES = 24
"""Maximum number of slices of a side's warm-up. Each has a topic of its own: after a single topic, however long, the
first round on another one was still slow, because the JVM had to discard code that it had compiled for the first."""

_IRRELEVANT = {
    **dict.fromkeys(("topic", "output_topic", "correlate", "rate", "records", "duration")),
    "group": (),
    "backlog": 0,
    "warmup": 0.0,
    "rounds": 1,
}
"""Fields that make no difference to how warm a broker gets."""
_TAGGED_BYTES = 100
"""Record size of a warm-up whose scenario has values too short for a tag."""
_PROBE_WARMUP_S = 0.3
_PROBE_DURATION_S = 1.0


def warm_up_load(scenario: Scenario, *, duration_s: float) -> Scenario:
    """Return the scenario's load at full speed, on a topic of its own.

    Consumers of that topic find the tags in the values. A scenario that measures through an application may have
    values too short for that; the warm-up then uses longer ones.
    """
    update: dict[str, Any] = {**_IRRELEVANT, "duration": duration_s, "producers": max(1, scenario.producers)}
    if scenario.tags_in_header and (scenario.record_size is None or min(scenario.record_sizes) < TAG_BYTES):
        update |= {"payload": "random", "record_size": _TAGGED_BYTES}
    return scenario.model_copy(update=update)


def workload_key(scenario: Scenario) -> str:
    """Return a text that is the same for scenarios which warm up a broker alike."""
    return scenario.model_copy(update=_IRRELEVANT).model_dump_json()


def probe_load(scenario: Scenario) -> Scenario:
    """Return a short load at the scenario's highest rate, from which the worker count is decided."""
    update: dict[str, Any] = {
        "rate": None if scenario.rate is None else peak_rate(scenario.rate),
        "records": None,
        "duration": _PROBE_DURATION_S,
        "backlog": 0,
        "warmup": _PROBE_WARMUP_S,
        "rounds": 1,
    }
    return scenario.model_copy(update=update)


def backlog_load(scenario: Scenario, *, paced: bool) -> Scenario:
    """Return the load that writes the scenario's backlog: at full speed, or `paced` by the scenario's highest rate."""
    rate = peak_rate(scenario.rate) if paced and scenario.rate is not None else None
    update = {"records": scenario.backlog, "duration": None, "rate": rate, "warmup": 0.0, "backlog": 0}
    update["abort_ratio"] = 0.0  # all of the backlog is there to be read
    return scenario.model_copy(update=update)

"""Loads for a warm-up, a probe and a backlog, derived from a scenario, and the longest time that loads may take."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Any

from pytest_kafkaperf.load.audit import TIMEOUT_S as AUDIT_TIMEOUT_S
from pytest_kafkaperf.load.controller import READY_TIMEOUT_S
from pytest_kafkaperf.load.schedule import DRAIN_TIMEOUT_S, group_drain_s, longest_s, settle_timeout_s
from pytest_kafkaperf.runner.rounds.log_comparison import REPLICATION_TIMEOUT_S
from pytest_kafkaperf.scenarios.identify import BY_HEADER, ONE
from pytest_kafkaperf.scenarios.payloads import Generated
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import RECORDS_TIMEOUT_S, TAG_BYTES, Scenario

SLICE_S = 0.7
APPLICATION_SLICE_S = 1.5
"""Duration of one warm-up slice, in seconds; slices with an application are longer, because most of them are needed for
programs whose compiler is unknown. Each slice has a separate topic, because even after a long warm-up, the
first load on a second topic was slow again: the JVM had discarded code that it had compiled for a single topic."""
_IRRELEVANT = {
    **dict.fromkeys(("topic", "output_topic", "rate", "records", "duration")),
    "identify": BY_HEADER,
    "expect": ONE,
    "dead_letter_topic": None,
    "watch_group": (),
    "backlog": 0,
    "warmup": 0.0,
    "rounds": 1,
}
"""Fields that do not affect how warm a broker gets."""
_TAGGED_BYTES = 100
"""Record size during warm-up when the scenario's values are too short for a tag."""
_PROBE_WARMUP_S = 0.3
_PROBE_DURATION_S = 1.0


class Phase(StrEnum):
    """The kind of load that a slice runs."""

    FULL = "full speed"
    RATE = "the scenario's rate"
    APPLICATION = "the application's topic"


def slice_load(scenario: Scenario, phase: Phase) -> Scenario:
    """Return the load for one warm-up slice."""
    rate = None if phase is Phase.FULL or scenario.rate is None else peak_rate(scenario.rate)
    if phase is not Phase.APPLICATION:
        return warm_up_load(scenario, duration_s=SLICE_S).model_copy(update={"rate": rate})
    update: dict[str, Any] = {
        "records": None,
        "duration": APPLICATION_SLICE_S,
        "backlog": 0,
        "warmup": 0.0,
        "rounds": 1,
    }
    return scenario.model_copy(update={**update, "rate": rate})


def warm_up_load(scenario: Scenario, *, duration_s: float) -> Scenario:
    """Return the scenario's load at full speed, on a separate topic.

    Consumers of that topic read tags from the values. If a scenario with an application has values that are too short
    for tags, the warm-up uses longer ones. Random values take the place of a payload function, which may be slow.
    """
    update: dict[str, Any] = {**_IRRELEVANT, "duration": duration_s, "producers": max(1, scenario.producers)}
    if isinstance(scenario.payload, Generated):
        size_bytes = max(TAG_BYTES, round(scenario.payload.mean_bytes or _TAGGED_BYTES))
        update |= {"payload": "random", "record_size": size_bytes}
    elif scenario.tags_in_header and (scenario.record_size is None or min(scenario.record_sizes) < TAG_BYTES):
        update |= {"payload": "random", "record_size": _TAGGED_BYTES}
    return scenario.model_copy(update=update)


def workload_key(scenario: Scenario, phase: Phase) -> str:
    """Return a key that is the same for all scenarios that warm up a broker equally in this phase."""
    return f"{phase}: {slice_load(scenario, phase).model_dump_json()}"


def probe_load(scenario: Scenario) -> Scenario:
    """Return a short load at the scenario's highest rate, used to determine the number of workers."""
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
    """Return the load that writes the scenario's backlog, at full speed or, if `paced`, at its highest rate."""
    rate = peak_rate(scenario.rate) if paced and scenario.rate is not None else None
    update = {"records": scenario.backlog, "duration": None, "rate": rate, "warmup": 0.0, "backlog": 0}
    update["abort_ratio"] = 0.0  # the entire backlog must be readable
    return scenario.model_copy(update=update)


def latest_end(scenario: Scenario, loads: int) -> datetime.datetime:
    """Return the latest end time for a trial that starts now, based on the time limits of all its waits."""
    load_s = READY_TIMEOUT_S + scenario.warmup + longest_s(scenario) + settle_timeout_s(scenario)
    if scenario.watch_group:
        load_s += group_drain_s(longest_s(scenario))
    if scenario.backlog:
        load_s += READY_TIMEOUT_S + max(RECORDS_TIMEOUT_S, longest_s(backlog_load(scenario, paced=True)))
    bound_s = load_s + 3 * DRAIN_TIMEOUT_S + REPLICATION_TIMEOUT_S + AUDIT_TIMEOUT_S
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=loads * bound_s)

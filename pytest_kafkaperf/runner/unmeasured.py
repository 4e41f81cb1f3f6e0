"""Refusal of thresholds on metrics that a test does not measure, with what the metric requires."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import FEWEST_RECORDS, HOST_METRICS, SHORTEST_STEADY_S, STEADINESS_METRICS
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.scenarios.rate import steady_s
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import Threshold


def refuse_unmeasured(thresholds: Sequence[Threshold], scenario: Scenario, measured: AbstractSet[str]) -> None:
    """Reject thresholds on the plugin's metrics that are not among those which the test measures.

    Raises:
        ScenarioError: there is such a threshold; the message shows what its metric requires.

    """
    for threshold in thresholds:
        name = threshold.metric.name
        if name not in measured and not threshold.metric.is_own:
            reason = _too_few(name, scenario) or _too_short(name, scenario) or _requirement(name, scenario)
            raise ScenarioError(f"threshold {threshold.expression!r}: {name} is not measured here; {reason}")


def _too_few(name: str, scenario: Scenario) -> str | None:
    """Return an explanation if a round has too few records for a quantile; None otherwise."""
    family, _, part = name.partition(".p")
    if f"p{part}" not in FEWEST_RECORDS or f"{family}.p99" not in scenario.metrics():
        return None
    return f"it needs at least {FEWEST_RECORDS[f'p{part}']} records per round; increase the rate or the duration"


def _too_short(name: str, scenario: Scenario) -> str | None:
    """Return an explanation if a load is too short or too varied for a steadiness metric; None otherwise."""
    if name not in STEADINESS_METRICS or name.removesuffix(".steadiness") not in scenario.metrics():
        return None
    if isinstance(scenario.rate, tuple):
        return "the load itself changes; use a constant rate, or none"
    length_s = steady_s(scenario.rate, records=scenario.records, duration=scenario.duration)
    if length_s is None:
        given = "it ends with the last record"
    elif {"duration", "records"}.isdisjoint(scenario.model_fields_set):
        given = "the default is shorter"
    else:
        given = f"it is {format_quantity(length_s, Unit.SECONDS)}"
    least = f"{SHORTEST_STEADY_S} s"
    return f"the window must be at least {least}, but {given}; set duration='{least}' or more"


_NEEDED = {
    "catchup": "a backlog, and consumers=1 or more on a new topic",
    "app.output_ratio": "output_topic, the topic that the application writes to",
    "app.dead_letters": "dead_letter_topic, the topic for records that the application cannot process",
    "app": "watch_group, the application's consumer group",
    "produce": "a rate",
    "unsent": "a rate",
}
"""Declarations that a metric requires in a test with producers, by the name of the metric or its first part."""


def _requirement(name: str, scenario: Scenario) -> str:
    family = name.partition(".")[0]
    needed = _NEEDED.get(name, _NEEDED.get(family))
    if name in HOST_METRICS:
        needed = "brokers that the plugin starts: --kafka-cluster=local or docker"
    elif family == "broker":
        needed = "kafka_jmx = true in the ini file, or kafka_metrics_url with a running cluster"
    elif not scenario.producers:
        needed = "producers=1 or more"
    elif family in ("consume", "e2e", "lag"):
        needed = "consume='live'" if scenario.consumers else "consumers=1 or more"
    elif needed is None and scenario.output_topic is not None:
        return "an application may move records to other partitions; remove output_topic or the threshold"
    elif needed is None:
        needed = "acks=1 or acks='all'"
    return f"it needs {needed}"

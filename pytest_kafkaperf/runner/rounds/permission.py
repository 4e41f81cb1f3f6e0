"""Permission for loads on clusters that others may use, to prevent overload and records in other people's topics.

`Permission.check` checks every load, both before a test or script starts anything and right before the load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.target import External, is_loopback
from pytest_kafkaperf.core.errors import UnitError, UsageError
from pytest_kafkaperf.core.units import Unit, format_quantity, parse
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.scenarios.payloads import size_of_headers
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, Scenario

_ROUNDING = 1.00001
"""Tolerance for limits suggested in error messages, because these are rounded to six digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxRate:
    """The maximum load rate on a cluster that others may use."""

    records_per_s: float = 50_000.0
    bytes_per_s: float = 50e6
    """Limit on the bytes of keys, values and headers, before compression and replication."""

    def __str__(self) -> str:
        """Return the limits in the format that `parse_max_rate` reads."""
        megabytes = format_quantity(self.bytes_per_s / 1e6, Unit.COUNT, digits=6)
        return f"{format_quantity(self.records_per_s, Unit.RECORD_RATE, digits=6)}, {megabytes} MB/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Permission for loads on a cluster."""

    servers: str | None
    """Servers of a cluster that others may use; None if every load is allowed."""
    unlimited: bool = False
    """True if the rate is not limited."""
    max_rate: MaxRate = MaxRate()
    topics: Sequence[str] = ()
    """Existing topics that loads may write to."""
    of_script: bool = False
    """True if users raise limits through `measure` arguments instead of ini keys."""

    @property
    def is_limited(self) -> bool:
        """True if load rates are limited."""
        return self.servers is not None and not self.unlimited

    def check(self, scenario: Scenario, plan: SearchPlan | None = None) -> None:
        """Check that a load is allowed or, with a `plan`, that all loads in that capacity search are allowed.

        Raises:
            LoadError: the sample file is unusable.
            UsageError: the load is not allowed; the message contains one line per problem.

        """
        if self.servers is None:
            return
        from pytest_kafkaperf.load.payload import mean_value_size  # noqa: PLC0415 - NumPy takes 0.1 s

        value_bytes = mean_value_size(scenario) if scenario.producers else 0.0
        problems = [
            f"the cluster at {self.servers} may be used by others: {problem}"
            for problem in (*self._topic_problems(scenario), *self._rate_problems(scenario, plan, value_bytes))
        ]
        if problems:
            raise UsageError("\n".join(problems))

    def _topic_problems(self, scenario: Scenario) -> Iterator[str]:
        topic = scenario.topic
        if topic is None or not scenario.producers or topic in self.topics:
            return
        allowed = f"only {', '.join(self.topics)}" if self.topics else "none"
        key = self._key("writable_topics", [*self.topics, topic])
        yield (
            f"this test writes to the existing topic {topic!r}, whose consumers may not understand the records; "
            f"{allowed} may be written to; remove topic to use a new one, or allow it: {key}"
        )

    def _rate_problems(self, scenario: Scenario, plan: SearchPlan | None, value_bytes: float) -> Iterator[str]:
        if self.unlimited:
            return
        if plan is None and scenario.rate is None:
            option = "" if self.of_script else "--kafka-allow-unlimited, or "
            yield (
                f"this test has no rate, but at most {self.max_rate} are allowed; declare a rate, for example "
                f"kafka_scenario(rate='5k records/s'), or allow it: {option}{self._key('allow_unlimited', True)}"
            )
            return
        highest = peak_rate(scenario.rate or 0.0) if plan is None else plan.high
        asked = MaxRate(records_per_s=highest, bytes_per_s=highest * _record_bytes(scenario, value_bytes))
        needed = MaxRate(
            records_per_s=max(asked.records_per_s, self.max_rate.records_per_s),
            bytes_per_s=max(asked.bytes_per_s, self.max_rate.bytes_per_s),
        )
        exceeds = needed.records_per_s > self.max_rate.records_per_s * _ROUNDING
        if exceeds or needed.bytes_per_s > self.max_rate.bytes_per_s * _ROUNDING:
            what = "this test has a rate of" if plan is None else "kafka_perf.capacity() raises the rate up to"
            remedy = "declare a lower rate" if plan is None else "give a lower high="
            yield (
                f"{what} {asked}, but at most {self.max_rate} are allowed; {remedy}, or allow it: "
                f"{self._key('max_rate', str(needed))}"
            )

    def _key(self, name: str, value: Any) -> str:
        """Return the setting with which the user can allow the load."""
        if self.of_script:
            return f"measure(..., {name}={value!r})"
        text = ", ".join(value) if isinstance(value, list) else str(value)
        return f"kafka_{name} = {text.lower() if value is True else text} in the ini file"


def permission_on(
    cluster: Cluster,
    *,
    named: Sequence[External] = (),
    unlimited: bool = False,
    max_rate: MaxRate | None = None,
    topics: Sequence[str] = (),
    of_script: bool = False,
) -> Permission:
    """Return the permission to run loads on a cluster.

    Others may use the cluster if it comes from an option, or if the user's fixture returns servers that are not on this
    machine. On this machine, a fixture may have started a broker, or put a proxy in front of the plugin's brokers.

    Args:
        cluster: the cluster that receives the load.
        named: the external clusters in the run's options.
        unlimited: True if the rate is not limited.
        max_rate: the maximum rate; None for the default.
        topics: existing topics that loads may write to.
        of_script: True if users raise limits through `measure` arguments instead of ini keys.

    """
    servers = str(named[0]) if named else None
    if cluster.fleet is None and not all(map(is_loopback, cluster.bootstrap_servers.split(","))):
        servers = cluster.bootstrap_servers
    return Permission(
        servers=servers, unlimited=unlimited, max_rate=max_rate or MaxRate(), topics=topics, of_script=of_script
    )


def parse_max_rate(text: str) -> MaxRate:
    """Parse a text such as `200k records/s, 100 MB/s`; a missing limit keeps its default.

    Raises:
        UnitError: a part is not a rate, or two parts have the same kind.

    """
    found: dict[str, float] = {}
    for part in map(str.strip, text.split(",")):
        name, unit = ("bytes_per_s", Unit.BYTE_RATE) if part.endswith("B/s") else ("records_per_s", Unit.RECORD_RATE)
        if name in found:
            raise UnitError(f"has two rates in {unit}; must have at most one, for example '50k records/s, 50 MB/s'")
        found[name] = parse(part, unit)
    return MaxRate(**found)


def _record_bytes(scenario: Scenario, value_bytes: float) -> float:
    """Return the mean total size of a record's value, key and headers."""
    headers = scenario.all_headers
    return value_bytes + (KEY_BYTES if scenario.key else 0) + (size_of_headers(headers) if headers else 0)

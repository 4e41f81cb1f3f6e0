"""What the brokers of a cluster are told that differs from Kafka's defaults, as facts for the fingerprint. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.properties import standing
from pytest_kafkaperf.clusters.spec import CONFIG, OWN_PROPERTIES, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_kafkaperf.load.admin import Property

_PLACES = (
    "advertised.*",
    "broker.id",
    "broker.rack",
    "controller.quorum.*",
    "host.name",
    "listeners",
    "node.id",
    "port",
    "super.users",
    "zookeeper.connect",
    "*.bootstrap.servers",
    "*.dir",
    "*.dirs",
    "*.location",
    "*.path",
)
"""Properties that say where a broker lives, or who it is: they make no figure another one, and differ by broker and by
start."""


def facts(cluster: Cluster, brokers: Mapping[int, Mapping[str, Property]]) -> Mapping[str, str]:
    """The facts of a cluster, with those of its properties as its brokers tell them.

    A property that they do not tell, as that of a plug-in, which Kafka takes for a secret, stays as the spec says.
    What a provider gives to all brokers that it starts is left out: it differs between two sessions only with the
    plugin's version, and beside a regression nobody should have to read it.
    """
    told = {f"{CONFIG}{name}" for properties in brokers.values() for name in properties}
    kept = {name: text for name, text in cluster.facts.items() if name not in told}
    ours = {} if cluster.fleet is None else standing(cluster.brokers)
    hidden = _PLACES if cluster.fleet is None else (*_PLACES, *OWN_PROPERTIES)
    changed = {
        name: text
        for name, text in _changed(brokers).items()
        if text != ours.get(name) and not any(fnmatchcase(name, pattern) for pattern in hidden)
    }
    config = {f"{CONFIG}{name}": text for name, text in changed.items()}
    return MappingProxyType({**kept, **dict(sorted(config.items()))})


def _changed(brokers: Mapping[int, Mapping[str, Property]]) -> dict[str, str]:
    """What a broker at least was told, by name."""
    names = {name for properties in brokers.values() for name, told in properties.items() if told.changed}
    return {
        name: _shown({broker: told[name].value for broker, told in brokers.items() if name in told}) for name in names
    }


def _shown(values: Mapping[int, str]) -> str:
    """The value, or where brokers differ each one with its brokers: `8 (brokers 1, 2), 4 (broker 3)`."""
    by_value: dict[str, list[int]] = {}
    for broker, value in sorted(values.items()):
        by_value.setdefault(value, []).append(broker)
    if len(by_value) == 1:
        return next(iter(by_value))
    return ", ".join(f"{value} ({_listed(those)})" for value, those in by_value.items())


def _listed(brokers: Iterable[int]) -> str:
    numbers = [str(broker) for broker in brokers]
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"

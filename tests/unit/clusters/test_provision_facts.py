"""What is known of a cluster's properties, in reports and baselines."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.clusters.admin.admin import Property
from pytest_kafkaperf.clusters.brokers.config import default_properties
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import facts
from pytest_kafkaperf.clusters.spec import ClusterSpec, facts_of
from pytest_kafkaperf.runner.retest import rebuilt_spec

SECRETS = {
    "acme.audit.password": "hunter2",
    "acme.audit.url": "https://me:hunter2@audit.example.com",
    "acme.audit.header": "Bearer abcdefghijkl",
}
FLEET: Any = SimpleNamespace(servers={})
"""Stands for brokers that the plugin has started."""
OURS = Cluster(bootstrap_servers="127.0.0.1:1", provider="local", fleet=FLEET)


def test_properties_that_may_be_secret_are_no_facts() -> None:
    """Kafka hides the values that a plug-in declares as passwords; not every plug-in does."""
    reported = {"num.io.threads": "4", **SECRETS}
    brokers = {1: {name: Property(value=value, changed=True) for name, value in reported.items()}}
    cluster = Cluster(bootstrap_servers="broker:9092", brokers=1)

    assert dict(facts(cluster, brokers)) == {"config.num.io.threads": "4"}


def test_properties_of_a_marker_that_may_be_secret_are_no_facts() -> None:
    """Brokers do not report what they do not know, so the marker's values stay in the facts."""
    spec = ClusterSpec(config={"num.io.threads": "4", **SECRETS})
    described = facts_of(spec)
    assert described == {"heap": "512m", "config.num.io.threads": "4"}
    assert rebuilt_spec(spec, described).config == spec.config


@pytest.mark.parametrize(
    ("value", "expected"), [("100", {}), ("60000", {"config.log.segment.delete.delay.ms": "60000"})]
)
def test_an_override_with_kafkas_own_default_is_a_fact(value: str, expected: dict[str, str]) -> None:
    """The plugin's default is another one, so brokers with the override differ from brokers without it."""
    reported = {**default_properties(1), "log.segment.delete.delay.ms": value}
    brokers = {1: {name: Property(value=text, changed=text != "60000") for name, text in reported.items()}}
    known = facts(OURS, brokers)
    assert known == expected
    assert rebuilt_spec(ClusterSpec(), dataclasses.replace(OURS, facts=known).fingerprint).config == {
        name.removeprefix("config."): text for name, text in expected.items()
    }


def test_settings_that_a_broker_does_not_report_are_unknown() -> None:
    """They are not the defaults, and a later answer replaces what is known from the marker."""
    known = Cluster(bootstrap_servers="broker:9092", facts={"heap": "1g", "config.num.io.threads": "4"})
    silent = facts(known, {})
    assert silent == {**known.facts, "broker settings": "unknown"}
    broker = {"num.io.threads": Property(value="8", changed=True)}
    assert facts(known, {1: broker, 2: {}}) == {
        "heap": "1g",
        "config.num.io.threads": "8",
        "broker settings": "unknown",
    }
    answered = facts(dataclasses.replace(known, facts=silent), {1: broker})
    assert answered == {"heap": "1g", "config.num.io.threads": "8"}

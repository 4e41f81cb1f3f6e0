"""A broker that goes and comes back under load."""

from __future__ import annotations

import re
import time

import pytest

from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.metrics import HOST_METRICS, JMX_METRICS
from pytest_kafkaperf.core.notices import EventKind
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario

KILLED_S = 3.0


STARTED_S = 11.0
"""The controller has given the killed one up by then (6 s): one that starts before may be back unseen."""


def kill_and_start_a_broker(provider: str) -> None:
    """Kill one of three brokers under load and start it again: no record is lost, and warnings and metrics show it."""
    spec = ClusterSpec.of(
        {
            "brokers": 3,
            "heap": "300m",
            "jmx": True,
            "quick_compiler": True,
            "config": {"broker.session.timeout.ms": 6000},
        }
    )
    scenario = Scenario.of(
        {
            "rate": 300,
            "record_size": "1 KiB",
            "duration": "20 s",
            "warmup": "15 s",  # on a busy machine, cold brokers need seconds per record, as in an outage
            "rounds": 1,
            "consumers": 1,
            "replication_factor": 3,
            "topic_config": {"min.insync.replicas": 2},
            "idempotence": True,
        }
    )
    with provision(spec, target=provider) as cluster:
        actions = [
            Action(KILLED_S, lambda: cluster.stop_broker(2, kill=True)),
            Action(STARTED_S, lambda: cluster.start_broker(2)),
        ]
        (ran,) = run_scenario(scenario, cluster, actions=actions)

    assert ran.metrics["lost"] == ran.metrics["duplicated"] == ran.metrics["errors"] == 0
    told = "\n".join(map(str, ran.warnings))
    killed_s, started_s = (_told_s(told, what) for what in ("killed", "started"))
    assert KILLED_S <= killed_s < started_s >= STARTED_S  # a busy machine may be late
    assert "under-replicated from" in told
    assert "throughput fell to" in told
    assert 2 < ran.metrics["recovery"] < 22  # the broker's session.timeout, an election, and what had piled up
    missing = {*HOST_METRICS, *JMX_METRICS} - {*ran.metrics}
    assert missing <= {f"broker.{name}" for name in ("disk.read", "disk.write", "network.in", "network.out")}
    assert ran.metrics["broker.under_replicated"] > 0
    assert 0 < ran.metrics["broker.cpu"] < 8
    assert 100e6 < ran.metrics["broker.memory"] < 3e9
    assert 0 < ran.metrics["broker.handlers.idle"] <= 1
    assert 0 < ran.metrics["broker.produce.time"] < 30
    assert {"1", "2", "3"} <= {*ran.uses}
    assert ran.brokers is not None
    assert ran.brokers["first_s"] == ran.series["produce"]["first_s"]


def _told_s(told: str, what: str) -> float:
    """When the warnings say that this was done to the broker."""
    found = re.search(rf"at (\d+\.\d) s: broker 2 {what}", told)
    assert found, told
    return float(found[1])


def pause_a_broker(provider: str) -> None:
    """Pause a broker under load: records are acknowledged late, none is lost; brokers that do not exist are refused."""
    scenario = Scenario.of({"rate": 200, "duration": "4 s", "warmup": "2 s", "rounds": 1})
    with provision(ClusterSpec(heap="300m"), target=provider) as cluster:

        def stall() -> None:
            cluster.pause_broker(1)
            time.sleep(1)
            cluster.resume_broker(1)

        (ran,) = run_scenario(scenario, cluster, actions=[Action(1.5, stall)])

        assert ran.metrics["lost"] == ran.metrics["errors"] == 0
        assert 0.9 < ran.metrics["produce.latency.max"] < 5
        at_s = {event.action.kind: event.at_s for event in ran.events if event.action is not None}
        assert [*at_s] == [EventKind.PAUSED, EventKind.RESUMED]
        assert 1.5 <= at_s[EventKind.PAUSED] < at_s[EventKind.RESUMED]  # later where the machine is busy
        with pytest.raises(UsageError) as raised:
            cluster.stop_broker(7)
        assert str(raised.value) == "no broker 7 in this cluster; its brokers are [1]"
        with pytest.raises(UsageError, match="broker 1 is already running"):
            cluster.start_broker(1)

"""Measurement from a script: as in a test, without pytest's fixtures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_kafkaperf import Cluster, KafkaPerfError, measure
from pytest_kafkaperf.core.errors import NotMeasuredError
from tests.support.repeats import GeneratorTooSlowError
from tests.support.strangers import make_topic

LOAD = {"records": 1000, "rounds": 3, "warmup": 0}


@pytest.mark.story
def test_a_scenario_is_measured_on_whatever_has_servers(broker: Cluster) -> None:
    """A broker of testcontainers, of a notebook's own code, or a running one."""
    found = measure(LOAD, SimpleNamespace(bootstrap_servers=broker.bootstrap_servers))

    latency = found["produce.latency.p99"]
    assert len(latency.rounds) == 3
    assert 0 < latency.min <= latency.median == latency.value <= latency.max < 10
    assert str(latency).split()[-1] in {"µs", "ms", "s"}
    assert found["errors"].value == 0


def test_a_metric_that_was_not_measured_is_refused_with_those_that_were(broker: Cluster) -> None:
    """Without consumers there is no end-to-end latency."""
    found = measure({**LOAD, "rounds": 1}, broker.bootstrap_servers, allow_unlimited=True)
    with pytest.raises(NotMeasuredError, match=r"e2e\.latency\.p99 was not measured; measured metrics: produce\."):
        found["e2e.latency.p99"]


def test_a_measurement_that_cannot_be_trusted_raises(broker: Cluster) -> None:
    """A script shows the results of whatever it gets."""
    flood = {"rate": "5M records/s", "records": 20_000, "record_size": 1000, "client": "record", "rounds": 1}
    with pytest.raises(KafkaPerfError, match=r"generator too slow: .*use more producers"):
        measure(flood | {"warmup": 0}, broker.bootstrap_servers, workers="1", allow_unlimited=True)


def test_limits_hold_for_what_they_allow(broker: Cluster) -> None:
    """Servers in a text may be anybody's, on this machine as well: a tunnel ends there."""
    make_topic(broker, "for-scripts")
    paced = {"rate": "400 records/s", "duration": "500 ms", "rounds": 1, "warmup": 0, "topic": "for-scripts"}
    try:
        found = measure(paced, broker.bootstrap_servers, max_rate="400 records/s", writable_topics=["for-scripts"])
    except KafkaPerfError as error:
        if "generator too slow" not in str(error):
            raise
        raise GeneratorTooSlowError(str(error)) from error  # this machine is busy: try again
    assert found["errors"].value == 0

"""A broker that is slower by a client quota, where the environment says so: a regression that is real."""

import contextlib
import os
import statistics

import pytest

from pytest_kafkaperf.run import run_scenario
from pytest_kafkaperf.scenario import Scenario
from tests.quotas import quota

BYTES_A_RECORD = 1100
"""As a quota counts those of 1 KiB, with what is on the wire around them."""


@pytest.fixture
def kafka_cluster(kafka_cluster):
    """The candidate alone: a reference beside it is as fast as ever."""
    rate = os.environ.get("KAFKAPERF_BYTE_RATE")
    if "KAFKAPERF_SLOWER" in os.environ:
        rate = _as_it_is(kafka_cluster) / (1 + int(os.environ["KAFKAPERF_SLOWER"]) / 100)
    with quota(kafka_cluster, producer_byte_rate=int(rate)) if rate else contextlib.nullcontext():
        yield kafka_cluster


def _as_it_is(cluster):
    """Bytes a second that it takes now: on one machine that is another figure every hour."""
    scenario = Scenario(record_size=1024, acks=1, duration=2, warmup=4, rounds=4)
    rounds = run_scenario(scenario, cluster)[1:]  # the first was on a cold broker
    return BYTES_A_RECORD * statistics.median(one.metrics["produce.throughput"] for one in rounds)

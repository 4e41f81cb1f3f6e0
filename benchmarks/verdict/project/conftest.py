"""A broker that is slower by a client quota, where the environment says so: a regression that is real."""

import contextlib
import os

import pytest

from tests.support.quotas import quota


@pytest.fixture
def kafka_cluster(kafka_cluster):
    """The candidate alone: a reference beside it is as fast as ever."""
    rate = os.environ.get("KAFKAPERF_BYTE_RATE")
    with quota(kafka_cluster, producer_byte_rate=int(rate)) if rate else contextlib.nullcontext():
        yield kafka_cluster

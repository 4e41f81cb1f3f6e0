"""A broker that is slower by a client quota, if the environment asks for it: a real regression."""

import contextlib
import os

import pytest

from tests.support.quotas import quota


@pytest.fixture
def kafka_cluster(kafka_cluster):
    """Slow down the candidate only; the reference keeps its speed."""
    rate = os.environ.get("KAFKAPERF_BYTE_RATE")
    with quota(kafka_cluster, producer_byte_rate=int(rate)) if rate else contextlib.nullcontext():
        yield kafka_cluster

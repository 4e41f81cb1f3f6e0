"""The loads of `starts.py` as tests; `runs.py` sets the environment."""

import os

import pytest

_TOLERANCE = os.environ.get("KAFKAPERF_TOLERANCE", "10%")

_SLOWER = {
    "authorizer.class.name": "Burn",
    "burn.us": os.environ.get("KAFKAPERF_BURN_US", "0"),
    "wait.us": os.environ.get("KAFKAPERF_WAIT_US", "0"),
}

pytestmark = pytest.mark.kafka_scenario(record_size=100, partitions=6, acks=1)


@pytest.mark.kafka_cluster(heap="1g", config={**_SLOWER, "wait.us": "0"})
@pytest.mark.kafka_threshold(f"produce.throughput >= baseline - {_TOLERANCE}")
def test_closed(kafka_perf):
    """Produce in a closed loop."""
    kafka_perf()


@pytest.mark.kafka_cluster(heap="1g", config={**_SLOWER, "burn.us": "0"})
@pytest.mark.kafka_scenario(rate="50k records/s", consumers=1)
@pytest.mark.kafka_threshold(f"produce.latency.p50 <= baseline + {_TOLERANCE}")
def test_paced(kafka_perf):
    """Produce at a rate, with a consumer."""
    kafka_perf()

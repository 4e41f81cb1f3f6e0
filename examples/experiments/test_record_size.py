"""The effect of the record size.

Expected: larger records mean fewer records/s and more MiB/s, until a batch contains only a single record. Sources A and
B in the README cover 10 B to 10 kB with 3 producers; source E covers short records, on 1 and 10 partitions.
"""

import pytest

from pytest_kafkaperf import kafka_scenario

SIZES = [10, 20, 40, 60, 80, 100, 150, 200, 400, 800, 1000, 2000, 5000, 10_000]
BANDWIDTHS = {}


@pytest.mark.parametrize("record_size", SIZES)
@kafka_scenario(producers=3, partitions=6, acks=1)
def test_record_size(kafka_perf, record_size):
    BANDWIDTHS[record_size] = kafka_perf()["produce.bandwidth"].median


def test_longer_records_carry_more_bytes():
    """The fixed cost of a record is spread over more bytes."""
    if not {SIZES[0], SIZES[-1]} <= BANDWIDTHS.keys():
        pytest.skip("needs the shortest and the longest records")
    assert BANDWIDTHS[SIZES[-1]] > BANDWIDTHS[SIZES[0]]


@pytest.mark.parametrize("partitions", [1, 10])
@pytest.mark.parametrize("record_size", [16, 32, 64])
@kafka_scenario(acks=1)
def test_short_records(kafka_perf, record_size, partitions):
    kafka_perf()

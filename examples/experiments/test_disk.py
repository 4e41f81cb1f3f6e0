"""The effect of the disk.

    pytest test_disk.py -o kafka_log_dirs=/mnt/hdd,/mnt/nvme

Expected: a faster disk raises throughput once the page cache is full, which happens in long rounds (source D in the
README: 110,000 and 250,000 records/s on small brokers, 280,000 and 840,000 on large ones). Without `kafka_log_dirs`,
the test compares the user's cache folder with an in-memory file system (if there is one), which is faster than any
disk.
"""

from pathlib import Path

import pytest

from pytest_kafkaperf import kafka_scenario

MEMORY = Path("/dev/shm")  # noqa: S108 - the in-memory file system of Linux


def pytest_generate_tests(metafunc):
    given = metafunc.config.getini("kafka_log_dirs")
    folders = ",".join(given).split(",") if given else [None, *([str(MEMORY)] if MEMORY.is_dir() else [])]
    metafunc.parametrize("log_dirs", folders)


@kafka_scenario(record_size="1 KiB", partitions=6, acks=1, warmup="5 s")
def test_disk(kafka_perf, kafka_cluster, log_dirs):
    if kafka_cluster.provider != "local":
        pytest.skip("log_dirs needs brokers of --kafka-cluster=local")
    kafka_perf()

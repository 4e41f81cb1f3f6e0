"""What does the disk bring?

    pytest test_disk.py --kafka-cluster=local --kafka-log-dirs=/mnt/hdd,/mnt/nvme

Expected: a faster disk brings more once the page cache cannot hide it, so with long rounds (source D of the README:
110,000 and 250,000 records/s on small brokers, 280,000 and 840,000 on large ones). Where no folders are named, the
user's cache folder is compared with memory, where the system has a file system in it: more than that no disk can
bring.
"""

from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, as Linux has it


def pytest_generate_tests(metafunc):
    given = metafunc.config.getoption("--kafka-log-dirs")
    folders = given.split(",") if given else [None, *([str(MEMORY)] if MEMORY.is_dir() else [])]
    metafunc.parametrize("log_dirs", folders)


@pytest.mark.kafka_scenario(record_size="1 KiB", partitions=6, acks=1, warmup="5 s")
def test_disk(kafka_perf, kafka_cluster, log_dirs):
    if kafka_cluster.provider != "local":
        pytest.skip("only the brokers of --kafka-cluster=local have their logs where one likes")
    kafka_perf()

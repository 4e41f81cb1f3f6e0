"""The service, running between its topics, for as long as a test needs it."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

TOPICS = ("orders", "orders-enriched")
PARTITIONS = 6
TIMEOUT_S = 30


@pytest.fixture
def service(kafka_cluster):
    """Start the service with some arguments; it is ready then."""
    asyncio.run(_topics(kafka_cluster, create=True))
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: asyncio.run(_topics(kafka_cluster, create=False)))

        def start(*arguments: str, script: str = "enricher.py") -> None:
            command = [sys.executable, Path(__file__).parent / script]
            command += ["--bootstrap-servers", kafka_cluster.bootstrap_servers, *arguments]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(_end, process)
            alarm = threading.Timer(TIMEOUT_S, process.kill)
            alarm.start()
            line = process.stdout.readline()
            alarm.cancel()
            assert line == "ready\n", f"the service was not ready within {TIMEOUT_S} s, or ended"

        yield start


async def _topics(cluster, *, create):
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **cluster.client_config)
    await admin.start()
    try:
        if create:
            await admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS])
        else:
            await admin.delete_topics(list(TOPICS))
    finally:
        await admin.close()


def _end(process):
    process.terminate()
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()

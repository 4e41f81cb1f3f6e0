"""The service, running between its topics for the length of a test."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

TOPICS = ("orders", "orders-enriched")
PARTITIONS = 6
TIMEOUT_S = 30


@pytest.fixture
def service(kafka_cluster):
    """A function that starts the service with some arguments and waits until it is ready."""
    with contextlib.ExitStack() as stack:
        for name in TOPICS:
            asyncio.run(_create(kafka_cluster, name))
            stack.callback(lambda name=name: asyncio.run(_delete(kafka_cluster, name)))

        def start(*arguments: str, script: str = "enricher.py") -> None:
            command = [sys.executable, Path(__file__).parent / script]
            command += ["--bootstrap-servers", kafka_cluster.bootstrap_servers, *arguments]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(_end, process)
            timer = threading.Timer(TIMEOUT_S, process.kill)
            timer.start()
            line = process.stdout.readline()
            timer.cancel()
            assert line == "ready\n", f"the service was not ready within {TIMEOUT_S} s, or ended"

        yield start


async def _create(cluster, name):
    """Create a topic; fail if it exists, because it would be deleted after the test."""
    async with _admin(cluster) as admin:
        answer = await admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    ((_, code, *_),) = answer.topic_errors
    if code:
        raise for_code(code)(f"topic {name!r} cannot be created")


async def _delete(cluster, name):
    async with _admin(cluster) as admin:
        await admin.delete_topics([name])


@contextlib.asynccontextmanager
async def _admin(cluster):
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **cluster.client_config)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _end(process):
    process.terminate()
    try:
        process.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()

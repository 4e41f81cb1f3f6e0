"""The JMX exporter: where its jar comes from, and what it shows in a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from pytest_kafkaperf.clusters.brokers import distribution, java, jmx_exporter
from pytest_kafkaperf.clusters.monitoring.probes import ExporterProbe, Probe, ProcessProbe
from pytest_kafkaperf.clusters.monitoring.readings import Readings
from pytest_kafkaperf.clusters.monitoring.watchers import BrokerWatcher
from tests.support.patience import PATIENCE_S
from tests.support.versions import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's jar in the user's cache: fetched on the first run ever."""
    return jmx_exporter.jar(distribution.cache_folder())


@pytest.mark.parametrize("version", ["4.1.0", "chosen"])
def test_the_agent_in_a_real_broker_shows_the_load(version: str, agent: Path, tmp_path: Path) -> None:
    """The whole way: Kafka's own counters, the agent's rules, a scrape, a window."""
    with _broker(version, agent, tmp_path) as (process, servers, url):
        for topic in ("warm-up", "load"):  # the first request to a new topic may be sent again
            asyncio.run(_load(servers, topic, records=200))
        before = ExporterProbe(url).read()
        wanted: list[Probe] = [ProcessProbe(process.pid), ExporterProbe(url)]
        with BrokerWatcher(lambda: {1: wanted}) as watcher:
            start_ns = time.monotonic_ns()
            requests = asyncio.run(_load(servers, "load", records=4000))
            time.sleep(max(0.0, 2.0 - (time.monotonic_ns() - start_ns) / 1e9))
            end_ns = time.monotonic_ns()
        after = ExporterProbe(url).read()
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:  # noqa: S310 - our own broker
            page = response.read().decode()

    assert watcher.unread() == []
    assert after["produce_total_requests"] - before["produce_total_requests"] == requests
    assert after["leaders"] == 2
    metrics = Readings.of(watcher.samples()).metrics(start_ns=start_ns, end_ns=end_ns)
    assert 0.01 < metrics["broker.cpu"] < (os.cpu_count() or 1) + 0.5
    assert metrics["broker.cpu.max"] >= metrics["broker.cpu"]
    assert 50e6 < metrics["broker.memory"] < 4e9
    assert 0.3 < metrics["broker.handlers.idle"] <= 1.0
    assert metrics["broker.under_replicated"] == 0
    assert metrics["broker.isr_shrinks"] == 0
    parts = ("time", "queue", "local", "remote", "send")
    for request in ("produce", "fetch"):
        times_s = {part: metrics[f"broker.{request}.{part}"] for part in parts}
        assert all(0 <= value_s < 5 for value_s in times_s.values())
        assert times_s["time"] >= max(times_s[part] for part in parts) - 1e-9
    named = [line for line in page.splitlines() if not line.startswith("#")]
    assert {line.split("_")[0] for line in named} == {"kafka"}
    assert len(named) < 30


async def _load(servers: str, topic: str, *, records: int) -> int:
    """Produce records, one request each, and read them; gives the number of produce requests."""
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        for _ in range(records // 10):
            await producer.send_and_wait(topic, b"x" * 1000, partition=0)
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        for _ in range(records // 10):
            await asyncio.wait_for(consumer.getone(), 20)
    return records // 10


@contextmanager
def _broker(version: str, agent: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    runtime, cache = java.find(), distribution.cache_folder()
    kafka = distribution.installed(VERSION if version == "chosen" else version, java=runtime, cache=cache)
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        client, controller, metrics = (each.getsockname()[1] for each in free)
    shutil.copytree(kafka.folder / "storage", folder / "data")
    (folder / "agent.yaml").write_text(jmx_exporter.configuration(), encoding="utf-8")
    (folder / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"log.dirs={folder / 'data'}\noffsets.topic.replication.factor=1\n",
        encoding="ascii",
    )
    command: list[str | Path] = [
        runtime.path,
        jmx_exporter.option(agent, folder / "agent.yaml", metrics),
        "-Xmx512m",
        "-cp",
        os.pathsep.join(map(str, kafka.classpath)),
        "kafka.Kafka",
        folder / "server.properties",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            asyncio.run(_ready(f"127.0.0.1:{client}"))
            yield process, f"127.0.0.1:{client}", jmx_exporter.url(f"127.0.0.1:{metrics}")
        finally:
            process.kill()


async def _ready(servers: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    host, _, port = servers.partition(":")
    while True:
        assert time.monotonic() < deadline_s, "the broker did not start"
        await asyncio.sleep(0.1)
        with contextlib.suppress(OSError, KafkaError):
            socket.create_connection((host, int(port)), timeout=1).close()
            admin = AIOKafkaAdminClient(bootstrap_servers=servers)
            try:
                await admin.start()
                return
            finally:
                await admin.close()

"""What is read of brokers: processes, containers and exporters, and the watcher that reads them in time."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from pytest_kafkaperf.brokers import FIGURES, Readings
from pytest_kafkaperf.clusters import distribution, exporter, java, probes
from pytest_kafkaperf.clusters.probes import ContainerProbe, ExporterProbe, LoopbackProbe, ProcessProbe, Watcher
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.settings import DEFAULT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

READY_TIMEOUT_S = 60

EXAMPLE_RULES = """\
# HELP kafka_server_replicamanager_isrshrinks_total Attribute exposed for management
# TYPE kafka_server_replicamanager_isrshrinks_total counter
kafka_server_replicamanager_isrshrinks_total 3.0
kafka_server_replicamanager_underreplicatedpartitions 2.0
kafka_server_replicamanager_leadercount 7.0
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0.98
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count_total 5.0E9
kafka_network_requestmetrics_totaltimems_count{request="Produce",} 40.0
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",} 12.0
kafka_network_requestmetrics_totaltimems_count{request="FetchFollower",} 999.0
jvm_threads_current 77.0
"""

NO_RULES = """\
# TYPE kafka_network_RequestMetrics_Mean untyped
kafka_network_RequestMetrics_Mean{name="TotalTimeMs",request="Produce",} 2.5
kafka_network_RequestMetrics_Mean{name="TotalTimeMs",request="FetchFollower",} 500.0
kafka_network_RequestMetrics_Mean{name="RemoteTimeMs",request="FetchConsumer",} NaN
kafka_network_RequestMetrics_Mean{name="ResponseSendTimeMs",request="FetchConsumer",} 0.5
kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="Produce",} 40.0
kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="FetchFollower",} 999.0
kafka_network_RequestMetrics_Count{name="RemoteTimeMs",request="FetchConsumer",} 0.0
kafka_network_RequestMetrics_Count{name="ResponseSendTimeMs",request="FetchConsumer",} 10.0
kafka_server_KafkaRequestHandlerPool_Count{name="RequestHandlerAvgIdlePercent",} 9.0E9
kafka_server_KafkaRequestHandlerPool_Count{name="BrokerRequestHandlerAvgIdlePercent",} 5.0E9
kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name="BrokerRequestHandlerAvgIdlePercent",} 0.98
kafka_server_ReplicaManager_Count{name="IsrShrinksPerSec",} 3.0
kafka_server_ReplicaManager_MeanRate{name="IsrShrinksPerSec",} 0.1
kafka_server_ReplicaManager_Value{name="UnderReplicatedPartitions",} 2.0
kafka_server_ReplicaManager_Value{name="LeaderCount",} 7.0
"""

OWN_RULES = """\
kafka_network_RequestMetrics_TotalTimeMs_Mean{request="Produce"} 2.5
kafka_network_RequestMetrics_TotalTimeMs_Count{request="Produce"} 40.0
kafka_network_RequestMetrics_ResponseSendTimeMs_Mean{request="FetchConsumer"} 0.5
kafka_network_RequestMetrics_ResponseSendTimeMs_Count{request="FetchConsumer"} 10.0
kafka_server_KafkaRequestHandlerPool_RequestHandlerAvgIdlePercent_Count 5.0E9
kafka_server_ReplicaManager_IsrShrinksPerSec_Count 3.0
kafka_server_ReplicaManager_UnderReplicatedPartitions_Value 2.0
kafka_server_ReplicaManager_LeaderCount_Value 7.0
kafka_controller_KafkaController_LastAppliedRecordOffset_Value 1234.0
"""

COMMON = {"isr_shrinks": 3.0, "under_replicated": 2.0, "leaders": 7.0, "request_handler_idle_s": 5.0}
TIMES = {"produce_total_requests": 40.0, "produce_total_s": 0.1, "fetch_send_requests": 10.0, "fetch_send_s": 0.005}


@contextmanager
def _page(answer: Callable[[http.server.BaseHTTPRequestHandler], object]) -> Iterator[str]:
    """A real server on loopback; gives its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(ConnectionError):
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            thread.join()


def _answers(text: str) -> Callable[[http.server.BaseHTTPRequestHandler], object]:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(text.encode())

    return answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(EXAMPLE_RULES, {**COMMON, "request_handler_pools": 1.0}, id="example rules"),
        pytest.param(EXAMPLE_RULES.upper(), {**COMMON, "request_handler_pools": 1.0}, id="in capitals"),
        pytest.param(NO_RULES, {**COMMON, **TIMES, "request_handler_pools": 1.0}, id="without rules"),
        pytest.param(OWN_RULES, {**COMMON, **TIMES, "request_handler_pools": 2.0}, id="our rules"),
        pytest.param("<html>no exporter</html>\n", {}, id="another page"),
    ],
)
def test_an_exporters_page_is_understood_whichever_rules_named_its_values(
    text: str, expected: Mapping[str, float]
) -> None:
    """Foreign clusters bring their own rules."""
    with _page(_answers(text)) as url:
        found = ExporterProbe(url).read()

    assert found == pytest.approx(expected)
    assert set(found) <= set(FIGURES)


def test_a_page_that_never_comes_is_given_up_in_time() -> None:
    """A broker that is stopped takes connections and answers nothing."""
    released = threading.Event()

    with _page(lambda _: released.wait(20)) as url:
        before_s = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not answer in full within 0\.3 s"):
            ExporterProbe(url, timeout_s=0.3).read()
        elapsed_s = time.monotonic() - before_s
        released.set()

    assert 0.2 < elapsed_s < 1.5


def test_a_page_that_comes_drop_by_drop_is_given_up_in_time() -> None:
    """A timeout of each read alone would never end."""

    def drop(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(200):
            request.wfile.write(b"# a comment\n")
            time.sleep(0.05)

    with _page(drop) as url:
        before_s = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not answer in full within 0\.3 s"):
            ExporterProbe(url, timeout_s=0.3).read()

    assert time.monotonic() - before_s < 1.5


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://127.0.0.1/metrics", "not an http or https URL: 'ftp://127.0.0.1/metrics'"),
        ("127.0.0.1:7071", "not an http or https URL: '127.0.0.1:7071'"),
        ("http://127.0.0.1:9/metrics", f"[Errno {errno.ECONNREFUSED}] Connection refused"),
    ],
)
def test_a_page_that_cannot_be_had_says_why(url: str, text: str) -> None:
    """The text stands in a warning of the report."""
    with pytest.raises(OSError, match=".") as raised:
        ExporterProbe(url).read()

    assert text in str(raised.value)


def test_a_user_in_the_url_is_sent_as_basic_authentication() -> None:
    """Exporters of production clusters are not open."""
    seen: list[str | None] = []

    def refuse(request: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(request.headers["Authorization"])
        request.send_error(401)

    with _page(refuse) as url, pytest.raises(OSError, match="answered 401 Unauthorized"):
        ExporterProbe(url.replace("http://", "http://me:p%40ss@")).read()

    assert seen == ["Basic bWU6cEBzcw=="]


def test_the_cpu_of_a_process_is_what_it_burnt() -> None:
    """Cores are made of these seconds."""
    probe = ProcessProbe(os.getpid())
    before = probe.read()
    began_s = time.process_time()
    while time.process_time() - began_s < 0.5:
        hashlib.sha256(b"x" * 10_000).digest()
    after = probe.read()

    assert after["cpu_s"] - before["cpu_s"] == pytest.approx(0.5, abs=0.1)
    assert after["memory_bytes"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_a_process_that_ended_cannot_be_read() -> None:
    """A zombie's figures would say that the broker is idle."""
    with subprocess.Popen(["true"]) as process:
        deadline_s = time.monotonic() + 10
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline_s:
            time.sleep(0.01)
        with pytest.raises(ProcessLookupError):
            ProcessProbe(process.pid).read()

    with pytest.raises(ProcessLookupError):
        ProcessProbe(process.pid).read()


def test_what_is_sent_on_loopback_is_counted() -> None:
    """Local brokers have no interface of their own."""
    probe = LoopbackProbe()
    before = probe.read()
    with _page(_answers("x" * 1_000_000)) as url, urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310
        response.read()
    after = probe.read()

    assert after["network_in_bytes"] - before["network_in_bytes"] >= 1_000_000
    assert after["network_out_bytes"] - before["network_out_bytes"] >= 1_000_000


CGROUP_2 = {
    "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
    "memory_stats": {"usage": 900, "stats": {"inactive_file": 300, "file": 500}},
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"major": 8, "minor": 0, "op": "read", "value": 1},
            {"major": 8, "minor": 0, "op": "write", "value": 20},
            {"major": 8, "minor": 16, "op": "write", "value": 300},
        ]
    },
    "networks": {"eth0": {"rx_bytes": 7, "tx_bytes": 8}, "eth1": {"rx_bytes": 70, "tx_bytes": 80}},
}
CGROUP_1 = {
    "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
    "memory_stats": {"usage": 900, "stats": {"total_inactive_file": 200, "inactive_file": 100}},
    "blkio_stats": {"io_service_bytes_recursive": None},
}
STOPPED = {"cpu_stats": {"cpu_usage": {"total_usage": 0}}, "memory_stats": {}, "networks": None}


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (
            CGROUP_2,
            {
                "cpu_s": 2.5,
                "memory_bytes": 600.0,
                "disk_read_bytes": 1.0,
                "disk_written_bytes": 320.0,
                "network_in_bytes": 77.0,
                "network_out_bytes": 88.0,
            },
        ),
        (CGROUP_1, {"cpu_s": 2.5, "memory_bytes": 700.0}),
        (STOPPED, {}),
    ],
    ids=["cgroups 2", "cgroups 1", "stopped"],
)
def test_what_docker_says_of_a_container_is_read(stats: Mapping[str, object], expected: Mapping[str, float]) -> None:
    """Both versions of cgroups are in use, and memory is what `docker stats` shows."""
    asked: list[tuple[str, bool, bool]] = []

    def answer(container: str, *, stream: bool, one_shot: bool) -> Mapping[str, object]:
        asked.append((container, stream, one_shot))
        return stats

    container = SimpleNamespace(id="abc", client=SimpleNamespace(api=SimpleNamespace(stats=answer)))

    assert ContainerProbe(container).read() == expected
    assert asked == [("abc", False, True)]


@dataclass(frozen=True)
class Ticking:
    """A probe whose figure is the clock, in the unit of CPU seconds."""

    name: str

    def read(self) -> Mapping[str, float]:
        return {"cpu_s": time.monotonic()}


@dataclass(frozen=True)
class Failing:
    """A probe that cannot read."""

    def read(self) -> Mapping[str, float]:
        raise ConnectionRefusedError("nobody there")


@dataclass(frozen=True)
class Hanging:
    """A probe that does not come back before it is released."""

    released: threading.Event

    def read(self) -> Mapping[str, float]:
        self.released.wait(20)
        return {}


def test_a_watcher_reads_on_a_grid_and_stamps_the_middle() -> None:
    """Drift would leave seconds without a reading; a wrong stamp moves load to another second."""
    with Watcher(lambda: {1: [Ticking("a")]}, interval_s=0.1) as watcher:
        time.sleep(1.05)
    samples = watcher.samples()[1]

    assert 10 <= len(samples) <= 13
    assert all(abs(sample.at_ns / 1e9 - sample.figures["cpu_s"]) < 0.02 for sample in samples)
    assert watcher.samples(since_ns=samples[3].at_ns) == {1: samples[3:]}
    offsets_s = [(sample.at_ns - samples[0].at_ns) / 1e9 for sample in samples[:-1]]
    assert offsets_s == pytest.approx([0.1 * round(offset_s / 0.1) for offset_s in offsets_s], abs=0.05)


def test_a_probe_that_fails_or_hangs_stops_no_other_and_not_the_end() -> None:
    """A broker that is stopped must not take the figures of the others with it."""
    released = threading.Event()
    try:
        with Watcher(lambda: {1: [Ticking("a"), Failing()], 2: [Hanging(released)]}, interval_s=0.05) as watcher:
            time.sleep(0.5)
            before_s = time.monotonic()
        exit_s = time.monotonic() - before_s
    finally:
        released.set()

    assert len(watcher.samples()[1]) >= 8
    assert watcher.samples()[2] == []
    failures = watcher.failures()
    assert set(failures) == {(1, "Failing")}
    assert failures[1, "Failing"].last == "nobody there"
    assert failures[1, "Failing"].count >= 8
    assert exit_s < probes.EXIT_TIMEOUT_S + 0.5


def test_probes_can_be_replaced_while_the_watcher_runs() -> None:
    """A broker that was restarted has a new process id."""
    current: dict[str, list[probes.Probe]] = {"one": [Ticking("old")]}

    with Watcher(lambda: current, interval_s=0.05) as watcher:
        time.sleep(0.2)
        current = {"one": [Failing()], "two": [Ticking("new")]}
        time.sleep(0.2)
        readers = {thread.name for thread in threading.enumerate() if thread.name.startswith("kafkaperf-watcher-")}
    samples = watcher.samples()

    assert len(samples["one"]) <= 6
    assert len(samples["two"]) >= 3
    assert readers == {"kafkaperf-watcher-one", "kafkaperf-watcher-two"}


def test_a_cluster_that_cannot_tell_its_probes_keeps_those_it_had() -> None:
    """While a broker is restarted, there may be nothing to tell."""
    asked = 0

    def wanted() -> Mapping[int, list[probes.Probe]]:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise ClusterError("just changing")
        return {1: [Ticking("a")]}

    with Watcher(wanted, interval_s=0.05) as watcher:
        time.sleep(0.3)

    assert asked > 1
    assert len(watcher.samples()[1]) >= 4


def test_a_cluster_that_does_not_answer_holds_up_no_exit() -> None:
    """And what it answers too late starts nothing."""
    released = threading.Event()

    def wanted() -> Mapping[int, list[probes.Probe]]:
        released.wait(20)
        return {1: [Ticking("late")]}

    before_s = time.monotonic()
    with Watcher(wanted, interval_s=0.05) as watcher:
        pass
    exit_s = time.monotonic() - before_s
    released.set()
    time.sleep(0.2)

    assert exit_s < probes.EXIT_TIMEOUT_S + 0.5
    assert watcher.samples() == {}


def test_a_long_watch_is_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soak tests run for days; older readings are thinned out, the first and the latest stay."""
    monkeypatch.setattr(probes, "MAX_SAMPLES", 16)
    with Watcher(lambda: {1: [Ticking("a")]}, interval_s=0.01) as watcher:
        time.sleep(1.0)
    at_s = [sample.at_ns / 1e9 for sample in watcher.samples()[1]]

    assert len(at_s) <= 16
    assert at_s[-1] - at_s[0] > 0.9


def test_the_agents_jar_missing_without_a_network_says_what_to_do(cold_cache: Path, no_network: str) -> None:
    """The first run of many a CI machine."""
    with pytest.raises(ClusterError) as raised:
        exporter.jar(cold_cache)

    assert str(raised.value) == (
        f"the JMX exporter is not in the cache ({cold_cache}/agents/jmx_prometheus_javaagent-1.0.1.jar) and cannot "
        "be fetched: io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1 was looked for in "
        f"central ({no_network}): ConnectionRefusedError: [Errno {errno.ECONNREFUSED}] Connection refused. "
        "Run once with a network, or copy that file from a machine that has it"
    )


@pytest.mark.usefixtures("no_network")
def test_half_an_agents_jar_makes_it_missing(tmp_path: Path, agent: Path) -> None:
    """A copy that was interrupted would keep every broker from starting; a whole one needs no network."""
    copied = tmp_path / "cache" / "agents" / agent.name
    copied.parent.mkdir(parents=True)
    shutil.copy(agent, copied)
    assert exporter.jar(tmp_path / "cache") == copied

    os.truncate(copied, copied.stat().st_size // 2)

    with pytest.raises(ClusterError, match="is not in the cache"):
        exporter.jar(tmp_path / "cache")


def test_the_agents_option_names_jar_address_and_configuration() -> None:
    """In a container the agent must listen on all addresses."""
    assert exporter.option("/a.jar", "/c.yaml", 7071) == "-javaagent:/a.jar=127.0.0.1:7071:/c.yaml"
    assert exporter.option("/a.jar", "/c.yaml", 1, host="0.0.0.0") == "-javaagent:/a.jar=0.0.0.0:1:/c.yaml"  # noqa: S104


@pytest.fixture(scope="session")
def agent() -> Path:
    """The agent's jar in the user's cache: fetched on the first run ever."""
    return exporter.jar(distribution.cache_folder())


@pytest.mark.broker
@pytest.mark.parametrize("version", ["4.1.0", "default"])
def test_the_agent_in_a_real_broker_shows_the_load(version: str, agent: Path, tmp_path: Path) -> None:
    """The whole way: Kafka's own counters, the agent's rules, a scrape, a window."""
    with _broker(version, agent, tmp_path) as (process, servers, url):
        asyncio.run(_load(servers, "warm-up", records=200))
        before = ExporterProbe(url).read()
        wanted: list[probes.Probe] = [ProcessProbe(process.pid), ExporterProbe(url)]
        with Watcher(lambda: {1: wanted}) as watcher:
            start_ns = time.monotonic_ns()
            requests = asyncio.run(_load(servers, "load", records=4000))
            time.sleep(max(0.0, 2.0 - (time.monotonic_ns() - start_ns) / 1e9))
            end_ns = time.monotonic_ns()
        after = ExporterProbe(url).read()
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own broker
            page = response.read().decode()

    assert watcher.failures() == {}
    assert after["produce_total_requests"] - before["produce_total_requests"] == requests
    assert after["leaders"] == 2
    metrics = Readings.of(watcher.samples()).metrics(start_ns=start_ns, end_ns=end_ns)
    assert 0.01 < metrics["broker.cpu"] < (os.cpu_count() or 1) + 0.5
    assert metrics["broker.cpu.max"] >= metrics["broker.cpu"] * 0.9
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
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    await admin.close()
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
    kafka = distribution.installed(DEFAULT_VERSION if version == "default" else version, java=runtime, cache=cache)
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        client, controller, metrics = (each.getsockname()[1] for each in free)
    shutil.copytree(kafka.storage, folder / "data")
    (folder / "agent.yaml").write_text(exporter.configuration(), encoding="utf-8")
    (folder / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"log.dirs={folder / 'data'}\noffsets.topic.replication.factor=1\n",
        encoding="ascii",
    )
    command: list[str | Path] = [
        runtime.path,
        exporter.option(agent, folder / "agent.yaml", metrics),
        "-Xmx512m",
        "-cp",
        os.pathsep.join(map(str, kafka.classpath)),
        "kafka.Kafka",
        folder / "server.properties",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            asyncio.run(_ready(f"127.0.0.1:{client}"))
            yield process, f"127.0.0.1:{client}", exporter.url(metrics)
        finally:
            process.kill()


async def _ready(servers: str) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
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

"""What is read of brokers: processes, containers and the pages of exporters."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.server
import os
import ssl
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, ExporterProbe, ProcessProbe
from tests.support.field_certificates import lax_certificates
from tests.support.orphans import becomes
from tests.support.patience import ENDLESS_S, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

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
def _page(
    answer: Callable[[http.server.BaseHTTPRequestHandler], object], context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """A real server on loopback; gives its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(ConnectionError):
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http{'' if context is None else 's'}://127.0.0.1:{server.server_address[1]}/metrics"
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


def test_an_exporter_with_a_certificate_that_java_accepts_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and newer refuse it by default."""
    made = lax_certificates(["127.0.0.1"])
    (tmp_path / "authority.pem").write_text(made.authority)
    (tmp_path / "server.pem").write_text(made.key.get_secret_value() + made.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "server.pem")

    with _page(_answers(EXAMPLE_RULES), context) as url:
        assert ExporterProbe(url).read()["isr_shrinks"] == 3.0


def test_a_page_that_never_comes_is_given_up_in_time() -> None:
    """A broker that is stopped takes connections and answers nothing."""
    released = threading.Event()

    with _page(lambda _: released.wait(ENDLESS_S)) as url:
        before_s = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not answer in full within 0\.3 s"):
            ExporterProbe(url, timeout_s=0.3).read()
        elapsed_s = time.monotonic() - before_s
        released.set()

    assert 0.2 < elapsed_s < PATIENCE_S


def test_a_page_that_comes_drop_by_drop_is_given_up_in_time() -> None:
    """A timeout of each read alone would never end."""

    def drop(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(ENDLESS_S * 20):
            request.wfile.write(b"# a comment\n")
            time.sleep(0.05)

    with _page(drop) as url:
        before_s = time.monotonic()
        with pytest.raises(TimeoutError, match=r"did not answer in full within 0\.3 s"):
            ExporterProbe(url, timeout_s=0.3).read()

    assert time.monotonic() - before_s < PATIENCE_S


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
    first_s = time.process_time()
    before = probe.read()
    began_s = time.process_time()
    while time.process_time() - began_s < 0.5:
        hashlib.sha256(b"x" * 10_000).digest()
    ended_s = time.process_time()
    after = probe.read()
    last_s = time.process_time()

    assert ended_s - began_s <= after["cpu_s"] - before["cpu_s"] <= last_s - first_s
    assert after["memory_bytes"] == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_an_application_is_read_with_its_children_also_those_that_have_ended() -> None:
    """Servers of Python work in child processes, and replace them now and then."""
    burn = "import hashlib, time\nwhile time.process_time() < 0.4: hashlib.sha256(b'x' * 10_000).digest()\n"
    parent = f"import subprocess, sys; work = [sys.executable, '-c', {burn + 'print(1, flush=True); input()'!r}]\n"
    parent += "left = subprocess.Popen(work, stdout=subprocess.PIPE, stdin=subprocess.PIPE); left.stdout.readline()\n"
    parent += "subprocess.run(work, input=b'', stdout=subprocess.PIPE); print('worked', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", parent], **pipes) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        alone, together = ProcessProbe(process.pid).read(), ProcessProbe(process.pid, with_children=True).read()
        ended, (running,) = psutil.Process(process.pid).cpu_times(), psutil.Process(process.pid).children()
        used = running.cpu_times()
        process.communicate(b"\n")
    used_s = ended.children_user + ended.children_system + used.user + used.system
    assert used_s > 0.75
    assert together["cpu_s"] - alone["cpu_s"] == pytest.approx(used_s, abs=0.05)  # the system counts in ticks of 10 ms
    assert together["memory_bytes"] > 1.5 * alone["memory_bytes"]


def test_a_process_that_ended_cannot_be_read() -> None:
    """A zombie's readings would say that the broker is idle."""
    with subprocess.Popen(["true"]) as process:
        assert becomes(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        with pytest.raises(ProcessLookupError):
            ProcessProbe(process.pid).read()

    with pytest.raises(ProcessLookupError):
        ProcessProbe(process.pid).read()


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


def test_the_cpu_time_of_a_process_is_exact() -> None:
    """Rounds are short, and ticks of 10 ms would be noise."""
    before_s = time.process_time()
    found = ProcessProbe(os.getpid()).read()["cpu_s"]
    assert before_s <= found <= time.process_time()

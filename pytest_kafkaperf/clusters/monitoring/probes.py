"""Probes, which read broker measurements while load runs; `tracks.Sample` explains the measurements."""

from __future__ import annotations

import contextlib
import http
import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

import psutil

from pytest_kafkaperf.clusters.access.access import make_context
from pytest_kafkaperf.core.errors import innermost

if TYPE_CHECKING:
    import urllib3

SCRAPE_TIMEOUT_S = 2.0
"""Timeout for one scrape, from connecting to receiving the last byte; busy brokers respond slowly."""


class Probe(Protocol):
    """Reader for some of one broker's measurements. Equal probes read the same measurements."""

    def read(self) -> Mapping[str, float]:
        """Return the current measurements.

        Raises:
            OSError: the measurements cannot be read.

        """


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """Reader for the CPU, memory and disk usage of a process on this machine."""

    pid: int
    with_children: bool = False
    """True to include all children's CPU and memory usage, and the CPU usage of children that have exited."""

    def read(self) -> Mapping[str, float]:
        """Read the process; disk usage is read only without children and only on Linux."""
        try:
            process = psutil.Process(self.pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    raise ProcessLookupError(f"process {self.pid} has ended")
                readings = {"cpu_s": _cpu_s(process), "memory_bytes": float(process.memory_info().rss)}
            return _with_children(process, readings) if self.with_children else {**readings, **_disk_of(process)}
        except psutil.NoSuchProcess as error:
            raise ProcessLookupError(str(error)) from error
        except psutil.Error as error:
            raise PermissionError(str(error)) from error


@dataclass(frozen=True, slots=True)
class MachineProbe:
    """Reader for the CPU time of all programs on this machine; it does not belong to any broker.

    Interrupts are excluded, because operating systems account for them differently and the load causes many of them.
    """

    def read(self) -> Mapping[str, float]:
        """Include the time that the host spends on other virtual machines (steal), if the system reports it."""
        times = psutil.cpu_times()
        others = getattr(times, "nice", 0.0) + getattr(times, "steal", 0.0)
        return {
            "machine_cpu_s": times.user + times.system + others,
            "own_cpu_s": time.process_time(),
            "machine_cores": float(psutil.cpu_count() or 1),
        }


@dataclass(frozen=True, slots=True)
class ContainerProbe:
    """Reader for a container, given as a docker-py object, as in testcontainers."""

    container: Any

    def read(self) -> Mapping[str, float]:
        """Send one request, in the form supported by daemons since 20.10; the older form takes a second or two.

        Some daemons wait for up to a second, then measure all containers and respond. The measurements therefore refer
        to the end of the request.
        """
        return container_readings(self.container.client.api.stats(self.container.id, stream=False, one_shot=True))


@dataclass(frozen=True, slots=True)
class ExporterProbe:
    """Reader for a JMX exporter's page, regardless of who started the broker."""

    url: str
    """An `http` or `https` URL, whose user and password are used for basic authentication. Proxies are ignored."""
    timeout_s: float = SCRAPE_TIMEOUT_S

    def read(self) -> Mapping[str, float]:
        """Request the page once."""
        try:
            return exporter_readings(get_page(self.url, self.timeout_s))
        except ValueError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


def container_readings(stats: Mapping[str, Any]) -> dict[str, float]:
    """Convert the Docker API's statistics for a container; empty if the container is not running."""
    used_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
    if not used_ns:
        return {}
    readings = {"cpu_s": used_ns / 1e9}
    memory = stats.get("memory_stats", {})
    if "usage" in memory:
        # As in `docker stats`: without the inactive page cache, whose name depends on the cgroup version.
        details = memory.get("stats", {})
        cache = details.get("total_inactive_file", details.get("inactive_file", 0))
        readings["memory_bytes"] = float(memory["usage"] - cache if cache < memory["usage"] else memory["usage"])
    transfers = stats.get("blkio_stats", {}).get("io_service_bytes_recursive") or []
    for name, operation in (("disk_read_bytes", "read"), ("disk_written_bytes", "write")):
        entries = [entry["value"] for entry in transfers if entry["op"].lower() == operation]
        readings |= {name: float(sum(entries))} if entries else {}
    networks = list((stats.get("networks") or {}).values())
    if networks:
        readings["network_in_bytes"] = float(sum(each["rx_bytes"] for each in networks))
        readings["network_out_bytes"] = float(sum(each["tx_bytes"] for each in networks))
    return readings


def _cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of all threads that a process has had, to the nearest 1 ns on Linux and 10 ms elsewhere.

    On Linux, the id of a process's CPU clock is derived from its process id, as in clock_getcpuclockid(3).
    """
    if sys.platform == "linux":
        return time.clock_gettime((~process.pid << 3) | _CPUCLOCK_SCHED)
    cpu = process.cpu_times()
    return cpu.user + cpu.system


_CPUCLOCK_SCHED = 2
"""From Linux's include/linux/posix-timers.h."""


def _with_children(process: psutil.Process, readings: Mapping[str, float]) -> dict[str, float]:
    """Add the children's readings. A parent's CPU time includes that of exited children, so none is lost."""
    cpu_s = readings["cpu_s"] + sum(process.cpu_times()[2:4])
    memory_bytes = readings["memory_bytes"]
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # the process has exited in the meantime
            memory_bytes += child.memory_info().rss
            cpu_s += sum(child.cpu_times()[:4])  # user and system time of the child and its exited children
    return {"cpu_s": cpu_s, "memory_bytes": memory_bytes}


def _disk_of(process: psutil.Process) -> dict[str, float]:
    """Return the bytes read from and written to disks, excluding the page cache, if the system reports them."""
    try:
        counters = process.io_counters()
    except (AttributeError, psutil.AccessDenied):  # on macOS, or for another user's process
        return {}
    return {"disk_read_bytes": float(counters.read_bytes), "disk_written_bytes": float(counters.write_bytes)}


MAX_SCRAPE_BYTES = 32 * 1024 * 1024
"""Maximum page size: larger than a page with all metrics of a broker with 10,000 partitions."""

_CHUNK_BYTES = 65536

_TIMES = {
    "totaltimems": "total",
    "requestqueuetimems": "queue",
    "localtimems": "local",
    "remotetimems": "remote",
    "responsesendtimems": "send",
}

_REQUESTS = {"produce": "produce", "fetchconsumer": "fetch"}

_VALUES = {
    "server_replicamanager_underreplicatedpartitions": "under_replicated",
    "server_replicamanager_leadercount": "leaders",
    "server_replicamanager_isrshrinkspersec_count": "isr_shrinks",
    "server_replicamanager_isrshrinks_count": "isr_shrinks",
    "server_replicamanager_isrshrinks": "isr_shrinks",
}

_REQUEST_TIME = re.compile(rf"network_requestmetrics_(?P<time>{'|'.join(_TIMES)})_(?P<what>mean|count)")

_IDLE = "server_kafkarequesthandlerpool_{}requesthandleravgidlepercent_count"

_CONTROLLER = "controller_kafkacontroller_lastappliedrecordoffset"
"""A metric that only KRaft controllers have."""

_WANTED = re.compile(
    r"^kafka_(?:"
    rf'network_requestmetrics_[^{{\n]*(?:mean|count|count_total){{[^}}\n]*request="(?:{"|".join(_REQUESTS)})".*|'
    r"(?:server_kafkarequesthandlerpool|server_replicamanager|controller_kafkacontroller)_.*)",
    re.IGNORECASE | re.MULTILINE,
)


def get_page(url: str, timeout_s: float) -> str:
    """Get a page within the timeout plus one read, without following redirects or using proxy settings.

    Raises:
        OSError: the page is unavailable, exceeds the size limit, or takes too long (TimeoutError).
        ValueError: the URL is invalid.

    """
    import urllib3  # noqa: PLC0415 - saves start-up time

    deadline_s = time.monotonic() + timeout_s
    parts = urlsplit(url)
    shown = url.rpartition("@")[2]  # error messages must not contain a password
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"not an http or https URL: {shown!r}")
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path or "/metrics").geturl()
    # Text in the format that all versions of the exporter support; OpenMetrics names counters differently.
    headers = {"Accept": "text/plain; version=0.0.4"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers |= urllib3.make_headers(basic_auth=user.decode("latin-1"))  # urllib3 encodes it as latin-1 again
    context = make_context(None, None, None) if parts.scheme == "https" else None
    try:
        with (
            urllib3.PoolManager(timeout=urllib3.Timeout(total=timeout_s), retries=False, ssl_context=context) as pool,
            pool.request("GET", plain, headers=headers, preload_content=False) as response,
        ):
            if response.status != http.HTTPStatus.OK:
                raise OSError(f"{shown} answered {response.status} {response.reason}")
            return _body(response, deadline_s).decode("utf-8", errors="replace")
    except (TimeoutError, urllib3.exceptions.ReadTimeoutError):
        raise TimeoutError(f"{shown} did not answer in full within {timeout_s:g} s") from None
    except urllib3.exceptions.HTTPError as error:
        raise OSError(innermost(error)) from None


def _body(response: urllib3.BaseHTTPResponse, deadline_s: float) -> bytes:
    page = b""
    while chunk := response.read1(_CHUNK_BYTES):
        page += chunk
        if len(page) > MAX_SCRAPE_BYTES:
            raise OSError(f"the page has more than {MAX_SCRAPE_BYTES} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return page


def exporter_readings(text: str) -> dict[str, float]:
    """Parse a JMX exporter page.

    The following naming rules are supported, in upper or lower case:

    - the exporter's example rules for Kafka, which Strimzi also uses (`kafka_server_replicamanager_isrshrinks_total`);
      they omit means, so request times are unknown
    - no rules (`kafka_server_ReplicaManager_Count{name="IsrShrinksPerSec",}`)
    - `jmx_exporter.configuration` (`kafka_server_ReplicaManager_IsrShrinksPerSec_Count`)

    Raises:
        ValueError: the text is not a JMX exporter page.

    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - takes 0.1 s

    # Only about a hundred of 10,000 lines matter; parsing all lines would take a tenth of a second.
    wanted = "\n".join(_WANTED.findall(text)) + "\n"
    values: dict[str, float] = {}
    times_ms: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(wanted):
        for sample in family.samples:
            labels = {name.lower(): value.lower() for name, value in sample.labels.items()}
            name = _normalized(sample.name.lower(), labels.get("name"))
            time_of = _REQUEST_TIME.fullmatch(name)
            if math.isnan(sample.value):
                continue
            if time_of and labels.get("request") in _REQUESTS and "quantile" not in labels:
                reading = f"{_REQUESTS[labels['request']]}_{_TIMES[time_of['time']]}"
                times_ms[reading, time_of["what"]] = sample.value
            else:
                values[name] = sample.value
    found = {reading: values[name] for name, reading in _VALUES.items() if name in values}
    return {**found, **_request_readings(times_ms), **_handler_readings(values)}


def _normalized(name: str, bean: str | None) -> str:
    """Return the name according to the example rules, without `kafka_` and without type suffixes."""
    if bean is not None:
        front, _, attribute = name.rpartition("_")
        name = f"{front}_{bean}_{attribute}"
    return name.removeprefix("kafka_").removesuffix("_total").removesuffix("_value")


def _request_readings(times_ms: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return request times as sums. Kafka reports means since the broker's start, but a window needs differences."""
    readings = {}
    for (reading, what), count in times_ms.items():
        mean_ms = times_ms.get((reading, "mean"))
        if what == "count" and mean_ms is not None:
            readings[f"{reading}_requests"] = count
            readings[f"{reading}_s"] = mean_ms * count / 1e3
    return readings


def _handler_readings(values: Mapping[str, float]) -> dict[str, float]:
    """Return the handlers' idle time. The meter counts idle nanoseconds, divided by the number of handlers."""
    broker_ns = values.get(_IDLE.format("broker"))  # since 4.3 (KIP-1207)
    if broker_ns is not None:
        return {"request_handler_idle_s": broker_ns / 1e9, "request_handler_pools": 1.0}
    idle_ns = values.get(_IDLE.format(""))
    if idle_ns is None:
        return {}
    return {"request_handler_idle_s": idle_ns / 1e9, "request_handler_pools": 2.0 if _CONTROLLER in values else 1.0}

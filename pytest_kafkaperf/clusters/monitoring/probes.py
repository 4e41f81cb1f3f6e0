"""Probes: what is read of brokers while load runs.

Figures go by the names in `brokers.figures.FIGURES`.
"""

from __future__ import annotations

import http
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

import psutil

from pytest_kafkaperf.core.errors import innermost

if TYPE_CHECKING:
    import urllib3

SCRAPE_TIMEOUT_S = 2.0
"""For one scrape, from the connection to its last byte: a busy broker answers late, and late is better than never."""


class Probe(Protocol):
    """Reads some figures of one broker. Equal probes read the same."""

    def read(self) -> Mapping[str, float]:
        """Give the figures as they are now.

        Raises:
            OSError: they cannot be had.

        """


@dataclass(frozen=True, slots=True)
class ProcessProbe:
    """CPU, memory and disk of a process of this machine."""

    pid: int

    def read(self) -> Mapping[str, float]:
        """Children do not count; disk only where the system tells (Linux, Windows)."""
        try:
            process = psutil.Process(self.pid)
            with process.oneshot():
                if process.status() == psutil.STATUS_ZOMBIE:
                    raise ProcessLookupError(f"process {self.pid} has ended")
                cpu = process.cpu_times()
                figures = {"cpu_s": cpu.user + cpu.system, "memory_bytes": float(process.memory_info().rss)}
            return {**figures, **_disk_of(process)}
        except psutil.NoSuchProcess as error:
            raise ProcessLookupError(str(error)) from error
        except psutil.Error as error:
            raise PermissionError(str(error)) from error


@dataclass(frozen=True, slots=True)
class LoopbackProbe:
    """Network bytes of this machine's loopback interface: of all brokers, clients and strangers on it together.

    What is sent there is received there, so both figures are the same. To be read under a name of its own, not as
    part of each broker.
    """

    def read(self) -> Mapping[str, float]:
        """Look at every interface that has a loopback address."""
        counters = psutil.net_io_counters(pernic=True)
        own = [counters[name] for name in _loopbacks() if name in counters]
        if not own:
            raise FileNotFoundError("the system names no loopback interface")
        return {
            "network_in_bytes": float(sum(each.bytes_recv for each in own)),
            "network_out_bytes": float(sum(each.bytes_sent for each in own)),
        }


@dataclass(frozen=True, slots=True)
class MachineProbe:
    """What all programs take of this machine's cores. To be read under a name of its own, not as part of a broker.

    Interrupts are left out: systems disagree on whether they are a program's, and the load makes many of them.
    """

    def read(self) -> Mapping[str, float]:
        """Time that the host takes for other machines (steal) counts, where the system tells."""
        times = psutil.cpu_times()
        others = getattr(times, "nice", 0.0) + getattr(times, "steal", 0.0)
        return {
            "machine_cpu_s": times.user + times.system + others,
            "session_cpu_s": time.process_time(),
            "machine_cores": float(psutil.cpu_count() or 1),
        }


@dataclass(frozen=True, slots=True)
class ContainerProbe:
    """A container of docker-py, such as testcontainers gives it."""

    container: Any

    def read(self) -> Mapping[str, float]:
        """One request, of a kind that daemons know since 20.10: the older one takes a second or two.

        Some wait up to a second until they look at all their containers, and then answer: the figures are those of
        the end of the read.
        """
        return container_figures(self.container.client.api.stats(self.container.id, stream=False, one_shot=True))


@dataclass(frozen=True, slots=True)
class ExporterProbe:
    """A JMX exporter's page: the agent's of `exporter`, or that of a foreign cluster."""

    url: str
    """`http` or `https`; a user and a password in it are sent as basic authentication. No proxy is asked."""
    timeout_s: float = SCRAPE_TIMEOUT_S

    def read(self) -> Mapping[str, float]:
        """Scrape once."""
        try:
            return exporter_figures(get_page(self.url, self.timeout_s))
        except ValueError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


def container_figures(stats: Mapping[str, Any]) -> dict[str, float]:
    """Read what the Docker API says of one container; empty when it does not run."""
    used_ns = stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage")
    if not used_ns:
        return {}
    figures = {"cpu_s": used_ns / 1e9}
    memory = stats.get("memory_stats", {})
    if "usage" in memory:
        # As `docker stats`: without the page cache that can go at once, by its name in cgroups 1 or 2.
        details = memory.get("stats", {})
        cache = details.get("total_inactive_file", details.get("inactive_file", 0))
        figures["memory_bytes"] = float(memory["usage"] - cache if cache < memory["usage"] else memory["usage"])
    moved = stats.get("blkio_stats", {}).get("io_service_bytes_recursive") or []
    for name, operation in (("disk_read_bytes", "read"), ("disk_written_bytes", "write")):
        entries = [entry["value"] for entry in moved if entry["op"].lower() == operation]
        figures |= {name: float(sum(entries))} if entries else {}
    networks = list((stats.get("networks") or {}).values())
    if networks:
        figures["network_in_bytes"] = float(sum(each["rx_bytes"] for each in networks))
        figures["network_out_bytes"] = float(sum(each["tx_bytes"] for each in networks))
    return figures


def _disk_of(process: psutil.Process) -> dict[str, float]:
    """What came from disks and went to them, where the system tells; not what the page cache took or gave."""
    try:
        moved = process.io_counters()
    except (AttributeError, psutil.AccessDenied):  # not on macOS; not of another user's process
        return {}
    return {"disk_read_bytes": float(moved.read_bytes), "disk_written_bytes": float(moved.write_bytes)}


def _loopbacks() -> list[str]:
    local = ("127.", "::1")
    addresses = psutil.net_if_addrs()
    return [name for name, own in addresses.items() if any(each.address.startswith(local) for each in own)]


MAX_SCRAPE_BYTES = 32 * 1024 * 1024
"""An exporter that gives all that a broker of 10,000 partitions counts stays below."""

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
"""Only a KRaft controller has it."""

_WANTED = re.compile(
    r"^kafka_(?:"
    rf'network_requestmetrics_[^{{\n]*(?:mean|count|count_total){{[^}}\n]*request="(?:{"|".join(_REQUESTS)})".*|'
    r"(?:server_kafkarequesthandlerpool|server_replicamanager|controller_kafkacontroller)_.*)",
    re.IGNORECASE | re.MULTILINE,
)


def get_page(url: str, timeout_s: float) -> str:
    """Get a page within the timeout, or one read later; follow no redirect, and ask no proxy.

    Raises:
        OSError: it cannot be had, is too large, or did not come in time (TimeoutError).
        ValueError: the URL is none.

    """
    import urllib3  # noqa: PLC0415 - late: start-up time

    deadline_s = time.monotonic() + timeout_s
    parts, shown = urlsplit(url), url.rpartition("@")[2]  # a password stands in no text
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"not an http or https URL: {shown!r}")
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], path=parts.path or "/metrics").geturl()
    # Text of the format that all versions of the exporter give; OpenMetrics names counters in another way.
    headers = {"Accept": "text/plain; version=0.0.4"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers |= urllib3.make_headers(basic_auth=user.decode("latin-1"))  # which makes it these bytes again
    try:
        with (
            urllib3.PoolManager(timeout=urllib3.Timeout(total=timeout_s), retries=False) as pool,
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
            raise OSError(f"the answer has more than {MAX_SCRAPE_BYTES} bytes")
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return page


def exporter_figures(text: str) -> dict[str, float]:
    """Read a page of the JMX exporter, whichever rules named its values.

    Names are those of the exporter's example rules for Kafka, which Strimzi has, too
    (`kafka_server_replicamanager_isrshrinks_total`), those that it gives without any rules
    (`kafka_server_ReplicaManager_Count{name="IsrShrinksPerSec",}`), or those of `exporter.configuration`
    (`kafka_server_ReplicaManager_IsrShrinksPerSec_Count`), in any case. The example rules leave out the means, and
    with them the times of requests.

    Raises:
        ValueError: it is no such page.

    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - late: 0.1 s

    # Of a page of 10,000 lines a hundred matter; all of it would take the parser a tenth of a second.
    wanted = "\n".join(_WANTED.findall(text)) + "\n"
    values: dict[str, float] = {}
    times_ms: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(wanted):
        for sample in family.samples:
            labels = {name.lower(): value.lower() for name, value in sample.labels.items()}
            name = _plain(sample.name.lower(), labels.get("name"))
            time_of = _REQUEST_TIME.fullmatch(name)
            if math.isnan(sample.value):
                continue
            if time_of and labels.get("request") in _REQUESTS and "quantile" not in labels:
                figure = f"{_REQUESTS[labels['request']]}_{_TIMES[time_of['time']]}"
                times_ms[figure, time_of["what"]] = sample.value
            else:
                values[name] = sample.value
    found = {figure: values[name] for name, figure in _VALUES.items() if name in values}
    return {**found, **_request_figures(times_ms), **_handler_figures(values)}


def _plain(name: str, bean: str | None) -> str:
    """The name as the example rules would make it, without `kafka_` and without what a type adds to it."""
    if bean is not None:
        front, _, attribute = name.rpartition("_")
        name = f"{front}_{bean}_{attribute}"
    return name.removeprefix("kafka_").removesuffix("_total").removesuffix("_value")


def _request_figures(times_ms: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Kafka tells the mean since the broker's start: the sum is what the mean of a window can be made of."""
    figures = {}
    for (figure, what), count in times_ms.items():
        mean_ms = times_ms.get((figure, "mean"))
        if what == "count" and mean_ms is not None:
            figures[f"{figure}_requests"] = count
            figures[f"{figure}_s"] = mean_ms * count / 1e3
    return figures


def _handler_figures(values: Mapping[str, float]) -> dict[str, float]:
    """The meter is marked with nanoseconds without work, shared by the number of handlers: its count is their sum."""
    own = values.get(_IDLE.format("broker"))  # since 4.3 (KIP-1207)
    if own is not None:
        return {"request_handler_idle_s": own / 1e9, "request_handler_pools": 1.0}
    both = values.get(_IDLE.format(""))
    if both is None:
        return {}
    return {"request_handler_idle_s": both / 1e9, "request_handler_pools": 2.0 if _CONTROLLER in values else 1.0}

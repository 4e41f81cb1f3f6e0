"""What is read of brokers while load runs: probes, and the watcher that reads them once a second.

Figures go by the names in `brokers.FIGURES`.
"""

from __future__ import annotations

import base64
import http.client
import math
import re
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from urllib.parse import unquote, urlsplit

import psutil

from pytest_kafkaperf.brokers import Sample
from pytest_kafkaperf.errors import ClusterError

INTERVAL_S = 1.0
_MOMENT_S = 0.001
SCRAPE_TIMEOUT_S = 2.0
"""For one scrape, from the connection to its last byte: a busy broker answers late, and late is better than never."""
MAX_SCRAPE_BYTES = 32 * 1024 * 1024
"""An exporter that gives all that a broker of 10,000 partitions counts stays below."""
MAX_SAMPLES = 4096
"""Of each kind of probe and broker: more than an hour. Beyond it, every other of the older half goes."""
EXIT_TIMEOUT_S = 1.0
"""How long the end of a watch waits for readings that are under way."""


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
            return exporter_figures(_page(self.url, self.timeout_s))
        except (http.client.HTTPException, ValueError) as error:
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


def _page(url: str, timeout_s: float) -> str:
    """Get a page, all of it within the timeout, however slowly it comes."""
    deadline_s = time.monotonic() + timeout_s
    parts, shown = urlsplit(url), url.rpartition("@")[2]  # a password stands in no text
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"not an http or https URL: {shown!r}")
    of_scheme = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = of_scheme(parts.hostname, parts.port, timeout=timeout_s)
    # Text of the format that all versions of the exporter give; OpenMetrics names counters in another way.
    headers = {"Accept": "text/plain; version=0.0.4", "Connection": "close"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(user).decode('ascii')}"
    path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.connect()
        own = connection.sock  # the response takes it over
        own.settimeout(max(_MOMENT_S, deadline_s - time.monotonic()))
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"{shown} answered {response.status} {response.reason}")
        return b"".join(_chunks(response, own, deadline_s)).decode("utf-8", errors="replace")
    except TimeoutError:
        raise TimeoutError(f"{shown} did not answer in full within {timeout_s:g} s") from None
    finally:
        connection.close()


def _chunks(response: http.client.HTTPResponse, own: socket.socket, deadline_s: float) -> Iterator[bytes]:
    size_bytes = 0
    while chunk := response.read1(65536):
        yield chunk
        size_bytes += len(chunk)
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        if size_bytes > MAX_SCRAPE_BYTES:
            raise OSError(f"the answer has more than {MAX_SCRAPE_BYTES} bytes")
        own.settimeout(left_s)


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Readings that could not be had."""

    count: int
    last: str
    """Why, the last time."""


@dataclass(slots=True)
class _Log:
    """What one kind of probe gave of one broker."""

    samples: list[Sample] = field(default_factory=list)
    failures: int = 0
    reason: str = ""

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        if len(self.samples) > MAX_SAMPLES:
            half = MAX_SAMPLES // 2
            self.samples = [*self.samples[:half:2], *self.samples[half:]]


class Watcher(Generic[Key]):
    """Reads probes once a second, each in a thread of its own, from entry to exit.

    Readings are on one grid of instants, whatever one of them takes: a slow one misses instants, and delays nobody
    else's. A probe that fails or hangs is counted and asked again.
    """

    def __init__(self, probes: Callable[[], Mapping[Key, Sequence[Probe]]], *, interval_s: float = INTERVAL_S) -> None:
        """Watch what `probes` gives, by broker; it is asked once an interval, as a broker may have been restarted."""
        self._probes = probes
        self._interval_s = interval_s
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._logs: dict[tuple[Key, str], _Log] = {}
        self._readers: dict[tuple[Key, Probe], _Reader] = {}
        self._origin_s = 0.0
        self._supervisor = threading.Thread(target=self._supervise, name="kafkaperf-watcher", daemon=True)

    def __enter__(self) -> Self:
        self._origin_s = time.monotonic()
        self._supervisor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take a last reading of each probe, and leave those that do not answer to themselves."""
        deadline_s = time.monotonic() + EXIT_TIMEOUT_S
        self._closing.set()
        self._supervisor.join(max(0.0, deadline_s - time.monotonic()))
        with self._lock:
            readers = list(self._readers.values())
        for reader in readers:
            reader.ended.set()
        for reader in readers:
            reader.thread.join(max(0.0, deadline_s - time.monotonic()))

    def samples(self, *, since_ns: int = 0) -> dict[Key, list[Sample]]:
        """What was read from then until now, by broker, in the order of time; each probe gives samples of its own.

        A window needs a reading on either side: ask from two seconds before it, and a second after it.
        """
        with self._lock:
            found: dict[Key, list[Sample]] = {broker: [] for broker, _ in self._logs}
            for (broker, _), log in self._logs.items():
                found[broker] += [sample for sample in log.samples if sample.at_ns >= since_ns]
        return {broker: sorted(found[broker], key=lambda sample: sample.at_ns) for broker in sorted(found, key=str)}

    def failures(self) -> dict[tuple[Key, str], Failures]:
        """Readings that failed, by broker and class of the probe."""
        with self._lock:
            logs = list(self._logs.items())
            return {key: Failures(count=log.failures, last=log.reason) for key, log in logs if log.failures}

    def silent(self) -> list[str]:
        """What gave no reading at all, and why, for people."""
        with self._lock:
            logs = [(broker, kind, log) for (broker, kind), log in self._logs.items() if not log.samples]
            return [
                f"broker {broker} could not be read ({kind}): {log.reason}"
                for broker, kind, log in logs
                if log.failures
            ]

    def _supervise(self) -> None:
        for _ in self._instants(self._closing):
            try:
                wanted = {(broker, probe) for broker, probes in self._probes().items() for probe in probes}
            except (OSError, ClusterError):
                continue  # a cluster that is just changing: what was there goes on
            with self._lock:
                if self._closing.is_set():
                    return  # the question took longer than the exit waits
                for key in self._readers.keys() - wanted:
                    self._readers.pop(key).ended.set()
                for key in wanted - self._readers.keys():
                    self._readers[key] = self._start(*key)

    def _start(self, broker: Key, probe: Probe) -> _Reader:
        log = self._logs.setdefault((broker, type(probe).__name__), _Log())
        ended = threading.Event()
        thread = threading.Thread(
            target=self._read_on, args=(probe, log, ended), name=f"kafkaperf-watcher-{broker}", daemon=True
        )
        thread.start()
        return _Reader(thread, ended)

    def _read_on(self, probe: Probe, log: _Log, ended: threading.Event) -> None:
        for _ in self._instants(ended):
            self._read(probe, log)
        if self._closing.is_set():
            self._read(probe, log)  # so that what happened until now is known

    def _read(self, probe: Probe, log: _Log) -> None:
        before_ns = time.monotonic_ns()
        try:
            figures = probe.read()
        except Exception as error:  # noqa: BLE001 - counted, and told; it must not end the watch of the rest
            with self._lock:
                log.failures += 1
                log.reason = str(error) or type(error).__name__
            return
        after_ns = time.monotonic_ns()
        at_ns = after_ns if isinstance(probe, ContainerProbe) else (before_ns + after_ns) // 2
        if figures:
            with self._lock:
                log.add(Sample(at_ns=at_ns, figures=figures))

    def _instants(self, ended: threading.Event) -> Iterator[None]:
        """Come back at each instant of the grid, the next one being the next that is not over, until the end."""
        while True:
            yield
            past = math.floor((time.monotonic() - self._origin_s) / self._interval_s)
            next_s = self._origin_s + (past + 1) * self._interval_s
            if ended.wait(max(0.0, next_s - time.monotonic())):
                return


@dataclass(frozen=True, slots=True)
class _Reader:
    thread: threading.Thread
    ended: threading.Event

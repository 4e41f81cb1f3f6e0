"""Probes: what is read of brokers while load runs.

Figures go by the names in `brokers.figures.FIGURES`.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import psutil

from pytest_kafkaperf.clusters.scrape import exporter_figures, get_page

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

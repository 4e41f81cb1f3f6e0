"""What can be read of a broker: figures, and samples that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

REQUESTS = ("produce", "fetch")
"""Fetch means that of consumers, not of followers."""
PARTS = ("total", "queue", "local", "remote", "send")
"""Of a request's time: waiting for a handler, the leader's own work, waiting for followers or for data, sending."""

Kind = Literal["counter", "gauge"]

FIGURES: Mapping[str, Kind] = MappingProxyType(
    {
        "cpu_s": "counter",
        "disk_read_bytes": "counter",
        "disk_written_bytes": "counter",
        "network_in_bytes": "counter",
        "network_out_bytes": "counter",
        "isr_shrinks": "counter",
        "request_handler_idle_s": "counter",
        **{
            f"{request}_{part}_{what}": "counter"
            for request in REQUESTS
            for part in PARTS
            for what in ("s", "requests")
        },
        "machine_cpu_s": "counter",
        "session_cpu_s": "counter",
        "machine_cores": "gauge",
        "memory_bytes": "gauge",
        "under_replicated": "gauge",
        "leaders": "gauge",
        "request_handler_pools": "gauge",
    }
)
"""What a sample may hold.

`request_handler_idle_s` is the time that the mean handler had nothing to do; of brokers before 4.3 that are
controllers too it is that of their two pools together, and `request_handler_pools` is 2 (KIP-1207).
`machine_cpu_s` is what all programs of this machine took of its cores, and what its host took of them for others;
`session_cpu_s` is this process's part of it.
`produce_total_s` is the sum of the times of `produce_total_requests` requests, as Kafka counts them: each in whole
milliseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of one broker; it holds some of the figures, others may come in a sample of their own."""

    at_ns: int
    """Monotonic."""
    figures: Mapping[str, float]
    """By the names in `FIGURES`."""

"""Worker allocation: how many producing and consuming worker processes run, on this machine or on a Dask cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.target import HOST, MAX_PORT
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.load.messages import WorkerShare

_MAX_WORKERS = 1000

_DEFAULT_PORT = 8786

_SCHEDULER = re.compile(rf"dask://{HOST}(:(?P<port>\d{{1,5}}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAllocation:
    """Number and location of a scenario's worker processes. There is at most one process per client."""

    producing: int | None = None
    """Number of producing processes; None: one per core or Dask worker."""
    consuming: int | None = None
    """Number of consuming processes; None: one per core or Dask worker."""
    scheduler: str | None = None
    """`HOST:PORT` of a Dask cluster's scheduler; None if the workers run on this machine."""
    insecure: bool = False
    """True if credentials may be sent to Dask workers without TLS."""
    reason: str = ""
    """Explanation of the worker counts, for reports."""

    @property
    def is_open(self) -> bool:
        """True if a probe is allowed to determine the worker counts."""
        return self.producing is None and self.scheduler is None


def parse_workers(text: str) -> WorkerAllocation:
    """Parse the `--kafka-workers` value: a number, or a Dask scheduler's address.

    Raises:
        UsageError: the value is neither.

    """
    word = text.strip()
    if re.fullmatch(r"[0-9]{1,4}", word) and 1 <= int(word) <= _MAX_WORKERS:
        return WorkerAllocation(producing=int(word), consuming=int(word), reason=f"--kafka-workers={word}")
    found = _SCHEDULER.fullmatch(word)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 1 <= port <= MAX_PORT:
        raise UsageError(
            f"--kafka-workers={text}: must be 1 to {_MAX_WORKERS} worker processes of each kind, such as 4, or a Dask "
            "scheduler, dask://HOST[:PORT], such as dask://scheduler:8786 or dask://[::1]:8786"
        )
    return WorkerAllocation(scheduler=f"{found['host']}:{port}", reason=f"--kafka-workers={word}")


WorkerShares = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
"""Each worker's producer indexes and its consumers' groups."""

_ENOUGH_RATIO = 0.5
"""Maximum CPU usage per worker, as a share of a core. In a busier worker, records wait for each other."""


def shares(scenario: Scenario, allocation: WorkerAllocation, places: int) -> WorkerShares:
    """Return the producers and the consumers' groups for each worker.

    Producers and consumers run in different processes, so that reading does not delay sending. If the allocation leaves
    a worker count open, there are at most `places` processes of that kind: one per core or Dask worker.
    """
    groups = [group for group in range(scenario.consumer_groups) for _ in range(scenario.consumers)]
    producing = min(scenario.producers, allocation.producing or places)
    consuming = min(len(groups), allocation.consuming or places)
    sending = [(tuple(range(worker, scenario.producers, producing)), ()) for worker in range(producing)]
    return [*sending, *(((), tuple(groups[worker::consuming])) for worker in range(consuming))]


def undecidable(scenario: Scenario, cores: int) -> str | None:
    """Return the reason why a probe cannot determine the number of workers; None if it can."""
    if min(max(scenario.producers, _live_consumers(scenario)), cores) <= 1:
        return "one worker of each kind serves all clients"
    if scenario.rate is None:
        return "without a rate, one worker per client, up to the number of cores"
    if scenario.topic is not None:
        return "no probe on an existing topic: one worker per client, up to the number of cores"
    return None


def decided(scenario: Scenario, probe: Sequence[WorkerShare], cores: int) -> WorkerAllocation:
    """Use a probe with one worker of each kind to allocate workers that each use at most half a core.

    Only CPU time counts, because splitting a process does not shorten its wait for a core. A backlog is read at full
    speed regardless of the rate, so the number of workers that read it is left open.
    """
    if scenario.rate is None:
        return WorkerAllocation()
    rate = peak_rate(scenario.rate)
    sending = _cores([(share.cpu_s, share.sent) for share in probe if share.producers], rate)
    receiving = _cores(
        [(share.cpu_s, share.received) for share in probe if share.consumers], rate * scenario.consumer_groups
    )
    live = _live_consumers(scenario)
    if sending is None or (live and receiving is None):
        return WorkerAllocation(reason="the probe moved no records: one worker per client, up to the number of cores")
    known = [sending] if receiving is None or not live else [sending, receiving]
    each = "one of each kind would need" if len(known) > 1 else "one would need"
    return WorkerAllocation(
        producing=_needed(sending, scenario.producers, cores),
        consuming=_needed(receiving, live, cores) if live and receiving is not None else None,
        reason=f"{each} {' and '.join(f'{one * 100:.0f}%' for one in known)} of a core",
    )


def describe_workers(allocation: WorkerAllocation, shares_of_round: Sequence[WorkerShare]) -> str:
    """Describe a round's workers and explain their number: `2 producing and 1 consuming worker processes: ...`."""
    counts = [
        (sum(bool(share.producers) for share in shares_of_round), "producing"),
        (sum(bool(share.consumers) for share in shares_of_round), "consuming"),
    ]
    named = [f"{count} {kind}" for count, kind in counts if count]
    many = "process" if sum(count for count, _ in counts) == 1 else "processes"
    hosts = sorted({share.host for share in shares_of_round if share.host is not None})
    where = f" on {', '.join(hosts)}" if hosts else ""
    return f"{' and '.join(named)} worker {many}{where}{f': {allocation.reason}' if allocation.reason else ''}"


def _live_consumers(scenario: Scenario) -> int:
    """Return the number of consumers that read while the producers write."""
    return scenario.consumers * scenario.consumer_groups if scenario.consume == "live" else 0


def _cores(measured: Sequence[tuple[float, int]], rate: float) -> float | None:
    """Return the share of a core that one worker would need at `rate`; None if the probe moved no records."""
    cpu_s, records = sum(cpu_s for cpu_s, _ in measured), sum(count for _, count in measured)
    return cpu_s / records * rate if records else None


def _needed(cores_of_one: float, clients: int, cores: int) -> int:
    return max(1, min(clients, cores, math.ceil(cores_of_one / _ENOUGH_RATIO)))

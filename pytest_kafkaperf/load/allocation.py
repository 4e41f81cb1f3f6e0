"""Who makes the load: how many worker processes of each kind, on this machine or through a Dask cluster."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.target import HOST, MAX_PORT
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.scenario.rate import peak_rate
from pytest_kafkaperf.scenario.scenario import Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.load.messages import WorkerShare

_MAX_WORKERS = 1000

_SCHEME = "dask://"

_DEFAULT_PORT = 8786

_SCHEDULER = re.compile(rf"{HOST}(:(?P<port>\d{{1,5}}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAllocation:
    """How many worker processes a scenario gets, no more of a kind than it has clients, and where they run."""

    producing: int | None = None
    """None: as many as there are cores, or Dask workers."""
    consuming: int | None = None
    """The same."""
    scheduler: str | None = None
    """`HOST:PORT` of the Dask cluster that they run on; None: they run on this machine."""
    reason: str = ""
    """Why so many, for people."""
    is_measured: bool = False
    """Whether a probe has shown how many."""

    @property
    def is_open(self) -> bool:
        """Whether a measurement may say how many are needed."""
        return self.producing is None and self.scheduler is None


def cores() -> int:
    """Those of this machine: for so many workers of a kind there is a place."""
    return os.cpu_count() or 1


def parse_workers(text: str) -> WorkerAllocation:
    """Read the text of `--kafka-workers`: a number, or the scheduler of a Dask cluster.

    Raises:
        UsageError: neither.

    """
    word = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", word):
        if not 1 <= int(word) <= _MAX_WORKERS:
            raise UsageError(f"--kafka-workers={text}: use 1 to {_MAX_WORKERS} worker processes of each kind")
        return WorkerAllocation(producing=int(word), consuming=int(word), reason=f"--kafka-workers={word}")
    if not word.startswith(_SCHEME):
        raise UsageError(
            f"--kafka-workers={text}: valid are a number of worker processes, such as 4, and dask://HOST[:PORT] of a "
            "Dask scheduler, such as dask://scheduler:8786"
        )
    found = _SCHEDULER.fullmatch(word.removeprefix(_SCHEME))
    if found is None:
        raise UsageError(
            f"--kafka-workers={text}: the address of a Dask scheduler is dask://HOST[:PORT], such as "
            "dask://scheduler:8786 or dask://[::1]:8786"
        )
    port = int(found["port"] or _DEFAULT_PORT)
    if not 1 <= port <= MAX_PORT:
        raise UsageError(f"--kafka-workers={text}: port {port} is not one of 1 to {MAX_PORT}")
    return WorkerAllocation(scheduler=f"{found['host']}:{port}", reason=f"--kafka-workers={word}")


WorkerShares = Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
"""For each worker, the indexes of its producers and the groups of its consumers."""

_ENOUGH_RATIO = 0.5
"""Of a core: a worker that is busy for longer makes records wait for each other."""


def shares(scenario: Scenario, allocation: WorkerAllocation, places: int) -> WorkerShares:
    """Which producers each worker runs, and of which groups its consumers are.

    Producers and consumers are in different processes, so that reading does not delay sending; there are no more
    processes of a kind than `places`, cores or Dask workers, unless the allocation says how many.
    """
    groups = [group for group in range(scenario.consumer_groups) for _ in range(scenario.consumers)]
    producing = min(scenario.producers, allocation.producing or places)
    consuming = min(len(groups), allocation.consuming or places)
    sending = [(tuple(range(worker, scenario.producers, producing)), ()) for worker in range(producing)]
    return [*sending, *(((), tuple(groups[worker::consuming])) for worker in range(consuming))]


def undecidable(scenario: Scenario, cores: int) -> str | None:
    """Why no probe is to say how many workers of each kind are needed; None where one is."""
    if min(max(scenario.producers, _live_consumers(scenario)), cores) <= 1:
        return "there is nothing to divide"
    if scenario.rate is None:
        return "without a rate, as many as there are clients and cores"
    if scenario.topic is not None:
        return "on a topic that others use nothing is tried, so as many as there are clients and cores"
    return None


def decided(scenario: Scenario, probe: Sequence[WorkerShare], cores: int) -> WorkerAllocation:
    """So many workers that each is busy half of the time at most, by what one of each kind took in a probe.

    CPU time alone counts: a process that waits for a core gets none sooner by becoming two. A backlog is read as fast
    as it goes, whatever the rate was.
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
        return WorkerAllocation(reason="the trial moved no records, so as many as there are clients and cores")
    known = [one for one in (sending, receiving if live else None) if one is not None]
    each = "one of each kind would need" if len(known) > 1 else "one would need"
    return WorkerAllocation(
        producing=_needed(sending, scenario.producers, cores),
        consuming=_needed(receiving, live, cores) if live and receiving is not None else None,
        reason=f"{each} {' and '.join(f'{one * 100:.0f} %' for one in known)} of a core",
        is_measured=True,
    )


def described(allocation: WorkerAllocation, shares_of_round: Sequence[WorkerShare]) -> str:
    """What worked, and why so many: `2 producing and 1 consuming worker processes: ...`."""
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
    """Those that read at the scenario's rate."""
    return scenario.consumers * scenario.consumer_groups if scenario.consume == "live" else 0


def _cores(measured: Sequence[tuple[float, int]], rate: float) -> float | None:
    """What one worker would need for so many records a second; None where none were moved."""
    cpu_s, records = sum(cpu_s for cpu_s, _ in measured), sum(count for _, count in measured)
    return cpu_s / records * rate if records else None


def _needed(cores_of_one: float, clients: int, cores: int) -> int:
    return max(1, min(clients, cores, math.ceil(cores_of_one / _ENOUGH_RATIO)))

"""How the producers and consumers of a scenario are divided among worker processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.crew import Crew
from pytest_kafkaperf.rate import peak_rate
from pytest_kafkaperf.round import Share

if TYPE_CHECKING:
    from pytest_kafkaperf.scenario import Scenario

_ENOUGH_RATIO = 0.5
"""Of a core: a worker that is busy for longer makes records wait for each other."""


def shares(scenario: Scenario, crew: Crew, places: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Which producers each worker runs, and of which groups its consumers are.

    Producers and consumers are in different processes, so that reading does not delay sending; there are no more
    processes of a kind than `places`, cores or Dask workers, unless the crew says how many.
    """
    groups = [group for group in range(scenario.consumer_groups) for _ in range(scenario.consumers)]
    producing = min(scenario.producers, crew.producing or places)
    consuming = min(len(groups), crew.consuming or places)
    sending = [(tuple(range(worker, scenario.producers, producing)), ()) for worker in range(producing)]
    return sending + [((), tuple(groups[worker::consuming])) for worker in range(consuming)]


def undecidable(scenario: Scenario, cores: int) -> str | None:
    """Why no trial is to say how many workers of each kind are needed; None where one is."""
    if min(max(scenario.producers, _live_consumers(scenario)), cores) <= 1:
        return "there is nothing to divide"
    if scenario.rate is None:
        return "without a rate, as many as there are clients and cores"
    if scenario.topic is not None:
        return "on a topic that others use nothing is tried, so as many as there are clients and cores"
    return None


def decided(scenario: Scenario, trial: Sequence[Share], cores: int) -> Crew:
    """So many workers that each is busy half of the time at most, by what one of each kind took in a trial.

    CPU time alone counts: a process that waits for a core gets none sooner by becoming two. A backlog is read as fast
    as it goes, whatever the rate was.
    """
    if scenario.rate is None:
        return Crew()
    rate = peak_rate(scenario.rate)
    sending = _cores([(share.cpu_s, share.sent) for share in trial if share.producers], rate)
    receiving = _cores(
        [(share.cpu_s, share.received) for share in trial if share.consumers], rate * scenario.consumer_groups
    )
    live = _live_consumers(scenario)
    if sending is None or (live and receiving is None):
        return Crew(reason="the trial moved no records, so as many as there are clients and cores")
    known = [one for one in (sending, receiving if live else None) if one is not None]
    each = "one of each kind would need" if len(known) > 1 else "one would need"
    return Crew(
        producing=_needed(sending, scenario.producers, cores),
        consuming=_needed(receiving, live, cores) if live and receiving is not None else None,
        reason=f"{each} {' and '.join(f'{one * 100:.0f} %' for one in known)} of a core",
        is_measured=True,
    )


def described(crew: Crew, shares_of_round: Sequence[Share]) -> str:
    """What worked, and why so many: `2 producing and 1 consuming worker processes: ...`."""
    counts = [
        (sum(bool(share.producers) for share in shares_of_round), "producing"),
        (sum(bool(share.consumers) for share in shares_of_round), "consuming"),
    ]
    named = [f"{count} {kind}" for count, kind in counts if count]
    many = "process" if sum(count for count, _ in counts) == 1 else "processes"
    hosts = sorted({share.host for share in shares_of_round if share.host is not None})
    where = f" on {', '.join(hosts)}" if hosts else ""
    return f"{' and '.join(named)} worker {many}{where}{f': {crew.reason}' if crew.reason else ''}"


def _live_consumers(scenario: Scenario) -> int:
    """Those that read at the scenario's rate."""
    return scenario.consumers * scenario.consumer_groups if scenario.consume == "live" else 0


def _cores(measured: Sequence[tuple[float, int]], rate: float) -> float | None:
    """What one worker would need for so many records a second; None where none were moved."""
    cpu_s, records = sum(cpu_s for cpu_s, _ in measured), sum(count for _, count in measured)
    return cpu_s / records * rate if records else None


def _needed(cores_of_one: float, clients: int, cores: int) -> int:
    return max(1, min(clients, cores, math.ceil(cores_of_one / _ENOUGH_RATIO)))

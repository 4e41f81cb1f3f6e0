"""Cost of each login: of a new connection, and of records on open connections (`python benchmarks/logins.py`).

Each login has a separate local broker. Connections are opened one after the other on warm brokers. Records are sent in
rounds of a closed loop that alternate between the logins, so that a machine that becomes slower affects all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from pytest_kafkaperf.clusters.admin.connection import Notes, connected
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds import side_rounds
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.cluster import Cluster

LOGINS = (None, "sasl_plain", "sasl_scram", "sasl_oauth", "tls", "sasl_scram+tls", "sasl_oauth+tls")
LOAD: dict[str, Any] = {"record_size": "1 KiB", "partitions": 6, "acks": 1, "duration": "3 s", "warmup": "1 s"}
CONNECTIONS = 200
WARM_UP_CONNECTIONS = 100
TURNS = 5
WARM_UP_TURNS = 2


@dataclass(slots=True)
class Measured:
    """Results of one login."""

    cluster: Cluster
    connection_s: list[float] = field(default_factory=list)
    broker_cpu_s: float = 0.0
    """CPU time of the broker for each connection."""
    throughput: dict[int, float] = field(default_factory=dict)
    """Records/s by turn; without invalid rounds."""


def main() -> int:
    """Measure and print. Return 1 if a round was invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, help="rounds of each login")
    turns = parser.parse_args().turns
    print(f" {os.cpu_count()} cores; on average {os.getloadavg()[0]:.1f} processes ran before this one")
    with contextlib.ExitStack() as stack:
        measured = {
            login: Measured(stack.enter_context(provision(ClusterSpec(security=login), target="local")))
            for login in LOGINS
        }
        with Notes():  # without a warning for each password that is sent in plain text
            for one in measured.values():
                connect(one)
        problems = [send(one, turn) for turn in range(-WARM_UP_TURNS, turns) for one in measured.values()]
    show(measured)
    invalid = [text for text in problems if text]
    if invalid:
        print(f" {len(invalid)} of {len(problems)} rounds were left out, the first one because of: {invalid[0]}")
    return int(bool(invalid))


def connect(one: Measured) -> None:
    """Open connections one after the other."""
    asyncio.run(_connect(one.cluster, WARM_UP_CONNECTIONS))
    broker = psutil.Process(one.cluster.pids[0])
    before = broker.cpu_times()
    one.connection_s = asyncio.run(_connect(one.cluster, CONNECTIONS))
    after = broker.cpu_times()
    one.broker_cpu_s = (after.user + after.system - before.user - before.system) / CONNECTIONS


async def _connect(cluster: Cluster, count: int) -> list[float]:
    found = []
    for _ in range(count):
        began_s = time.perf_counter()
        async with connected(cluster.bootstrap_servers, cluster.access):
            found.append(time.perf_counter() - began_s)
    return found


def send(one: Measured, turn: int) -> str:
    """Measure one round; negative turns warm up the broker. Return the round's first problem, if any."""
    side = side_rounds.SideRounds(Side.of(one.cluster), Scenario.of(LOAD | {"rounds": 1}))
    with side_rounds.running([side], WorkerAllocation()) as workers:
        (result,) = side_rounds.rounds([side], workers, [0])
    if turn < 0:
        return ""
    if result.problems:
        return str(result.problems[0])
    one.throughput[turn] = result.metrics["produce.throughput"]
    return ""


def show(measured: dict[str | None, Measured]) -> None:
    """Print a row for each login; throughput is relative to that without security, in the same turn."""
    plain = measured[None].throughput
    print(f" {'security':16} {'connection, ms':>15} {'p99':>6} {'broker CPU, ms':>15} {'records/s':>11}   of plaintext")
    for login, one in measured.items():
        p99_s = sorted(one.connection_s)[round(0.99 * len(one.connection_s)) - 1]
        ratios = [rate / plain[turn] for turn, rate in one.throughput.items() if turn in plain]
        print(
            f" {login or 'none':16} {statistics.median(one.connection_s) * 1000:15.2f} {p99_s * 1000:6.1f} "
            f"{one.broker_cpu_s * 1000:15.2f} {_steady(one, ratios)}"
        )


def _steady(one: Measured, ratios: list[float]) -> str:
    if not ratios:
        return "no valid round"
    return (
        f"{statistics.median(one.throughput.values()):11,.0f}   "
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    sys.exit(main())

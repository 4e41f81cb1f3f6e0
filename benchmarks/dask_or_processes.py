"""Comparison of load through Dask with load from worker processes: `python benchmarks/dask_or_processes.py`.

The same scenario runs on one local broker, in pairs of rounds: once with worker processes, once through a Dask cluster
on loopback. The order changes from pair to pair. Everything is on one machine with one clock, so the difference is the
work of Dask: its scheduler, its workers, and the shared counters that they synchronize.

A ratio is Dask divided by processes: the geometric mean of the pairs, with its interval at 95%. If 1 lies in it, no
difference was found.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import os
import statistics
import sys
from typing import TYPE_CHECKING, Any

from distributed import LocalCluster

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_kafkaperf.runner.rounds.round import Round

PAIRS = 10
DASK_WORKERS = 3
SCENARIOS: dict[str, dict[str, Any]] = {
    "paced": {"rate": 5000, "record_size": "1 KiB"},
    "closed loop": {"record_size": "1 KiB"},
}
LOAD: dict[str, Any] = {"producers": 2, "consumers": 1, "duration": "5 s", "warmup": "2 s", "rounds": 1}
WARM_UP: dict[str, Any] = {"producers": 2, "consumers": 1, "duration": "3 s", "warmup": 0, "rounds": 1}
SHOWN = (
    "produce.throughput",
    "produce.latency.p50",
    "produce.latency.p99",
    "e2e.latency.p50",
    "e2e.latency.p99",
    "client.cpu_per_record",
)
SCALE = {"throughput": 1.0, "p50": 1000.0, "p99": 1000.0, "cpu": 1.0}
"""Factors from base units to printed units: records/s, ms, s a million records."""


def main() -> int:
    """Measure and print. Return 1 if no pair was valid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of rounds of each scenario (default: {PAIRS})")
    pairs = parser.parse_args().pairs
    print(f" {os.cpu_count()} cores; on average {os.getloadavg()[0]:.1f} processes ran before this one")
    missed = 0
    with provision(ClusterSpec(), target="local") as cluster, dask() as allocation:
        for _ in range(2):
            run_round(SideRounds(Side.of(cluster), Scenario.of(WARM_UP)), WorkerAllocation())
        for name, fields in SCENARIOS.items():
            print(f"\n {name}: {fields}; throughput in records/s, latencies in ms, CPU in s a million records")
            missed += show(cluster, allocation, Scenario.of({**LOAD, **fields}), pairs)
    print(f"\n on average {os.getloadavg()[0]:.1f} processes ran in the last minute")
    return int(missed > 0)


@contextlib.contextmanager
def dask() -> Iterator[WorkerAllocation]:
    """Start a Dask cluster of processes on loopback."""
    with LocalCluster(
        n_workers=DASK_WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,  # workers complain when they are stopped
    ) as cluster:
        yield WorkerAllocation(scheduler=cluster.scheduler_address.removeprefix("tcp://"))


def show(cluster: Cluster, allocation: WorkerAllocation, scenario: Scenario, pairs: int) -> bool:
    """Print the results of each pair, and the ratios of all. Return True if none was valid."""
    print(f" {'pair':>5} {'by':9} {'load':>5}" + "".join(f" {name:>20}" for name in SHOWN))
    measured = []
    for pair in range(pairs):
        sides = {}
        for by in ("processes", "dask") if pair % 2 == 0 else ("dask", "processes"):
            sides[by] = one_round(
                cluster, WorkerAllocation() if by == "processes" else allocation, scenario, f"{pair + 1:5} {by:9}"
            )
        if all(sides.values()):
            measured.append((sides["dask"], sides["processes"]))
    print(f" mean ratio of {len(measured)} pairs, dask by processes:")
    for name in SHOWN if measured else ():
        print(f" {name:>20} {ratio(measured, name)}")
    return not measured


def one_round(cluster: Cluster, allocation: WorkerAllocation, scenario: Scenario, name: str) -> Mapping[str, float]:
    """Run one round and print it; return no results for an invalid one."""
    only = run_round(SideRounds(Side.of(cluster), scenario), allocation)
    values = "".join(f" {only.metrics[each] * scale(each):20,.2f}" for each in SHOWN if each in only.metrics)
    print(f" {name} {os.getloadavg()[0]:5.1f}{values}{''.join(f' {text}' for text in only.problems)}", flush=True)
    return {} if only.problems else only.metrics


def run_round(side: Side, allocation: WorkerAllocation) -> Round:
    """Measure one round, with workers of its own."""
    with running([side], allocation) as workers:
        return side.measure(workers)


def ratio(measured: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], name: str) -> str:
    """Format a ratio with its interval, by Student's distribution of the logarithms."""
    shifts = [math.log(dask[name] / processes[name]) for dask, processes in measured]
    mean = statistics.fmean(shifts)
    if len(shifts) == 1:
        return f"{math.exp(mean):.3f}"
    half = student_quantile(0.025, len(shifts) - 1) * statistics.stdev(shifts) / math.sqrt(len(shifts))
    return f"{math.exp(mean):.3f} ({math.exp(mean - half):.3f} to {math.exp(mean + half):.3f})"


def scale(name: str) -> float:
    """Convert from the base unit."""
    return SCALE[name.rpartition(".")[2]]


if __name__ == "__main__":
    sys.exit(main())

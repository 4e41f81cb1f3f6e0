"""Whether load through Dask gives the figures of worker processes: `python benchmarks/dask_or_processes.py`.

The same scenario on one local broker, in pairs of rounds: once with processes of this one, once through a Dask cluster
on loopback. Which comes first changes from pair to pair. All is on one machine, so that clocks are one and the
difference is what Dask does meanwhile: its scheduler, its workers, and the shared counters that they keep in step.

A ratio is Dask by processes, with the distribution-free interval of the pairs' ratios at 95 % or the nearest
attainable: where 1 lies in it, no difference was found.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import os
import sys
from typing import TYPE_CHECKING, Any

from distributed import LocalCluster

from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds import run_scenario
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.verdict.rank_tests import pairs_interval, pseudomedian

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PAIRS = 10
DASK_WORKERS = 3
SCENARIOS: dict[str, dict[str, Any]] = {
    "paced": {"rate": 5000, "record_size": "1 KiB"},
    "closed loop": {"record_size": "1 KiB"},
}
LOAD: dict[str, Any] = {"producers": 2, "consumers": 1, "duration": 5, "warmup": 2, "rounds": 1}
PREHEAT: dict[str, Any] = {"producers": 2, "consumers": 1, "duration": 3, "warmup": 0, "rounds": 1}
FIGURES = (
    "produce.throughput",
    "produce.latency.p50",
    "produce.latency.p99",
    "e2e.latency.p50",
    "e2e.latency.p99",
    "client.cpu",
)
SCALE = {"throughput": 1.0, "p50": 1000.0, "p99": 1000.0, "cpu": 1.0}
"""From base units to those that are printed: records/s, ms, s a million records."""


def main() -> int:
    """Measure and print; 1 where no pair was valid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"of rounds, of each scenario (default: {PAIRS})")
    pairs = parser.parse_args().pairs
    print(f" {os.cpu_count()} cores; on average {os.getloadavg()[0]:.1f} processes ran before this one")
    missed = 0
    with provision(ClusterSpec(), target="local") as cluster, dask() as allocation:
        for _ in range(2):
            run_scenario(Scenario.of(PREHEAT), cluster)
        for name, fields in SCENARIOS.items():
            print(f"\n {name}: {fields}; throughput in records/s, latencies in ms, CPU in s a million records")
            missed += show(cluster, allocation, Scenario.of({**LOAD, **fields}), pairs)
    print(f"\n on average {os.getloadavg()[0]:.1f} processes ran in the last minute")
    return int(missed > 0)


@contextlib.contextmanager
def dask() -> Iterator[WorkerAllocation]:
    """A Dask cluster of processes on loopback."""
    with LocalCluster(
        n_workers=DASK_WORKERS,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,  # workers complain when they are stopped
    ) as cluster:
        yield WorkerAllocation(scheduler=cluster.scheduler_address.removeprefix("tcp://"))


def show(cluster: Cluster, allocation: WorkerAllocation, scenario: Scenario, pairs: int) -> bool:
    """Print the figures of each pair, and the ratios of all; whether none was valid."""
    print(f" {'pair':>5} {'by':9} {'load':>5}" + "".join(f" {figure:>20}" for figure in FIGURES))
    measured = []
    for pair in range(pairs):
        sides = {}
        for by in ("processes", "dask") if pair % 2 == 0 else ("dask", "processes"):
            sides[by] = one_round(
                cluster, WorkerAllocation() if by == "processes" else allocation, scenario, f"{pair + 1:5} {by:9}"
            )
        if all(sides.values()):
            measured.append((sides["dask"], sides["processes"]))
    print(f" median ratio of {len(measured)} pairs, dask by processes:")
    for figure in FIGURES if measured else ():
        print(f" {figure:>20} {ratio(measured, figure)}")
    return not measured


def one_round(cluster: Cluster, allocation: WorkerAllocation, scenario: Scenario, name: str) -> Mapping[str, float]:
    """Run one and print it; nothing of one that does not count."""
    (only,) = run_scenario(scenario, cluster, allocation=allocation)
    values = "".join(f" {only.metrics[figure] * scale(figure):20,.2f}" for figure in FIGURES if figure in only.metrics)
    print(f" {name} {os.getloadavg()[0]:5.1f}{values}{''.join(f' {text}' for text in only.problems)}", flush=True)
    return {} if only.problems else only.metrics


def ratio(measured: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], figure: str) -> str:
    """With its interval."""
    shifts = [math.log(dask[figure] / processes[figure]) for dask, processes in measured]
    interval = pairs_interval(shifts)
    between = "" if interval is None else f" ({math.exp(interval[0]):.3f} to {math.exp(interval[1]):.3f})"
    return f"{math.exp(pseudomedian(shifts)):.3f}{between}"


def scale(figure: str) -> float:
    """From the base unit."""
    return SCALE[figure.rpartition(".")[2]]


if __name__ == "__main__":
    sys.exit(main())

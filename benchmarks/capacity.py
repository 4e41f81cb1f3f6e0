"""Accuracy of the capacity search: `python benchmarks/capacity.py`.

- `quota`: a client quota sets the capacity. Each search should be within 5% of it.
- `broker`: no quota. The coefficient of variation shows how much searches on one broker differ.

The searches are independent: none begins at the result of another.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from tests.support.quotas import quota

_QUOTA_BYTES = 30_000_000
_RECORD_BYTES = 1024
_LIMITS = ("produce.latency.p99 <= 50 ms", "errors == 0")
_TARGET = 0.05


def main() -> None:
    """Search, and print each result and a summary."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kinds", nargs="*", default=["quota", "broker"], help="quota, broker; default: both")
    options.add_argument("--runs", type=int, default=10)
    options.add_argument("--hold", default="3 s", help="time for which each rate is held (default: 3 s)")
    given = options.parse_args()
    scenario = Scenario(record_size=_RECORD_BYTES, acks=1, duration=given.hold, warmup="2 s", rounds=1)
    for kind in given.kinds:
        with provision(ClusterSpec(), target="local") as cluster:
            _round(SideRounds(Side.of(cluster), scenario.model_copy(update={"duration": 10.0})))  # a cold JVM is slow
            limit = quota(cluster, producer_byte_rate=_QUOTA_BYTES) if kind == "quota" else contextlib.nullcontext()
            with limit:
                found = [_search(scenario, cluster, kind, number) for number in range(1, given.runs + 1)]
        _print(kind, [one for one in found if one is not None])


def _search(scenario: Scenario, cluster: Cluster, kind: str, number: int) -> float | None:
    plan = SearchPlan(limits=tuple(map(parse_threshold, _LIMITS)), low=5_000.0, high=2_000_000.0)
    began_s = time.monotonic()
    one = _round(SideRounds(Side.of(cluster), scenario, plan=plan))
    took_s = time.monotonic() - began_s
    print(f"{kind} {number}: {_described(one)}, {len(one.steps)} steps, {took_s:.0f} s", flush=True)
    return one.metrics.get("capacity")


def _round(side: Side) -> Round:
    with running([side], WorkerAllocation()) as workers:
        return side.measure(workers)


def _described(one: Round) -> str:
    if "capacity" not in one.metrics:
        return "; ".join(map(str, one.problems))
    bound = "at least " if one.at_least else ""
    return f"{bound}{one.metrics['capacity']:.0f} records/s, p99 {one.metrics['produce.latency.p99'] * 1e3:.1f} ms"


def _print(kind: str, found: list[float]) -> None:
    if len(found) < 2:  # noqa: PLR2004 - one value has no deviation
        return
    spread = statistics.stdev(found) / statistics.mean(found)
    print(f"{kind}: median {statistics.median(found):.0f} records/s, coefficient of variation {spread:.1%}")
    if kind == "quota":
        ratios = [one * _RECORD_BYTES / _QUOTA_BYTES for one in found]
        within = sum(abs(ratio - 1) <= _TARGET for ratio in ratios)
        print(f"of {_QUOTA_BYTES / 1e6:g} MB/s, in bytes of values: {min(ratios):.3f} to {max(ratios):.3f}")
        print(f"within {_TARGET:.0%}: {within} of {len(ratios)}")


if __name__ == "__main__":
    main()

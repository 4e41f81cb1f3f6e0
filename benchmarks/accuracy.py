"""Accuracy of latency: a known delay on the network must show in the results (`python benchmarks/accuracy.py`).

A proxy between one local broker and the load delays everything that clients send by exactly d
(`tests/support/proxy.py`, in a separate process). The measured p50 must rise by d, at 10%, 50% and 80% of the
highest rate that a closed loop reaches at the same d. The result is the median of pairs of rounds without and with the
delay, in alternation. Then the proxy stops all requests for half a second: the number of records that take longer than
x must equal the number of records that were due more than x before the end of the stall.

The delays are measured with one partition, 16 KiB batches and a linger that is longer than the longest round trip, the
same in all runs. A client has few requests in flight (five, as Kafka's own producer), so records that come faster than
answers also wait for these. That wait is latency of the cluster and is measured, but it grows with d and is not d. With
such a linger a batch waits for its linger only, which takes as long without a delay as with one.

With `--generated`, blocks of plain records and of records from a payload function alternate. The load and the machine
are the same for both, so the rise must also be the same.

The stall is measured without linger, because a batch that lingers when the stall begins would be part of it, although
it was due before. It is measured at a low rate, because the last records of a stall must wait until the first are sent.
"""

from __future__ import annotations

import argparse
import bisect
import os
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import scipy.stats

from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.recorder import Histogram, merged
from pytest_kafkaperf.runner.rounds import side_rounds
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.scenarios.scenario import Scenario

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.generated import noted_order
from tests.support.proxy import ProxiedBroker, proxied_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kafkaperf.clusters.cluster import Cluster
    from pytest_kafkaperf.load.controller import Progress
    from pytest_kafkaperf.runner.rounds.observations import Observations
    from pytest_kafkaperf.runner.rounds.round import Round

DELAYS_S = (0.005, 0.02)
FRACTIONS = (0.1, 0.5, 0.8)
PAIRS = 5
BLOCK = 2
"""Number of pairs of rounds before the kind of records changes."""
TOLERATED_S = 0.0003

LOAD: dict[str, Any] = {"partitions": 1, "acks": 1, "batch_size": "16 KiB", "duration": "2 s", "warmup": "1 s"}
LINGER_S = 0.03

STALL_RATE = 1000
STALL_S = 0.5
STALL_AFTER_S = 0.5
STALLS = 5
LIMITS_S = (0.05, 0.1)
TOLERATED_RATIO = 0.02


def main() -> int:
    """Measure and print. Return 1 if a result is outside its tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs", type=int, default=PAIRS, help="pairs of rounds without and with each delay, at each rate"
    )
    parser.add_argument(
        "--generated", action="store_true", help="compare records from a payload function with plain ones"
    )
    given = parser.parse_args()
    show, missed = show_rise, 0
    if given.generated:
        LOAD["payload"] = noted_order
        show = show_both_rises
    print(f" {os.cpu_count()} cores; on average {os.getloadavg()[0]:.1f} processes ran before this one")
    with proxied_broker() as broker:
        highest_rate(broker, 0)  # warms up the broker
        print("    d        rate                  p50 at 0    p50 at d    p50 rises by d and", end=" ")
        print("generated - plain (95%)" if given.generated else "(lowest to highest)")
        for delay_s in DELAYS_S:
            highest = highest_rate(broker, delay_s)
            for fraction in FRACTIONS:
                name = f"{delay_s * 1000:2.0f} ms {highest * fraction:10,.0f}/s, {fraction:3.0%} of max"
                missed += show(name, broker, delay_s, highest * fraction, given.pairs)
        print(f"\n stall of {STALL_S * 1000:.0f} ms at {STALL_RATE:,} records/s, {STALLS} times: records above x")
        missed += show_stalls(broker)
    return int(missed > 0)


def highest_rate(broker: ProxiedBroker, delay_s: float) -> float:
    """Return the records/s that a closed loop reaches through the proxy: the median of some rounds."""
    broker.proxy.delay(delay_s)
    measured = run_scenario(Scenario.of(LOAD | {"rounds": 3}), broker.proxied)
    return statistics.median(one.metrics["produce.throughput"] for one in measured)


def show_rise(name: str, broker: ProxiedBroker, delay_s: float, rate: float, pairs: int) -> bool:
    """Print the rise of p50 with the delay. Return True if it is outside the tolerance."""
    valid = pairs_of_p50(name, broker, LOAD | {"rate": rate}, delay_s, pairs)
    if not valid:
        return True
    excess_ms = excesses_ms(valid, delay_s)
    missed = is_missed(statistics.median(excess_ms))
    range_ms = f"({min(excess_ms):+.3f} to {max(excess_ms):+.3f})"
    print(f" {row(name, valid, delay_s)} {range_ms} {'NO' if missed else 'ok'}", flush=True)
    return missed


def show_both_rises(name: str, broker: ProxiedBroker, delay_s: float, rate: float, pairs: int) -> bool:
    """Print the rise with plain and with generated records. Return True if they differ by more than is tolerated."""
    plain: list[tuple[float, float]] = []
    generated: list[tuple[float, float]] = []
    load = LOAD | {"rate": rate}
    for _ in range(max(1, pairs // BLOCK)):
        plain += pairs_of_p50(name, broker, {**load, "payload": "random"}, delay_s, BLOCK)
        generated += pairs_of_p50(name, broker, load, delay_s, BLOCK)
    if not plain or not generated:
        return True
    both_ms = excesses_ms(generated, delay_s), excesses_ms(plain, delay_s)
    difference_ms = difference_of_medians(*both_ms)
    low_ms, high_ms = scipy.stats.bootstrap(both_ms, difference_of_medians, method="percentile").confidence_interval
    missed = is_missed(difference_ms)
    print(f" {row(name, plain, delay_s)} {len(plain)} plain")
    print(
        f" {row(' ' * len(name), generated, delay_s)} {len(generated)} generated, {difference_ms:+.3f} ms "
        f"({low_ms:+.3f} to {high_ms:+.3f}) {'NO' if missed else 'ok'}",
        flush=True,
    )
    return missed


def pairs_of_p50(
    name: str, broker: ProxiedBroker, load: dict[str, Any], delay_s: float, pairs: int
) -> list[tuple[float, float]]:
    """Return the p50 (ms) without and with the delay, of each pair of valid rounds; print why others are left out."""
    order = [0.0, delay_s] * pairs

    def set_delay(number: int, progress: Progress) -> None:
        if progress.phase == "connecting":
            broker.proxy.delay(order[number - 1])

    scenario = Scenario.of(load | {"linger": f"{LINGER_S} s", "rounds": len(order)})
    measured = run_scenario(scenario, broker.proxied, on_progress=set_delay)
    if left_out := _left_out(measured):
        print(f" {name}:{left_out}", flush=True)
    pairs_of_rounds = zip(measured[::2], measured[1::2], strict=True)
    return [(_p50_ms(sooner), _p50_ms(later)) for sooner, later in pairs_of_rounds if not _invalid(sooner, later)]


def difference_of_medians(left: npt.ArrayLike, right: npt.ArrayLike, axis: int = -1) -> Any:
    """Return by how much the medians of `left` along an axis exceed those of `right`."""
    return np.median(left, axis=axis) - np.median(right, axis=axis)


def is_missed(difference_ms: float) -> bool:
    """Return True if a difference in latency is outside the tolerance."""
    return abs(difference_ms) > TOLERATED_S * 1000


def excesses_ms(pairs: Sequence[tuple[float, float]], delay_s: float) -> list[float]:
    """Return by how much more than the delay p50 rises in each pair."""
    return [with_ms - without_ms - delay_s * 1000 for without_ms, with_ms in pairs]


def row(name: str, pairs: Sequence[tuple[float, float]], delay_s: float) -> str:
    """Return the medians of the pairs as part of a row of the table."""
    without_ms, with_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    return f"{name} {without_ms:8.2f} ms {with_ms:8.2f} ms {statistics.median(excesses_ms(pairs, delay_s)):+8.3f} ms"


def show_stalls(broker: ProxiedBroker) -> int:
    """Print how many records took longer than x, and return the number of x for which that is wrong."""
    broker.proxy.delay(0)
    folded: list[Observations] = []
    stalled: set[int] = set()

    def keep(seen: Observations, scenario: Scenario) -> Round:
        folded.append(seen)
        return fold(seen, scenario)

    def stall(number: int, progress: Progress) -> None:
        if progress.phase == "measuring" and progress.elapsed_s > STALL_AFTER_S and number not in stalled:
            stalled.add(number)
            broker.proxy.stall(STALL_S)

    scenario = Scenario.of(LOAD | {"rate": STALL_RATE, "linger": 0, "rounds": STALLS})
    with mock.patch.object(side_rounds, "fold", keep):  # the histogram is not in the report of a round
        measured = run_scenario(scenario, broker.proxied, on_progress=stall)
    valid = [_latency(seen) for seen, one in zip(folded, measured, strict=True) if not one.problems]
    if not valid:
        print(f" no valid round{_left_out(measured)}", flush=True)
        return 1
    missed = 0
    for limit_s in LIMITS_S:
        expected = STALL_RATE * (STALL_S - limit_s)
        counts = [_above(latency, limit_s) for latency in valid]
        change = statistics.median(counts) / expected - 1
        missed += abs(change) > TOLERATED_RATIO
        print(
            f" x = {limit_s * 1000:3.0f} ms: {expected:,.0f} were due, {statistics.median(counts):,.0f} found "
            f"({min(counts):,} to {max(counts):,}), {change:+.1%} {'NO' if abs(change) > TOLERATED_RATIO else 'ok'}"
            f"{_left_out(measured)}",
            flush=True,
        )
    return missed


def run_scenario(
    scenario: Scenario, cluster: Cluster, on_progress: Callable[[int, Progress], None] = lambda *_: None
) -> list[Round]:
    """Run all rounds of a scenario with the same workers."""
    side = side_rounds.SideRounds(
        Side.of(cluster), scenario, on_progress=lambda _, number, progress: on_progress(number, progress)
    )
    with side_rounds.running([side], WorkerAllocation()) as workers:
        return list(side_rounds.rounds([side], workers, [0] * scenario.rounds))


def _p50_ms(one: Round) -> float:
    return one.metrics["produce.latency.p50"] * 1000


def _invalid(*rounds: Round) -> bool:
    return any(one.problems for one in rounds)


def _latency(seen: Observations) -> Histogram:
    return merged([part.latency for part in seen.load.produced])


def _above(latency: Histogram, limit_s: float) -> int:
    """Return how many values are larger, by the histogram's own quantiles."""
    ranks = range(1, latency.total + 1)
    return latency.total - bisect.bisect_right(
        ranks, limit_s, key=lambda rank: latency.quantile_s(rank / latency.total)
    )


def _left_out(rounds: Sequence[Round]) -> str:
    """Return why rounds do not count: the engine itself marked them invalid."""
    problems = [problem for one in rounds for problem in one.problems]
    return f"\n    left out for {len(problems)} of {len(rounds)} rounds: {problems[0]}" if problems else ""


if __name__ == "__main__":
    sys.exit(main())

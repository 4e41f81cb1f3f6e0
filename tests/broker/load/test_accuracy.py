"""Latency is what the way to the broker takes: known delays and a known stall are found again in the results."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

import pytest

from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.load.recorder import Histogram, merged
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.proxy import ProxiedBroker
from tests.support.rounds import Load, Once, run_scenario

DELAYS_S = (0.0, 0.02)
TURNS = 3
TOLERANCE_S = 0.005
"""For a machine that has other work; `benchmarks/accuracy.py` looks closer."""
STALL_S = 0.5
STALL_RATE = 400
STALLS = 3
STALL_TOLERANCE_S = 0.05
"""Beyond what records take without a stall: all that were due in it are sent at once when it is over."""
pytestmark = pytest.mark.speed


@pytest.mark.parametrize(
    ("load_fields", "family"),
    [
        # Four connections, and 50 ms between the records of each: no record waits for an answer to one before it.
        ({"rate": 80, "producers": 4, "partitions": 4}, "produce.latency"),
        # One record in 50 ms: the consumer has long asked for the next one when it comes, so the delay of its request
        # is not seen. (Closer records would wait for that request, by half of the delay on average.)
        ({"rate": 20, "partitions": 1, "consumers": 1}, "e2e.latency"),
    ],
)
def test_a_delay_on_the_way_to_the_broker_is_found_in_the_median(
    behind: ProxiedBroker, load_fields: dict[str, Any], family: str
) -> None:
    """Neither hidden nor counted twice. A busy machine only adds to latency, so the best of a few turns count."""
    order = list(itertools.chain.from_iterable(itertools.repeat(DELAYS_S, TURNS)))

    def set_delay(number: int, progress: Progress) -> None:
        if progress.phase == "connecting":
            behind.proxy.delay(order[number - 1])

    fields = {"linger": 0, "duration": "1 s", "warmup": "300 ms", "rounds": len(order)} | load_fields
    rounds = run_scenario(Scenario.of(fields), behind.proxied, on_progress=set_delay)
    medians_s = [one.metrics[f"{family}.p50"] for one in rounds]
    best_s = [min(medians_s[at :: len(DELAYS_S)]) for at in range(len(DELAYS_S))]
    assert [one_s - best_s[0] for one_s in best_s] == pytest.approx(DELAYS_S, abs=TOLERANCE_S), medians_s


def test_a_stall_is_found_in_as_many_records_as_were_due_in_it(behind: ProxiedBroker, load: Load) -> None:
    """A record due t before the end of the stall takes t: none is omitted, and no others are held up for long.

    A busy machine only adds to latency, so the first stall that is found as it was is enough.
    """
    behind.proxy.delay(0)
    fields: dict[str, Any] = {"rate": STALL_RATE, "duration": "2 s", "linger": 0, "consumers": 1}
    calm = load(behind.proxied, **fields)
    tolerance_s = STALL_TOLERANCE_S + max(calm.metrics["produce.latency.max"], calm.metrics["e2e.latency.max"])
    begun_ns: list[int] = []
    beyond_s: list[float] = []
    for _ in range(STALLS):
        stall = Once(lambda: begun_ns.append(behind.proxy.stall(STALL_S)))
        ran = load(behind.proxied, **fields, on_progress=stall)

        assert ran.faults == []
        latencies = [merged([part.latency for part in parts]) for parts in (ran.produced, ran.consumed)]
        assert [latency.total for latency in latencies] == [2 * STALL_RATE] * 2
        assert min(min(seen_s(latency)) for latency in latencies) > STALL_S - 0.005
        beyond_s.append(max(max(seen_s(latency)) for latency in latencies) - STALL_S)
        if beyond_s[-1] < tolerance_s:
            break
    assert len(begun_ns) == len(beyond_s)
    assert min(beyond_s) < tolerance_s


def seen_s(latency: Histogram) -> list[float]:
    """How long the stall was, by the number of records that took longer than this and that."""
    return [limit_s + above(latency, limit_s) / STALL_RATE for limit_s in (0.1, 0.2, 0.3)]


def above(latency: Histogram, limit_s: float) -> int:
    """How many values are larger, by the histogram's own quantiles."""
    ranks = range(1, latency.total + 1)
    return latency.total - bisect.bisect_right(
        ranks, limit_s, key=lambda rank: latency.quantile_s(rank / latency.total)
    )

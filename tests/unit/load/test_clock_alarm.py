"""The alarm: never early, and close to its time."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
import uvloop

from pytest_kafkaperf.load.clock import Timer, make_alarm, now_ns, set_clock
from tests.support.patience import PATIENCE_S

MILLISECOND_NS = 1_000_000
DELAYS_NS = [200_000 * (k % 10) for k in range(100)]


async def _lateness_ns(timer: Timer, delays_ns: list[int]) -> list[int]:
    lateness = []
    with timer:
        async with asyncio.timeout(PATIENCE_S):
            for delay_ns in delays_ns:
                deadline_ns = now_ns() + delay_ns
                await timer.until(deadline_ns)
                lateness.append(now_ns() - deadline_ns)
    return lateness


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("make", [make_alarm, Timer], ids=["platform", "loop"])
def test_an_alarm_is_never_early(make: type[Timer], loop_factory: type) -> None:
    """An early batch would have a negative latency."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert min(runner.run(_lateness_ns(make(), DELAYS_NS))) >= 0


@pytest.mark.speed
@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("make", [make_alarm, Timer], ids=["platform", "loop"])
def test_an_alarm_is_mostly_close(make: type[Timer], loop_factory: type) -> None:
    """A late batch would have a latency that is not Kafka's."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        lateness_ns = runner.run(_lateness_ns(make(), DELAYS_NS))
    assert statistics.median(lateness_ns) < 10 * MILLISECOND_NS


def test_an_alarm_of_the_past_does_not_wait() -> None:
    """A producer that is behind catches up at full speed."""

    async def past() -> None:
        with make_alarm() as timer:
            async with asyncio.timeout(PATIENCE_S):
                for deadline_ns in (0, 1, now_ns() - 1):
                    await timer.until(deadline_ns)

    asyncio.run(past())


def test_a_cancelled_alarm_does_not_ring_the_next_one() -> None:
    """The descriptor is one; an old expiry must not end a new wait early."""

    async def twice() -> int:
        with make_alarm() as timer:
            waiting = asyncio.ensure_future(timer.until(now_ns() + 5 * MILLISECOND_NS))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            time.sleep(0.01)  # noqa: ASYNC251 - the loop must not see the expiry before the next wait
            deadline_ns = now_ns() + 50 * MILLISECOND_NS
            await timer.until(deadline_ns)
            return now_ns() - deadline_ns

    assert asyncio.run(twice()) >= 0


@pytest.mark.parametrize("make", [make_alarm, Timer], ids=["platform", "loop"])
@pytest.mark.parametrize("offset_ns", [10**15, -(10**9), -(10**15)])
def test_an_alarm_rings_by_the_clock_of_the_round(make: type[Timer], offset_ns: int) -> None:
    """On another machine that is not the machine's own: it may be days ahead, or before its boot."""
    set_clock(offset_ns=offset_ns, uncertainty_ns=0)
    try:
        began_ns = time.monotonic_ns()
        (lateness_ns,) = asyncio.run(_lateness_ns(make(), [20 * MILLISECOND_NS]))
        took_ns = time.monotonic_ns() - began_ns
    finally:
        set_clock(offset_ns=0, uncertainty_ns=0)

    assert lateness_ns >= 0
    assert took_ns >= 20 * MILLISECOND_NS

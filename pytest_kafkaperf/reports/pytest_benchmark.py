"""Perf tests in pytest-benchmark's table and files, for the tools that read these.

Rounds are told to it after they were measured, by its public interface: a clock that it takes for its timer goes on by
the seconds that one record took. So its OPS are records a second, and its minimum, median and deviation those of the
rounds. It never times any load itself.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pytest

    from pytest_kafkaperf.runner.result import Result


class Fixture(Protocol):
    """What is used of pytest-benchmark's `benchmark`."""

    extra_info: dict[str, Any]

    def pedantic(self, target: Callable[[], object], *, rounds: int) -> object:
        """Time some rounds of one call each."""


def is_disabled(config: pytest.Config) -> bool:
    """Whether a user asked for no benchmarks.

    `Fixture.disabled` is more: with an option of pytest-xdist pytest-benchmark turns itself off, and a suite that only
    says how tests are distributed, and runs them one by one, would gate nothing.
    """
    return bool(config.getoption("benchmark_disable")) and not config.getoption("benchmark_enable")


class LoadClock:
    """A timer that stands still but for `advance`."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.__name__ = "records"

    def __call__(self) -> float:
        """Seconds since it was made."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let it go on."""
        self._now_s += seconds


def tell(result: Result, benchmark: Fixture, clock: LoadClock) -> None:
    """Let the benchmark have the rounds of a result, whose timer the clock is.

    One that cannot be trusted, or has no throughput, is told as an error: it stands in no table.
    """
    rates = result.values().get("produce.throughput") or result.values().get("consume.throughput") or []
    seconds = [1 / rate for rate in rates if rate > 0]
    benchmark.extra_info.update(_extra_info(result))
    if result.problems or not seconds:
        with contextlib.suppress(_NothingMeasuredError):
            benchmark.pedantic(_fail, rounds=1)
        return
    following = itertools.cycle(seconds)  # with its profiler it calls once more
    benchmark.pedantic(lambda: clock.advance(next(following)), rounds=len(seconds))


def _extra_info(result: Result) -> dict[str, Any]:
    return {
        "verdict": str(result.verdict),
        **result.metrics,
        "checks": [
            {"expression": check.expression, "outcome": str(check.outcome), "reason": check.reason}
            for check in result.checks
        ],
    }


class _NothingMeasuredError(Exception):
    """Says so to pytest-benchmark, and to nobody else."""


def _fail() -> None:
    raise _NothingMeasuredError

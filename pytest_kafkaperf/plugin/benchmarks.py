"""Adds perf tests to pytest-benchmark's files, for tools that read them, and to its table if an option requests it.

The plugin first measures the rounds and then passes them to pytest-benchmark through its public interface.
pytest-benchmark's timer is a `LoadClock`, which the plugin advances by the seconds per record. As a result, OPS are
records per second, and the minimum, median and deviation describe the rounds. pytest-benchmark never times any load
itself.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pytest

    from pytest_kafkaperf.runner.result import Result


_TABLE_OPTIONS = frozenset(
    f"--benchmark-{name}"
    for name in ("columns", "sort", "group-by", "name", "time-unit", "histogram", "compare", "compare-fail")
)
"""pytest-benchmark options that request its table. `compare-fail` takes effect only if there is a table."""

Groups = Iterable[tuple[str | None, list[dict[str, Any]]]]
"""The rows of pytest-benchmark's table, by group."""


class Fixture(Protocol):
    """The part of pytest-benchmark's `benchmark` fixture that the plugin uses."""

    extra_info: dict[str, Any]

    def pedantic(self, target: Callable[[], object], *, rounds: int) -> object:
        """Time a number of rounds of one call each."""


def is_disabled(config: pytest.Config) -> bool:
    """Return True if the user disabled benchmarks.

    `Fixture.disabled` would be wrong here: pytest-benchmark also disables itself if any pytest-xdist option is given.
    Perf tests would then check nothing, even if they run one after another.
    """
    disabled = config.getoption("benchmark_disable", default=False)  # without pytest-benchmark, there is no such option
    return bool(disabled) and not config.getoption("benchmark_enable")


def asks_for_table(arguments: Iterable[str]) -> bool:
    """Return True if an option formats pytest-benchmark's table or compares its rows."""
    return not _TABLE_OPTIONS.isdisjoint(argument.partition("=")[0] for argument in arguments)


def without_tests(groups: Groups, nodeids: Collection[str]) -> Groups:
    """Return the rows for all other tests, without groups that become empty."""
    kept = [(group, [row for row in rows if row["fullname"] not in nodeids]) for group, rows in groups]
    return [(group, rows) for group, rows in kept if rows]


class LoadClock:
    """A timer that moves only when `advance` is called."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.__name__ = "records"

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Add seconds to the time."""
        self._now_s += seconds


def record_rounds(result: Result, benchmark: Fixture, clock: LoadClock) -> None:
    """Pass a result's rounds to a benchmark that uses `clock` as its timer.

    If the result is INVALID or lacks throughput, an error is recorded so that the result does not appear in any file.
    """
    rates = result.values().get("produce.throughput") or result.values().get("consume.throughput") or []
    seconds = [] if result.problems else [1 / rate for rate in rates if rate > 0]
    benchmark.extra_info.update(_extra_info(result))
    following = itertools.cycle(seconds)  # pytest-benchmark makes an extra call for its profiler
    with contextlib.suppress(StopIteration):  # without a rate, pytest-benchmark sees and records this error
        benchmark.pedantic(lambda: clock.advance(next(following)), rounds=len(seconds) or 1)


def _extra_info(result: Result) -> dict[str, Any]:
    return {
        "verdict": str(result.verdict),
        **result.metrics,
        "checks": [
            {"expression": check.expression, "verdict": str(check.outcome), "reason": check.reason}
            for check in result.checks
        ],
    }

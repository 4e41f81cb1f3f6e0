"""What stands of a perf test in JUnit's XML, and in whatever else reads a test's properties."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.verdict import Check


def properties(result: Result) -> list[tuple[str, object]]:
    """The verdict, why it is INVALID, each metric, and what was found of each limit, numbered from 1.

    Figures are in the metric's base unit, changes are ratios; what is not known is left out.
    """
    return [
        ("kafka_verdict", str(result.verdict)),
        *(("kafka_problem", problem) for problem in result.problems),
        *result.metrics.items(),
        *(each for number, check in enumerate(result.checks, 1) for each in _of_check(f"kafka_check_{number}", check)),
    ]


def _of_check(prefix: str, check: Check) -> Iterator[tuple[str, object]]:
    yield prefix, check.expression
    yield f"{prefix}_outcome", str(check.outcome)
    yield f"{prefix}_reason", check.reason
    figures = {
        "observed": check.observed,
        "limit": check.limit_value,
        "baseline": check.baseline,
        "change": check.change,
        "detectable": check.detectable,
    }
    for name, value in figures.items():
        if value is not None and math.isfinite(value):
            yield f"{prefix}_{name}", value

"""Checks `kafka_perf` calls in a test's source so that invalid arguments fail before brokers start."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.scenarios.scenario import Scenario

_UNNAMED = (
    "kafka_perf() takes only keyword arguments, for example kafka_perf(rate='5k records/s'); declare thresholds with "
    "the marker kafka_threshold('produce.latency.p99 <= 25 ms')"
)


@functools.lru_cache(maxsize=100)  # parametrized tests share a function
def wrong_calls(function: Callable[..., object]) -> tuple[str, ...]:
    """Return an error for each `kafka_perf` call with a positional argument or an unknown field.

    Values are not checked, nor are calls in other functions. If the source is not available, no errors are returned.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_load(node.func)]
    return tuple(error for call in calls if (error := _error_of(call)) is not None)


def _is_load(called: ast.expr) -> bool:
    """Return True for `kafka_perf(...)` and `kafka_perf.run(...)`."""
    if isinstance(called, ast.Attribute) and called.attr == "run":
        called = called.value
    return isinstance(called, ast.Name) and called.id == "kafka_perf"


def _error_of(call: ast.Call) -> str | None:
    if call.args:
        return _UNNAMED
    names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    try:
        Scenario.refuse_unknown(names, where="kafka_perf(): ")
    except ScenarioError as error:
        return str(error)
    return None

"""Conditions that influence a test's values (the scenario, the warm-ups and the workers), and the time spent."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_kafkaperf.load.allocation import describe_workers
from pytest_kafkaperf.reports.latency_curve import describe_search
from pytest_kafkaperf.reports.span_table import describe_spans
from pytest_kafkaperf.runner.cold_brokers import describe_warm_ups
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.fields import format_field


def describe_conditions(result: Result) -> Iterator[str]:
    """Yield the conditions that influence a test's values, and how its time was spent."""
    yield f"scenario: {_scenario(result)}"
    yield from describe_warm_ups(result.trials[0])
    if result.rounds and result.rounds[0].shares:
        yield describe_workers(result.allocation, result.rounds[0].shares)
    spans = describe_spans(result.spans)
    if spans:
        yield spans


def _scenario(result: Result) -> str:
    """Return the scenario fields with non-default values, each with its source."""
    fields = (
        f"{name}={format_field(name, getattr(result.scenario, name))} ({source})"
        for name, source in result.sources.items()
    )
    search = [] if result.plan is None else [f"rate: {describe_search(result.plan)}"]
    return ", ".join([*fields, *search]) or "defaults"
